"""Common parts of the tests of DPDK devices that need no hardware. A test has two ends, which exchange packets."""
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
    """Returns the files that DPDK could leave behind."""
    return sorted(str(path) for folder in ("/dev/hugepages", "/run/dpdk", "/tmp/dpdk") for path in pathlib.Path(folder).glob("*"))


class DeviceCase(unittest.TestCase):
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
        """Starts both ends, and lets them exchange packets. Returns the last output of each end. Calls `between` when
        both ends have their ports."""
        processes = self.meet(first, second, between)
        said = []
        for process in processes:
            out, err = process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, 0, f"{process.args}: {err}")
            said.append(dict(word.split("=") for word in out.splitlines()[-1].split()[1:]))
            self.assertEqual(said[-1]["icrc_errors"], "0")
        return said

    def meet(self, first, second, between):
        """Starts both ends and connects them, so that they begin to exchange packets."""
        processes = [self.start(*first)]
        blobs = [self.blob(processes[0])]
        processes.append(self.start(*second))
        blobs.append(self.blob(processes[1]))
        between()
        for process, blob in zip(processes, reversed(blobs)):
            process.stdin.write(blob)
            process.stdin.flush()
        return processes

    def blob(self, process):
        line = process.stdout.readline()
        if not line:
            process.wait(PATIENCE)
            self.fail(process.stderr.read())
        return line

    def veth(self, mtu, *addresses):
        """Makes a pair of links between this namespace and another one. The end in the other namespace has `addresses`.
        Returns the beginning of the command lines that run programs there."""
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

    def ends_over(self, device, mtu, ours, theirs):
        """Returns the command lines of the two ends, which have a link between them. The udp driver is in the other
        namespace, and DPDK's `device` is here."""
        there = self.veth(mtu, theirs)
        return ([*there, PEER, "udp", theirs.split("/")[0], ""],
                [PEER, "dpdk", "", f"vdev={device},iface=near0 huge=no address={ours}"])

    def converse_over(self, device, mtu, ours, theirs):
        said = self.converse(*self.ends_over(device, mtu, ours, theirs))
        self.assertEqual([end["driver"] for end in said], ["udp", "dpdk"])
        self.assertEqual(said[1]["mtu"], str(mtu))
        return said
