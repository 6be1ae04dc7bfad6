#!/usr/bin/env python3
"""Runs rank programs with rdmc_run: messages, collective operations, communicators, mistakes, computations and deaths, over
shared memory and over UDP. rank_checks.cpp has the scenarios, and checks their results from inside."""
import os
import subprocess
import tempfile
import unittest

from harness import PATIENCE

RUN = os.environ["RDMC_RUN"]
CHECKS = os.environ["RDMC_RANK_CHECKS"]  # rank_checks.cpp
LOST = 124
FABRICS = "auto", "udp"
PROTOCOLS = ("--protocol", "sdr"), ("--protocol", "sdr", "--strict"), ("--protocol", "mirror")


def run(ranks, scenario, *options, words=()):
    degree = () if "-r" in options else ("-r", "1")
    return subprocess.run([RUN, "-n", str(ranks), *degree, *options, CHECKS, scenario, *words], text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=2 * PATIENCE)


class RankPrograms(unittest.TestCase):
    def assert_right(self, ranks, scenario, fabric, words=()):
        with self.subTest(ranks=ranks, scenario=scenario, fabric=fabric):
            result = run(ranks, scenario, "--fabric", fabric, words=words)
            self.assertEqual((result.returncode, result.stdout), (0, "right\n"), result.stderr)

    def test_messages_of_all_lengths_arrive_between_all_ranks(self):
        for fabric in FABRICS:
            for ranks in 1, 2, 3, 5:
                self.assert_right(ranks, "exchange", fabric)

    def test_a_stream_in_one_direction_does_not_stop(self):
        for fabric in FABRICS:
            for ranks in 2, 3:
                self.assert_right(ranks, "stream", fabric)

    def test_requests_end_with_their_communicator_and_with_the_job(self):
        for fabric in FABRICS:
            result = run(3, "abandons", "--fabric", fabric)
            self.assertEqual((result.returncode, result.stdout), (0, "right\nright\nright\n"), result.stderr)

    def test_a_farm_receives_from_anybody(self):
        for fabric in FABRICS:
            for ranks in 1, 2, 4:
                self.assert_right(ranks, "farm", fabric)

    def test_collective_operations_give_the_right_results(self):
        for fabric in FABRICS:
            for ranks in 1, 2, 3, 8:
                self.assert_right(ranks, "collectives", fabric)

    def test_communicators_are_separate(self):
        for fabric in FABRICS:
            for ranks in 1, 2, 5:
                self.assert_right(ranks, "communicators", fabric)

    def test_mistakes_of_a_program_are_errors(self):
        for fabric in FABRICS:
            for ranks in 1, 3:
                self.assert_right(ranks, "mistakes", fabric)

    def test_a_rank_that_computes_still_answers_its_peers(self):
        for fabric in FABRICS:
            for ranks in 2, 3:
                with tempfile.NamedTemporaryFile() as file:
                    self.assert_right(ranks, "computes", fabric, [file.name])

    def test_the_death_of_a_rank_ends_the_run(self):
        for fabric in FABRICS:
            result = run(3, "dies", "--fabric", fabric)
            self.assertEqual(result.returncode, LOST, result.stderr)
            self.assertIn("rank 2 is lost", result.stderr)

    def test_a_rank_can_abort_the_run(self):
        self.assertEqual(run(3, "abort").returncode, 42)

    def test_a_program_without_rdmc_run_has_one_rank(self):
        for scenario in "exchange", "collectives", "communicators", "mistakes", "farm":
            result = subprocess.run([CHECKS, scenario], text=True, capture_output=True, timeout=PATIENCE)
            self.assertEqual((result.returncode, result.stdout), (0, "right\n"), result.stderr)

    def test_replicas_exchange_the_same_messages(self):
        for fabric in FABRICS:
            for scenario in "exchange", "stream", "collectives", "communicators", "mistakes":
                for protocol in PROTOCOLS:
                    if scenario == "stream" and "--strict" in protocol:
                        continue  # A strict sender waits after each message, so nothing can fill up.
                    with self.subTest(scenario=scenario, fabric=fabric, protocol=protocol):
                        result = run(3, scenario, "--fabric", fabric, "-r", "2", *protocol)
                        self.assertEqual((result.returncode, result.stdout), (0, "right\n"), result.stderr)

    def test_the_others_serve_a_replica_that_is_late(self):
        for fabric in FABRICS:
            for protocol in PROTOCOLS:
                with self.subTest(fabric=fabric, protocol=protocol):
                    result = run(3, "late", "--fabric", fabric, "-r", "3", *protocol)
                    self.assertEqual((result.returncode, result.stdout), (0, "right\n"), result.stderr)
                    self.assertNotIn("died", result.stderr)

    def test_a_forked_process_cannot_use_the_job(self):
        for fabric in FABRICS:
            for degree in "1", "2":
                with self.subTest(fabric=fabric, degree=degree):
                    result = run(2, "forks", "--fabric", fabric, "-r", degree)
                    self.assertEqual((result.returncode, result.stdout), (0, "right\n"), result.stderr)

    def test_replicas_that_get_messages_in_different_orders_send_the_same(self):
        for scenario, ranks in ("choices", 4), ("stops", 3):
            for fabric in FABRICS:
                for protocol in PROTOCOLS:
                    with self.subTest(scenario=scenario, fabric=fabric, protocol=protocol):
                        result = run(ranks, scenario, "--fabric", fabric, "-r", "2", *protocol)
                        self.assertEqual((result.returncode, result.stdout), (0, "right\n"), result.stderr)

    def test_a_protocol_that_does_not_exist_yet_is_refused_by_name(self):
        result = run(2, "exchange", "-r", "2", "--protocol", "leader")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn('no replication protocol "leader"', result.stderr)


if __name__ == "__main__":
    unittest.main()
