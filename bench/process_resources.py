#!/usr/bin/env python3
"""process_resources: measures the resources of a process that has three groups, ten sockets and a membership with 15
other processes at the same time. The resources are threads, descriptors and memory (the proportional set size). Also
measures the time until the mesh of all processes is formed. By the end of the last step, every group and every
socket has carried 1 MB, and every window was written to. All processes have a key unless --insecure is given.

Starts rdmc_process_resources of the named build directory. If several directories are named, it measures them one
after the other, so that one run compares two versions. Prints one JSON object for each directory. Needs a release
build. Exit status: 0 if everything was measured, 2 if not."""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time


class Process:
    def __init__(self, program, rank, arguments, environment):
        self.process = subprocess.Popen([program, "--rank", str(rank), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment})

    def step(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"a process ended with {self.process.wait()}")
        return json.loads(line)

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def held(self):
        """Returns the number of threads and of descriptors, and the memory in bytes."""
        folder = pathlib.Path(f"/proc/{self.process.pid}")
        memory = re.search(r"^Pss:\s+(\d+) kB", (folder / "smaps_rollup").read_text(), re.M)
        return {"threads": len(list((folder / "task").iterdir())), "descriptors": len(list((folder / "fd").iterdir())),
                "memory": int(memory.group(1)) * 1024}


def run(build, count, fabric, port, insecure):
    """Returns, for each step, the resources of a process at the end of the step, as medians over all processes, and
    the seconds that the slowest process has taken."""
    directory = tempfile.TemporaryDirectory()
    arguments = ["--count", str(count), "--port", str(port + 1), "--store", f"127.0.0.1:{port}", "--fabric", fabric]
    environment = {"RDMC_FABRIC": fabric, "HOME": directory.name}
    if insecure:
        environment["RDMC_INSECURE"], identity = "1", ["--insecure"]
    else:  # The sockets find the key here.
        key = pathlib.Path(directory.name, ".config/rdmc/key")
        key.parent.mkdir(parents=True)
        subprocess.run([build / "apps/bcast-cli/rdmc_bcast", "keygen", key], check=True, stdout=subprocess.DEVNULL)
        identity = ["--key-file", str(key)]
        arguments += identity
    state = pathlib.Path(directory.name, "store")
    state.mkdir()
    store = subprocess.Popen([build / "apps/control/rdmc_control", *identity, "serve", "--listen", f"127.0.0.1:{port}",
                              "--directory", state], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    processes = [Process(build / "bench/rdmc_process_resources", rank, arguments, environment) for rank in range(count)]
    steps = {}
    try:
        while True:
            told = [process.step() for process in processes]
            time.sleep(1)  # In this time, resources that were needed only during the step are released.
            held = [process.held() for process in processes]
            steps[told[0]["step"]] = {"seconds": max(one["seconds"] for one in told),
                                      **{what: statistics.median(one[what] for one in held) for what in held[0]}}
            if told[0]["step"] == "used":
                return steps
            for process in processes:
                process.go_on()
    finally:
        for process in [*(p.process for p in processes), store]:
            process.kill()
            process.wait()
        directory.cleanup()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", nargs="*", type=pathlib.Path, default=[pathlib.Path("build")])
    parser.add_argument("--count", type=int, default=16)
    parser.add_argument("--fabric", default="udp")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--insecure", action="store_true", help="without authentication")
    parser.add_argument("--port", type=int, default=20000, help="the first of those that are used")
    options = parser.parse_args()
    results = {str(build): [] for build in options.builds}
    port = options.port
    for _ in range(options.rounds):
        for build in options.builds:
            try:
                results[str(build)].append(run(build, options.count, options.fabric, port, options.insecure))
            except (OSError, RuntimeError) as error:
                print(f"process_resources: {error}", file=sys.stderr)
                return 2
            port += 2 * options.count + 1  # Addresses that were in use a moment ago may not be free yet.
    for build, rounds in results.items():
        median = {step: {what: statistics.median(one[step][what] for one in rounds) for what in rounds[0][step]} for step in rounds[0]}
        print(json.dumps({"build": build, "count": options.count, "fabric": options.fabric, "steps": median}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
