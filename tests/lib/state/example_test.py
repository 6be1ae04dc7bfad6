#!/usr/bin/env python3
"""Runs the example of replicated states as its users run it. Three processes keep a list alike. The main is killed, and the
others must still have the lines that were added, and add more."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "group"))
import example_test

COUNT = 3


def wait_for(process, *lines):
    """Reads until each of the lines has come. Other lines may come before."""
    missing = set(lines)
    for line in process.stdout:
        missing.discard(line.strip())
        if not missing:
            return
    sys.exit(f"no line {missing}")


def role(process, count):
    """Reads until the process has its part in a group of `count` processes that all have the whole state."""
    for line in process.stdout:
        if line.endswith(f" of {count}\n"):
            return line.split()[0]
    sys.exit("the process has no part in the group")


def say(process, line):
    process.stdin.write(line + "\n")
    process.stdin.flush()


def main():
    with example_test.job(os.environ["RDMC_STATE_EXAMPLE"], COUNT) as running:
        roles = {process: role(process, COUNT) for process in running}
        assert sorted(roles.values()) == ["main", "replica", "replica"], roles
        for i, process in enumerate(running):
            say(process, f"line {i}")
            wait_for(process, f"added: line {i}")
        killed = next(process for process in running if roles[process] == "main")
        killed.kill()
        survivors = [process for process in running if process is not killed]
        assert sorted(role(process, COUNT - 1) for process in survivors) == ["main", "replica"]
        for i, process in enumerate(survivors):
            say(process, f"more {i}")
            wait_for(process, f"added: more {i}")
        for process in survivors:
            say(process, "show")
            wait_for(process, *(f"- line {i}" for i in range(COUNT)), "- more 0", "- more 1")


if __name__ == "__main__":
    main()
