#!/usr/bin/env python3
"""Tests every operation of rdmc/unicast.hpp between two processes (unicast_peer.cpp): between hosts with UDP sockets,
on one host through shared memory, and, with the option --dpdk, with DPDK's AF_PACKET at both ends or at one end."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lab"))
import lab

PEER = os.environ["RDMC_UNICAST_PEER"]
PATIENCE = 100  # In seconds. Only a failing test waits this long.
VERIFIED = ("send send_copy receive write write_with_immediate read compare_and_swap fetch_and_add revoke grant_anew "
            "stolen_key_refused long_message_invalid")


def device(host):
    """Returns a DPDK device on the host's link. The device has its own address, in addition to the kernel's address."""
    address = host.address.replace("10.77.0.", "10.77.0.10")
    return f"vdev=net_af_packet0,iface=eth0 huge=no address={address}/24"


class UnicastCase(unittest.TestCase):
    def setUp(self):
        network = lab.Network(2)
        self.addCleanup(network.__exit__)
        self.here, self.there = network.hosts

    def start(self, host, *words):
        peer = subprocess.Popen(host.command([PEER, *words]), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True)
        self.addCleanup(peer.communicate)
        self.addCleanup(peer.kill)
        return peer

    def finish(self, peer):
        said, complaint = peer.communicate(timeout=PATIENCE)
        self.assertEqual(peer.returncode, 0, complaint)
        return said

    def converse(self, server_host, server_fabric, client_host, client_fabric):
        """Runs a server and a client. Each fabric is a list that contains the fabric's name and, if there is one, its
        device. Returns the client's output."""
        server = self.start(server_host, "serve", server_host.address, *server_fabric)
        line = server.stdout.readline()
        if not line:
            self.fail(server.stderr.read())
        name, *its_device = client_fabric
        client = self.start(client_host, "ask", client_host.address, name, f"{server_host.address}:{line.split()[1]}", *its_device)
        said = self.finish(client)
        self.finish(server)
        return said.strip()


class Unicast(UnicastCase):
    def test_every_operation_works_between_sockets_of_two_hosts(self):
        self.assertEqual(self.converse(self.there, ["udp"], self.here, ["udp"]), f"verified udp: {VERIFIED}")

    def test_every_operation_works_through_shared_memory(self):
        self.assertEqual(self.converse(self.there, ["shm"], self.there, ["shm"]), f"verified shm: {VERIFIED}")


    def test_a_refusal_whose_packet_is_lost_is_told_by_name_all_the_same(self):
        # The syndrome of an acknowledgement follows its BTH. The rule drops every second packet that has the
        # syndrome of an invalid request, of a refused access or of a refused operation, beginning with the
        # first one.
        self.here.run("nft", "table inet t { chain in { type filter hook prerouting priority 0; meta l4proto udp @th,64,8 0x11 "
                      "@th,160,8 0x61-0x63 numgen inc mod 2 == 0 counter drop; }; }")
        self.assertEqual(self.converse(self.there, ["udp"], self.here, ["udp"]), f"verified udp: {VERIFIED}")
        rules = json.loads(self.here.run("nft", "-j", "list", "table", "inet", "t"))["nftables"]
        lost = sum(e["counter"]["packets"] for item in rules if "rule" in item for e in item["rule"]["expr"] if "counter" in e)
        # These are the refusals of a stolen key, of a late write, and of a message that is too long.
        self.assertGreaterEqual(lost, 3)


class Dpdk(UnicastCase):
    def test_every_operation_works_between_two_devices(self):
        self.assertEqual(self.converse(self.there, ["dpdk", device(self.there)], self.here, ["dpdk", device(self.here)]),
                         f"verified dpdk: {VERIFIED}")

    def test_every_operation_works_between_a_device_and_a_socket(self):
        self.assertEqual(self.converse(self.there, ["dpdk", device(self.there)], self.here, ["udp"]), f"verified udp: {VERIFIED}")

    def test_every_operation_works_between_a_socket_and_a_device(self):
        self.assertEqual(self.converse(self.there, ["udp"], self.here, ["dpdk", device(self.here)]), f"verified dpdk: {VERIFIED}")

    def test_a_device_that_cannot_be_used_is_a_named_error(self):
        absent = self.start(self.here, "serve", self.here.address, "dpdk",
                            "vdev=net_af_packet0,iface=none0 huge=no address=10.77.0.99/24")
        _, complaint = absent.communicate(timeout=PATIENCE)
        self.assertEqual(absent.returncode, 1)
        self.assertIn("no network interface 'none0'", complaint)


if __name__ == "__main__":
    wants_dpdk = sys.argv[1:] == ["--dpdk"]
    lab.enter()
    unittest.main(argv=sys.argv[:1], defaultTest="Dpdk" if wants_dpdk else "Unicast", verbosity=2)
