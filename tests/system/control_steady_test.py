#!/usr/bin/env python3
"""Tests two events that must not change a view. In one, members are stopped for 300 ms while other processes want all
processors. In the other, the store cannot be reached (etcd, or three embedded nodes). The members must report that the
store is missing, and changes must be refused until it is back."""
import contextlib
import os
import signal
import subprocess
import sys
import time
import unittest

import control_test
from control_test import DONE, FAILED, SECONDS, run

STOPPED_SECONDS = 0.3
# A member that was absent for longer than this may be removed. The difference to the 300 ms is the time between two
# heartbeats (50 ms), and the time in which the busy machine ran something else.
MOST_ABSENT_SECONDS = 0.4
STOPS, MOST_ATTEMPTS = 3, 8


@contextlib.contextmanager
def load():
    """Runs two busy processes for each processor."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * os.cpu_count())]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


class Stopped(control_test.Group):
    def test_who_is_stopped_for_300_ms_on_a_loaded_machine_stays(self):
        with load():
            for attempt in range(MOST_ATTEMPTS):
                group = f"attempt-{attempt}"
                members = [control_test.Member(self, "--name", f"m{i}", *self.common, group=group) for i in range(4)]
                stayed = self.all_install_a_view_of(members)
                before = time.monotonic_ns() // 1000
                if stayed:
                    for member in members[:STOPS]:
                        member.process.send_signal(signal.SIGSTOP)
                        time.sleep(STOPPED_SECONDS)
                        member.process.send_signal(signal.SIGCONT)
                    # A newcomer causes the next view. There must have been no other view before it.
                    members.append(control_test.Member(self, "--name", "new", *self.common, group=group))
                    stayed = self.all_install_a_view_of(members, before)
                if stayed:
                    installed = [event for event in members[0].of_kind("installed") if event["us"] > before]
                    self.assertEqual(len(installed), 1, installed)
                    return
                for member in members:
                    for end in member.of_kind("end"):
                        self.assertGreater(end["longest_absence_us"], MOST_ABSENT_SECONDS * 1e6, member.events)
                    member.process.kill()
        self.skipTest(f"in {MOST_ATTEMPTS} attempts, this machine did not run a member for more than {MOST_ABSENT_SECONDS} s")

    def all_install_a_view_of(self, members, after=0):
        """Returns True when all members have installed a view of exactly `members`, and False when a member was
        removed."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            if all(member.has_view_of(members, after) for member in members):
                return True
            if any(member.has("end") for member in members):
                return False
            time.sleep(0.01)
        self.fail([member.events for member in members])


class EtcdGone(control_test.Etcd):
    def test_without_etcd_the_view_serves_on_changes_are_refused_and_it_is_said(self):
        common = [*self.store[:2], "--key-file", self.key("key")]
        members = [control_test.Member(self, "--name", f"m{i}", "--beat", "20", *common) for i in range(3)]
        for member in members:
            member.wait_for_view_of(members)
        *others, killed = members
        self.server.kill()
        self.server.wait()
        for member in others:
            member.wait_for_event("store_lost")
        before = time.monotonic_ns() // 1000
        self.assertEqual(run("remove", "g", killed.id, *common)[0], FAILED)
        killed.process.kill()
        # The others must still exchange messages in the view that contains the dead member.
        count = len(others[0].events)
        self.start_server()
        for member in others:
            member.wait_for_event("store_found", before)
            member.wait_for_view_of(others, before)
            member.wait_for_event("first_delivery", before)
        self.assertFalse([event for event in others[0].events[:count] if event["event"] == "installed" and event["us"] > before])


class ThreeNodes(control_test.Scratch):
    """Three `serve` processes that know each other, and members that know all three."""

    def setUp(self):
        super().setUp()
        self.nodes = ",".join(control_test.free_address() for _ in range(3))
        self.common = ["--store", self.nodes, "--key-file", self.key("key")]
        self.running = [self.serve(number) for number in range(3)]
        self.wait_for_store()

    def serve(self, number):
        return self.start(control_test.CONTROL, "serve", "--directory", str(self.path / f"node{number}"), "--nodes", self.nodes,
                          "--self", str(number), *self.common[2:], stderr=subprocess.DEVNULL)

    def wait_for_store(self):
        deadline = time.monotonic() + SECONDS
        while run("views", *self.common)[0] != DONE:
            self.assertLess(time.monotonic(), deadline)

    def wait_until_without_store(self, member):
        last = lambda: [event["event"] for event in member.events if event["event"].startswith("store_")][-1:]
        with member.changed:
            self.assertTrue(member.changed.wait_for(lambda: last() == ["store_lost"], SECONDS), member.events)

    def end(self, number):
        self.running[number].kill()
        self.running[number].wait()

    def test_one_node_may_be_lost_and_come_back_and_without_two_of_them_changes_wait(self):
        members = [control_test.Member(self, "--name", f"m{i}", "--beat", "20", *self.common) for i in range(3)]
        for member in members:
            member.wait_for_view_of(members)
        for number in range(2):
            self.end(number)
            before = time.monotonic_ns() // 1000
            members.append(control_test.Member(self, "--name", f"with-{number}-lost", "--beat", "20", *self.common))
            members.pop(0).process.kill()
            for member in members:
                member.wait_for_view_of(members, before)
                member.wait_for_event("first_delivery", before)
            self.running[number] = self.serve(number)
        self.end(0)
        self.end(2)
        for member in members:
            self.wait_until_without_store(member)
        before = time.monotonic_ns() // 1000
        self.assertEqual(run("remove", "g", members[0].id, *self.common)[0], FAILED)
        members.pop().process.kill()
        # One store node of three cannot agree to anything.
        self.assertEqual(run("views", *self.common)[0], FAILED)
        self.assertFalse([event for event in members[0].of_kind("installed") if event["us"] > before])
        self.running[2] = self.serve(2)
        for member in members:
            member.wait_for_event("store_found", before)
            member.wait_for_view_of(members, before)
            member.wait_for_event("first_delivery", before)


if __name__ == "__main__":
    unittest.main(verbosity=2)  # names the cases that are skipped, and why
