#!/usr/bin/env python3
"""Tests DPDK devices that need no hardware: AF_PACKET and TAP. The other end has the udp driver. Both ends use the same
packet format, and the kernel's ARP and neighbour discovery must accept it. The tests also set links down and up. AF_XDP
has its own test."""
import subprocess
import time
import unittest

from dpdk_lab import PATIENCE, PEER, DeviceCase, lab


class Devices(DeviceCase):
    def test_af_packet_against_udp(self):
        for mtu in 1500, 9000:
            with self.subTest(mtu=mtu):
                try:
                    said = self.converse_over("net_af_packet0", mtu, "10.78.0.1/24", "10.78.0.2/24")
                finally:
                    # This also runs after a failure, because the next test makes the same links.
                    self.doCleanups()
                # Trains that arrived unsegmented would be lost, and each of their packets would be sent
                # again. So more than half of the packets would be retransmissions. On a busy machine, a
                # timeout may cause some retransmissions.
                self.assertLess(int(said[0]["retransmitted"]), int(said[1]["received"]) / 2)

    def test_af_packet_against_udp_by_ipv6(self):
        self.converse_over("net_af_packet0", 9000, "fd00:78::1/64", "fd00:78::2/64")

    def tap_ends(self):
        """Returns the command lines of the two ends. The other end of the TAP is the kernel of this host. The TAP's
        device exists as soon as the port is open. Then the device gets its address."""
        tap = [PEER, "dpdk", "", "vdev=net_tap0 huge=no address=10.79.0.1/24"]
        address = "ip address add 10.79.0.2/24 dev dtap0 && ip link set dtap0 up"
        return tap, ["sh", "-c", f"{address} && exec {PEER} udp 10.79.0.2 ''"]

    def test_tap_against_udp(self):
        self.converse(*self.tap_ends())

    def test_a_lost_link_is_counted_and_what_was_under_way_arrives_when_it_is_back(self):
        for device, ends in (("near0", self.ends_over("net_af_packet0", 9000, "10.78.0.1/24", "10.78.0.2/24")),
                             ("dtap0", self.tap_ends())):
            with self.subTest(device=device):
                processes = self.meet(*ends, lambda link=device: lab.run("ip", "link", "set", link, "down"))
                ours = processes[device == "near0"]
                self.assertEqual(ours.stdout.readline(), "link lost\n")
                lab.run("ip", "link", "set", device, "up")
                if device == "dtap0":  # The kernel has dropped the address together with the link.
                    lab.run("ip", "address", "replace", "10.79.0.2/24", "dev", device)
                out, err = ours.communicate(timeout=PATIENCE)
                self.assertEqual(ours.returncode, 0, err)
                self.assertRegex(out, "link_losses=1 link_returns=1$")

    def test_a_link_that_stays_away_is_named_when_the_peer_is_given_up(self):
        for device, ends in (("near0", self.ends_over("net_af_packet0", 9000, "10.78.0.1/24", "10.78.0.2/24")),
                             ("dtap0", self.tap_ends())):
            with self.subTest(device=device):
                processes = self.meet(*ends, lambda link=device: lab.run("ip", "link", "set", link, "down"))
                ours = processes[device == "near0"]
                began = time.monotonic()
                _, err = ours.communicate(timeout=PATIENCE)
                self.assertEqual(ours.returncode, 1)
                self.assertIn("the link of our own port is down", err)
                # This limit allows for 8 timeouts of half a second, on a busy machine.
                self.assertLess(time.monotonic() - began, 15)

    def refused(self, device):
        """Returns the error message for a device that cannot be used."""
        done = subprocess.run([PEER, "dpdk", "10.78.0.1", device], capture_output=True, text=True, timeout=PATIENCE,
                              stdin=subprocess.DEVNULL, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr

    def test_what_cannot_be_used_is_told_with_the_command_that_helps(self):
        self.veth(1500)
        lab.run("ip", "link", "set", "near0", "down")
        self.assertIn("sudo ip link set near0 up", self.refused("vdev=net_af_packet0,iface=near0 huge=no"))
        self.assertIn("there is no network interface 'none0'", self.refused("vdev=net_af_packet0,iface=none0 huge=no"))
        self.assertIn("'speed=9'", self.refused("vdev=net_tap0 speed=9"))
        self.assertIn("no device is named", self.refused(""))


if __name__ == "__main__":
    lab.enter()
    unittest.main(verbosity=2)
