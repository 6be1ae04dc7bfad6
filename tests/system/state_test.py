#!/usr/bin/env python3
"""Kills replicas of a state, the main more often than the others, while all replicas submit events. Another replica takes
the place of each. No event that was answered may be lost, and all replicas must have the same events in the same order.
Prints how long the survivors waited for an answer when the main was killed. RDMC_SEED=N chooses other victims."""
import os
import random
import signal
import statistics
import subprocess
import tempfile
import threading
import time
import unittest

from control_test import free_address
from harness import wait_until

CONTROL = os.environ["RDMC_CONTROL"]
PROCESS = os.environ["RDMC_STATE_PROCESS"]  # state_process.cpp
REPLICAS = 3
KILLS = int(os.environ.get("RDMC_KILLS", "60"))


class Replica:
    """A process, whose output is read by a thread."""

    def __init__(self, store, name):
        self.name, self.lines, self.answers = name, [], []
        self.process = subprocess.Popen([PROCESS, store, str(REPLICAS), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            words = line.split()
            if words[0] == "answered":
                self.answers.append((int(words[1]), int(words[2])))
            else:
                self.lines.append(line.strip())

    def has(self, line):
        if line in self.lines:
            return True
        if self.process.poll() is not None and not self.reader.is_alive() and line not in self.lines:
            raise AssertionError(f"{self.name} has ended: {self.process.stderr.read()}")
        return False

    def say(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        for stream in self.process.stdin, self.process.stdout, self.process.stderr:
            stream.close()


class State(unittest.TestCase):
    def start(self):
        self.started += 1
        replica = Replica(self.store, f"r{self.started}")
        self.addCleanup(replica.end)
        return replica

    def test_no_answered_event_is_lost_whoever_is_killed(self):
        folder = tempfile.TemporaryDirectory(prefix="rdmc-state-")
        self.addCleanup(folder.cleanup)
        self.store = free_address()
        node = subprocess.Popen([CONTROL, "serve", "--insecure", "--directory", folder.name, "--listen", self.store],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(node.wait)
        self.addCleanup(node.kill)
        self.started = 0
        seed = int(os.environ.get("RDMC_SEED", "1"))
        chosen = random.Random(seed)
        running = [self.start() for _ in range(REPLICAS)]
        dead, stalls = [], []
        for _ in range(KILLS):
            wait_until(lambda: all(replica.has("complete") and replica.answers for replica in running), "all are complete")
            wait_until(lambda: any(replica.has("main") for replica in running), "there is a main")
            time.sleep(chosen.uniform(0, 0.1))
            main = next(replica for replica in reversed(running) if replica.has("main"))
            victim = main if chosen.random() < 0.7 else chosen.choice(running)
            before = time.monotonic_ns() // 1000
            victim.process.send_signal(signal.SIGKILL)
            running.remove(victim)
            dead.append(victim)
            if victim is main:
                first = wait_until(lambda: [min((at for _, at in replica.answers if at > before), default=None)
                                            for replica in running
                                            if replica.answers[-1][1] > before + 1000], "the service goes on")
                stalls.append((min(filter(None, first)) - before) / 1000)
            running.append(self.start())
        wait_until(lambda: all(replica.has("complete") for replica in running), "all are complete")
        for replica in running:
            replica.say("stop")
        for replica in running:
            wait_until(lambda: replica.has("stopped"), "the replicas submit no more")
        for replica in dead:
            replica.end()
        answered = {f"{replica.name}:{number}" for replica in running + dead for number, _ in replica.answers}
        for replica in running:
            replica.say(running[0].name)  # This one submits the last event.
        for replica in running:
            wait_until(lambda: replica.has("end"), "the events are printed")
        events = [[line for line in replica.lines if ":" in line] for replica in running]
        for other in events[1:]:
            self.assertEqual(other, events[0], f"seed {seed}")
        self.assertEqual(len(set(events[0])), len(events[0]), "an event was applied twice")
        self.assertEqual(answered - set(events[0]), set(), f"lost, seed {seed}")
        for replica in running + dead:
            numbers = [int(line.split(":")[1]) for line in events[0] if line.startswith(replica.name + ":")]
            self.assertEqual(numbers, list(range(1, len(numbers) + 1)))
        print(f"{len(stalls)} mains killed, {KILLS} replicas in all, {len(answered)} events answered: the service stood still "
              f"for {statistics.median(stalls):.1f} ms at the median, {max(stalls):.1f} ms at most")


if __name__ == "__main__":
    unittest.main()
