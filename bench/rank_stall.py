#!/usr/bin/env python3
"""rank_stall.py RDMC_RUN RDMC_RANK_STALL [--kills N] [--protocol P] [--fabric F]: measures how long the survivors of a
rank program stand still when a replica is killed. In each run, one replica of rank 0 or rank 1 is killed. The stall is the
longest round trip of any survivor that has begun before the kill or up to 100 ms after it, less the longest one in the
same time before. Prints one JSON object with milliseconds."""
import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import time

SECONDS = 2
NEAR_US = 100_000


def stall_of_run(arguments, chosen):
    """Returns the longest round trip after the kill, and the longest one before it, in microseconds."""
    run = subprocess.Popen([arguments.rdmc_run, "--json", "-n", "2", "-r", "2", "--protocol", arguments.protocol, "--fabric",
                            arguments.fabric, arguments.rdmc_rank_stall, str(SECONDS)], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    pids = [json.loads(run.stdout.readline())["pid"] for _ in range(4)]
    time.sleep(chosen.uniform(0.5, 0.8))
    killed = time.monotonic_ns() // 1000
    os.kill(chosen.choice(pids), signal.SIGKILL)
    errors = run.communicate()[1]
    if run.returncode != 0:
        raise SystemExit(errors)
    after, before = 0, 0
    for line in errors.splitlines():
        words = line.split()
        if len(words) < 4 or words[-4] != "stall":
            continue
        begin, length = int(words[-2]), int(words[-1])
        if begin < killed + NEAR_US and begin + length > killed:
            after = max(after, length)
        elif killed - 400_000 < begin < killed:
            before = max(before, length)
    return after, before


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rdmc_run")
    parser.add_argument("rdmc_rank_stall")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--protocol", default="sdr")
    parser.add_argument("--fabric", default="auto")
    arguments = parser.parse_args()
    chosen = random.Random(1)
    stalls, usual = [], []
    for _ in range(arguments.kills):
        after, before = stall_of_run(arguments, chosen)
        stalls.append(after / 1000)
        usual.append(before / 1000)
    print(json.dumps({"protocol": arguments.protocol, "fabric": arguments.fabric, "kills": arguments.kills,
                      "stall_p50_ms": statistics.median(stalls), "stall_p90_ms": sorted(stalls)[len(stalls) * 9 // 10],
                      "stall_most_ms": max(stalls), "longest_round_trip_before_p50_ms": statistics.median(usual)}))


if __name__ == "__main__":
    main()
