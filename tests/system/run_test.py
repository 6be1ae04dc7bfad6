#!/usr/bin/env python3
"""Tests rdmc_run with small programs: what is printed, what is read, how runs end, and what is left behind. The tests
wait for what happens. Only a failing test reaches the time limit."""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest
import uuid

from harness import MARK, PATIENCE, processes_marked, wait_until

RUN = os.environ["RDMC_RUN"]  # The program under test.
RANK_PROCESS = os.environ["RDMC_RANK_PROCESS"]  # rank_process.cpp
LOST, CANNOT_START, INTERRUPTED = 124, 125, 130


class Run:
    """A running rdmc_run. Threads read its output, line by line."""

    def __init__(self, case, *words, **options):
        self.lines, self.errors = [], []
        self.process = subprocess.Popen([RUN, *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env=case.environment, **options)
        case.addCleanup(self.end)
        self.readers = [threading.Thread(target=self.read, args=(self.process.stdout, self.lines)),
                        threading.Thread(target=self.read, args=(self.process.stderr, self.errors))]
        for reader in self.readers:
            reader.start()

    @staticmethod
    def read(pipe, lines):
        for line in pipe:
            lines.append(line)

    def feed(self, text):
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def signal(self, number):
        self.process.send_signal(number)

    def wait_for_lines(self, count):
        wait_until(lambda: len(self.lines) >= count or self.process.poll() is not None, f"{count} lines")
        return self.lines

    def wait(self):
        """Closes the input, waits for the end, and returns this object, which then has the results."""
        self.process.stdin.close()
        self.code = self.process.wait(PATIENCE)
        for reader in self.readers:
            reader.join(PATIENCE)
            assert not reader.is_alive(), "a process still holds the output open"
        self.output, self.complaints = "".join(self.lines), "".join(self.errors)
        return self

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                pipe.close()
            except BrokenPipeError:
                pass

    # The following functions are for runs with --json.

    def events(self, kind):
        return [event for event in map(json.loads, list(self.lines)) if event["event"] == kind]

    def pids(self, count):
        """Waits until `count` processes were started. Returns the pid of each (rank, replica)."""
        wait_until(lambda: len(self.events("started")) == count, "all processes were started")
        return {(event["rank"], event["replica"]): event["pid"] for event in self.events("started")}

    def outputs(self, rank=0):
        return [event["line"] for event in self.events("output") if event["rank"] == rank]


class RunCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rdmc-run-"))
        self.mark = uuid.uuid4().hex
        self.environment = {**os.environ, MARK: self.mark, "XDG_RUNTIME_DIR": str(self.folder)}
        self.addCleanup(self.audit)

    def audit(self):
        """Runs after the cleanup of the test. No process of a run may be left, and no file of it."""
        try:
            wait_until(lambda: not processes_marked(self.mark), "every process has ended", 10)
            files = [path for path in (self.folder / "rdmc").glob("*")] if not getattr(self, "leaves_files", False) else []
            self.assertEqual(files, [])
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, *words, **options):
        return Run(self, *words, **options)

    def run_shell(self, script, *options, text=""):
        """Runs the shell script in each process. Returns the Run when it has ended."""
        run = self.start(*options, "sh", "-c", script)
        if text:
            run.feed(text)
        return run.wait()


