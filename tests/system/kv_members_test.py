#!/usr/bin/env python3
"""A server of a key-value service needs the same list of members as the others. The order of the list does not matter. A
server with another list is refused, and does no harm."""
import os
import shutil
import signal
import subprocess
import tempfile
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
            self.assertIn("must be the same at all servers. This server has ", refused.stderr)
        third.process = subprocess.Popen([kv_service.KV, "serve", "--listen", third.address, "--insecure", "--members",
                                          ",".join(reversed(service.addresses))], stderr=service.log)
        service.wait_until_whole()
        other = kv_service.Connection(third.address)
        self.assertEqual(other("GET", "a"), "b")
        other.close()
        connection.close()

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


if __name__ == "__main__":
    unittest.main()
