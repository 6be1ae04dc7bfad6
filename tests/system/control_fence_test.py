#!/usr/bin/env python3
"""Tests a process that is stopped, is therefore removed, and continues without learning of the removal. It still sends
messages to the others, and writes to their memory, in the old view. The others must not notice any of this."""
import json
import os
import pathlib
import signal
import sys
import time
import unittest

import control_metrics_test
import control_test
from control_test import DONE, REMOVED, SECONDS

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lab"))
import lab

ENOUGH_PACKETS = 3  # After this number of retransmissions, its queue pair gives up.


def port_of(address):
    return address.rsplit(":", 1)[1]


def ports_of(pid):
    """Returns the port numbers of the TCP sockets of a process."""
    sockets = {os.readlink(entry) for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir()}
    table = [line.split() for line in pathlib.Path(f"/proc/{pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    return {str(int(port_of(words[1]), 16)) for words in table if f"socket:[{words[9]}]" in sockets}


def cut(ports):
    """Drops all TCP packets from or to one of `ports`."""
    lab.run("nft", f"""
        table inet cut {{
        chain arrive {{
          type filter hook input priority 0;
          tcp dport {{ {", ".join(ports)} }} drop
          tcp sport {{ {", ".join(ports)} }} drop
        }}
        }}""")


class Fence(control_test.Group):
    GROUP = 'group="g"'

    def value(self, member, name):
        return control_metrics_test.scrape(member.wait_for_event("metrics")["address"])[name, self.GROUP]

    def wait_for_value(self, member, name, least):
        deadline = time.monotonic() + SECONDS
        while (value := self.value(member, name)) < least:
            self.assertLess(time.monotonic(), deadline, (name, value))
            time.sleep(0.05)

    def depose(self, refusals_are_counted, *words):
        members = self.form(3, "--metrics", "0", *words)
        for member in members:
            member.wait_for_event("written_to")
        # All other members dial the oldest member. The oldest member itself dials only the store.
        oldest = members[0].wait_for_view_of(members)["members"][0]["id"]
        stopped = next(member for member in members if member.id == oldest)
        others = [member for member in members if member is not stopped]
        before = time.monotonic_ns() // 1000
        cut(ports_of(stopped.process.pid) - {port_of(stopped.wait_for_event("metrics")["address"])})
        stopped.process.send_signal(signal.SIGSTOP)
        for member in others:
            member.wait_for_view_of(others, before)
        refused = [self.value(member, "rdmc_packets_refused_total") for member in others]
        cut({port_of(self.common[1])})
        try:
            stopped.process.send_signal(signal.SIGCONT)
            # The stopped process continues. For half a second, it receives nothing from the two others.
            self.wait_for_value(stopped, "rdmc_suspicions_total", 2)
            self.assertEqual((self.value(stopped, "rdmc_view_members"), self.value(stopped, "rdmc_view_is_member")), (3, 1))
            if refusals_are_counted:
                for member, count in zip(others, refused):
                    self.wait_for_value(member, "rdmc_packets_refused_total", count + ENOUGH_PACKETS)
            # Meanwhile the others have exchanged messages and writes in their own view.
            heard = time.monotonic_ns() // 1000
            self.assertFalse(stopped.has("removed"))
        finally:
            lab.run("nft", "delete table inet cut")
        stopped.wait_for_event("removed", heard)
        self.assertEqual(stopped.process.wait(SECONDS), REMOVED)
        for number, member in enumerate(others):
            member.wait_for_event("first_delivery", before)
            member.process.terminate()
            self.assertEqual(member.process.wait(SECONDS), DONE)
            for other in others[number + 1:]:
                other.wait_for_view_of([other], heard)
        for member in members:
            member.reader.join()
            self.assertEqual(member.wait_for_event("end")["visible"], 0, json.dumps(member.events))

    def test_who_is_deposed_and_does_not_know_writes_and_says_nothing_that_anybody_sees(self):
        self.depose(True, "--fabric", "udp")

    def test_the_same_where_packets_are_encrypted(self):
        self.depose(True, "--fabric", "udp", "--encrypt")

    def test_the_same_in_shared_memory(self):
        self.depose(False, "--fabric", "auto")


if __name__ == "__main__":
    lab.enter()
    unittest.main()
