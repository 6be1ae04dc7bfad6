#!/usr/bin/env python3
"""Runs Redis' own test suite (Tcl) against one rdmc_kv. The units of access control start servers with options of their own:
kv_redis_server.py stands in for redis-server there. tools/redis_suite fetches the suite; RDMC_REDIS_SUITE names another place
of it. Without it, the test is skipped. kv_redis_skipped.txt lists the tests that are left out, with the reasons.
RDMC_UNITS="unit/sort unit/multi" chooses other units.

Some tests of the suite expect that the machine has time for them. So the units of which a test fails run again, up to twice.
A test that never passes makes this one fail."""
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

from kv_differential_test import Server

HERE = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
SUITE = pathlib.Path(os.environ.get("RDMC_REDIS_SUITE", CACHE / "rdmc/redis/suite"))
# These units start their servers themselves.
STARTED_UNITS = ["unit/auth", "unit/acl", "unit/acl-v2"]
# The units whose tests set limits that other units expect to be as usual are the last ones.
UNITS = os.environ.get("RDMC_UNITS", "").split() or [
    "unit/" + name for name in
    "type/string type/incr type/list type/list-2 type/list-3 type/set type/zset expire multi keyspace scan pubsub protocol sort bitops "
    "bitfield dump querybuf hyperloglog slowlog info-command latency-monitor limits other type/hash".split()] + STARTED_UNITS
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Fewer would mean that the suite has not really run.
LEAST_PASSED = 700


def skipped_names():
    lines = (HERE / "kv_redis_skipped.txt").read_text().splitlines()
    return [line.rsplit(" # ", 1)[0] for line in lines if line and not line.startswith("#")]


def run(folder, options, skip_file, units):
    command = ["./runtest", *options, "--clients", "1", "--durable", "--tags", "-needs:debug -slow", "--skipfile", skip_file]
    for unit in units:
        command += ["--single", unit]
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          timeout=2400)
    return COLOUR.sub("", done.stdout.decode("utf-8", "replace"))


def run_against_one_server(skip_file, units):
    server = Server([os.environ["RDMC_KV"], "serve", "--listen", "HOST:PORT"])
    try:
        output = run(SUITE, ["--host", server.host, "--port", str(server.port)], skip_file, units)
        if server.process.poll() is not None:
            sys.exit(f"rdmc_kv has ended with {server.process.returncode}")
        return output
    finally:
        server.end()


def run_with_started_servers(skip_file, units):
    with tempfile.TemporaryDirectory() as folder:
        suite = pathlib.Path(folder)
        # The suite writes into the folder of its tests.
        shutil.copytree(SUITE / "tests", suite / "tests", ignore=shutil.ignore_patterns("tmp"))
        (suite / "tests/tmp").mkdir()
        shutil.copy(SUITE / "runtest", suite)
        (suite / "src").mkdir()
        (suite / "src/redis-server").symlink_to(HERE / "kv_redis_server.py")
        return run(suite, ["--baseport", str(random.randrange(20000, 29000, 1000)), "--portcount", "1000"], skip_file, units)


def counts_of(output):
    """Returns the results of each unit."""
    counts, unit = {}, None
    for line in output.splitlines():
        if line.startswith("Testing "):
            unit = counts.setdefault(line.split()[1], {"ok": 0, "err": 0, "skip": 0, "ignore": 0})
        found = re.match(r"\[(ok|err|exception|skip|ignore)\]", line)
        if found and unit is not None:
            unit["err" if found[1] == "exception" else found[1]] += 1
    return counts


def main():
    if not (SUITE / "runtest").is_file() or not shutil.which("tclsh"):
        print("Redis' test suite is not here (tools/redis_suite fetches it)")
        return 77
    counts, units = {}, UNITS
    for _ in range(3):
        output = ""
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as skip_file:
            skip_file.write("\n".join(skipped_names()))
            skip_file.flush()
            for run_units, are_started in (run_against_one_server, False), (run_with_started_servers, True):
                if chosen := [unit for unit in units if (unit in STARTED_UNITS) == are_started]:
                    output += run_units(skip_file.name, chosen)
        counts |= counts_of(output)
        units = [unit for unit in UNITS if unit not in counts or counts[unit]["err"]]
        if not units:
            break
        print(f"failed: {' '.join(units)}\n{output[-5000:]}")
    for name, unit in counts.items():
        print(f"{name:20} " + ", ".join(f"{number} {what}" for what, number in unit.items()))
    passed, failed = (sum(unit[what] for unit in counts.values()) for what in ("ok", "err"))
    print(f"{passed} passed, {failed} failed")
    complete = len(counts) == len(UNITS) and (passed >= LEAST_PASSED or "RDMC_UNITS" in os.environ)
    return 0 if complete and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
