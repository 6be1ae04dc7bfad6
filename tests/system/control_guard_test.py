#!/usr/bin/env python3
"""Tests which clients are accepted on the control connections of real processes. One test has certificates that
OpenSSL's own programs make and use. In another test, a new member connects while a thousand unauthenticated clients
occupy the port."""
import resource
import socket
import subprocess
import threading
import time
import unittest

import control_test
from certificates import Certificates
from control_test import CONTROL, DONE, FAILED, SECONDS, run

CLIENTS, PATIENCE_US, USUAL_LIMIT = 1000, 1_000_000, 1024


class WithCertificates(control_test.Scratch):
    def setUp(self):
        super().setUp()
        self.certificates = Certificates(self.path, SECONDS)
        self.openssl = self.certificates.openssl
        self.ours, self.foreign = self.certificates.member("first"), self.certificates.member("outsider", "theirs")
        self.address = control_test.free_address()

    def test_a_store_serves_whom_its_authority_has_signed_and_nobody_else(self):
        self.start(CONTROL, "serve", "--directory", str(self.path / "node"), "--listen", self.address, *self.ours, stderr=subprocess.DEVNULL)
        second = self.certificates.member("second")
        deadline = time.monotonic() + SECONDS
        while run("views", "--store", self.address, *second)[0] != DONE:
            self.assertLess(time.monotonic(), deadline)
        code, _, errors = run("views", "--store", self.address, *self.foreign)
        self.assertEqual(code, FAILED)
        self.assertIn("certificate", errors)
        self.assertEqual(run("views", "--store", self.address, "--key-file", self.key("key"))[0], FAILED)
        # TLS 1.3 with certificates, as other programs use it: each side verifies the other one.
        outside = ["s_client", "-connect", self.address, "-CAfile", "ours.pem", "-verify_return_error", "-brief"]
        met = self.openssl(*outside, "-cert", "second.pem", "-key", "second.key", stdin=subprocess.DEVNULL)
        self.assertIn("Protocol version: TLSv1.3", met.stderr)
        self.assertIn("Verification: OK", met.stderr)
        with subprocess.Popen(["openssl", *outside], cwd=self.path, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True) as refused:
            self.addCleanup(refused.kill)
            self.assertNotEqual(refused.wait(SECONDS), 0)
            self.assertIn("certificate required", refused.stderr.read())

    def test_our_certificate_is_shown_to_an_outside_server_and_its_own_is_verified(self):
        for trusted in True, False:
            name = "second" if trusted else "outsider"
            if trusted:
                self.certificates.member(name)
            words = ["openssl", "s_server", "-accept", self.address.rsplit(":", 1)[1], "-cert", f"{name}.pem", "-key", f"{name}.key",
                     "-CAfile", "ours.pem", "-Verify", "1"]
            # The server ends when its standard input ends.
            with subprocess.Popen(words, cwd=self.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True) as server:
                self.addCleanup(server.kill)
                said = ""
                while "ACCEPT" not in said:
                    said += server.stdout.readline()
                code, _, errors = run("views", "--store", self.address, *self.ours)
                server.kill()
                said += server.stdout.read()
            self.assertEqual(code, FAILED)  # The server is no store.
            if trusted:
                self.assertIn("CN = first", said)
                self.assertNotIn("certificate", errors)
            else:
                self.assertIn("certificate is refused", errors)

    def test_half_of_a_certificate_or_two_proofs_are_a_usage_error(self):
        for words in [self.ours[:4], self.ours[2:], [*self.ours, "--insecure"], [*self.ours, "--key-file", self.key("key")]]:
            self.assertEqual(run("views", *words)[0], control_test.USAGE, words)


class UnauthenticatedClients:
    """Opens the largest possible number of connections. Each of them sends a few bytes at intervals. If a connection is
    closed, it is opened again."""

    BEGINNINGS = [b"", b"\x16\x03\x01\x1f\x00", b"\x16\x03\x01\x00\xc8\x01", b"RDM", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", bytes(range(256))]

    def __init__(self, case, address):
        host, port = address.rsplit(":", 1)
        self.address, self.sockets, self.ended = (host, int(port)), {}, threading.Event()
        self.came, self.pushed_out = 0, threading.Event()
        for number in range(CLIENTS):
            self.come(number)
        self.thread = threading.Thread(target=self.go_on)
        self.thread.start()
        case.addCleanup(self.end)

    def come(self, number):
        self.sockets[number] = one = socket.socket()
        one.setblocking(False)
        one.connect_ex(self.address)
        self.came += 1
        if self.came > 3 * CLIENTS // 2:
            self.pushed_out.set()

    def go_on(self):
        turn = 0
        while not self.ended.wait(0.05):
            turn += 1
            for number in range(turn % 20, CLIENTS, 20):
                try:
                    self.sockets[number].send(self.BEGINNINGS[number % len(self.BEGINNINGS)][turn // 20 % 6:] or b"\x01")
                except BlockingIOError:
                    pass
                except OSError:
                    self.sockets[number].close()
                    self.come(number)

    def end(self):
        self.ended.set()
        self.thread.join()
        for one in self.sockets.values():
            one.close()


class Attacked(control_test.Group):
    def setUp(self):
        self.soft, self.hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (self.soft, self.hard))
        # The processes under attack have the usual limit of descriptors. All unauthenticated clients together
        # may use fewer descriptors than this limit.
        resource.setrlimit(resource.RLIMIT_NOFILE, (USUAL_LIMIT, self.hard))
        super().setUp()

    def test_a_port_held_by_a_thousand_unauthenticated_clients_takes_a_member_in_within_a_second(self):
        first, = self.form(1)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3 * CLIENTS, self.hard))
        crowds = [UnauthenticatedClients(self, first.wait_for_event("joining")["address"]), UnauthenticatedClients(self, self.common[1])]
        for crowd in crowds:
            # The dropped clients also connect again.
            self.assertTrue(crowd.pushed_out.wait(SECONDS))
        for _ in range(3):
            second = control_test.Member(self, "--name", "second", *self.common)
            began = second.wait_for_event("joining")["us"]
            took = max(one.wait_for_view_of([first, second], began)["us"] for one in (first, second)) - began
            self.assertLess(took, PATIENCE_US)
            second.process.terminate()
            self.assertEqual(second.process.wait(SECONDS), DONE)
            first.wait_for_view_of([first], began)


if __name__ == "__main__":
    unittest.main()