class Output(RunCase):
    def test_each_rank_is_printed_once(self):
        run = self.run_shell("echo one; echo two", "-n", 3, "-r", 2, "--label")
        self.assertEqual(run.code, 0, run.complaints)
        self.assertEqual(sorted(run.lines), sorted(f"{rank}: {word}\n" for rank in range(3) for word in ("one", "two")))
        self.assertEqual(run.complaints, "")
        self.assertEqual(self.run_shell("echo one", "-n", 2).output, "one\none\n")

    def test_lines_that_replicas_have_printed_survive_kills_at_random_points(self):
        chance = random.Random(7)
        for _ in range(8):
            run = self.start("--json", "-n", 1, "-r", 3, "sh", "-c", "while read x; do echo $x; echo twice $x; done")
            pids = run.pids(3)
            victims = dict(zip(sorted(chance.sample(range(1, 60), 2)), chance.sample(sorted(pids.values()), 2)))
            for number in range(60):
                if number in victims:
                    os.kill(victims[number], signal.SIGKILL)
                run.feed(f"{number}\n")
                if chance.random() < 0.3:
                    wait_until(lambda: len(run.outputs()) == 2 * (number + 1), "the lines are printed")
            run.wait()
            self.assertEqual(run.code, 0, run.complaints)
            self.assertEqual(run.outputs(), [line for number in range(60) for line in (f"{number}", f"twice {number}")])
            self.assertEqual({event["pid"] for event in run.events("died")}, set(victims.values()))
            self.assertTrue(all("SIGKILL" in event["cause"] for event in run.events("died")))
            self.assertEqual(run.events("summary")[0]["deaths"], 2)
            self.assertEqual(run.events("summary")[0]["differing"], 0)

    def test_kills_during_fast_output_lose_no_line(self):
        chance = random.Random(8)
        script = "i=0; while [ $i -lt 4000 ]; do echo $RDMC_RUN_RANK line $i; i=$((i+1)); done"
        for _ in range(5):
            run = self.start("--json", "-n", 2, "-r", 2, "sh", "-c", script)
            pids = run.pids(4)
            for rank in range(2):
                run.wait_for_lines(chance.randrange(4, 4000))
                try:
                    os.kill(pids[rank, chance.randrange(2)], signal.SIGKILL)
                except ProcessLookupError:
                    pass  # The replica has already ended.
            run.wait()
            self.assertEqual(run.code, 0, run.complaints)
            for rank in range(2):
                self.assertEqual(run.outputs(rank), [f"{rank} line {i}" for i in range(4000)])

    def test_an_unfinished_last_line_is_printed_also_of_a_dead_replica(self):
        self.assertEqual(self.run_shell("printf 'a\\nb'", "-n", 1).output, "a\nb")
        run = self.run_shell("[ $RDMC_RUN_REPLICA = 1 ] || { printf 'a\\nbcd'; kill -KILL $$; }; printf 'a\\nb'; kill -KILL $$", "-n", 1)
        self.assertEqual((run.code, run.output), (LOST, "a\nbcd"))

    def test_a_replica_that_differs_is_named_once(self):
        run = self.run_shell("echo same; echo is $RDMC_RUN_REPLICA; echo is $RDMC_RUN_REPLICA again", "-n", 2, "-r", 2)
        self.assertEqual(run.code, 0)
        for rank in range(2):
            said = [line for line in run.errors if f"output of rank {rank} differs" in line]
            self.assertEqual(len(said), 1, run.complaints)
            self.assertIn("line 2", said[0])
            self.assertIn("'is 0'", said[0])
            self.assertIn("'is 1'", said[0])
        self.assertEqual(len(run.lines), 6)

    def test_standard_error_is_passed_on_by_lines_with_its_replica(self):
        run = self.run_shell("printf 'x\\ny' >&2", "-n", 2, "-r", 2)
        self.assertEqual(sorted(run.errors), sorted(f"{rank}.{replica}: {text}\n" for rank in range(2) for replica in range(2) for text in "xy"))
        self.assertEqual(run.output, "")

    def test_a_replica_that_is_stopped_delays_no_other_and_is_compared_later(self):
        run = self.start("-n", 1, "-r", 2, "sh", "-c",
                         "[ $RDMC_RUN_REPLICA = 0 ] || { echo stops >&2; kill -STOP $$; }; seq 1000000 | sed 's/^77777$/x/'")
        wait_until(lambda: run.errors, "one replica has stopped")
        run.wait_for_lines(1000000)
        status = pathlib.Path(f"/proc/{run.process.pid}/status").read_text()
        self.assertLess(int(re.search(r"VmHWM:\s+(\d+)", status)[1]), 64 << 10, "memory in KiB")
        self.assertIsNone(run.process.poll())
        for pid, command in processes_marked(self.mark):
            if command.startswith("sh "):
                os.kill(pid, signal.SIGCONT)
        run.wait()
        self.assertEqual((run.code, len(run.lines)), (0, 1000000), run.complaints)
        self.assertNotIn("differs", run.complaints)

    def test_a_program_whose_output_has_no_reader_ends(self):
        run = subprocess.run(f"{RUN} -n 1 yes | head -n 1", shell=True, capture_output=True, text=True, timeout=PATIENCE, check=False,
                             env=self.environment)
        self.assertEqual(run.stdout, "y\n")
        self.assertIn("SIGPIPE", run.stderr)


