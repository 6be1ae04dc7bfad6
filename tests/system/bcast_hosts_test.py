#!/usr/bin/env python3
"""Tests several receivers on each host. The file must cross the network only once to each host, whichever receiver
survives."""
import signal
import unittest

from harness import ExitCode
from lab_case import LabCase, lab

SIZE = 16 << 20
PER_HOST = 3
# The permitted ratio of the received bytes to the size of the file. It allows for the headers of packets,
# acknowledgements, control connections, and retransmissions on a busy machine. A host that gets the file
# twice has a ratio of 2.
HEADERS = 1.6


class Hosts(LabCase):
    def setUp(self):
        super().setUp()
        self.sender, *self.receivers = self.hosts
        self.agents_on = {host.name: [self.agent_on(host, index=index) for index in range(PER_HOST)]
                          for host in self.receivers}
        self.everybody = [agent for agents in self.agents_on.values() for agent in agents]
        self.source = self.file(SIZE)

    def start_to_all(self, *options):
        return self.start(self.source, "copy", *options, to=self.everybody, command_prefix=self.sender.command([]))

    def entered(self, host):
        return host.octets()[0]

    def test_a_host_gets_the_file_from_the_network_once(self):
        before = [self.entered(host) for host in self.receivers]
        transfer = self.start_to_all().wait()
        self.assert_code(transfer, ExitCode.SUCCESS)
        # On a busy machine, a receiver can become a straggler. The plan then changes, and blocks that were in
        # flight travel again. Each plan brings the file to a host at most once.
        plans = len(transfer.of_kind("plan"))
        for host, octets in zip(self.receivers, before):
            self.assertGreater(self.entered(host) - octets, SIZE)
            self.assertLess(self.entered(host) - octets, plans * HEADERS * SIZE, str(transfer))
        for agent in self.everybody:
            self.assert_copy(self.source, agent.root / "copy")

    def test_a_representative_that_dies_is_replaced(self):
        host, victim = self.receivers[0], self.agents_on[self.receivers[0].name][0]
        before = self.entered(host)
        transfer = self.start_to_all("--limit-rate", "100m")
        transfer.wait_for_bytes(SIZE // 4)
        victim.signal(signal.SIGKILL)
        self.assert_code(transfer.wait(), ExitCode.SOME_FAILED)
        for agent in self.everybody:
            if agent is not victim:
                self.assert_copy(self.source, agent.root / "copy")
        # The replacement gets the blocks again that were in flight to the dead receiver. This is only a
        # window of blocks, and not the whole file.
        self.assertLess(self.entered(host) - before, 2 * SIZE)
        for path in victim.root.iterdir():
            path.unlink()


if __name__ == "__main__":
    lab.enter()
    unittest.main()
