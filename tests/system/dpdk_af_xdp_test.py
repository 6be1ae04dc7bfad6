#!/usr/bin/env python3
"""Tests DPDK's AF_XDP on a veth. The other end has the udp driver. The exit status is 77 if this machine cannot run
AF_XDP."""
import os
import pathlib
import socket
import sys
import unittest

from dpdk_lab import DeviceCase, lab

AF_XDP = 44


def lacking():
    """Returns the reason why AF_XDP cannot be used on this machine, or None."""
    if os.getuid() != 0 or pathlib.Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]:
        return "the kernel loads AF_XDP's program for root alone, and not for that of a user namespace"
    try:
        socket.socket(AF_XDP, socket.SOCK_RAW).close()
    except OSError as error:
        return f"this kernel has no AF_XDP sockets: {error.strerror}"
    return None


class AfXdp(DeviceCase):
    def test_against_udp(self):
        for mtu in 1500, 3000:
            with self.subTest(mtu=mtu):
                self.converse_over("net_af_xdp0", mtu, "10.78.0.1/24", "10.78.0.2/24")
                self.doCleanups()

    def test_against_udp_by_ipv6(self):
        self.converse_over("net_af_xdp0", 1500, "fd00:78::1/64", "fd00:78::2/64")


if __name__ == "__main__":
    if reason := lacking():
        print(f"AF_XDP did NOT run: {reason}")
        sys.exit(lab.SKIPPED)
    lab.enter()
    unittest.main(verbosity=2)
