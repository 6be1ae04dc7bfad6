#!/usr/bin/env python3
"""Tests faults of users, disks and foreign programs. Each fault must end within a time limit, with the exit code of the
manual and with a message that names the host and the cause. No part of the file may appear at a wrong place."""
import os
import socket
import subprocess
import threading
import unittest

import harness
from harness import BcastCase, ExitCode, wait_until

MIB = 1 << 20
# The time limit in seconds, from the start of rdmc_bcast to its end, if a participant is wrong or silent.
BOUND = 15.0


class Source(BcastCase):
    def assert_local_error(self, source, *words):
        agent = self.agent()
        for options in ({"to": [agent]}, {}):
            done = self.send(source, "copy" if options else self.folder / "copies", *([] if options else ["--local", 2]),
                             **options)
            self.assert_code(done, ExitCode.LOCAL_ERROR)
            self.assertIn(str(source), done.errors)
            self.assertTrue(any(word in done.errors.lower() for word in words), done.errors)
            self.assertEqual([event["event"] for event in done.events], ["summary"], "a program is told, too")
            self.assertIn(str(source), done.summary["cause"])
            self.assertLess(done.seconds, BOUND)
        self.assert_nothing_in(agent.root)
        self.assert_usable([agent])

    def test_missing(self):
        self.assert_local_error(self.folder / "no-such-file", "no such file", "not found")

    def test_a_directory(self):
        self.assert_local_error(self.folder, "directory")

    def test_unreadable(self):
        source = self.file(1000)
        os.chmod(source, 0)
        # Root can read every file unless it drops its capabilities.
        powerless = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.getuid() == 0 else []
        done = subprocess.run([*powerless, harness.BCAST, "--local", "2", source, self.folder / "copies"], capture_output=True, text=True,
                              check=False, timeout=BOUND, stdin=subprocess.DEVNULL, env=self.environment)
        self.assertEqual(done.returncode, ExitCode.LOCAL_ERROR, done.stderr)
        self.assertIn(str(source), done.stderr)
        self.assertIn("permission denied", done.stderr.lower())

    def test_a_source_that_shrinks_meanwhile_fails_everywhere(self):
        agents = self.agents(2)
        source = self.file(32 * MIB)
        transfer = self.start(source, "copy", "--limit-rate", "100m", to=agents)
        transfer.wait_for_bytes(2 * MIB)
        os.truncate(source, 4 * MIB)
        self.assert_code(transfer.wait(), ExitCode.LOCAL_ERROR)
        self.assertIn(str(source), transfer.errors)
        self.assert_nothing_in(*(agent.root for agent in agents))
        self.assert_usable(agents)


class Destination(BcastCase):
    def test_under_a_file(self):
        good, bad = self.agents(2), self.agent()
        (bad.root / "folder").write_text("in the way")
        self.assert_left_out(bad, good, BOUND, "not a directory", destination="folder/copy")
        self.assertEqual((bad.root / "folder").read_text(), "in the way")

    def test_outside_the_root(self):
        agents = self.agents(2)
        source = self.file(MIB)
        outside = self.folder / "outside"
        outside.mkdir()
        for agent in agents:
            (agent.root / "link").symlink_to(outside)
        for destination in ("../copy", "a/../../copy", "link/copy"):
            done = self.send(source, destination, to=agents)
            self.assert_code(done, ExitCode.ALL_FAILED)
            for agent in agents:
                self.assertIn(agent.host, done.errors)
        self.assertFalse((self.folder / "copy").exists())
        self.assert_nothing_in(outside, *(agent.root for agent in agents))

    def test_of_two_transfers_to_one_destination_one_wins_and_the_file_is_whole(self):
        agents = self.agents(3)
        first, second = self.file(16 * MIB, "1", seed=1), self.file(16 * MIB, "2", seed=2)
        # The transfer takes 1.3 s.
        slow = self.start(first, "copy", "--limit-rate", "100m", to=agents)
        slow.wait_for_bytes(1)
        fast = self.send(second, "copy", to=agents)
        self.assert_code(fast, ExitCode.ALL_FAILED)
        for agent in agents:
            self.assertIn(agent.host, fast.errors)
            self.assertIn("in use", fast.receivers[agent.host]["cause"])
        self.assert_code(slow.wait(), ExitCode.SUCCESS)
        for agent in agents:
            self.assert_copy(first, agent.root / "copy")

    def test_local_copies_into_an_impossible_place(self):
        blocked = self.folder / "blocked"
        blocked.write_text("in the way")
        done = self.send(self.file(MIB), blocked, "--local", 2)
        self.assert_code(done, ExitCode.ALL_FAILED)
        self.assertIn(str(blocked), done.errors)
        self.assertEqual(blocked.read_text(), "in the way")


