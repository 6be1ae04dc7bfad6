#!/usr/bin/env python3
"""Tests rdmc_run --check-determinism: the examples and small programs are told apart by what they send."""
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

from harness import PATIENCE, wait_until

RUN = os.environ["RDMC_RUN"]
CHECKS = os.environ["RDMC_RANK_CHECKS"]  # rank_checks.cpp
PROGRAMS = json.loads(os.environ["RDMC_EXAMPLES"])
DIFFERS, INTERRUPTED = 126, 130
# These runs are short, because each message is delayed.
EXAMPLES = {"stencil": ("--size", "48", "--iterations", "10"), "cg": ("--size", "48", "--iterations", "8"),
            "alltoall": ("--size", "64", "--iterations", "2"), "farm": ("--tasks", "60")}


class Determinism(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rdmc-determinism-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = {**os.environ, "TMPDIR": folder.name, "XDG_RUNTIME_DIR": folder.name}

    def logs(self):
        return list(self.folder.glob("rdmc-run-*"))

    def check(self, *command, options=("--runs", "3"), ranks=4):
        result = subprocess.run([RUN, "--json", "-n", str(ranks), "--check-determinism", *options, *command], text=True,
                                capture_output=True, stdin=subprocess.DEVNULL, timeout=4 * PATIENCE, env=self.environment)
        self.assertEqual(self.logs(), [])
        return result

    def verdict(self, *command, code=0, **options):
        result = self.check(*command, **options)
        self.assertEqual(result.returncode, code, result.stderr)
        (line,) = result.stdout.splitlines()  # The output of the program is not printed.
        return json.loads(line)

    def test_the_examples_are_told_apart(self):
        for name in "stencil", "cg", "alltoall":
            with self.subTest(name=name):
                found = self.verdict(PROGRAMS[name], *EXAMPLES[name])
                self.assertEqual((found["same"], found["difference"], found["content"]), ("process", None, None))
                self.assertGreater(found["sends"], 0)
        found = self.verdict(PROGRAMS["farm"], *EXAMPLES["farm"], code=DIFFERS)
        self.assertEqual(found["same"], "none")
        self.assertEqual(found["difference"]["rank"], 0)

    def test_a_program_whose_order_differs_is_deterministic_in_each_channel(self):
        found = self.verdict(CHECKS, "replies")
        self.assertEqual(found["same"], "channel")
        self.assertEqual((found["difference"]["rank"], found["difference"]["first"]["tag"]), (0, 2))
        self.assertNotEqual(found["difference"]["first"], found["difference"]["second"])

    def test_a_message_whose_content_differs_is_named(self):
        found = self.verdict(CHECKS, "sends_time", ranks=2)
        self.assertEqual((found["same"], found["difference"]), ("process", None))
        self.assertEqual((found["content"]["rank"], found["content"]["call"], found["content"]["first"]["tag"]), (1, 0, 8))

    def test_the_result_is_explained_to_people(self):
        result = subprocess.run([RUN, "-n", "4", "--check-determinism", "--runs", "3", CHECKS, "replies"], text=True,
                                capture_output=True, stdin=subprocess.DEVNULL, timeout=4 * PATIENCE, env=self.environment)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("deterministic in each channel", result.stdout)
        self.assertRegex(result.stdout, r"the first difference \(rank 0, runs 0 and \d\): call \d+ sends 8 bytes to rank \d")

    def test_a_program_that_fails_ends_the_check(self):
        result = self.check(CHECKS, "abort")
        self.assertEqual((result.returncode, result.stdout), (42, ""), result.stderr)
        self.assertIn("run 0 of the program has ended with exit code 42", result.stderr)

    def test_an_interrupt_ends_the_check(self):
        process = subprocess.Popen([RUN, "-n", "2", "--check-determinism", PROGRAMS["stencil"], "--size", "48", "--iterations", "1G"],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=self.environment)
        wait_until(lambda: any(self.folder.glob("rdmc-run-*/0/1")), "the program has started")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(PATIENCE), INTERRUPTED)
        self.assertEqual(self.logs(), [])

    def test_wrong_options_are_refused(self):
        for options in ("--runs", "1"), ("--runs", "x"):
            self.assertEqual(self.check(CHECKS, "replies", options=options).returncode, 125)


if __name__ == "__main__":
    unittest.main()
