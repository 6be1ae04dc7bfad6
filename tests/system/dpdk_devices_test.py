#!/usr/bin/env python3
"""DPDK devices that need no hardware carry our wire: AF_PACKET, AF_XDP and TAP against the udp driver on the other side - one
wire, with the kernel's ARP and neighbour discovery as its judge."""
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lab"))
import lab  # noqa: E402

PEER = os.environ["RDMC_WIRE_PEER"]
PATIENCE = 60


def hugepage_files():
    """What DPDK could leave behind."""
    return sorted(str(path) for folder in ("/dev/hugepages", "/run/dpdk", "/tmp/dpdk") for path in pathlib.Path(folder).glob("*"))


def may_load_programs():
    """Whether we are root, and not only of a user namespace."""
    return os.getuid() == 0 and pathlib.Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]


class Devices(unittest.TestCase):
    def setUp(self):
        self.before = hugepage_files()

    def tearDown(self):
        self.assertEqual(hugepage_files(), self.before)

    def start(self, *command):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def namespace(self, name):
        lab.run("ip", "netns", "add", name)
        self.addCleanup(lab.run, "ip", "netns", "delete", name)
        lab.run("ip", "-n", name, "link", "set", "lo", "up")
        return ["nsenter", f"--net=/run/netns/{name}"]

    def converse(self, first, second, between=lambda: None):
        """Starts both ends, lets them talk; what each said at the end. `between` runs when the first has its port."""
        processes = [self.start(*first)]
        blobs = [self.blob(processes[0])]
        between()
        processes.append(self.start(*second))
        blobs.append(self.blob(processes[1]))
        for process, blob in zip(processes, reversed(blobs)):
            process.stdin.write(blob)
            process.stdin.flush()
        said = []
        for process in processes:
            out, err = process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, 0, f"{process.args}: {err}")
            said.append(dict(word.split("=") for word in out.split()[1:]))
            self.assertEqual(said[-1]["icrc_errors"], "0")
        return said

    def blob(self, process):
        line = process.stdout.readline()
        if not line:
            process.wait(PATIENCE)
            self.fail(process.stderr.read())
        return line

    def veth(self, mtu, *addresses):
        """A pair of links between here and a namespace whose end has `addresses`; how to run a program there."""
        there = self.namespace("far")
        one_queue = ("numtxqueues", "1", "numrxqueues", "1")
        lab.run("ip", "link", "add", "near0", "mtu", str(mtu), *one_queue, "type", "veth",
                "peer", "name", "far0", "mtu", str(mtu), *one_queue, "netns", "far")
        self.addCleanup(lab.run, "ip", "link", "delete", "near0")
        lab.run("ip", "link", "set", "near0", "up")
        lab.run("ip", "-n", "far", "link", "set", "far0", "up")
        for address in addresses:
            lab.run("ip", "-n", "far", "address", "add", address, "dev", "far0", *(["nodad"] if ":" in address else []))
        return there

    def converse_over(self, device, mtu, ours, theirs):
        there = self.veth(mtu, theirs)
        said = self.converse([*there, PEER, "udp", theirs.split("/")[0], ""],
                             [PEER, "dpdk", "", f"vdev={device},iface=near0 huge=no address={ours}"])
        self.assertEqual([end["driver"] for end in said], ["udp", "dpdk"])
        self.assertEqual(said[1]["mtu"], str(mtu))
        return said

    def test_af_packet_against_udp(self):
        said = self.converse_over("net_af_packet0", 9000, "10.78.0.1/24", "10.78.0.2/24")
        # Trains would have arrived uncut, and been lost.
        self.assertLess(int(said[0]["retransmitted"]), 5)

    def test_af_packet_against_udp_by_ipv6(self):
        self.converse_over("net_af_packet0", 9000, "fd00:78::1/64", "fd00:78::2/64")

    @unittest.skipUnless(may_load_programs(), "the kernel loads AF_XDP's program for root alone")
    def test_af_xdp_against_udp(self):
        for mtu in 1500, 3000:
            with self.subTest(mtu=mtu):
                self.converse_over("net_af_xdp0", mtu, "10.78.0.1/24", "10.78.0.2/24")
                self.doCleanups()

    def test_tap_against_udp(self):
        def address_the_kernels_end():
            lab.run("ip", "address", "add", "10.79.0.2/24", "dev", "dtap0")
            lab.run("ip", "link", "set", "dtap0", "up")
        tap = self.start(PEER, "dpdk", "", "vdev=net_tap0 huge=no address=10.79.0.1/24")
        blob = self.blob(tap)
        address_the_kernels_end()
        udp = self.start(PEER, "udp", "10.79.0.2", "")
        udp_blob = self.blob(udp)
        for process, theirs in (tap, udp_blob), (udp, blob):
            process.stdin.write(theirs)
            process.stdin.flush()
        for process in tap, udp:
            out, err = process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, 0, err)
            self.assertIn("icrc_errors=0", out)

    def refused(self, device):
        """What is said about a device that cannot be used."""
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
