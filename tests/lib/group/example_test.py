#!/usr/bin/env python3
"""The example of the group interface, run as its users run it: four processes, all deliver both messages, all exit 0."""
import os
import socket
import subprocess
import sys
import tempfile

EXAMPLE, RDMC_BCAST = os.environ["RDMC_GROUP_EXAMPLE"], os.environ["RDMC_BCAST"]
COUNT = 4


def free_ports(count):
    """The first of `count` TCP ports in a row that are free at 127.0.0.1 now."""
    for first in range(17000, 60000, count):
        try:
            for port in range(first, first + count):
                with socket.create_server(("127.0.0.1", port)):
                    pass
            return first
        except OSError:
            continue
    sys.exit("no free ports")


def main():
    with tempfile.TemporaryDirectory() as directory:
        key = os.path.join(directory, "key")
        subprocess.run([RDMC_BCAST, "keygen", key], check=True, stdout=subprocess.DEVNULL)
        first = free_ports(COUNT)
        job = {**os.environ, "RDMC_KEY_FILE": key, "RDMC_HOSTS": f"127.0.0.1:[{first}-{first + COUNT - 1}]"}
        running = [subprocess.Popen([EXAMPLE, "hostlist"], env={**job, "RDMC_RANK": str(i)}, stdout=subprocess.PIPE, text=True)
                   for i in range(COUNT)]
        said = [process.communicate(timeout=60)[0] for process in running]
        assert [process.returncode for process in running] == [0] * COUNT, [p.returncode for p in running]
        assert said == [""] + ["message 0: 10000000 times x\nmessage 1: 11 times y\n"] * (COUNT - 1), said


if __name__ == "__main__":
    main()
