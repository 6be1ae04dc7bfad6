#!/usr/bin/env python3
"""Runs the example of the group interface as its users run it. The four processes must all deliver both messages and
exit with 0. With --installed, the test first compiles the example, with only the files that `meson install` has put
into an empty directory."""
import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import installed

RDMC_BCAST = os.environ["RDMC_BCAST"]
COUNT = 4


def free_ports(count):
    """Returns the first of `count` consecutive TCP port numbers that are free at 127.0.0.1 now. Tests that run at the
    same time start their search at other numbers."""
    places = range(17000, 32000, count)
    for turn in range(len(places)):
        first = places[(os.getpid() + turn) % len(places)]
        try:
            for port in range(first, first + count):
                with socket.create_server(("127.0.0.1", port)):
                    pass
            return first
        except OSError:
            continue
    sys.exit("no free ports")


@contextlib.contextmanager
def job(example, count):
    """Starts `count` processes of the example as a job with a host list and a key. Yields them. At the end, their inputs are
    closed and those that were not killed must exit with 0."""
    with tempfile.TemporaryDirectory() as directory:
        key = os.path.join(directory, "key")
        subprocess.run([RDMC_BCAST, "keygen", key], check=True, stdout=subprocess.DEVNULL)
        first = free_ports(count)
        environment = {**os.environ, "RDMC_KEY_FILE": key, "RDMC_HOSTS": f"127.0.0.1:[{first}-{first + count - 1}]"}
        running = [subprocess.Popen([example, "hostlist"], env={**environment, "RDMC_RANK": str(i)}, stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, text=True, bufsize=1) for i in range(count)]
        try:
            yield running
            for process in running:
                process.stdin.close()
                process.stdout.close()
                assert process.wait(timeout=60) in (0, -signal.SIGKILL), process.returncode
        finally:
            for process in running:
                process.kill()


def build_with_installed(build, source, directory):
    """Installs librdmc into `directory` and compiles `source` there. Returns the command line that runs the program."""
    example = os.path.join(directory, "example")
    subprocess.run([os.environ["CXX"], source, *installed.install(build, directory), "-o", example], check=True, cwd=directory)
    return example


def main():
    with tempfile.TemporaryDirectory() as directory:
        if sys.argv[1:2] == ["--installed"]:
            example = build_with_installed(*sys.argv[2:], directory)
        else:
            example = os.environ["RDMC_GROUP_EXAMPLE"]
        key = os.path.join(directory, "key")
        subprocess.run([RDMC_BCAST, "keygen", key], check=True, stdout=subprocess.DEVNULL)
        first = free_ports(COUNT)
        job = {**os.environ, "RDMC_KEY_FILE": key, "RDMC_HOSTS": f"127.0.0.1:[{first}-{first + COUNT - 1}]"}
        running = [subprocess.Popen([example, "hostlist"], env={**job, "RDMC_RANK": str(i)}, stdout=subprocess.PIPE, text=True)
                   for i in range(COUNT)]
        said = [process.communicate(timeout=60)[0] for process in running]
        assert [process.returncode for process in running] == [0] * COUNT, [p.returncode for p in running]
        assert said == [""] + ["message 0: 10000000 times x\nmessage 1: 11 times y\n"] * (COUNT - 1), said


if __name__ == "__main__":
    main()