class Input(RunCase):
    def test_all_replicas_of_rank_0_get_the_input_and_other_ranks_get_none(self):
        run = self.run_shell("cat | md5sum >&2", "-n", 2, "-r", 2, text="some text\n" * 200000)
        sums = {line[:3]: line.split()[1] for line in run.errors}
        self.assertEqual(run.code, 0)
        self.assertEqual(sums["0.0"], sums["0.1"])
        self.assertEqual(sums["1.0"], sums["1.1"])
        self.assertEqual(sums["1.0"], "d41d8cd98f00b204e9800998ecf8427e")  # The MD5 of nothing.

    def test_a_replica_that_reads_nothing_delays_no_other(self):
        # One replica ends before it has read all, and one waits for a file that the other one makes after its input.
        script = ("case $RDMC_RUN_REPLICA in 0) wc -c; touch done;; 1) read x;; *) while [ ! -e done ]; do sleep 0.01; done; wc -c;; esac")
        run = self.start("-n", 1, "-r", 3, "sh", "-c", script, cwd=self.folder)
        run.feed("0123456789abcde\n" * 250000)
        run.wait()
        self.assertEqual((run.code, run.output), (0, "4000000\n"), run.complaints)

    def test_a_file_can_be_the_input(self):
        path = self.folder / "input"
        path.write_text("text\n")
        with open(path, encoding="ascii") as source:
            done = subprocess.run([RUN, "-n", "1", "cat"], stdin=source, capture_output=True, text=True, timeout=PATIENCE, check=False,
                                  env=self.environment)
        self.assertEqual((done.returncode, done.stdout), (0, "text\n"))


class Ends(RunCase):
    def test_the_exit_code_is_the_highest_one(self):
        self.assertEqual(self.run_shell("exit $((RDMC_RUN_RANK * 3))", "-n", 3).code, 6)
        self.assertEqual(self.run_shell("true", "-n", 3).code, 0)

    def test_a_rank_without_replicas_is_named_and_ends_the_run(self):
        run = self.start("--json", "-n", 3, "-r", 2, "sh", "-c", "trap '' TERM; while :; do sleep 1; done")
        pids = run.pids(6)
        os.kill(pids[1, 0], signal.SIGKILL)
        wait_until(lambda: run.events("died"), "the death is seen")
        self.assertIsNone(run.process.poll())
        os.kill(pids[1, 1], signal.SIGKILL)
        run.wait()
        self.assertEqual(run.code, LOST)
        self.assertIn("rank 1 is lost", run.complaints)
        self.assertEqual([(event["rank"], event["replica"]) for event in run.events("died")], [(1, 0), (1, 1)])
        self.assertEqual(run.events("summary")[0]["exit"], LOST)

    def test_a_program_that_cannot_be_executed_is_named(self):
        for program, reason in ((self.folder / "none", "No such file"), (self.folder, "Permission denied")):
            run = self.start("-n", 2, program).wait()
            self.assertEqual(run.code, CANNOT_START)
            self.assertIn(str(program), run.complaints)
            self.assertIn(reason, run.complaints)

    def test_wrong_usage_is_told(self):
        (self.folder / "map").write_text("0 2\n5 1\n")
        for words in (["true"], ["-n", 0, "true"], ["-n", 2], ["-n", 2, "--bogus", "true"], ["-n", 2, "--protocol", "none", "true"],
                      ["-n", 2, "--agree", "dice", "true"], ["-n", 20000, "true"], ["-n", 2, "--replica-map", self.folder / "map", "true"],
                      ["-n", 2, "--replica-map", self.folder / "none", "true"]):
            run = self.start(*words).wait()
            self.assertEqual((run.code, run.output), (CANNOT_START, ""), words)
            self.assertNotEqual(run.complaints, "")

    def test_signals_reach_the_program(self):
        wait = "echo ready; sleep 1000 & wait"
        run = self.start("-n", 2, "sh", "-c", f"trap 'echo one; exit 7' USR1; trap 'exit 8' USR2; {wait}")
        run.wait_for_lines(2)
        self.wait_until_all_are_ready(4)
        run.signal(signal.SIGUSR1)
        run.wait()
        self.assertEqual((run.code, run.output), (7, "ready\nready\none\none\n"), run.complaints)
        for number in (signal.SIGINT, signal.SIGTERM):
            run = self.start("-n", 1, "sh", "-c", f"trap 'echo bye; exit 0' {number.name[3:]}; {wait}")
            self.wait_until_all_are_ready(2)
            run.signal(number)
            run.wait()
            self.assertEqual((run.code, run.output), (INTERRUPTED, "ready\nbye\n"), run.complaints)

    def test_a_second_interrupt_kills_at_once(self):
        run = self.start("-n", 1, "sh", "-c", "trap 'echo no' TERM; echo ready; while :; do sleep 1000 & wait; done")
        self.wait_until_all_are_ready(2)
        run.signal(signal.SIGTERM)
        run.wait_for_lines(2)
        run.signal(signal.SIGTERM)
        run.wait()
        self.assertEqual(run.code, INTERRUPTED)

    def test_a_process_that_does_not_end_is_killed_after_an_interrupt(self):
        run = self.start("-n", 1, "sh", "-c", "trap '' INT TERM; echo ready; while :; do sleep 1000; done")
        run.wait_for_lines(1)
        run.signal(signal.SIGTERM)
        self.assertEqual(run.wait().code, INTERRUPTED)

    def wait_until_all_are_ready(self, count):
        """Waits until `count` shells have started their `sleep`. Then their traps are set."""
        wait_until(lambda: sum(command.startswith("sleep 1000") for _, command in processes_marked(self.mark)) == count, "all are ready")

    def test_nothing_survives_when_rdmc_run_is_killed(self):
        self.leaves_files = True
        run = self.start("-n", 2, "sh", "-c", "echo ready; sleep 1000 & wait")
        self.wait_until_all_are_ready(4)
        self.assertGreater(len(processes_marked(self.mark)), 8)
        run.signal(signal.SIGKILL)
        run.process.wait(PATIENCE)
        wait_until(lambda: not processes_marked(self.mark), "every process has ended")

    def test_processes_that_the_program_leaves_behind_are_killed(self):
        run = self.run_shell("sleep 1000 & echo done", "-n", 1)
        self.assertEqual((run.code, run.output), (0, "done\n"))


