#!/usr/bin/env python3
"""Runs the example of the membership as its users run it. Three processes form a group, and the root is killed. Then
the text that is typed at the next root must reach the last process."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "group"))
import example_test

COUNT = 3


def wait_for(process, text):
    """Reads until a line contains `text`. Other lines may come before."""
    for line in process.stdout:
        if text in line:
            return
    sys.exit(f"no line with '{text}'")


def main():
    with example_test.job(os.environ["RDMC_MEMBERSHIP_EXAMPLE"], COUNT) as running:
        roles = {}
        for process in running:
            for line in process.stdout:
                if line.endswith(" of 3\n"):
                    roles[process] = line.split()[0]
                    break
        assert sorted(roles.values()) == ["receiver", "receiver", "root"], roles
        root = next(process for process in running if roles[process] == "root")
        survivors = [process for process in running if process is not root]
        root.stdin.write("first\n")
        for process in survivors:
            wait_for(process, "message 0: first")
        root.kill()
        said = []
        for process in survivors:
            for line in process.stdout:
                if line.endswith(" of 2\n"):
                    said.append(line.split()[0])
                    break
        assert sorted(said) == ["receiver", "root"], said
        survivors[said.index("root")].stdin.write("second\n")
        wait_for(survivors[said.index("receiver")], "message 1: second")


if __name__ == "__main__":
    main()
