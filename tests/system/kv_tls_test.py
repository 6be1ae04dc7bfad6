#!/usr/bin/env python3
"""Clients with TLS: redis-cli and openssl s_client as the other end, certificates of clients, handshakes that are not completed,
and garbage."""
import json
import os
import pathlib
import random
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import unittest

import kv_service
from certificates import Certificates
from harness import wait_until

SECONDS = 60
REDIS_CLI = shutil.which("redis-cli")
# As in server/client_sockets.hpp.
MOST_HANDSHAKES, LONGEST_HANDSHAKE = 256, 10


class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.certificates = Certificates(cls.folder, SECONDS)
        for name, authority in ("server", "ours"), ("client", "ours"), ("other", "theirs"):
            cls.certificates.member(name, authority)

    def path(self, name):
        return str(self.folder / name)

    def options(self):
        return ["--tls-port", "7443", "--tls-cert-file", self.path("server.pem"), "--tls-key-file", self.path("server.key"), "--tls-ca-cert-file",
                self.path("ours.pem")]

    def start(self, *options):
        service = kv_service.Service(1, *self.options(), *options)
        self.addCleanup(service.end)
        self.host = service.addresses[0].rsplit(":", 1)[0]
        wait_until(lambda: "clients connect to" in service.complaints(), "the server listens", SECONDS)
        self.service, self.plain = service, service.addresses[0]

    def context(self, certificate="client"):
        context = ssl.create_default_context(cafile=self.path("ours.pem"))
        context.check_hostname = False
        if certificate:
            context.load_cert_chain(self.path(f"{certificate}.pem"), self.path(f"{certificate}.key"))
        return context

    def raw(self):
        connection = socket.create_connection((self.host, 7443), timeout=SECONDS)
        self.addCleanup(connection.close)
        return connection

    def connect(self, certificate="client"):
        """A connection that speaks RESP over TLS."""
        connection = kv_service.Connection.__new__(kv_service.Connection)
        connection.socket = self.context(certificate).wrap_socket(self.raw())
        connection.file = connection.socket.makefile("rb")
        self.addCleanup(connection.close)
        return connection

    def is_refused(self, certificate):
        """With TLS 1.3, a client learns of a refusal when it reads."""
        try:
            return self.connect(certificate)("PING") != "PONG"
        except (ssl.SSLError, ConnectionError, OSError):
            return True

    def test_requests_and_replies_of_all_sizes_pass(self):
        self.start()
        connection = self.connect()
        self.assertEqual(connection("PING"), "PONG")
        for size in 0, 1, 16383, 16384, 16385, 100_000, 3_000_000:
            value = random.randbytes(size // 2).hex()
            self.assertEqual(connection("SET", "key", value), "OK")
            self.assertEqual(connection("GET", "key"), value)
        for _ in range(2000):
            connection.send("INCR", "counter")
        self.assertEqual([connection.receive() for _ in range(2000)], list(range(1, 2001)))
        # Clients with and without TLS use the same data.
        plain = kv_service.Connection(self.plain)
        self.addCleanup(plain.close)
        self.assertEqual(plain("GET", "counter"), "2000")

    def test_a_client_that_does_not_read_gets_all_replies_later(self):
        self.start()
        connection = self.connect()
        value = "v" * 100_000
        self.assertEqual(connection("SET", "key", value), "OK")
        count = 300
        sender = threading.Thread(target=lambda: [connection.send("GET", "key") for _ in range(count)])
        sender.start()
        # Until the server waits for this client, it serves others.
        self.assertEqual(self.connect()("STRLEN", "key"), len(value))
        for _ in range(count):
            self.assertEqual(connection.receive(), value)
        sender.join()

    def test_the_status_is_asked_with_tls(self):
        service = kv_service.Service(3, *self.options(), "--tls-only")
        self.addCleanup(service.end)
        host = service.addresses[1].rsplit(":", 1)[0]

        def status(authority, *options):
            return subprocess.run([kv_service.KV, "status", f"{host}:7443", "--json", "--tls-ca-cert-file", self.path(authority), *options],
                                  capture_output=True, text=True, timeout=60)

        certificate = ["--tls-cert-file", self.path("client.pem"), "--tls-key-file", self.path("client.key")]
        done = wait_until(lambda: (lambda done: done if done.returncode == 0 else None)(status("ours.pem", *certificate)),
                          "all servers have all data", SECONDS)
        self.assertEqual([server["address"] for server in json.loads(done.stdout)["servers"]], service.addresses)
        for refused in status("ours.pem"), status("theirs.pem", *certificate):
            self.assertEqual(refused.returncode, 2, refused)
            self.assertIn("TLS", refused.stderr)

    def test_a_client_needs_a_certificate_of_the_authority(self):
        self.start()
        self.assertTrue(self.is_refused(None))
        self.assertTrue(self.is_refused("other"))
        self.assertFalse(self.is_refused("client"))

    def test_certificates_of_clients_can_be_left_out(self):
        self.start("--tls-auth-clients", "optional")
        self.assertFalse(self.is_refused(None))
        self.assertTrue(self.is_refused("other"))

    def test_the_example_of_the_guide_works(self):
        guide = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "kv.md").read_text(encoding="utf-8")
        # As systemd reads it: a backslash at the end of a line joins it with the next one.
        options = re.search(r"(?m)^    RDMC_KV_OPTIONS=((?:.*\\\n)*.*)$", guide)[1].replace("\\\n", " ")
        users = re.search(r"(?m)(?:^    user .*\n)+", guide)[0]
        folder = self.folder / "example"
        folder.mkdir()
        (folder / "users.acl").write_text("".join(line.strip() + "\n" for line in users.splitlines()))
        for name, source in ("server.pem", "server.pem"), ("server.key", "server.key"), ("clients.pem", "ours.pem"):
            shutil.copy(self.folder / source, folder / name)
        subprocess.run([os.environ["RDMC_BCAST"], "keygen", str(folder / "key")], check=True, timeout=SECONDS)
        network = f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}."
        for index in "123":
            words = options.replace("10.0.0.1 ", f"10.0.0.{index} ").replace("10.0.0.", network).replace("/etc/rdmc", str(folder))
            words = words.replace("/var/lib/rdmc_kv", str(folder))
            words = words.replace("--metrics 9464", "--metrics 0").split()
            server = subprocess.Popen([kv_service.KV, "serve", "--dir", str(folder / index), *words], stderr=subprocess.DEVNULL)
            self.addCleanup(server.wait)
            self.addCleanup(server.kill)

        def served(index, *requests):
            """The replies of a server to these requests of the user app, or None if there is no server yet."""
            try:
                with self.context().wrap_socket(socket.create_connection((f"{network}{index}", 6380), timeout=10)) as client:
                    client.sendall("".join(request + "\r\n" for request in ("AUTH app change-me-too", *requests)).encode())
                    client.settimeout(10)
                    replies = client.makefile("rb")
                    return [replies.readline().decode().strip() for _ in range(len(requests) + 1)]
            except OSError:
                return None

        wait_until(lambda: served(1, "SET app:1 x") == ["+OK", "+OK"], "the servers of the example answer", SECONDS)
        for index in "123":
            replies = wait_until(lambda: served(index, "STRLEN app:1", "GET other", "CONFIG GET x"), "each server answers", SECONDS)
            self.assertEqual(replies[:2], ["+OK", ":1"])
            self.assertTrue(all(reply.startswith("-NOPERM") for reply in replies[2:]), replies)
        plain = kv_service.Connection(f"{network}1:6379")
        self.addCleanup(plain.close)
        with self.assertRaisesRegex(kv_service.ReplyError, "^ERR clients must use TLS"):
            plain("GET", "app:1")
        self.assertIsNotNone(served(1, "PING"))
        (self.folder / "watch").write_text("change-me-three\n")
        (self.folder / "watch").chmod(0o600)

        def has_all():
            """On a busy machine, a server may take too long to reply to one question."""
            shown = subprocess.run([kv_service.KV, "status", f"{network}2:6380", "--tls-ca-cert-file", self.path("ours.pem"),
                                    "--tls-cert-file", self.path("client.pem"), "--tls-key-file", self.path("client.key"), "--user",
                                    "watch", "--password-file", self.path("watch")], capture_output=True, text=True, timeout=60, check=False)
            return (shown.returncode, shown.stdout.count(" all ")) == (0, 3)

        wait_until(has_all, "the user of the example sees that all servers have all data", SECONDS)

    def test_only_tls_means_that_others_are_told_so(self):
        self.start("--tls-only", "--tls-auth-clients", "optional")
        self.assertFalse(self.is_refused(None))
        plain = kv_service.Connection(self.plain)
        self.addCleanup(plain.close)
        with self.assertRaises(kv_service.ReplyError) as refused:
            plain("AUTH", "secret")
        self.assertEqual(str(refused.exception), "ERR clients must use TLS here, on port 7443")
        with self.assertRaises(ConnectionError):
            plain("PING")

    @unittest.skipUnless(REDIS_CLI, "there is no redis-cli")
    def test_redis_cli_connects(self):
        self.start()
        done = subprocess.run([REDIS_CLI, "-h", self.host, "-p", "7443", "--tls", "--cacert", self.path("ours.pem"), "--cert", self.path("client.pem"), "--key",
                               self.path("client.key"), "SET", "a", "b"], capture_output=True, text=True, timeout=SECONDS, check=False)
        if "Unrecognized option" in done.stderr:
            self.skipTest("this redis-cli has no TLS")
        self.assertEqual(done.stdout, "OK\n", done.stderr)

    def s_client(self, *options, text="PING\r\nQUIT\r\n"):
        done = subprocess.run(["openssl", "s_client", "-connect", f"{self.host}:7443", "-CAfile", self.path("ours.pem"), "-cert", self.path("client.pem"), "-key",
                               self.path("client.key"), "-ign_eof", *options], input=text, capture_output=True, text=True, timeout=SECONDS, check=False)
        return done.stdout + done.stderr

    def test_openssl_connects_with_tls_1_2_and_1_3_and_not_below(self):
        self.start()
        for version in "-tls1_2", "-tls1_3":
            self.assertIn("+PONG", self.s_client(version), version)
        for version in "-tls1", "-tls1_1":
            self.assertNotIn("+PONG", self.s_client(version, "-cipher", "DEFAULT@SECLEVEL=0"), version)

    def test_renegotiation_is_refused(self):
        self.start()
        # A line that begins with "R" lets s_client ask for a renegotiation, without -ign_eof's effect on commands.
        done = subprocess.run(["openssl", "s_client", "-connect", f"{self.host}:7443", "-tls1_2", "-cert", self.path("client.pem"), "-key",
                               self.path("client.key")], input="R\nPING\r\n", capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertIn("RENEGOTIATING", done.stdout + done.stderr)
        self.assertTrue(re.search("no renegotiation", done.stdout + done.stderr), done.stderr)
        self.assertEqual(self.connect()("PING"), "PONG")

    def test_garbage_ends_the_connection_and_nothing_else(self):
        self.start()
        good = self.connect()
        for garbage in b"PING\r\n", b"GET / HTTP/1.0\r\n\r\n", b"\x16\x03\x01\xff\xff" + random.randbytes(100), random.randbytes(1000):
            connection = self.raw()
            connection.sendall(garbage)
            try:
                connection.settimeout(SECONDS)
                while connection.recv(1000):
                    pass
            except ConnectionError:
                pass
        # A record that was changed after the handshake.
        raw = self.raw()
        broken = self.context().wrap_socket(raw)
        self.addCleanup(broken.close)
        descriptor = os.dup(broken.fileno())
        os.write(descriptor, b"\x17\x03\x03\x00\x20" + random.randbytes(32))
        os.close(descriptor)
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            if not broken.recv(100):
                raise ConnectionError
        self.assertEqual(good("PING"), "PONG")

    def test_handshakes_that_are_not_completed_end_and_keep_nobody_out(self):
        self.start()
        good = self.connect()
        silent = [self.raw() for _ in range(MOST_HANDSHAKES + 20)]
        for connection in silent[::2]:
            connection.sendall(b"\x16\x03\x01")
        # A further one takes the place of the oldest one.
        self.assertEqual(self.connect()("PING"), "PONG")
        self.assertEqual(good("PING"), "PONG")
        silent[0].settimeout(SECONDS)
        try:
            self.assertEqual(silent[0].recv(100), b"")
        except ConnectionError:
            pass
        # The others end by themselves.
        for connection in silent:
            connection.settimeout(SECONDS)
            try:
                self.assertEqual(connection.recv(100), b"")
            except ConnectionError:
                pass
        clients = good("CLIENT", "LIST").strip().split("\n")
        self.assertLessEqual(len(clients), 2, clients)

    def test_wrong_options_are_named(self):
        def error_of(*options):
            done = subprocess.run([kv_service.KV, "serve", "--listen", "127.0.0.1:0", *options], capture_output=True, text=True, timeout=SECONDS, check=False)
            self.assertNotEqual(done.returncode, 0)
            return done.stderr
        files = ["--tls-cert-file", self.path("server.pem"), "--tls-key-file", self.path("server.key")]
        self.assertIn("--tls-port", error_of(*files))
        self.assertIn("--tls-cert-file", error_of("--tls-port", "0"))
        self.assertIn("--tls-ca-cert-file", error_of("--tls-port", "0", *files))
        self.assertIn("no private key", error_of("--tls-port", "0", *files[:2], "--tls-key-file", self.path("client.key"), "--tls-auth-clients", "no"))
        self.assertIn("no certificates of an authority", error_of("--tls-port", "0", *files, "--tls-ca-cert-file", self.path("server.key")))
        open_key = self.folder / "open.key"
        shutil.copy(self.path("server.key"), open_key)
        open_key.chmod(0o644)
        self.assertIn("mode 0600", error_of("--tls-port", "0", *files[:2], "--tls-key-file", str(open_key), "--tls-auth-clients", "no"))


if __name__ == "__main__":
    unittest.main()