class Joined(RunCase):
    """Programs that join the run."""

    def run_ranks(self, *words, script="exec $P $W", options=()):
        self.environment |= {"P": RANK_PROCESS, "W": " ".join(words)}
        return self.run_shell(script, "--json", *options)

    def test_finished_processes_have_exit_codes_and_counters(self):
        run = self.run_ranks("print=hello", "finish=5", "exit=3", options=("-n", 2, "-r", 2))
        self.assertEqual(run.code, 3, run.complaints)
        self.assertEqual([run.outputs(0), run.outputs(1)], [["hello"], ["hello"]])
        summary = run.events("summary")[0]
        self.assertEqual((summary["messages"], summary["deaths"]), (20, 0))

    def test_a_process_that_exits_without_finishing_has_died(self):
        run = self.run_ranks(options=("-n", 2, "-r", 1))
        self.assertEqual(run.code, LOST)
        self.assertIn("exited without finishing", run.complaints)
        self.assertIn("is lost", run.complaints)

    def test_the_others_learn_of_a_death_and_go_on(self):
        run = self.run_ranks(script="case $RDMC_RUN_RANK.$RDMC_RUN_REPLICA in 0.1) exec $P exit=4;; *) exec $P died finish=1;; esac",
                             options=("-n", 2, "-r", 2))
        self.assertEqual(run.code, 0, run.complaints)
        for rank in range(2):
            self.assertEqual(run.outputs(rank), ["0.1: exited with code 4 without finishing"])
        self.assertEqual(len(run.events("died")), 1)

    def test_a_process_that_dies_before_the_start_is_known_to_the_others(self):
        run = self.run_ranks(script="case $RDMC_RUN_RANK.$RDMC_RUN_REPLICA in 1.0) exit 0;; *) exec $P finish=1;; esac",
                             options=("-n", 2, "-r", 2))
        self.assertEqual(run.code, 0, run.complaints)
        self.assertEqual(run.events("died")[0]["cause"], "exited without joining")

    def test_an_abort_ends_all(self):
        run = self.run_ranks(script="case $RDMC_RUN_RANK.$RDMC_RUN_REPLICA in 1.0) exec $P abort=42;; *) exec $P launcher;; esac",
                             options=("-n", 2, "-r", 2))
        self.assertEqual(run.code, 42, run.complaints)
        self.assertIn("replica 1.0 has aborted the run", run.complaints)

    def test_a_process_that_has_ended_its_link_may_still_say_why(self):
        run = self.run_ranks(script="case $RDMC_RUN_REPLICA in 1) exec $P close print=why exit=9;; *) exec $P died print=why finish=1;; esac",
                             options=("-n", 1, "-r", 2))
        self.assertEqual(run.code, 0, run.complaints)
        self.assertIn("exited with code 9 without finishing", run.events("died")[0]["cause"])

    def test_programs_of_a_process_do_not_get_the_key(self):
        run = self.run_ranks("child", "finish=1", options=("-n", 1))
        self.assertEqual(run.code, 0, run.complaints)

    def test_processes_end_when_rdmc_run_is_killed(self):
        self.leaves_files = True
        run = self.start("-n", 2, RANK_PROCESS, "print=ready", "launcher")
        run.wait_for_lines(2)
        run.signal(signal.SIGKILL)
        run.process.wait(PATIENCE)
        wait_until(lambda: not processes_marked(self.mark), "every process has ended")


