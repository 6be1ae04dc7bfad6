#!/usr/bin/env python3
"""Tests one group whose members have different packet drivers: DPDK's AF_PACKET on some hosts, UDP sockets on the
others."""
import unittest

from harness import ExitCode
from lab_case import LabCase, lab

BLOCK = 1 << 20


def device(host):
    """Returns the options for a DPDK port on the host's link. The port has its own address, in addition to the kernel's
    address."""
    address = host.address.replace("10.77.0.", "10.77.0.10")
    return ["--fabric", "dpdk", "--device", f"vdev=net_af_packet0,iface=eth0 huge=no address={address}/24"]


class Dpdk(LabCase):
    HOSTS = 4

    def send_from(self, host, agents, *options):
        source = self.file(24 * BLOCK + 12345)
        done = self.send(source, "copy.bin", "--overwrite", "--suspect-after", "3s", *options, to=agents,
                         command_prefix=host.command([]))
        self.assert_code(done, ExitCode.SUCCESS)
        for agent in agents:
            self.assert_copy(source, agent.root / "copy.bin")
        return [event["fabric"] for event in done.of_kind("fabric")]

    def test_members_with_dpdk_and_with_udp_are_one_group(self):
        first, second, third, fourth = self.hosts
        agents = [self.agent_on(second, *device(second)), self.agent_on(third), self.agent_on(fourth, *device(fourth))]
        # `auto` offers shm and udp. Each pair of members agrees on one of the two.
        self.assertEqual(self.send_from(first, agents), ["shm+udp"])
        # The second transfer shows that the agents have released their devices after the first one.
        self.assertEqual(self.send_from(first, agents, *device(first)), ["dpdk"])

    def test_a_device_that_cannot_be_used_is_that_members_failure_and_named(self):
        first, second, third, _ = self.hosts
        absent = ["--fabric", "dpdk", "--device", "vdev=net_af_packet0,iface=none0 huge=no address=10.77.0.99/24"]
        good, bad = self.agent_on(second), self.agent_on(third, *absent)
        source = self.file(BLOCK)
        done = self.send(source, "copy.bin", to=[good, bad], command_prefix=first.command([]))
        self.assert_code(done, ExitCode.SOME_FAILED)
        self.assert_cause(done, bad.host, "failed", "no network interface 'none0'")
        self.assert_copy(source, good.root / "copy.bin")


if __name__ == "__main__":
    lab.enter()
    unittest.main(verbosity=2)
