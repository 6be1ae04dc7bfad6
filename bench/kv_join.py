#!/usr/bin/env python3
"""kv_join.py BUILD [--size MB] [--rounds N] [--before BUILD]: measures how long requests take while a server joins a service
of rdmc_kv and gets all data from another server. Three servers run on loopback, and have MB megabytes in values of 4 KB. One
client sends one SET after the other, with a pause of 1 ms: first for 5 s, and then from the start of the third server until
it has all data. Prints the percentiles of both, the time until the server has joined, and the most memory of a process. With
--before, the two builds are measured in turns."""
import argparse
import os
import pathlib
import sys
import threading
import time

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests/system"))
VALUE = 4096
BATCH = 500


def fill(connection, size):
    """Sends requests in batches, so that this takes seconds and not minutes."""
    value = "x" * VALUE
    for begin in range(0, size * (1 << 20) // VALUE, BATCH):
        for index in range(begin, begin + BATCH):
            connection.send("SET", f"key{index}", value)
        for _ in range(BATCH):
            connection.receive()


def latencies(connection, is_over):
    taken = []
    while not is_over() or not taken:
        begun = time.perf_counter()
        connection("SET", "probe", "1")
        taken.append((time.perf_counter() - begun) * 1e3)
        time.sleep(0.001)
    return sorted(taken)


def percentiles(taken):
    return f"p50 {taken[len(taken) // 2]:.2f}, p99 {taken[int(len(taken) * 0.99)]:.2f}, longest {taken[-1]:.1f} ms"


def measure(build, size):
    import kv_service  # reads the variables of the environment that main() sets
    kv_service.KV = str(pathlib.Path(build).resolve() / "apps/replicated-kv/rdmc_kv")
    service = kv_service.Service(3)
    try:
        service.wait_until_whole()
        connection = kv_service.Connection(service.addresses[0], 60.0)
        fill(connection, size)
        end = time.monotonic() + 5
        usual = latencies(connection, lambda: time.monotonic() > end)
        service.servers[2].kill()
        time.sleep(1)
        joined = threading.Event()
        begun = time.monotonic()
        service.servers[2].start()
        waiting = threading.Thread(target=lambda: (service.wait_until_whole(), joined.set()))
        waiting.start()
        during = latencies(connection, joined.is_set)
        seconds = time.monotonic() - begun
        waiting.join()
        peaks = [int(line.split()[1]) >> 10 for server in service.servers[:2]
                 for line in pathlib.Path(f"/proc/{server.process.pid}/status").read_text().splitlines() if line.startswith("VmHWM:")]
        print(f"{build}: usual {percentiles(usual)}; while a server joins {percentiles(during)}; "
              f"joined after {seconds:.1f} s; at most {max(peaks)} MB", flush=True)
    finally:
        service.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--before")
    options = parser.parse_args()
    os.environ.setdefault("RDMC_KV", "")
    os.environ.setdefault("RDMC_KV_CHECK_HISTORY", "")
    for _ in range(options.rounds):
        for build in filter(None, (options.build, options.before)):
            measure(build, options.size)


if __name__ == "__main__":
    main()
