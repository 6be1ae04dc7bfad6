#!/usr/bin/env python3
"""Tests rdmc_pingpong and rdmc_ping. Their peer is a second process of the same program, and both are on loopback
addresses of a separate namespace. tests/interop runs the programs with foreign endpoints."""
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lab"))
import lab

PINGPONG, PING = os.environ.get("RDMC_PINGPONG"), os.environ.get("RDMC_PING")
TELLS_A_WRONG_KEY, USES_A_WRONG_KEY = os.environ.get("TELLS_A_WRONG_KEY"), os.environ.get("USES_A_WRONG_KEY")
# A client that connects to the server's address sends from the first of these addresses.
CLIENT, SERVER = "127.0.0.1", "127.0.0.2"
SECONDS = 60
USAGE, FAILED = 1, 2
ROCE_PORT = 4791


def start(*command):
    return subprocess.Popen([*map(str, command)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)


def finish(program):
    out, errors = program.communicate(timeout=SECONDS)
    return program.returncode, out, errors


def run(*command):
    return finish(start(*command))


def cpu_seconds(program):
    fields = pathlib.Path(f"/proc/{program.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_until_free(*addresses):
    """Waits until the RoCE port is free. The kernel releases a dead process's io_uring and its sockets a short time
    after the process has ended."""
    deadline = time.monotonic() + SECONDS
    for address in addresses or (CLIENT, SERVER):
        while True:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                try:
                    probe.bind((address, ROCE_PORT))
                    break
                except OSError:
                    if time.monotonic() > deadline:
                        raise
            time.sleep(0.01)


class Pair(unittest.TestCase):
    def setUp(self):
        wait_until_free()

    def both(self, server, client):
        """Returns the reports of a server and a client. Starts the client again until the server listens."""
        wait_until_free()
        waiting = start(*server, "--json")
        try:
            for _ in range(500):
                status, out, errors = run(*client, "--json")
                if status == 0 or "refused" not in errors:
                    break
            self.assertEqual(status, 0, errors)
            served = finish(waiting)
        finally:
            waiting.kill()
            waiting.communicate()
        self.assertEqual(served[0], 0, served[2])
        return json.loads(served[1]), json.loads(out)


class RocePort(Pair):
    def test_a_program_that_holds_roces_port_is_an_error_that_says_what_to_do(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as holder:
            holder.bind((CLIENT, ROCE_PORT))
            for role in (["-S", 64, "-a", CLIENT], ["-C", 1, "--address", CLIENT, SERVER]):
                status, _, errors = run(PING, *role, "--patience", 5)
                self.assertEqual(status, FAILED)
                self.assertIn(f"already exists: UDP address {CLIENT}:{ROCE_PORT} is in use", errors)
                self.assertIn("use another address of this host, or end what has it", errors)


class Pingpong(Pair):
    def test_messages_of_every_kind_of_size_go_there_and_back_unchanged(self):
        for size, mtu in ((1, 256), (1023, 1024), (1025, 1024), (4096, 4096), ("1M", 4096)):
            same = ["-s", size, "-m", mtu, "-n", 20, "-c"]
            served, asked = self.both([PINGPONG, *same], [PINGPONG, *same, SERVER])
            for report in (served, asked):
                self.assertEqual((report["iterations"], report["path_mtu"], report["checked"]), (20, mtu, True))
                self.assertEqual(report["corrupt_packets"], 0)
            self.assertEqual(served["local"], asked["remote"])
            self.assertEqual(served["remote"], asked["local"])

    def test_a_server_that_is_not_there_is_named(self):
        status, _, errors = run(PINGPONG, "--patience", 5, SERVER)
        self.assertEqual(status, FAILED)
        self.assertIn(f"peer failed: {SERVER}:18515", errors)

    def test_nobody_comes_is_an_error_in_time(self):
        status, _, errors = run(PINGPONG, "--patience", 0.2)
        self.assertEqual(status, FAILED)
        self.assertIn("timed out: no client came", errors)

    def test_a_wrong_command_line_is_a_usage_error(self):
        for wrong in (["-m", 1000], ["-s", 0], ["-n", 0], ["no.address"], ["--patience", "soon"]):
            self.assertEqual(run(PINGPONG, *wrong)[0], USAGE, wrong)
        self.assertEqual(run(PINGPONG, "--help")[0], 0)
        self.assertEqual(run(PINGPONG, "--version")[0], 0)


class Ping(Pair):
    def test_texts_go_there_by_read_and_back_by_write(self):
        for size in (32, 1000, 65536):
            served, asked = self.both([PING, "-V", "-S", "64K", "-a", SERVER],
                                      [PING, "-V", "-S", size, "-C", 20, "-m", 1024, SERVER])
            self.assertEqual((served["iterations"], asked["iterations"]), (20, 20))
            self.assertEqual((served["path_mtu"], served["corrupt_packets"], asked["corrupt_packets"]), (1024, 0, 0))

    def test_a_server_takes_no_longer_text_than_it_was_told(self):
        waiting = start(PING, "-S", 64, "-a", SERVER)
        status, _, errors = run(PING, "-S", 65, "-C", 1, "--patience", 20, SERVER)
        self.assertEqual(status, FAILED)
        self.assertIn("peer disconnected", errors)
        self.assertIn("protocol error: the client's text of 65 bytes", finish(waiting)[2])

    def test_nobody_answers_is_an_error_in_time(self):
        status, _, errors = run(PING, "-C", 1, "--patience", 0.5, SERVER)
        self.assertEqual(status, FAILED)
        self.assertIn("timed out", errors)

    def test_a_port_that_nobody_listens_on_is_refused(self):
        waiting = start(PING, "-p", 7175, "-a", SERVER, "--patience", 8)
        status, _, errors = run(PING, "-p", 7174, "-C", 1, "--patience", 5, SERVER)
        waiting.kill()
        waiting.communicate()
        self.assertEqual(status, FAILED)
        self.assertIn("nobody listens on that port", errors)

    def test_a_wrong_remote_key_is_refused_by_the_owner_and_named_on_both_sides(self):
        # The client owns the memory and must refuse the access. In one case the client has sent a wrong key
        # to the server, and in the other case the server uses a wrong key.
        for server, client in ((PING, TELLS_A_WRONG_KEY), (USES_A_WRONG_KEY, PING)):
            wait_until_free()
            waiting = start(server, "-S", 64, "-a", SERVER)
            status, _, errors = run(client, "-C", 1, SERVER)
            served = finish(waiting)
            self.assertEqual((served[0], status), (FAILED, FAILED))
            self.assertIn("remote access error: the peer refused access: key or range revoked or wrong", served[2])
            self.assertIn("the peer reached outside of what it was granted", errors)

    def test_a_wrong_command_line_is_a_usage_error(self):
        for wrong in ([], [SERVER], ["-C", 1, "-S", 31, SERVER], ["-C", 1, "no.address"]):
            self.assertEqual(run(PING, *wrong)[0], USAGE, wrong)


class Vanishing(Pair):
    """A peer is killed in the middle of the exchange, so it sends nothing more."""

    def ping_on(self, client, patience):
        """Starts a server and a client. They continue until the test ends them."""
        wait_until_free()
        server = start(PING, "-S", "64K", "-a", SERVER, "--patience", patience)
        asking = start(PING, "-S", "64K", "-C", 2_000_000_000, "-a", client, "--patience", patience, SERVER)
        self.addCleanup(asking.communicate)
        self.addCleanup(asking.kill)
        self.addCleanup(server.communicate)
        self.addCleanup(server.kill)
        # A queue pair gives up its peer only after the two have exchanged packets.
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline and cpu_seconds(asking) < 0.2:
            self.assertIsNone(asking.poll(), "the client ended")
            time.sleep(0.01)
        return server, asking

    def test_whichever_side_vanishes_the_other_names_it_in_time(self):
        for victim in (0, 1):
            both = self.ping_on(CLIENT, 3)
            both[victim].kill()
            killed = time.monotonic()
            status, _, errors = finish(both[1 - victim])
            self.assertLess(time.monotonic() - killed, 15)
            self.assertEqual(status, FAILED)
            self.assertRegex(errors, "timed out|peer failed")

    def test_a_server_that_restarts_serves_the_next_client_while_the_former_one_still_sends(self):
        server, former = self.ping_on(CLIENT, 8)
        server.kill()
        server.communicate()
        wait_until_free(SERVER)
        again = start(PING, "-S", "64K", "-a", SERVER, "--json")
        self.addCleanup(again.kill)
        texts = 500
        status, out, errors = run(PING, "-V", "-S", "64K", "-C", texts, "-a", "127.0.0.3", "--json", SERVER)
        self.assertEqual(status, 0, errors)
        self.assertEqual(json.loads(out)["iterations"], texts)
        served = finish(again)
        self.assertEqual(served[0], 0, served[2])
        # If packets of the former client arrived, they must not have been counted for the new client.
        self.assertEqual(json.loads(served[1])["iterations"], texts)
        self.assertEqual(finish(former)[0], FAILED)


if __name__ == "__main__":
    lab.enter()
    unittest.main()
