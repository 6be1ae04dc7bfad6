#!/usr/bin/env python3
"""Tests which parts of a group's heartbeats, messages and writes are visible on the path with --encrypt and without it.
Also tests that a group that encrypts refuses a process that does not."""
import pathlib
import sys
import time
import unittest

import control_test
from control_test import DONE, SECONDS, USAGE, run
from tap import Tap

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lab"))
import lab

ENOUGH_OCTETS = 40_000  # Three members send this many octets in one second.


class Encrypt(control_test.Group):
    def seen_of(self, *words):
        """Returns how often the member ids in heartbeats are visible on the data path."""
        members = self.form(3, "--fabric", "udp", *words)
        # Every heartbeat contains member ids. They have the byte order of memory, little endian.
        with Tap("lo", *(int(member.id, 16).to_bytes(8, "little") for member in members)) as tap:
            deadline = time.monotonic() + SECONDS
            while tap.octets < ENOUGH_OCTETS:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
        for number, member in enumerate(members):
            member.wait_for_event("first_delivery")
            member.wait_for_event("written_to")
            member.process.terminate()
            self.assertEqual(member.process.wait(SECONDS), DONE)
            for other in members[number + 1:]:
                other.wait_for_view_of(members[number + 1:])
        return tap.seen

    def test_the_path_sees_whom_the_heartbeats_of_a_plain_group_are_about_and_nothing_of_an_encrypted_one(self):
        self.assertGreater(self.seen_of(), 10)
        self.assertEqual(self.seen_of("--encrypt"), 0)

    def test_who_does_not_encrypt_is_refused_by_name_and_the_others_go_on(self):
        members = self.form(2, "--fabric", "udp", "--encrypt")
        plain = control_test.Member(self, "--name", "plain", "--fabric", "udp", *self.common)
        self.assertIn("the other side encrypts", plain.wait_for_event("refused")["cause"])
        address = plain.wait_for_event("joining")["address"]
        for member in members:
            refused = member.wait_for(lambda event: event["event"] == "refused" and event["address"] == address, "the plain one is refused")
            self.assertIn("this side encrypts its packets, the other does not", refused["cause"])
        members += [control_test.Member(self, "--name", "third", "--fabric", "udp", "--encrypt", *self.common)]
        for member in members:
            member.wait_for_view_of(members)
        self.assertFalse(plain.has("installed"))

    def test_keys_that_an_insecure_connection_would_show_are_a_usage_error(self):
        self.assertEqual(run("member", "g", "--encrypt", "--insecure")[0], USAGE)


if __name__ == "__main__":
    lab.enter()
    unittest.main()
