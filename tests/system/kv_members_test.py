#!/usr/bin/env python3
"""A server of a key-value service needs the same list of members as the others. The order of the list does not matter. A
server with another list is refused, and does no harm."""
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import kv_service
from harness import wait_until


class Members(unittest.TestCase):
    def test_a_server_with_another_list_is_refused_and_one_with_another_order_is_not(self):
        service = kv_service.Service(3)
        self.addCleanup(service.end)
        service.wait_until_whole()
        connection = kv_service.Connection(service.addresses[0])
        self.assertEqual(connection("SET", "a", "b"), "OK")
        third = service.servers[2]
        third.kill()
        for members in (service.addresses[:1] + service.addresses[2:], service.addresses + [f"{service.addresses[0].rsplit(':')[0]}:7001"]):
            refused = subprocess.run([kv_service.KV, "serve", "--listen", third.address, "--insecure", "--members", ",".join(members)],
                                     capture_output=True, text=True, timeout=60)
            self.assertEqual(refused.returncode, 2, refused.stderr)
            self.assertIn("must be the same at all servers. --members is ", refused.stderr)
        third.process = subprocess.Popen([kv_service.KV, "serve", "--listen", third.address, "--insecure", "--members",
                                          ",".join(reversed(service.addresses))], stderr=service.log)
        service.wait_until_whole()
        other = kv_service.Connection(third.address)
        self.assertEqual(other("GET", "a"), "b")
        other.close()
        connection.close()

    def test_a_server_whose_other_members_accept_connections_and_say_nothing_ends_at_once(self):
        network = f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}"
        addresses = [f"{network}.{index + 1}:7000" for index in range(11)]
        silent = [socket.create_server((address.split(":")[0], 7000)) for address in addresses[1:]]
        server = subprocess.Popen([kv_service.KV, "serve", "--listen", addresses[0], "--insecure", "--members", ",".join(addresses)],
                                  stderr=subprocess.PIPE, text=True)
        self.addCleanup(server.kill)
        for one in silent:
            self.addCleanup(one.close)
            one.settimeout(30)
            self.addCleanup(one.accept()[0].close)  # It asks all of them at the same time.
        begun = time.monotonic()
        server.send_signal(signal.SIGTERM)
        self.assertIn("stopped", server.communicate(timeout=60)[1])
        # Each of them would be given 3 s.
        self.assertLess(time.monotonic() - begun, 15)

    def test_the_list_and_the_syncs_change_when_all_servers_are_stopped(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        service = kv_service.Service(3, folder=folder.name)
        self.addCleanup(service.end)
        network = service.addresses[0].rsplit(".", 1)[0]

        def answer(server, *words):
            """The reply of a server, or None while the service does not answer."""
            try:
                connection = kv_service.Connection(server.address, 60.0)
                try:
                    return connection(*words)
                finally:
                    connection.close()
            except (OSError, kv_service.ReplyError):
                return None

        def wait_for_keys(count):
            service.wait_until_whole()
            for server in service.servers:
                keys = wait_until(lambda: answer(server, "DBSIZE"), "the server answers", 60)
                self.assertEqual(keys, count)

        def stop():
            for server in service.servers:
                server.process.send_signal(signal.SIGTERM)
            for server in service.servers:
                self.assertEqual(server.process.wait(60), 0)
                server.process = None

        service.wait_until_whole()
        connection = kv_service.Connection(service.addresses[0])
        for index in range(100):
            self.assertEqual(connection("SET", f"key{index}", "value"), "OK")
        connection.close()
        stop()
        for server in service.servers:
            server.options = ("--appendfsync", "always")
            server.start()
        wait_for_keys(100)
        stop()
        # The second server keeps its data. The first one has another address, and there are two more servers.
        shutil.rmtree(os.path.join(folder.name, "1", "views"))
        for index in (0, 2):
            shutil.rmtree(os.path.join(folder.name, str(index)))
        service.addresses[0] = f"{network}.9:{kv_service.PORT}"
        service.addresses += [f"{network}.{host}:{kv_service.PORT}" for host in (10, 11)]
        service.servers[0] = kv_service.Server(service, 0)
        service.servers += [kv_service.Server(service, index) for index in (3, 4)]
        for server in service.servers:
            server.options = ("--appendfsync", "always")
            server.start()
        wait_for_keys(100)
        main = service.main()
        main.kill()
        other = next(server for server in service.servers if server is not main)
        wait_until(lambda: answer(other, "SET", "after", "x") == "OK", "the service goes on without its main", 60)

    def child_of(self, servers):
        """Waits until one of the servers has a child process, and returns its process id. Returns None if a server that
        joins has got its data before that was seen."""
        parents = {server.process.pid for server in servers}
        joiner = next(server for server in self.service.servers if server not in servers)
        while True:
            for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
                try:
                    fields = status.read_text().rpartition(")")[2].split()
                    if int(fields[1]) in parents and fields[0] != "Z":
                        return int(status.parent.name)
                except OSError:
                    continue
            if joiner.has_state():
                return None

    def start_and_stop_child(self):
        """Starts the third server again, and stops the child process that sends it the data."""
        for _ in range(20):  # On a busy machine, the child can end before this process sees it.
            if self.third.process:
                self.third.kill()
            self.third.start()
            child = self.child_of(self.service.servers[:2])
            if child is None:
                continue
            try:
                os.kill(child, signal.SIGSTOP)
            except ProcessLookupError:
                continue
            if self.is_stopped(child):
                return child
        return self.fail("no child process was seen")

    @staticmethod
    def is_stopped(pid):
        """Waits until the process has stopped, and returns true, or until it has ended."""
        while True:
            try:
                state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                return False
            if state in "TZ":
                return state == "T"

    def test_a_server_that_gives_its_data_to_another_one_goes_on(self):
        self.service = kv_service.Service(3)
        self.addCleanup(self.service.end)
        self.service.wait_until_whole()
        self.third = self.service.servers[2]
        connections = [kv_service.Connection(address, 60.0) for address in self.service.addresses[:2]]
        value = "x" * 1_000_000
        for index in range(60):
            self.assertEqual(connections[0]("SET", f"key{index}", value), "OK")
        child = self.start_and_stop_child()
        # The third server cannot have the data now, and the others answer.
        for number in range(100):
            self.assertEqual(connections[number % 2]("INCR", "count"), number + 1)
        self.assertFalse(self.third.has_state())
        os.kill(child, signal.SIGCONT)
        self.service.wait_until_whole()
        # If the child dies, the data is sent again.
        os.kill(self.start_and_stop_child(), signal.SIGKILL)
        self.service.wait_until_whole()
        self.assertIn("It is sent again: the child process was killed", self.service.complaints())
        third = kv_service.Connection(self.third.address, 60.0)
        self.assertEqual(third("INCR", "count"), 101)
        self.assertEqual([third("STRLEN", f"key{index}") for index in range(60)], 60 * [len(value)])
        for connection in (*connections, third):
            connection.close()


if __name__ == "__main__":
    unittest.main()
