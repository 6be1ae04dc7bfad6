#!/usr/bin/env python3
"""Users and passwords of a service of several servers: all servers have the same users, also one that joins later."""
import os
import pathlib
import subprocess
import tempfile
import unittest

import kv_service
from harness import wait_until


class Access(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def connect(self, server, *login):
        connection = kv_service.Connection(server.address)
        self.addCleanup(connection.close)
        if login:
            self.assertEqual(connection("AUTH", *login), "OK")
        return connection

    def refuses(self, connection, code, *words):
        with self.assertRaises(kv_service.ReplyError) as refused:
            connection(*words)
        self.assertTrue(str(refused.exception).startswith(code + " "), refused.exception)

    def service_of_three(self, *options):
        service = kv_service.Service(3, *options)
        self.addCleanup(service.end)
        return service

    def wait_until_whole(self, service, *login):
        """INFO needs a password here."""
        def is_whole(server):
            try:
                connection = kv_service.Connection(server.address, 2.0)
                try:
                    connection("AUTH", *login)
                    return "rdmc_view_members:3" in connection("INFO", "replication")
                finally:
                    connection.close()
            except (OSError, kv_service.ReplyError):
                return False
        wait_until(lambda: all(is_whole(server) for server in service.servers), "all servers have the state", 120)

    def test_a_change_at_one_server_counts_at_all_of_them_and_at_one_that_joins(self):
        service = self.service_of_three()
        service.wait_until_whole()
        first, second, third = service.servers
        operator = self.connect(first)
        self.assertEqual(operator("ACL", "SETUSER", "bob", "on", ">secret", "+@all", "~b:*"), "OK")
        # The reply to a login says what all servers have agreed on before it.
        for server in service.servers:
            self.connect(server, "bob", "secret")
        bob = self.connect(second, "bob", "secret")
        self.assertEqual(bob("SET", "b:1", "x"), "OK")
        self.refuses(bob, "NOPERM", "SET", "a", "x")
        self.refuses(bob, "NOPERM", "GET", "a")
        self.assertEqual(operator("ACL", "SETUSER", "bob", "-set"), "OK")
        self.refuses(bob, "NOPERM", "SET", "b:1", "y")
        self.assertEqual(self.connect(third)("GET", "b:1"), "x")
        third.kill()
        self.assertEqual(operator("CONFIG", "SET", "requirepass", "open sesame"), "OK")
        self.refuses(self.connect(second), "NOAUTH", "GET", "b:1")
        third.start()
        self.wait_until_whole(service, "open sesame")
        self.refuses(self.connect(third), "NOAUTH", "GET", "b:1")
        self.assertEqual(self.connect(third, "open sesame")("ACL", "LIST"), operator("ACL", "LIST"))
        self.assertEqual(operator("ACL", "DELUSER", "bob"), 1)
        with self.assertRaises((ConnectionError, kv_service.ReplyError)):
            bob("GET", "b:1")
        self.refuses(self.connect(second), "WRONGPASS", "AUTH", "bob", "secret")

    def test_the_password_file_protects_all_servers_from_the_start(self):
        password = self.folder / "password"
        password.write_text("open sesame\n")
        password.chmod(0o600)
        service = self.service_of_three("--requirepass-file", str(password))
        self.wait_until_whole(service, "open sesame")
        for server in service.servers:
            self.refuses(self.connect(server), "NOAUTH", "GET", "a")
            self.refuses(self.connect(server), "NOAUTH", "CONFIG", "GET", "*")
            self.refuses(self.connect(server), "WRONGPASS", "AUTH", "open")
            self.assertEqual(self.connect(server, "open sesame")("SET", "a", "b"), "OK")
        def status(*login):
            return subprocess.run([kv_service.KV, "status", service.addresses[0], *login], capture_output=True, text=True, timeout=60,
                                  check=False)
        refused = status()
        self.assertEqual(refused.returncode, 2)
        self.assertIn("NOAUTH", refused.stderr)
        shown = status("--password-file", str(password))
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertEqual(shown.stdout.count(" all "), 3, shown.stdout)
        self.connect(service.servers[0], "open sesame")("ACL", "SETUSER", "watcher", "on", ">open sesame", "+info")
        refused = status("--password-file", str(password), "--user", "watcher")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("NOPERM", refused.stderr)
        # A server with another list is found without a password.
        third = service.servers[2]
        third.kill()
        members = ",".join(service.addresses[:1] + service.addresses[2:])
        refused = subprocess.run([kv_service.KV, "serve", "--listen", third.address, "--insecure", "--members", members], capture_output=True,
                                 text=True, timeout=60, check=False)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("must be the same at all servers. --members is ", refused.stderr)

    def test_the_acl_file_is_loaded_and_saved(self):
        acl_file = self.folder / "users.acl"
        acl_file.write_text("user default off\nuser admin on >secret +@all ~* &*\n")
        acl_file.chmod(0o640)
        service = kv_service.Service(1, "--acl-file", str(acl_file))
        self.addCleanup(service.end)
        server = service.servers[0]
        admin = wait_until(lambda: self.try_to_connect(server, "admin", "secret"), "the server listens", 60)
        self.assertEqual(admin("ACL", "SETUSER", "bob", "on", ">pass"), "OK")
        self.assertEqual(admin("ACL", "SAVE"), "OK")
        text = acl_file.read_text()
        self.assertIn("user bob on #", text)
        self.assertNotIn("secret", text)
        self.assertEqual(acl_file.stat().st_mode & 0o777, 0o640)
        self.assertEqual(os.listdir(self.folder), ["users.acl"])
        acl_file.write_text("user admin on >secret +@all ~* &*\nuser carol on nopass\nnonsense\n")
        self.refuses(admin, "ERR", "ACL", "LOAD")
        self.assertEqual(admin("ACL", "USERS"), ["admin", "bob", "default"])
        acl_file.write_text("user admin on >secret +@all ~* &*\nuser carol on nopass\n")
        self.assertEqual(admin("ACL", "LOAD"), "OK")
        self.assertEqual(self.connect(server, "admin", "secret")("ACL", "USERS"), ["admin", "carol", "default"])

    def try_to_connect(self, server, *login):
        try:
            return self.connect(server, *login)
        except OSError:
            return None

    def test_wrong_files_are_named(self):
        def error_of(*options):
            done = subprocess.run([kv_service.KV, "serve", "--listen", "127.0.0.1:0", *options], capture_output=True, text=True, timeout=60, check=False)
            self.assertNotEqual(done.returncode, 0)
            return done.stderr
        missing = self.folder / "missing"
        self.assertIn(f"--acl-file: {missing}: No such file", error_of("--acl-file", str(missing)))
        self.assertIn(f"--requirepass-file: {missing}: No such file", error_of("--requirepass-file", str(missing)))
        self.assertIn("this is not a file", error_of("--acl-file", str(self.folder)))
        password = self.folder / "password"
        password.write_text("secret")
        password.chmod(0o644)
        self.assertIn("mode 0600", error_of("--requirepass-file", str(password)))
        password.chmod(0o600)
        password.write_text("")
        self.assertIn("there is no password", error_of("--requirepass-file", str(password)))
        broken = self.folder / "broken.acl"
        broken.write_text("user alice on +nothing\n")
        self.assertIn("broken.acl:1: Error in applying operation '+nothing'", error_of("--acl-file", str(broken)))
        self.assertIn("excludes", error_of("--acl-file", str(broken), "--requirepass-file", str(password)))


if __name__ == "__main__":
    unittest.main()
