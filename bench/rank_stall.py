#!/usr/bin/env python3
"""rank_stall.py RDMC_RUN RDMC_RANK_STALL [--kills N] [--protocol P] [--fabric F] [--respawn] [--megabytes M]: measures how
long the survivors of a rank program stand still when a replica is killed. In each run, one replica of rank 0 or rank 1 is
killed. The stall is the longest round trip of any survivor that has begun before the kill or up to 100 ms after it, less
the longest one in the same time before. With --respawn, the replica is replaced, and the round trips up to 100 ms after
that count. Each process then has M megabytes of memory. Prints one JSON object with milliseconds."""
import argparse
import json
import random
import os
import signal
import statistics
import subprocess
import threading
import time

SECONDS = 2
NEAR_US = 100_000


def microseconds():
    return time.monotonic_ns() // 1000


def stall_of_run(arguments, chosen):
    """Returns the longest round trip after the kill, the longest one before it, and the time until the new replica has
    joined, in microseconds."""
    run = subprocess.Popen([arguments.rdmc_run, "--json", "-n", "2", "-r", "2", "--protocol", arguments.protocol, "--fabric",
                            arguments.fabric, "--respawn" if arguments.respawn else "--no-respawn", arguments.rdmc_rank_stall,
                            str(SECONDS), str(arguments.megabytes)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)
    started = [json.loads(run.stdout.readline()) for _ in range(4)]
    run.stdout.readline()  # The program begins.
    replaced = []

    def watch():
        for line in run.stdout:
            if json.loads(line).get("respawn"):
                replaced.append(microseconds())

    watcher = threading.Thread(target=watch)
    watcher.start()
    time.sleep(chosen.uniform(0.5, 0.8))
    victim = chosen.choice(started)
    killed = microseconds()
    os.kill(victim["pid"], signal.SIGKILL)
    errors = run.stderr.read()
    watcher.join()
    if run.wait() != 0 or (arguments.respawn and not replaced):
        raise SystemExit(errors or "the run has ended before the replica was replaced")
    end = replaced[0] if arguments.respawn else killed
    after, before = 0, 0
    for line in errors.splitlines():
        words = line.split()
        if len(words) < 4 or words[-4] != "stall" or words[-3] == f"{victim['rank']}.{victim['replica']}":
            continue
        begin, length = int(words[-2]), int(words[-1])
        if begin < end + NEAR_US and begin + length > killed:
            after = max(after, length)
        elif killed - 400_000 < begin < killed:
            before = max(before, length)
    return after, before, end - killed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rdmc_run")
    parser.add_argument("rdmc_rank_stall")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--protocol", default="sdr")
    parser.add_argument("--fabric", default="auto")
    parser.add_argument("--respawn", action="store_true")
    parser.add_argument("--megabytes", type=int, default=0)
    arguments = parser.parse_args()
    chosen = random.Random(1)
    stalls, usual, replaced = [], [], []
    for _ in range(arguments.kills):
        after, before, until = stall_of_run(arguments, chosen)
        stalls.append(after / 1000)
        usual.append(before / 1000)
        replaced.append(until / 1000)
    result = {"protocol": arguments.protocol, "fabric": arguments.fabric, "kills": arguments.kills,
              "stall_p50_ms": statistics.median(stalls), "stall_p90_ms": sorted(stalls)[len(stalls) * 9 // 10],
              "stall_most_ms": max(stalls), "longest_round_trip_before_p50_ms": statistics.median(usual)}
    if arguments.respawn:
        result |= {"megabytes": arguments.megabytes, "replaced_p50_ms": statistics.median(replaced),
                   "replaced_most_ms": max(replaced)}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
