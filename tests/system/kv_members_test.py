#!/usr/bin/env python3
"""A server of a key-value service needs the same list of members as the others. The order of the list does not matter. A
server with another list is refused, and does no harm."""
import subprocess
import unittest

import kv_service


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
            self.assertIn("has another list of members", refused.stderr)
        third.process = subprocess.Popen([kv_service.KV, "serve", "--listen", third.address, "--insecure", "--members",
                                          ",".join(reversed(service.addresses))], stderr=service.log)
        service.wait_until_whole()
        other = kv_service.Connection(third.address)
        self.assertEqual(other("GET", "a"), "b")
        other.close()
        connection.close()


if __name__ == "__main__":
    unittest.main()
