#!/usr/bin/env python3
"""Tests ./check: its last line and its exit code for every kind of result that meson reports, and the order of its parts."""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import unittest
from unittest import mock

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/run_checks"
LOADER = importlib.machinery.SourceFileLoader("run_checks", str(TOOL))
run_checks = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_checks", LOADER))
LOADER.exec_module(run_checks)
IDLE = ["chrt", "--idle", "0"]  # A task of this policy runs when nothing else would: see sched(7).
LESS = ["nice", "-n", "5"]  # About a third of the share of other tasks.


def report(*records):
    count = run_checks.Count()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        for name, result, output in records:
            count.add("release", {"name": name, "result": result, "stdout": output})
        status = count.report()
    return status, said.getvalue().splitlines()


class Report(unittest.TestCase):
    def test_all_passed(self):
        self.assertEqual(report(("a", "OK", ""), ("b", "OK", "")), (0, ["2 passed, 0 failed"]))

    def test_whatever_is_neither_passed_nor_skipped_has_failed(self):
        for result in ("FAIL", "TIMEOUT", "ERROR", "INTERRUPT", "UNEXPECTEDPASS"):
            status, lines = report(("a", "OK", ""), ("b", result, "the cause"))
            self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed"))
            self.assertIn("the cause", lines)
            self.assertIn(f"FAILED: release: b: {result.lower()}", lines)

    def test_a_skipped_test_is_listed_with_its_reason_above_the_count(self):
        status, lines = report(("a", "OK", ""), ("b", "SKIP", "tried\nno namespaces here\n"))
        self.assertEqual((status, lines), (0, ["skipped: release: b: no namespaces here", "1 passed, 0 failed, 1 skipped"]))

    def test_where_the_thread_sanitizer_cannot_run_its_tests_are_skipped(self):
        status, lines = report(("a", "OK", ""), ("b", "FAIL", "FATAL: ThreadSanitizer: unexpected memory mapping 0x1-0x2\n"))
        self.assertEqual((status, lines[-1]), (0, "1 passed, 0 failed, 1 skipped"))
        self.assertIn("vm.mmap_rnd_bits", lines[0])

    def test_when_nothing_ran_nothing_is_proved(self):
        self.assertEqual(report()[0], 1)
        self.assertEqual(report(("a", "SKIP", "why"))[0], 1)


