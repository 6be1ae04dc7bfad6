#!/usr/bin/env python3
"""Runs rdmc_doctor in a separate network namespace. The test executes the remedies that rdmc_doctor prints. They must
have the promised effect."""
import json
import os
import pathlib
import resource
import shlex
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lab"))
import lab

DOCTOR = os.environ.get("RDMC_DOCTOR")
HAS_DPDK = os.environ.get("RDMC_HAS_DPDK") == "1"
SECONDS = 60


def diagnose(*options, descriptors=None):
    """Returns the findings of rdmc_doctor by fabric, and its exit status. `descriptors` is the limit of open files, if
    there is one."""
    def limit():
        if descriptors:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    done = subprocess.run([DOCTOR, "--seconds", "0.05", "--json", *options], capture_output=True, text=True, preexec_fn=limit,
                          stdin=subprocess.DEVNULL, timeout=SECONDS, check=False)
    told = json.loads(done.stdout)
    return {one["fabric"]: one for one in told["fabrics"]} | {"auto": told["auto"]}, done.returncode


def do(remedy):
    """Runs the rdmc_doctor command that is a remedy. Returns the findings."""
    words = [word for word in shlex.split(remedy) if word != "sudo"]
    assert words[0] == "rdmc_doctor", remedy
    return diagnose(*words[1:])


class Remedies(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        lab.run("ip", "link", "add", "left", "type", "veth", "peer", "name", "right")
        for link, address in (("left", "10.66.0.1"), ("right", "10.66.0.2")):
            lab.run("ip", "address", "add", f"{address}/24", "dev", link)
            lab.run("ip", "link", "set", link, "up")

    def test_every_fabric_that_is_not_usable_has_a_command_for_this_machine(self):
        for options in ([], ["--address", "10.66.0.1"], ["--device", "nonsense"], ["--address", "192.0.2.77"]):
            findings, _ = diagnose(*options)
            for one in findings.values():
                if isinstance(one, dict):
                    self.assertEqual(one["usable"], not one["remedy"], one)
                    self.assertNotIn("INTERFACE", one["remedy"])
            self.assertRegex(findings["verbs"]["remedy"], "netdev (left|right) |reboot$|libibverbs-dev")

    @unittest.skipUnless(HAS_DPDK, "built without DPDK")
    def test_dpdk_without_a_device_is_usable_once_the_advice_is_followed(self):
        before, _ = diagnose()
        self.assertEqual((before["dpdk"]["usable"], before["dpdk"]["reason"]), (False, "no device is named"))
        self.assertRegex(before["dpdk"]["remedy"], "iface=(left|right) ")
        after, status = do(before["dpdk"]["remedy"])
        self.assertTrue(after["dpdk"]["usable"], after["dpdk"])
        self.assertIn("dpdk", after["auto"])
        self.assertEqual(status, 0)

    @unittest.skipUnless(HAS_DPDK, "built without DPDK")
    def test_a_device_that_cannot_be_opened_is_not_usable_though_nothing_seems_to_be_missing(self):
        for device, why in (("net_nosuch0", "DPDK cannot make net_nosuch0"),
                            ("net_memif0,role=client,socket=/nobody", "net_memif0 does not start")):
            before, _ = diagnose("--device", f"vdev={device} address=192.0.2.9/24 huge=no")
            self.assertFalse(before["dpdk"]["usable"])
            self.assertIn(why, before["dpdk"]["reason"])
            after, status = do(before["dpdk"]["remedy"])
            self.assertTrue(after["dpdk"]["usable"], after["dpdk"])
            self.assertEqual(status, 0)

    def test_where_descriptors_are_short_that_is_what_is_told(self):
        for descriptors in 5, 8, 16:
            for device in ([], ["--device", "vdev=net_memif0 address=192.0.2.9/24"]):
                findings, status = diagnose(*device, descriptors=descriptors)
                self.assertEqual(status, 2)
                for fabric in "shm", "dpdk":
                    one = findings[fabric]
                    if "Too many open files" in one["reason"]:
                        self.assertRegex(one["remedy"], "ulimit -n|prlimit --pid", one)
                    self.assertNotIn("DPDK does not start", one.get("self_test_error", ""))

    def test_an_address_that_this_host_has_not_is_not_usable_and_another_one_is_named(self):
        before, status = diagnose("--address", "192.0.2.77")
        self.assertEqual(status, 2)
        self.assertIn("192.0.2.77 is not an address of this host", before["udp"]["reason"])
        after, status = do(before["udp"]["remedy"])
        self.assertTrue(after["udp"]["usable"])
        self.assertEqual(status, 0)


if __name__ == "__main__":
    lab.enter()
    unittest.main()
