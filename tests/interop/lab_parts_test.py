#!/usr/bin/env python3
"""Tests the parts of the interop lab that need no guest: the independent ICRC, the selection of packets for captures,
and the messages that appear if the lab cannot be built."""
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import budget
import capture
import cases

FOLDER = pathlib.Path(__file__).resolve().parent
# A congestion notification of a ConnectX-4 Lx, from the IP header on. Source: scapy, test/contrib/roce.uts.
CONNECTX = bytes.fromhex("45c2003c718c4000401191610a0011010a001201000012b7002800008100ffff4000011800000000"
                         "0000000000000000000000000000000082fd002a")
ETHERNET = bytes(12) + b"\x08\x00"
PCAP_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65536, 1)


def record(frame):
    return struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame


class Capture(unittest.TestCase):
    def test_the_icrc_of_an_adapter_is_right_and_any_other_is_not(self):
        packet = capture.parse(ETHERNET + CONNECTX)
        self.assertEqual((packet.opcode, packet.identification, packet.sound, packet.dscp), (0x81, 0x718C, True, 0xC2 >> 2))
        for at in (4, 12, 22, 28, 36, 40, len(CONNECTX) - 1):
            changed = bytearray(ETHERNET + CONNECTX)
            changed[14 + at] ^= 1
            # Byte 22 belongs to the UDP port number. After its change the packet is no RoCE packet.
            if at != 22:
                self.assertFalse(capture.parse(bytes(changed)).sound, at)

    def test_only_whole_packets_of_roce_are_kept(self):
        other = bytearray(ETHERNET + CONNECTX)
        other[14 + 23] ^= 1  # This byte belongs to the UDP port number.
        dump = record(bytes(other)) + record(ETHERNET + CONNECTX) + record(ETHERNET + CONNECTX)[:-1]
        one = capture.Capture.of(PCAP_HEADER, dump)
        self.assertEqual(len(one.packets), 1)
        self.assertEqual(one.pcap, PCAP_HEADER + record(ETHERNET + CONNECTX))

    def test_a_saved_capture_is_read_back_and_is_the_same_file_each_time(self):
        one = capture.Capture.of(PCAP_HEADER, record(ETHERNET + CONNECTX))
        with tempfile.TemporaryDirectory() as folder:
            first, second = pathlib.Path(folder, "a.pcap.gz"), pathlib.Path(folder, "b.pcap.gz")
            one.save(first)
            one.save(second)
            self.assertEqual(first.read_bytes(), second.read_bytes())
            self.assertEqual(capture.load(first), one)


class Matrix(unittest.TestCase):
    def test_every_combination_is_a_case_of_its_own_name(self):
        names = {str(case) for case in cases.all_cases()}
        self.assertEqual(len(names), 3 * 3 * 2 * 2 * 2 * 2)

    def test_a_run_with_loss_that_lost_nothing_is_none(self):
        both = capture.Capture([capture.Packet(bytes([host]), 0x04, 0, True) for host in (1, 2)], b"")
        ours = {"corrupt_packets": 0}
        lossy, lossless = (next(case for case in cases.all_cases() if case.loss == loss) for loss in (True, False))
        self.assertEqual(cases.judge(lossy, ours, both, 1), "")
        self.assertIn("no packet was lost", cases.judge(lossy, ours, both, 0))
        self.assertEqual(cases.judge(lossless, ours, both, 0), "")

    def test_every_run_has_more_packets_than_pass_between_two_losses_in_turn(self):
        # The shortest runs are a pingpong of single packets, each with an acknowledgement, and an rping of
        # four SENDs, a READ and a WRITE.
        pingpong, rping = 2 * 2 * cases.ITERATIONS, 12 * (cases.ITERATIONS // cases.TURNS_PER_TEXT)
        self.assertGreater(min(pingpong, rping), cases.LOST_EVERY)


class Budget(unittest.TestCase):
    def test_whoever_waits_too_long_is_ended_and_the_stage_is_named(self):
        began = time.monotonic()
        with self.assertRaisesRegex(budget.OverBudget, 'in the stage "boot"; before it: links 0 s'):
            with budget.Budget(0.2) as stages:
                with stages.stage("links"):
                    pass
                with stages.stage("boot"):
                    try:
                        subprocess.run(["sleep", "60"], check=False)
                    except Exception:  # pylint: disable=broad-except
                        self.fail("taken for a failed run")
        self.assertLess(time.monotonic() - began, 30)

    def test_who_does_not_tidy_up_in_time_is_ended_as_well(self):
        hangs = ("import budget, time\n"
                 "with budget.Budget(0.2, clean_up=0.2) as stages:\n"
                 "  with stages.stage('boot'):\n"
                 "    try: time.sleep(60)\n"
                 "    finally: time.sleep(60)\n")
        done = subprocess.run([sys.executable, "-c", hangs], cwd=FOLDER, capture_output=True, text=True, check=False,
                              timeout=30)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, 'FAILED: .* in the stage "boot"; .*; tidying up took more than 0.2 s')

    def test_who_is_in_time_is_left_alone_afterwards(self):
        with budget.Budget(0.05) as stages:
            with stages.stage("quick"):
                pass
        time.sleep(0.1)
        self.assertEqual(str(stages), "quick 0 s")


class WithoutQemu(unittest.TestCase):
    def test_the_matrix_is_skipped_by_name_and_does_not_pass(self):
        with tempfile.TemporaryDirectory() as empty:
            done = subprocess.run([sys.executable, FOLDER / "interop_test.py", "."], capture_output=True, text=True,
                                  check=False, env={**os.environ, "PATH": empty, "XDG_CACHE_HOME": empty},
                                  stdin=subprocess.DEVNULL, timeout=30)
        last = done.stdout.splitlines()[-1]
        self.assertEqual(done.returncode, 77)
        self.assertRegex(last, r"did NOT run; missing: packages: .*qemu-system-x86")


if __name__ == "__main__":
    unittest.main()
