#!/usr/bin/env python3
"""Tests the options of ibv_rc_pingpong that rdmc_pingpong does not need. rdmc_pingpong must follow each of them, or
refuse it by name."""
import json
import os
import unittest

from foreign_endpoints_test import CLIENT, FAILED, PINGPONG, SERVER, USAGE, Pair, lab, run, start

FIRST, SECOND = "10.66.0.1", "10.66.0.2"


class Options(Pair):
    @classmethod
    def setUpClass(cls):
        lab.run("ip", "link", "add", "left", "type", "veth", "peer", "name", "right")
        for address in (FIRST, SECOND):
            lab.run("ip", "address", "add", f"{address}/24", "dev", "left")
        for link in ("left", "right"):
            lab.run("ip", "link", "set", link, "up")

    def served(self, *options):
        """Returns the report of a server with these options. The client of this server has none of them."""
        return self.both([PINGPONG, "-n", 10, *options], [PINGPONG, "-n", 10, "--address", CLIENT, SERVER])[0]

    def refused(self, status, *options):
        done = run(PINGPONG, "--patience", 5, *options)
        self.assertEqual(done[0], status, done[2])
        return done[2]

    def test_a_network_interface_is_a_device_and_its_addresses_are_its_table(self):
        for options, address in ((["-d", "left"], FIRST), (["-d", "left", "-g", 1], SECOND), (["-d", "lo"], CLIENT)):
            if address == CLIENT:
                options += ["--address", SERVER]  # The client has the first address.
                address = SERVER
            report = self.served(*options)
            self.assertEqual((report["fabric"], report["local"]["address"]), ("udp", address))

    def test_a_fabric_is_a_device_and_its_table_is_the_hosts(self):
        self.assertEqual(self.served("-d", "udp")["fabric"], "udp")
        told = self.refused(USAGE, "-d", "udp", "-g", 99)
        self.assertIn("no GID 99 of this host; there are: 0 127.0.0.1", told)
        index = told[:told.index(SECOND)].split()[-1]
        self.assertEqual(self.served("-g", index)["local"]["address"], SECOND)

    def test_what_there_is_not_is_refused_with_what_there_is(self):
        told = self.refused(USAGE, "-d", "mlx5_0")
        self.assertIn("no device 'mlx5_0'; there are: ", told)
        for there in ("left", "lo", "udp", "verbs"):
            self.assertIn(there, told)
        self.assertIn("left has one, 1", self.refused(USAGE, "-d", "left", "-i", 2))
        self.assertIn("no GID 2 of left; there are: 0 10.66.0.1, 1 10.66.0.2", self.refused(USAGE, "-d", "left", "-g", 2))
        self.assertIn("--fabric", self.refused(USAGE, "-d", "left", "--fabric", "udp"))
        self.assertIn("reaches nobody but", self.refused(USAGE, "-d", "shm"))

    def test_what_would_not_be_true_is_refused_by_name(self):
        self.assertIn("no service level", self.refused(USAGE, "-l", 3))
        self.assertIn("no fabric here has memory on its device", self.refused(USAGE, "-j"))
        self.assertIn("paged on demand: -o", self.refused(USAGE, "-P"))

    def test_what_is_so_anyway_is_taken(self):
        report = self.served("-o", "-P", "-N", "-l", 0, "-i", 1)
        self.assertEqual(report["iterations"], 10)

    def test_time_stamps_tell_how_far_apart_messages_completed(self):
        count = 50
        server, _ = self.both([PINGPONG, "-n", count, "-t"], [PINGPONG, "-n", count, "--address", CLIENT, SERVER])
        gaps = server["receive_completions_apart"]
        self.assertEqual(gaps["count"], count - 1)
        self.assertLess(0, gaps["min_us"])
        self.assertLessEqual(gaps["min_us"], gaps["average_us"])
        self.assertLessEqual(gaps["average_us"], gaps["max_us"])
        self.assertLessEqual(gaps["average_us"] * (count - 1), server["seconds"] * 1e6)

    def test_who_is_told_to_sleeps_for_each_message(self):
        count = 1000
        waiting = start(PINGPONG, "-n", count, "-e")
        self.addCleanup(waiting.kill)
        for _ in range(500):
            status, _, errors = run(PINGPONG, "-n", count, "--address", CLIENT, SERVER)
            if status == 0 or "refused" not in errors:
                break
        self.assertEqual(status, 0, errors)
        _, ended, used = os.wait4(waiting.pid, 0)
        waiting.returncode = os.waitstatus_to_exitcode(ended)
        self.assertEqual(waiting.returncode, 0, waiting.communicate()[1])
        self.assertGreater(used.ru_nvcsw, count // 2)


if __name__ == "__main__":
    lab.enter()
    unittest.main()
