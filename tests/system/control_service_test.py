#!/usr/bin/env python3
"""Tests a store node under a service manager. systemd must accept the unit file. The node must send the right messages
to its manager while it works, and while one of its threads is stopped. The test acts as the manager."""
import contextlib
import ctypes
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import unittest

import control_metrics_test
import control_test
from control_test import CONTROL, DONE, FAILED, SECONDS

WATCHDOG_SECONDS = 0.4
SILENCE_SECONDS = 3 * WATCHDOG_SECONDS
PTRACE_ATTACH, PTRACE_DETACH, WALL = 16, 17, 0x40000000


@contextlib.contextmanager
def stopped_thread(case, pid, name):
    """Stops one thread of a process while the context is active."""
    thread = next(int(task.name) for task in pathlib.Path(f"/proc/{pid}/task").iterdir()
                  if (task / "comm").read_text(encoding="ascii").strip() == name)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(PTRACE_ATTACH, thread, None, None) != 0:
        case.skipTest(f"this machine lets no test stop a thread: {os.strerror(ctypes.get_errno())}")
    os.waitpid(thread, WALL)
    try:
        yield
    finally:
        libc.ptrace(PTRACE_DETACH, thread, None, None)


class Service(control_test.Scratch):
    key_file = None

    def setUp(self):
        super().setUp()
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.manager.close)
        self.manager.bind(str(self.path / "notify"))
        self.manager.settimeout(SECONDS)

    def node(self, *words, **environment):
        self.key_file = self.key("key")
        node = self.start(CONTROL, "serve", "--directory", str(self.path / "node"), "--listen", "127.0.0.1:0", "--key-file", self.key_file,
                          "--json", *words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          env={**os.environ, "NOTIFY_SOCKET": str(self.path / "notify"), **environment})
        self.addCleanup(node.stdout.close)
        return node

    def told(self):
        return self.manager.recv(100).decode("ascii")

    def forget_what_was_told(self):
        self.manager.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while self.told():
                pass
        self.manager.settimeout(SECONDS)

    def wait_for_silence(self):
        """Waits until the node has sent nothing for SILENCE_SECONDS. Fails if the node continues to send."""
        self.manager.settimeout(SILENCE_SECONDS)
        try:
            for _ in range(3):  # One message may be in flight, and one may be due.
                self.assertEqual(self.told(), "WATCHDOG=1")
            self.fail("it goes on feeding the watchdog")
        except TimeoutError:
            self.manager.settimeout(SECONDS)

    def test_the_watchdog_is_fed_as_long_as_the_node_goes_round_and_its_disk_answers(self):
        node = self.node("--metrics", "0", WATCHDOG_USEC=str(round(WATCHDOG_SECONDS * 1e6)))
        listening = json.loads(node.stdout.readline())
        self.assertEqual(self.told(), "READY=1")
        for _ in range(3):
            self.assertEqual(self.told(), "WATCHDOG=1")
        with stopped_thread(self, node.pid, "rdmc-control"):
            self.wait_for_silence()
        self.assertEqual(self.told(), "WATCHDOG=1")
        with stopped_thread(self, node.pid, "rdmc-journal"):
            # A member requests a new view while the journal's thread is stopped.
            self.start(CONTROL, "member", "g", "--json", "--store", listening["address"], "--key-file", self.key_file,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            deadline = time.monotonic() + SECONDS
            while control_metrics_test.scrape(listening["metrics"])["rdmc_node_up", 'node="0"'] != 0:
                self.forget_what_was_told()
                self.assertLess(time.monotonic(), deadline, "a disk that hangs is not seen")
            self.wait_for_silence()
        self.assertEqual(self.told(), "WATCHDOG=1")
        node.send_signal(signal.SIGTERM)
        while (last := self.told()) == "WATCHDOG=1":
            pass
        self.assertEqual(last, "STOPPING=1")
        self.assertEqual(node.wait(SECONDS), DONE)

    def test_a_watchdog_that_is_another_process_s_is_not_fed(self):
        node = self.node(WATCHDOG_USEC="1000", WATCHDOG_PID="1")
        self.assertEqual(self.told(), "READY=1")
        node.send_signal(signal.SIGTERM)
        self.assertEqual(self.told(), "STOPPING=1")

    def test_who_cannot_begin_is_never_ready(self):
        (self.path / "node").write_text("no directory", encoding="ascii")
        self.assertEqual(self.node().wait(SECONDS), FAILED)
        self.manager.setblocking(False)
        with self.assertRaises(BlockingIOError):
            self.told()

    def test_the_unit_is_one_that_systemd_takes(self):
        unit = pathlib.Path(os.environ["RDMC_STORE_UNIT"]).read_text(encoding="ascii")
        for line in "Type=notify", "WatchdogSec=10", "Restart=on-failure":
            self.assertIn(f"\n{line}\n", unit)
        copy = self.path / "rdmc-store.service"
        copy.write_text(re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={CONTROL}", unit), encoding="ascii")

        def verify():
            return subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(copy)],
                                  capture_output=True, text=True, timeout=SECONDS, check=False)
        done = verify()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        copy.write_text(copy.read_text(encoding="ascii").replace("Type=notify", "Type=notified"), encoding="ascii")
        self.assertIn("notified", verify().stderr)  # This shows that the check finds errors.


if __name__ == "__main__":
    unittest.main(verbosity=2)  # names the cases that are skipped, and why
