#!/usr/bin/env python3
"""Tests sockets between two hosts. One host uses DPDK's AF_PACKET on its link. The other host uses the same, or a UDP
socket. With the arguments ADDRESS PORT, this program connects to this address, sends, and prints the fabric."""
import ctypes
import os
import pathlib
import select
import socket
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lab"))
import lab

PATIENCE = 60  # In seconds. Only a failing test waits this long.
RDMC_SOL_SOCKET, RDMC_SO_FABRIC = 0x52444d43, 1


def tell_fabric(address, port):
    rdmc = ctypes.CDLL(os.environ["LIBRDMC"], use_errno=True)
    to = struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", port, socket.inet_aton(address))
    name, length = ctypes.create_string_buffer(64), ctypes.c_uint(64)
    fd = rdmc.rdmc_socket(socket.AF_INET, socket.SOCK_STREAM, 0)
    if rdmc.rdmc_connect(fd, to, len(to)) != 0 or rdmc.rdmc_getsockopt(fd, RDMC_SOL_SOCKET, RDMC_SO_FABRIC, name, ctypes.byref(length)) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
    print(name.value.decode())


def through(host, dpdk):
    """Returns the environment for a program on this host."""
    address = host.address.replace("10.77.0.", "10.77.0.10")
    device = {"RDMC_FABRIC": "dpdk", "RDMC_DEVICE": f"vdev=net_af_packet0,iface=eth0 huge=no address={address}/24"}
    return dict(os.environ, RDMC_INSECURE="1", **(device if dpdk else {"RDMC_FABRIC": "udp"}))


class Dpdk(unittest.TestCase):
    def setUp(self):
        network = lab.Network(2)
        self.addCleanup(network.__exit__)
        self.here, self.there = network.hosts

    def start(self, host, dpdk, *command):
        process = subprocess.Popen(host.command(list(command)), env=through(host, dpdk), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def run_on(self, host, dpdk, *command):
        done = subprocess.run(host.command(list(command)), env=through(host, dpdk), capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_streams_go_through_a_device_to_another_one_and_to_a_udp_socket(self):
        echo = os.environ["RDMC_ECHO_EXAMPLE"]
        for beyond in (True, False):
            with self.subTest(dpdk_at_both_ends=beyond):
                server = self.start(self.there, beyond, echo, self.there.address, "0")
                port = server.stdout.readline().split()[-1]
                text = "through the device " * 5_000
                self.assertEqual(self.run_on(self.here, True, echo, self.there.address, port, text).strip(), text.strip())
                said = self.run_on(self.here, True, sys.executable, os.path.abspath(__file__), self.there.address, port)
                self.assertEqual(said.strip(), "dpdk")
                server.kill()
                server.wait()

    def test_a_groups_messages_do(self):
        publisher = os.environ["RDMC_PUBLISHER_EXAMPLE"]
        root = self.start(self.here, True, publisher, self.here.address, "0")
        port = root.stdout.readline().split()[-1]
        subscriber = self.start(self.there, False, publisher, self.here.address, port, "subscribe")
        text = "".join(f"{number}\n" for number in range(1000))
        received = ""
        while "now" not in received:  # The subscriber receives "now" only after it has joined.
            root.stdin.write("now\n")
            root.stdin.flush()
            received = subscriber.stdout.readline() if select.select([subscriber.stdout], [], [], 0.1)[0] else ""
        root.stdin.write(text)
        root.stdin.close()
        root.stdin = None
        self.assertTrue(subscriber.stdout.read().endswith(text))
        self.assertEqual((root.wait(PATIENCE), subscriber.wait(PATIENCE)), (0, 0))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        tell_fabric(sys.argv[1], int(sys.argv[2]))
    else:
        lab.enter()
        unittest.main(verbosity=2)