class Surroundings(RunCase):
    def test_environment_and_working_directory_are_passed_on(self):
        self.environment |= {"SOME_NAME": "some value", "RDMC_RUN_RANK": "77", "RDMC_RUN_OLD": "1"}
        run = self.start("-n", 1, "--strict", "--lag", "64K", "--agree", "time,random", "--verify", "hash", "--fabric", "shm", "sh", "-c",
                         "pwd; echo $SOME_NAME; env | grep ^RDMC_RUN_O; echo $RDMC_RUN_RANK $RDMC_RUN_DEGREES", cwd=self.folder).wait()
        self.assertEqual(run.output, f"{self.folder}\nsome value\n"
                         "RDMC_RUN_OPTIONS=agree=time,random;fabric=shm;lag=65536;strict=1;verify=hash\n0 2\n")

    def test_a_map_names_the_degree_of_each_rank(self):
        (self.folder / "map").write_text("# the first rank is important\n0 3\n2-3 1\n")
        run = self.start("-n", 4, "--replica-map", self.folder / "map", "--json", "true").wait()
        self.assertEqual([(event["rank"], event["replica"]) for event in run.events("started")],
                         [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0), (3, 0)])

    def test_the_key_is_not_in_the_environment_and_only_two_more_descriptors_are_open(self):
        # While the shell begins a pipeline, its pipes are open, too. So each replica writes the list to a file first.
        listed = f"{self.folder}/descriptors.$RDMC_RUN_REPLICA"
        run = self.run_shell(f"ls /proc/$$/fd > {listed}; sort -n {listed} | tr '\\n' ' '; env | grep -c rdmc-key", "-n", 1)
        self.assertRegex(run.output, r"^0 1 2 (10 )?100 101 0\n$")

    def test_ps_lists_the_runs_and_removes_what_dead_ones_have_left(self):
        def listed():
            return json.loads(subprocess.run([RUN, "ps", "--json"], capture_output=True, text=True, timeout=PATIENCE, check=True,
                                             env=self.environment).stdout)["runs"]
        self.assertEqual(listed(), [])
        run = self.start("-n", 2, "--json", "sh", "-c", "while read x; do :; done; sleep 1000")
        pids = run.pids(4)
        wait_until(lambda: listed() and listed()[0]["replicas_alive"] == 4, "the run is listed")
        one = listed()[0]
        self.assertEqual((one["pid"], one["ranks"], one["replicas"]), (run.process.pid, 2, 4))
        self.assertIn("while read x", one["program"])
        os.kill(pids[1, 0], signal.SIGKILL)
        wait_until(lambda: listed()[0]["replicas_alive"] == 3, "the death is listed")
        table = subprocess.run([RUN, "ps"], capture_output=True, text=True, timeout=PATIENCE, check=True, env=self.environment).stdout
        self.assertIn("3 of 4", table)
        run.signal(signal.SIGKILL)
        run.process.wait(PATIENCE)
        self.assertEqual(len(list((self.folder / "rdmc").glob("run-*"))), 1)
        self.assertEqual(listed(), [])
        self.assertEqual(list((self.folder / "rdmc").glob("run-*")), [])

    def test_a_folder_that_others_can_use_is_refused(self):
        (self.folder / "rdmc").mkdir()
        (self.folder / "rdmc").chmod(0o755)
        run = self.start("-n", 1, "echo", "hi").wait()
        self.assertEqual((run.code, run.output), (0, "hi\n"))
        self.assertIn("does not list this run", run.complaints)

    def test_help_and_version_are_printed(self):
        for words in (["--help"], ["ps", "--help"]):
            run = self.start(*words).wait()
            self.assertEqual((run.code, run.complaints), (0, ""))
        self.assertRegex(self.start("--version").wait().output, r"^rdmc_run \d")


if __name__ == "__main__":
    unittest.main(verbosity=2)