class Hosts(BcastCase):
    def test_two_names_of_one_agent_are_refused_before_anything_is_sent(self):
        root = self.folder / "root"
        root.mkdir()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        agent = harness.Agent(self, "127.0.0.1", port, root, self.key())
        for options in ([], ["--dry-run"]):
            done = self.send(self.file(MIB), "copy", *options, to=[agent, f"localhost:{port}"])
            self.assert_code(done, ExitCode.USAGE)
            self.assertRegex(done.errors, rf"(?m)^rdmc_bcast: (127.0.0.1|localhost):{port} and (127.0.0.1|localhost):{port} are "
                                          rf"one agent, at 127.0.0.1:{port}: name it once$")
            self.assertIn("are one agent", done.summary["cause"])
        self.assert_nothing_in(agent.root)
        self.assert_usable([agent])


class Agents(BcastCase):
    def test_a_root_that_is_missing_is_named_at_once(self):
        done = self.start_agent("--listen", f"{self.net}.1", "--root", self.folder / "nowhere", "--key-file", self.key())
        self.assertEqual(done.returncode, ExitCode.LOCAL_ERROR)
        self.assertIn("nowhere", done.stderr)

    def test_an_address_that_is_taken_is_named_at_once(self):
        agent = self.agent()
        done = self.start_agent("--listen", agent.host, "--root", agent.root, "--key-file", self.key())
        self.assertEqual(done.returncode, ExitCode.LOCAL_ERROR)
        self.assertIn(agent.host, done.stderr)

    def test_a_key_file_that_holds_no_key_is_named_at_once(self):
        rubbish = self.file(100, "rubbish")
        done = self.start_agent("--listen", f"{self.net}.1", "--root", self.folder, "--key-file", rubbish)
        self.assertEqual(done.returncode, ExitCode.LOCAL_ERROR)
        self.assertIn("rubbish", done.stderr)


class Key(BcastCase):
    def test_all_with_another_key_refuse(self):
        agents = [self.agent(key=self.key("other")) for _ in range(2)]
        done = self.send(self.file(MIB), "copy", to=agents)
        self.assert_code(done, ExitCode.ALL_REFUSED)
        for agent in agents:
            self.assert_cause(done, agent.host, "refused", "key", "authentication")
            wait_until(lambda: "refused" in agent.output(), "its operator is told")
        self.assertLess(done.seconds, BOUND)
        self.assert_nothing_in(*(agent.root for agent in agents))

    def test_one_with_another_key_is_left_out(self):
        good, bad = self.agents(2), self.agent(key=self.key("other"))
        source = self.file(MIB)
        done = self.send(source, "copy", to=[*good, bad])
        self.assert_code(done, ExitCode.SOME_FAILED)
        self.assert_cause(done, bad.host, "refused", "key", "authentication")
        for agent in good:
            self.assert_copy(source, agent.root / "copy")
        self.assert_nothing_in(bad.root)


