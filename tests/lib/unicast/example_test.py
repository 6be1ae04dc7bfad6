#!/usr/bin/env python3
"""Runs the example of the unicast interface as its users run it: one process has a counter, and another one adds to it.
With --installed, the test first compiles the example, with only the files that `meson install` has put into an empty
directory."""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import installed

RDMC_BCAST = os.environ["RDMC_BCAST"]


def main():
    with tempfile.TemporaryDirectory() as directory:
        if sys.argv[1:2] == ["--installed"]:
            build, source = sys.argv[2:]
            example = os.path.join(directory, "example")
            subprocess.run([os.environ["CXX"], source, *installed.install(build, directory), "-o", example], check=True, cwd=directory)
        else:
            example = os.environ["RDMC_UNICAST_EXAMPLE"]
        key = os.path.join(directory, "key")
        subprocess.run([RDMC_BCAST, "keygen", key], check=True, stdout=subprocess.DEVNULL)
        serving = subprocess.Popen([example, key], stdout=subprocess.PIPE, text=True)
        port = serving.stdout.readline().strip()
        subprocess.run([example, key, port], check=True, timeout=60)
        said = serving.communicate(timeout=60)[0]
        assert (serving.returncode, said) == (0, "counter: 2\n"), (serving.returncode, said)


if __name__ == "__main__":
    main()