class Runs(unittest.TestCase):
    def lab(self):
        """Returns fake functions for the set-up of the lab. The set-up must start before any build, and its end must be
        awaited before any test."""
        self.lab_steps = []
        self.addCleanup(lambda: self.assertEqual(self.lab_steps, ["started", "finished"]))
        return {"start_setting_up_the_lab": lambda: self.lab_steps.append("started") or ("a process", "its log"),
                "finish_setting_up_the_lab": lambda *_: self.lab_steps.append("finished")}

    def run_main(self, built, arguments=()):
        """Runs main(). Each build returns `built`. Returns the names of the tested builds, without the order in which the
        release build and the others took turns, and the exit status."""
        self.environments = {}
        tested, testing, units_done, beside = [], threading.Event(), threading.Event(), threading.Event()

        def build(run, _count, prefix=list):
            # The builds with sanitizers must run while the tests of the release build run. They get only the
            # processor time that those leave.
            self.environments[run.name] = run.environment
            self.assertEqual(prefix(), [] if run.name == "release" else IDLE)
            self.assertTrue(run.name == "release" or testing.wait(60))
            return built

        def run_tests(run, count, is_wanted, prefix=list):
            testing.set()
            unit, system = ({"suite": ["rdmc:" + name]} for name in ("fabric", "system"))
            if run.name != "release":
                self.assertTrue(units_done.is_set())
                if not beside.is_set():  # So the tests of the release build have not ended yet.
                    self.assertEqual(prefix(), LESS)
                beside.set()
                self.prefix = prefix
            elif is_wanted(unit):
                self.assertFalse(is_wanted(system))
                units_done.set()
            else:
                self.assertTrue(is_wanted(system))
                # The tests under the sanitizers must run at the same time.
                self.assertTrue("--quick" in arguments or beside.wait(60))
            tested.append(run.name)
            count.passed += 1

        replaced = {"build": build, "run_tests": run_tests, **self.lab()}
        with mock.patch.multiple(run_checks, **replaced), contextlib.redirect_stdout(io.StringIO()):
            status = run_checks.main(arguments)
            self.said = sys.stdout.getvalue()
        return sorted(tested, key=lambda name: name != "release"), status

    def test_sanitized_builds_and_tests_fill_the_time_that_release_tests_leave_over(self):
        self.assertEqual(self.run_main(True), (["release", "release", "sanitized", "threads"], 0))
        self.assertEqual(self.prefix(), [])  # The tests of the release build are over.

    def test_after_the_release_tests_what_runs_gets_its_normal_share(self):
        usual = (os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0))
        for prefix in ("prefix", "prefix_of_tests"):
            if prefix == "prefix_of_tests" and os.geteuid() != 0:
                continue  # Only root may give a task more again.
            left_over = run_checks.LeftOverTime()
            command = [*getattr(left_over, prefix)(), "sh", "-c", "echo begun; sleep 1000 & wait"]
            with self.subTest(prefix), subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
                try:
                    process.stdout.readline()
                    tasks = lambda: {(os.sched_getscheduler(task), os.getpriority(os.PRIO_PROCESS, task))
                                     for task in left_over._tasks() if task != os.getpid()}
                    self.assertNotIn(usual, tasks())
                    left_over.end()
                    self.assertEqual(tasks(), {usual})
                finally:
                    os.killpg(process.pid, signal.SIGKILL)

    def test_quick_leaves_the_sanitizers_out(self):
        self.assertEqual(self.run_main(True, ["--quick"]), (["release", "release"], 0))

    def test_what_cannot_be_built_is_not_tested_and_nobody_waits_for_it(self):
        self.assertEqual(self.run_main(False, ["--quick"]), ([], 1))

    def test_each_run_has_the_tests_of_its_suites(self):
        def runs_of(*suites):
            return [run.name for run in run_checks.RUNS if run.has({"suite": ["rdmc:" + suite for suite in suites] or ["rdmc"]})]
        self.assertEqual(runs_of("threads"), ["release", "sanitized", "threads"])
        self.assertEqual(runs_of(), ["release", "sanitized"])
        self.assertEqual(runs_of("system"), ["release"])

    def test_seeds_are_the_usual_ones_unless_asked_for(self):
        self.run_main(True)
        self.assertEqual(self.environments["release"], {})
        self.run_main(True, ["--seeds", "77"])
        self.assertEqual(self.environments["release"], {"RDMC_FIRST_SEED": "77", "RC_PARAMS": "seed=77"})
        sanitized = self.environments["sanitized"]
        self.assertEqual((sanitized["RDMC_SEEDS"], sanitized["RDMC_FIRST_SEED"]), ("40", "77"))
        self.assertEqual(sanitized["RC_PARAMS"].split(), ["max_success=12", "seed=77"])
        self.assertEqual(self.environments["threads"]["RDMC_FIRST_SEED"], "77")

    def test_random_seeds_are_printed_so_that_they_can_be_repeated(self):
        drawn = set()
        for _ in range(2):
            self.run_main(True, ["--seeds", "random"])
            seed = self.environments["release"]["RDMC_FIRST_SEED"]
            self.assertEqual(re.findall(r"`\./check --seeds (\d+)`", self.said), [seed])
            drawn.add(seed)
        self.assertEqual(len(drawn), 2)

    def test_a_seed_that_is_no_number_is_refused(self):
        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
            run_checks.main(["--seeds", "many"])


if __name__ == "__main__":
    unittest.main()
