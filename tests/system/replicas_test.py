#!/usr/bin/env python3
"""Kills replicas of running rank programs, at any time and several at once, but never all of one rank. The survivors must
print the same result as a run without deaths, and so must those that replace the dead. RDMC_SEED=N chooses other victims
and times; a failing case prints its own."""
import json
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import uuid

from harness import MARK, PATIENCE, processes_marked, wait_until

RUN = os.environ["RDMC_RUN"]
PROGRAMS = json.loads(os.environ["RDMC_EXAMPLES"])  # The file of each example.
LOST = 124
# Runs that take some tenths of a second on a quiet machine.
OPTIONS = {"stencil": ("--size", 64, "--iterations", 600), "cg": ("--size", 64, "--iterations", 250),
           "alltoall": ("--size", 128, "--iterations", 60)}
PROTOCOLS = {"sdr": ("--protocol", "sdr"), "strict sdr": ("--protocol", "sdr", "--strict"), "mirror": ("--protocol", "mirror")}
RANKS = 3
KILLS, KILLS_OF_REPLACED = 200, 300
CHECKS = os.environ["RDMC_RANK_CHECKS"]  # rank_checks.cpp
# The same programs with more iterations: a run lasts for several seconds if replicas are killed all the time.
LONG = {"stencil": ("--size", 64, "--iterations", 4000), "cg": ("--size", 64, "--iterations", 1500),
        "alltoall": ("--size", 128, "--iterations", 500)}


def strike(process, number):
    """Sends the signal, unless the process has ended. Returns false if it has."""
    try:
        if process is not None:
            signal.pidfd_send_signal(process, number)
        return process is not None
    except ProcessLookupError:
        return False


