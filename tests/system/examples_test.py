#!/usr/bin/env python3
"""Tests the examples of rank programs under rdmc_run. Each example checks its own result, so its exit code says whether
the library has delivered the right bytes. In addition, the checksum must be the same in each run."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
import uuid

from harness import MARK, PATIENCE, processes_marked, wait_until

RUN = os.environ["RDMC_RUN"]
PROGRAMS = json.loads(os.environ["RDMC_EXAMPLES"])  # The file of each example.
# The options of a small run of each example. No size is a multiple of the numbers of ranks.
SMALL = {"stencil": ("--size", 61, "--iterations", 40), "cg": ("--size", 53, "--iterations", 200),
         "alltoall": ("--size", 101, "--iterations", 5), "farm": ("--tasks", 150)}
RANKS = (1, 2, 3, 4, 7)
FABRICS = ("auto", "udp")
USAGE = 2


class Examples(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="rdmc-examples-")
        self.mark = uuid.uuid4().hex
        self.environment = {**os.environ, MARK: self.mark, "XDG_RUNTIME_DIR": self.folder}
        self.addCleanup(self.audit)

    def audit(self):
        """Runs after the test. No process of a run may be left."""
        shutil.rmtree(self.folder, ignore_errors=True)
        wait_until(lambda: not processes_marked(self.mark), "every process has ended", 10)

    def start(self, *words):
        return subprocess.run([*map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              timeout=PATIENCE, env=self.environment)

    def checksum(self, *words):
        """Runs the command, which must print one checksum and nothing else. Returns the checksum."""
        done = self.start(*words)
        self.assertEqual((done.returncode, done.stderr), (0, ""), words)
        self.assertRegex(done.stdout, r"\Achecksum [0-9a-f]{16}\n\Z")
        return done.stdout

    def checksum_of_ranks(self, ranks, name, options, fabric="auto"):
        return self.checksum(RUN, "-n", ranks, "-r", 1, "--fabric", fabric, PROGRAMS[name], *options)

    def check(self, name):
        for ranks in RANKS:
            with self.subTest(ranks=ranks):
                first, *others = [self.checksum_of_ranks(ranks, name, SMALL[name], fabric) for fabric in (*FABRICS, "auto")]
                self.assertEqual(others, [first] * len(FABRICS))

    def test_the_stencil_is_right(self):
        self.check("stencil")

    def test_the_conjugate_gradients_are_right(self):
        self.check("cg")

    def test_the_transposition_is_right(self):
        self.check("alltoall")

    def test_the_farm_is_right(self):
        self.check("farm")

    def test_ranks_that_have_nothing_to_do_change_nothing(self):
        for name, options in {"stencil": ("--size", 2, "--iterations", 3), "alltoall": ("--size", 2, "--iterations", 1),
                              "cg": ("--size", 2, "--iterations", 9), "farm": ("--tasks", 2)}.items():
            self.checksum_of_ranks(7, name, options)
            self.checksum_of_ranks(2, name, ("--size", 1, "--iterations", 1) if name != "farm" else ("--tasks", 1))

    def test_all_but_the_conjugate_gradients_have_one_checksum_for_all_numbers_of_ranks(self):
        for name in ("stencil", "alltoall", "farm"):
            self.assertEqual(self.checksum_of_ranks(1, name, SMALL[name]), self.checksum_of_ranks(4, name, SMALL[name]), name)

    def test_a_program_that_rdmc_run_has_not_started_has_one_rank(self):
        for name, program in PROGRAMS.items():
            self.assertEqual(self.checksum(program, *SMALL[name]), self.checksum_of_ranks(1, name, SMALL[name]), name)

    def test_other_options_have_another_checksum(self):
        for name, options in SMALL.items():
            self.assertNotEqual(self.checksum(PROGRAMS[name], *options), self.checksum(PROGRAMS[name], *options[:-1], options[-1] // 2))

    def test_a_size_can_have_a_suffix(self):
        program = PROGRAMS["stencil"]
        self.assertEqual(self.checksum(program, "--size", "1K", "--iterations", 1), self.checksum(program, "--size", 1024, "--iterations", 1))

    def test_wrong_options_are_refused_with_and_without_rdmc_run(self):
        for name, program in PROGRAMS.items():
            number = "--tasks" if name == "farm" else "--size"
            for words in ((number, 0), (number, -1), (number, "1G1"), (number, "many"), (number, "8G"), (number,), ("--unknown",), ("word",)):
                done = self.start(program, *words)
                self.assertEqual((done.returncode, done.stdout), (USAGE, ""), (name, words))
                self.assertNotEqual(done.stderr, "")
            done = self.start(RUN, "-n", 2, "-r", 1, program, number, 0)
            self.assertEqual((done.returncode, done.stdout), (USAGE, ""), name)

    def test_help_and_version_need_no_run(self):
        for name, program in PROGRAMS.items():
            told = self.start(program, "--help")
            self.assertEqual((told.returncode, told.stderr), (0, ""))
            for word in ("--tasks",) if name == "farm" else ("--size", "--iterations"):
                self.assertRegex(told.stdout, rf"{re.escape(word)} N")
            self.assertIn("Exit codes:", told.stdout)
            self.assertRegex(self.start(program, "--version").stdout, rf"\Ardmc_example_{name} \d+\.\d+\.\d+\n\Z")


if __name__ == "__main__":
    unittest.main(verbosity=2)
