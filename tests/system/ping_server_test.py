#!/usr/bin/env python3
"""Tests rdmc_ping as a server to which foreign endpoints connect. If it cannot accept a client, it must send the
reason. Such a client must not disturb the other clients."""
import json
import time
import unittest

from cm_foreign import REJECT, REPLY, ForeignEndpoint
from foreign_endpoints_test import (CLIENT, FAILED, PING, SECONDS, SERVER, TELLS_A_WRONG_KEY, Pair, cpu_seconds, finish, lab,
                            run, start, wait_until_free)

PORT = 7174
FOREIGN = "127.0.0.3"
TIMEOUT, INVALID_MTU, NO_READS = 4, 26, 27  # Reasons for a rejection (IBTA vol. 1, table 109).


class Server(Pair):
    def serve(self, *more):
        server = start(PING, "-S", "64K", "-a", SERVER, "--json", *more)
        self.addCleanup(server.communicate)
        self.addCleanup(server.kill)
        return server

    def foreign(self):
        foreign = ForeignEndpoint(FOREIGN)
        self.addCleanup(foreign.close)
        return foreign

    def answer_to(self, foreign, path_mtu, **said):
        """Returns the server's answer to a request. Repeats the request until there is an answer."""
        for _ in range(500):
            foreign.ask(SERVER, PORT, path_mtu, **said)
            answer = foreign.answer(0.1)
            if answer:
                return answer
        self.fail("no answer")

    def client_is_served(self, server):
        status, out, errors = run(PING, "-V", "-C", 5, "--json", SERVER)
        self.assertEqual(status, 0, errors)
        self.assertEqual(json.loads(out)["iterations"], 5)
        served = finish(server)
        self.assertEqual(served[0], 0, served[2])
        self.assertEqual(json.loads(served[1])["remote"], CLIENT)

    def test_a_request_that_cannot_be_met_is_rejected_by_name_and_the_next_is_served(self):
        self.addCleanup(lab.run, "ip", "link", "set", "lo", "mtu", "65536")
        lab.run("ip", "link", "set", "lo", "mtu", "1500")
        server = self.serve()
        kind, _, reason = self.answer_to(self.foreign(), 4096)
        self.assertEqual((kind, reason), (REJECT, INVALID_MTU))
        self.client_is_served(server)

    def test_who_comes_and_leaves_at_once_costs_the_next_nothing(self):
        server, foreign = self.serve(), self.foreign()
        kind, theirs, _ = self.answer_to(foreign, 1024)
        self.assertEqual(kind, REPLY)
        foreign.disconnect(SERVER, theirs)
        self.client_is_served(server)

    def test_who_asks_and_says_no_more_is_rejected_soon_once_another_waits(self):
        server, foreign = self.serve(), self.foreign()
        self.assertEqual(self.answer_to(foreign, 1024)[0], REPLY)
        begun = time.monotonic()
        self.client_is_served(server)
        self.assertLess(time.monotonic() - begun, 6)
        answers = iter(lambda: foreign.answer(0.1), None)
        self.assertIn((REJECT, TIMEOUT), [(kind, says) for kind, _, says in answers])

    def test_a_client_is_asked_for_no_more_reads_than_it_has_room_for(self):
        server, foreign = self.serve(), self.foreign()
        kind, _, reason = self.answer_to(foreign, 1024, resources=0)
        self.assertEqual((kind, reason), (REJECT, NO_READS))
        kind, theirs, agreed = self.answer_to(foreign, 1024, number=2, resources=200, depth=0)
        self.assertEqual((kind, agreed), (REPLY, (0, 1)))
        foreign.disconnect(SERVER, theirs, number=2)
        self.client_is_served(server)

    def test_its_packets_have_the_dscp_that_it_was_told(self):
        for dscp in (0, 46):
            server = self.serve("--dscp", dscp)
            foreign = ForeignEndpoint(FOREIGN)
            kind, theirs, _ = self.answer_to(foreign, 1024)
            self.assertEqual((kind, foreign.traffic_class), (REPLY, dscp << 2))
            foreign.disconnect(SERVER, theirs)
            foreign.close()
            self.client_is_served(server)
            wait_until_free(SERVER)
        for wrong in (64, -1, "ef"):
            status, _, errors = run(PING, "-a", SERVER, "--dscp", wrong)
            self.assertEqual(status, 1)
            self.assertIn("--dscp", errors)

    def test_a_server_that_nobody_could_be_served_by_says_whom_it_refused(self):
        self.addCleanup(lab.run, "ip", "link", "set", "lo", "mtu", "65536")
        lab.run("ip", "link", "set", "lo", "mtu", "1500")
        server = self.serve("--patience", 1.5)
        self.answer_to(self.foreign(), 4096)
        status, _, errors = finish(server)
        self.assertEqual(status, FAILED)
        self.assertRegex(errors, f"timed out: no connection came about; {FOREIGN} came, but: .* path MTU of 4096")

    def test_a_client_that_is_rejected_says_why(self):
        self.serve()
        first = start(PING, "-S", "64K", "-C", 2_000_000_000, "-a", CLIENT, SERVER)
        self.addCleanup(first.communicate)
        self.addCleanup(first.kill)
        deadline = time.monotonic() + SECONDS
        # A client that the server has accepted uses more processor time than this. Other clients use less.
        while cpu_seconds(first) < 0.2 and time.monotonic() < deadline:
            time.sleep(0.01)
        status, _, errors = run(PING, "-C", 1, "-a", FOREIGN, SERVER)
        self.assertEqual(status, FAILED)
        self.assertIn("peer failed: the peer refused: it has no room", errors)
        self.assertIsNone(first.poll())

    def test_a_server_that_has_served_its_number_ends_though_its_client_does_not(self):
        # The server has sent all its texts, and the client does not disconnect. For the server, this is as if
        # the last message of the client had been lost.
        server = self.serve("-C", 20)
        status, _, errors = run(PING, "-C", 21, SERVER)
        self.assertEqual(status, FAILED)
        self.assertIn("peer failed: the peer disconnected", errors)
        served = finish(server)
        self.assertEqual(served[0], 0, served[2])
        self.assertEqual(json.loads(served[1])["iterations"], 20)

    def test_a_persistent_server_serves_one_after_the_other_whatever_becomes_of_each(self):
        server = self.serve("-P")
        foreign = self.foreign()
        kind, theirs, _ = self.answer_to(foreign, 1024)
        self.assertEqual(kind, REPLY)
        foreign.disconnect(SERVER, theirs)
        self.assertEqual(run(TELLS_A_WRONG_KEY, "-C", 1, SERVER)[0], FAILED)
        wait_until_free(CLIENT)
        # Two clients connect at the same time. The second one has to wait.
        both = [start(PING, "-V", "-C", 50, "-a", address, SERVER) for address in (CLIENT, "127.0.0.4")]
        for client in both:
            status, _, errors = finish(client)
            self.assertEqual(status, 0, errors)
        server.terminate()
        out = server.communicate(timeout=SECONDS)[0]
        ended = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([one.get("error") or one["iterations"] for one in ended], ["peer failed", 50, 50])


if __name__ == "__main__":
    lab.enter()
    unittest.main()