class UnauthenticatedClients(BcastCase):
    """A foreign program listens at the address of a receiver. The other receivers must get the file, the message must
    name the program, and no process may wait without a limit."""

    def unauthenticated(self, behaviour):
        """Starts a TCP server that calls `behaviour` with each connection. Returns the server's address."""
        address = f"{self.net}.200"
        server = socket.create_server((address, self.port))

        def serve():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    behaviour(connection)
        thread = threading.Thread(target=serve)
        thread.start()

        def stop():
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            server.close()
        self.addCleanup(stop)
        return f"{address}:{self.port}"

    def assert_unauthenticated_left_out(self, host):
        good = self.agents(2)
        source = self.file(MIB)
        done = self.send(source, "copy", to=[*good, host])
        self.assert_code(done, ExitCode.SOME_FAILED)
        self.assertIn(done.receivers[host]["status"], ("failed", "refused"))
        self.assertTrue(done.receivers[host]["cause"])
        self.assertIn(host, done.errors)
        self.assertLess(done.seconds, BOUND)
        for agent in good:
            self.assert_copy(source, agent.root / "copy")
        return done

    def test_nobody_listens(self):
        host = f"{self.net}.201:{self.port}"
        done = self.assert_unauthenticated_left_out(host)
        self.assert_cause(done, host, "failed", "connection refused")
        alone = self.send(self.file(MIB), "copy2", to=[host])
        self.assert_code(alone, ExitCode.ALL_FAILED)

    def test_a_server_of_another_protocol(self):
        self.assert_unauthenticated_left_out(self.unauthenticated(lambda connection: connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n" * 1000)))

    def test_a_server_that_hangs_up(self):
        self.assert_unauthenticated_left_out(self.unauthenticated(lambda connection: None))

    def test_a_server_that_says_nothing(self):
        def silent(connection):
            connection.settimeout(harness.PATIENCE)
            while connection.recv(4096):
                pass
        self.assert_unauthenticated_left_out(self.unauthenticated(silent))

    def test_a_peer_of_another_version(self):
        def newer(connection):
            connection.sendall(b"rdmc" + (99).to_bytes(2, "big") + bytes(2))
            while connection.recv(4096):
                pass
        host = self.unauthenticated(newer)
        good = [self.agent(key=None) for _ in range(2)]
        source = self.file(MIB)
        done = self.send(source, "copy", to=[*good, host], key=None)
        self.assert_code(done, ExitCode.SOME_FAILED)
        self.assertIn(host, done.errors)
        for text in (done.receivers[host]["cause"], done.errors):
            self.assertIn("version", text)
            self.assertIn("99", text)
        self.assertLess(done.seconds, BOUND)
        for agent in good:
            self.assert_copy(source, agent.root / "copy")

    def test_an_agent_outlives_a_sender_of_another_version(self):
        agent = self.agent(key=None)
        with socket.create_connection((agent.address, self.port), timeout=10) as connection:
            connection.sendall(b"rdmc" + (99).to_bytes(2, "big") + bytes(2))
            while connection.recv(4096):
                pass
        self.assert_code(self.send(self.file(MIB), "copy", to=[agent], key=None), ExitCode.SUCCESS)

    def test_an_agent_outlives_rubbish(self):
        agents = self.agents(2)
        for rubbish in (b"", b"GET / HTTP/1.0\r\n\r\n", os.urandom(100_000), b"\x16\x03\x01\xff\xff" + bytes(70_000)):
            with socket.create_connection((agents[0].address, self.port), timeout=10) as connection:
                try:
                    connection.sendall(rubbish)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65536):
                        pass
                except ConnectionError:
                    pass
        self.assert_usable(agents)

    def test_who_breaks_the_protocol_without_a_key_is_named(self):
        for rubbish in (bytes(4), (20).to_bytes(4, "big") + b"\xff" * 20, b"\x7f" * 4, b"\xff" * 4):
            with self.subTest(rubbish=rubbish):
                agent = self.agent(key=None)
                with socket.create_connection((agent.address, self.port), timeout=10) as connection:
                    connection.sendall(b"rdmc" + (1).to_bytes(2, "big") + bytes(2))
                    # Reads the preamble. After this, the channel is open.
                    connection.recv(8, socket.MSG_WAITALL)
                    connection.sendall(rubbish)
                    peer = "{}:{}".format(*connection.getsockname())
                    wait_until(lambda: "refused" in agent.output(), "its operator is told", 10)
                self.assertRegex(agent.output(), rf"refused .*{peer}: \w+")

    def test_an_agent_serves_others_while_an_unauthenticated_client_holds_a_connection(self):
        agents = self.agents(2)
        with socket.create_connection((agents[0].address, self.port), timeout=10):
            self.assert_usable(agents)


if __name__ == "__main__":
    unittest.main()
