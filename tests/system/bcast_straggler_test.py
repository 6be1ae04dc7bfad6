#!/usr/bin/env python3
"""Tests a receiver whose link is slower than the links of the others. rdmc_bcast must find and report this straggler.
The others must not wait for it."""
import unittest

from harness import ExitCode
from lab_case import LabCase, lab

SIZE = 40 << 20  # The file is longer than a ring buffer.


class Straggler(LabCase):
    HOSTS = 7
    RATE = "80mbit"

    def test_the_others_do_not_wait_for_a_slow_host(self):
        sender, *receivers = self.hosts
        self.network.limit(receivers[2], "20mbit")
        agents = [self.agent_on(host) for host in receivers]
        source = self.file(SIZE)
        done = self.start(source, "copy", to=agents, command_prefix=sender.command([])).wait()
        self.assert_code(done, ExitCode.SUCCESS)
        slow = agents[2].host
        self.assertIn(slow, [event["host"] for event in done.of_kind("straggler")], done)
        others = max(event["seconds"] for host, event in done.receivers.items() if host != slow)
        # If all receivers waited for the straggler, the times would be equal.
        self.assertLess(others, done.receivers[slow]["seconds"] / 2, done)
        for agent in agents:
            self.assert_copy(source, agent.root / "copy")


if __name__ == "__main__":
    lab.enter()
    unittest.main()
