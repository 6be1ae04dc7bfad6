#!/usr/bin/env python3
"""kv_beside_redis.py BUILD [--rounds N] [--only TEXT]: measures rdmc_kv beside Redis on this machine, in turns. BUILD is a
build directory. It needs redis-server and redis-benchmark. Prints one line for each comparison: the medians of both, their
ratio, and the lowest and highest ratio of the rounds. Every process is a server of its own, over loopback."""
import argparse
import json
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

REDIS_PORT = 7900
# Name, the option of redis-benchmark, and what each request of it is compared with.
LOADS = {"1 client": ["-c", "1", "-n", "10000"], "50 clients": ["-c", "50", "-n", "100000"],
         "50 clients, -P 16": ["-c", "50", "-P", "16", "-n", "500000"]}


class Servers:
    """Starts processes, and ends them all."""

    def __init__(self):
        self.processes, self.folder = [], tempfile.TemporaryDirectory()

    def start(self, *command):
        self.processes.append(subprocess.Popen(command, cwd=self.folder.name, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                               stderr=subprocess.DEVNULL))
        return self.processes[-1].pid

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()
        self.folder.cleanup()


def cli(host, port, *words):
    run = subprocess.run(["redis-cli", "-h", host, "-p", str(port), *words], capture_output=True, text=True)
    return run.stdout


def wait_until(condition, what):
    deadline = time.monotonic() + 20
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"not within 20 s: {what}")
        time.sleep(0.05)


def requests_per_second(host, port, test, load):
    run = subprocess.run(["redis-benchmark", "-h", host, "-p", str(port), "-t", test, "--csv", *load], capture_output=True, text=True,
                         check=True)
    return float(run.stdout.splitlines()[-1].split(",")[1].strip('"'))


def writes_per_second(build, host, port, *replicas):
    run = subprocess.run([str(build / "bench/peers/kv_writes"), host, str(port), "5000", *replicas], capture_output=True, text=True,
                         check=True)
    return json.loads(run.stdout)["requests_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    if not shutil.which("redis-benchmark"):
        sys.exit("redis-server and redis-benchmark are needed: tools/setup check")
    servers = Servers()
    try:
        compare(arguments, servers)
    finally:
        servers.end()


def compare(arguments, servers):
    kv = str(arguments.build.resolve() / "apps/replicated-kv/rdmc_kv")
    network = f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}"
    members = ",".join(f"{network}.{index}:7000" for index in (1, 2, 3))
    for index in (1, 2, 3):
        servers.start(kv, "serve", "--listen", f"{network}.{index}:7000", "--members", members, "--insecure")
    servers.start(kv, "serve", "--listen", f"{network}.9:7000")
    redis = ["redis-server", "--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--port"]
    for port in (REDIS_PORT, REDIS_PORT + 9):
        servers.start(*redis, str(port))
    for port in (REDIS_PORT + 1, REDIS_PORT + 2):
        servers.start(*redis, str(port), "--replicaof", "127.0.0.1", str(REDIS_PORT))

    def main_of_three():
        return next((f"{network}.{index}" for index in (1, 2, 3)
                     if "role:master" in cli(f"{network}.{index}", 7000, "info", "replication")), None)
    wait_until(lambda: cli(f"{network}.1", 7000, "set", "a", "b") == "OK\n" and main_of_three(), "three servers of rdmc_kv")
    wait_until(lambda: cli("127.0.0.1", REDIS_PORT, "wait", "2", "100") == "2\n", "two replicas of Redis")
    main_server = main_of_three()
    comparisons = {"three: SET, 1 client / Redis with WAIT 2":
                   (lambda: writes_per_second(arguments.build, main_server, 7000),
                    lambda: writes_per_second(arguments.build, "127.0.0.1", REDIS_PORT, "2"))}
    for load, options in LOADS.items():
        for test in ("set", "get"):
            comparisons[f"three: {test.upper()}, {load} / Redis with two asynchronous replicas"] = (
                lambda test=test, options=options: requests_per_second(main_server, 7000, test, options),
                lambda test=test, options=options: requests_per_second("127.0.0.1", REDIS_PORT, test, options))
            comparisons[f"alone: {test.upper()}, {load} / Redis"] = (
                lambda test=test, options=options: requests_per_second(f"{network}.9", 7000, test, options),
                lambda test=test, options=options: requests_per_second("127.0.0.1", REDIS_PORT + 9, test, options))
    for name, (ours, theirs) in comparisons.items():
        if arguments.only not in name:
            continue
        rounds = [(ours(), theirs()) for _ in range(arguments.rounds)]
        ratios = [a / b for a, b in rounds]
        print(f"{name}: {statistics.median(a for a, _ in rounds):.0f} / {statistics.median(b for _, b in rounds):.0f} requests/s, "
              f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})", flush=True)


if __name__ == "__main__":
    main()