class Run:
    """A run whose events are read by a thread."""

    def __init__(self, case, *words, stdin=subprocess.DEVNULL):
        self.case, self.started, self.events = case, time.monotonic(), []
        self.process = subprocess.Popen([RUN, "--json", *map(str, words)], stdin=stdin, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=case.environment)
        self.reader = threading.Thread(target=lambda: self.events.extend(map(json.loads, self.process.stdout)))
        self.reader.start()

    def processes(self, count):
        """Waits until all processes have started. Returns a descriptor of each (rank, replica) that has not ended yet. The
        descriptor means this process even after its end, when another one may have its number."""
        started = lambda: [event for event in list(self.events) if event["event"] == "started"]
        wait_until(lambda: len(started()) == count or self.process.poll() is not None, "the processes have started")
        found = {}
        for event in started():
            try:
                found[event["rank"], event["replica"]] = descriptor = os.pidfd_open(event["pid"])
                self.case.addCleanup(os.close, descriptor)
            except ProcessLookupError:
                pass
        return found

    def living(self, killed):
        """The processes that have started and have neither died nor been killed, as {(rank, replica): pid}."""
        found = {}
        for event in list(self.events):
            if event["event"] == "started" and event["pid"] not in killed:
                found[event["rank"], event["replica"]] = event["pid"]
            elif event["event"] == "died" and found.get((event["rank"], event["replica"])) == event["pid"]:
                del found[event["rank"], event["replica"]]
        return found

    def keep_killing(self, chance, most, degree):
        """Kills replicas until `most` were killed or the run ends. A rank always keeps a replica that has started. Sometimes
        the next victim is the newest process, another replica of the same rank, or one of each rank."""
        killed, last = set(), None
        while len(killed) < most and self.process.poll() is None:
            living = self.living(killed)
            spare = lambda rank: sum(other == rank for other, _ in living) > 1
            victims = [who for who in living if spare(who[0])]
            if not victims:
                time.sleep(0.002)
                continue
            newest = max(victims, key=lambda who: [event.get("pid") for event in self.events].index(living[who]))
            same = [who for who in victims if last and who[0] == last[0]]
            kind = chance.randrange(5)
            chosen = [newest] if kind == 0 else [chance.choice(same)] if kind == 1 and same else [chance.choice(victims)]
            if kind == 2:
                chosen = [chance.choice([who for who in victims if who[0] == rank]) for rank in {rank for rank, _ in victims}]
            for last in chosen:
                killed.add(living[last])
                try:
                    os.kill(living[last], signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if kind != 0 or chance.random() < 0.5:
                time.sleep(chance.uniform(0, 0.1 / degree))
        return killed

    def wait(self):
        # Its errors are read while it runs, because a full pipe would stop it.
        errors = []
        other = threading.Thread(target=lambda: errors.append(self.process.stderr.read()))
        other.start()
        try:
            self.process.wait(2 * PATIENCE)
        finally:
            self.process.kill()
            self.reader.join()
            other.join()
            self.errors = errors[0]
            self.process.stderr.close()
            self.process.stdout.close()
        self.seconds = time.monotonic() - self.started
        self.output = [event["line"] for event in self.events if event["event"] == "output"]
        summary = next((event for event in self.events if event["event"] == "summary"), {})
        self.deaths, self.respawns, self.differing = (summary.get(key) for key in ("deaths", "respawns", "differing"))
        return self


class Replicas(unittest.TestCase):
    def setUp(self):
        self.mark = uuid.uuid4().hex
        folder = tempfile.TemporaryDirectory(prefix="rdmc-replicas-")
        self.environment = {**os.environ, MARK: self.mark, "XDG_RUNTIME_DIR": folder.name}
        self.addCleanup(folder.cleanup)
        self.addCleanup(lambda: wait_until(lambda: not processes_marked(self.mark), "every process has ended", 10))

    def start(self, name, degree, protocol="sdr", *options):
        return Run(self, "-n", RANKS, "-r", degree, *PROTOCOLS[protocol], *options, PROGRAMS[name], *OPTIONS[name])

    def assert_right(self, run, checksum):
        self.assertEqual((run.process.returncode, run.output), (0, checksum), run.errors)

    def test_a_run_with_replicas_prints_what_one_without_them_prints(self):
        for name in OPTIONS:
            checksum = self.start(name, 1).wait().output
            for protocol in PROTOCOLS:
                for fabric in "auto", "udp":
                    for degree in 2, 3:
                        with self.subTest(name=name, protocol=protocol, fabric=fabric, degree=degree):
                            run = self.start(name, degree, protocol, "--fabric", fabric).wait()
                            self.assert_right(run, checksum)
                            self.assertEqual(run.deaths, 0, run.errors)

    def test_ranks_of_different_degrees_print_the_same(self):
        for name in OPTIONS:
            with tempfile.NamedTemporaryFile("w") as degrees:
                degrees.write("0 3\n1 1\n2 2\n")
                degrees.flush()
                with self.subTest(name=name):
                    self.assert_right(self.start(name, 1, "sdr", "--replica-map", degrees.name).wait(),
                                      self.start(name, 1).wait().output)

    def kill_some(self, run, degree, seconds):
        """Kills all replicas but one of each rank at random times, while the run takes about `seconds`. Half of them die
        at once after the one before."""
        running = run.processes(RANKS * degree)
        victims = [(self.random.uniform(0, seconds), self.random.random() < 0.5, (rank, replica)) for rank in range(RANKS)
                   for replica in self.random.sample(range(degree), degree - 1)]
        for when, waits, victim in sorted(victims):
            if waits:
                time.sleep(max(0, run.started + when - time.monotonic()))
            strike(running.get(victim), signal.SIGKILL)

    def test_the_survivors_print_the_result_whoever_dies(self):
        seed = int(os.environ.get("RDMC_SEED", "1"))
        usual = {name: self.start(name, 3).wait() for name in OPTIONS}
        kills, number = 0, 0
        while kills < KILLS:
            number += 1
            name, protocol = list(OPTIONS)[number % 3], list(PROTOCOLS)[number // 3 % 3]
            degree = 2 if number % 4 == 0 else 3
            fabric = "udp" if number % 5 == 0 else "auto"
            self.random = random.Random(seed * 1_000_003 + number)
            run = self.start(name, degree, protocol, "--fabric", fabric, "--no-respawn")
            self.kill_some(run, degree, usual[name].seconds)
            run.wait()
            with self.subTest(seed=seed, number=number, name=name, protocol=protocol, degree=degree, fabric=fabric):
                self.assert_right(run, usual[name].output)
            self.assertEqual(run.respawns, 0)
            kills += run.deaths or 0
            self.assertLess(number, 4 * KILLS, "the processes end before they can be killed")

    def test_dead_replicas_are_replaced_whoever_dies(self):
        seed = int(os.environ.get("RDMC_SEED", "1"))
        usual = {name: Run(self, "-n", RANKS, "-r", 1, PROGRAMS[name], *LONG[name]).wait().output for name in LONG}
        kills, respawns, number = 0, 0, 0
        while kills < KILLS_OF_REPLACED:
            number += 1
            name, protocol = list(LONG)[number % 3], list(PROTOCOLS)[number // 3 % 3]
            degree, fabric = 2 + number % 2, "udp" if number % 5 == 0 else "auto"
            chance = random.Random(seed * 1_000_003 + number)
            run = Run(self, "-n", RANKS, "-r", degree, *PROTOCOLS[protocol], "--fabric", fabric, PROGRAMS[name], *LONG[name])
            killed = run.keep_killing(chance, 30, degree)
            run.wait()
            with self.subTest(seed=seed, number=number, name=name, protocol=protocol, degree=degree, fabric=fabric):
                self.assert_right(run, usual[name])
                self.assertEqual({event["pid"] for event in run.events if event["event"] == "died"} - killed, set(), run.errors)
            kills += run.deaths or 0
            respawns += run.respawns or 0
            self.assertLess(number, KILLS_OF_REPLACED, "the processes end before they can be killed")
        self.assertGreater(respawns, kills / 10)

    def test_injected_failures_change_nothing(self):
        usual = self.start("cg", 1).wait()
        for protocol in "sdr", "mirror":
            for options in (), ("--no-respawn",):
                with self.subTest(protocol=protocol, options=options):
                    run = Run(self, "-n", RANKS, "-r", 2, *PROTOCOLS[protocol], "--inject-failures", "15:5", *options,
                              PROGRAMS["cg"], *OPTIONS["cg"]).wait()
                    self.assert_right(run, usual.output)
                    summary = run.events[-1]
                    self.assertLessEqual(summary["deaths"], summary["injected"])
                    self.assertTrue(all("--inject-failures" in event["cause"] for event in run.events if event["event"] == "died"))
                    if options:
                        self.assertLessEqual(summary["injected"], RANKS)
                        self.assertEqual(summary["respawns"], 0)

    def test_each_line_is_printed_once_though_replicas_are_replaced(self):
        while True:  # On a busy machine, a run can end before a process is replaced.
            run = Run(self, "-n", RANKS, "-r", 2, CHECKS, "prints")
            run.keep_killing(random.Random(1), 10, 2)
            run.wait()
            self.assertEqual(run.process.returncode, 0, run.errors)
            self.assertEqual(run.differing, 0, run.errors)
            for rank in range(RANKS):
                lines = [line for line in run.output if line.startswith(f"rank {rank} ")]
                self.assertEqual(lines, [f"rank {rank} line {number}" for number in range(4000)])
            if run.respawns:
                break

    def test_a_replica_that_is_replaced_goes_on_in_the_input(self):
        lines = [f"{number} " + "x" * (number % 200) for number in range(20_000)]
        while True:
            with tempfile.TemporaryFile("w+") as file:
                file.write("\n".join(lines) + "\n")
                file.seek(0)
                run = Run(self, "-n", 2, "-r", 2, CHECKS, "reads", stdin=file)
                run.keep_killing(random.Random(2), 10, 2)
                run.wait()
            self.assertEqual(run.process.returncode, 0, run.errors)
            self.assertEqual([line for line in run.output if line != "right"], lines)
            if run.respawns:
                break

    def test_everything_works_with_replicas_that_are_replaced(self):
        for scenario in "communicators", "collectives", "exchange", "writes", "late":
            with self.subTest(scenario=scenario):
                run = Run(self, "-n", 4, "-r", 2, CHECKS, scenario)
                run.keep_killing(random.Random(3), 8, 2)
                run.wait()
                self.assertEqual((run.process.returncode, run.output), (0, ["right"]), run.errors)

    def test_a_program_with_threads_goes_on_with_fewer_replicas(self):
        run = Run(self, "-n", 2, "-r", 2, CHECKS, "threads")
        running = run.processes(4)
        for rank in 0, 1:
            strike(running.get((rank, 0)), signal.SIGKILL)
        run.wait()
        self.assertEqual((run.process.returncode, run.output, run.respawns), (0, ["right"], 0), run.errors)
        if run.deaths:
            self.assertEqual(run.errors.count("dead replicas are not replaced any more"), 1, run.errors)

    def test_a_replica_that_stops_for_a_while_goes_on(self):
        for name in OPTIONS:
            usual = self.start(name, 2).wait()
            while True:  # On a busy machine, a run can end before its process is stopped.
                run = self.start(name, 2)
                process = run.processes(2 * RANKS).get((1, 0))
                is_stopped = strike(process, signal.SIGSTOP)
                time.sleep(1)
                strike(process, signal.SIGCONT)
                self.assert_right(run.wait(), usual.output)
                self.assertEqual(run.deaths, 0, run.errors)
                if is_stopped:
                    break

    def test_the_death_of_all_replicas_of_a_rank_ends_the_run(self):
        run = Run(self, "-n", RANKS, "-r", 2, PROGRAMS["stencil"], "--size", 64, "--iterations", 1 << 30)
        running = run.processes(2 * RANKS)
        for replica in 0, 1:
            self.assertTrue(strike(running[1, replica], signal.SIGKILL))
        run.wait()
        self.assertEqual(run.process.returncode, LOST, run.errors)
        self.assertIn("rank 1 is lost", run.errors)


if __name__ == "__main__":
    unittest.main()
