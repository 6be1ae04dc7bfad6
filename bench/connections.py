#!/usr/bin/env python3
"""connections: measures the cost of connections between the sockets of two processes: connects and closes per
second, and the resources of idle connections.

The first connect is not counted, because it dials and authenticates. The second connection between the two processes
is also made before the clock starts. Needs a release build. Prints one JSON object. Exit status: 0 if everything was
measured, 2 if not."""
import argparse
import ctypes
import json
import os
import pathlib
import resource
import socket
import struct
import sys
import time

TOP = pathlib.Path(__file__).resolve().parent.parent


class Sockets:
    """The socket calls of librdmc, or of the C library."""

    def __init__(self, library, prefix):
        self.library, self.prefix = ctypes.CDLL(library, use_errno=True), prefix

    def call(self, name, *arguments):
        result = getattr(self.library, self.prefix + name)(*arguments)
        if result < 0:
            error = ctypes.get_errno()
            raise OSError(error, f"{name}: {os.strerror(error)}")
        return result

    def open(self):
        return self.call("socket", socket.AF_INET, socket.SOCK_STREAM, 0)


def address(port):
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton("127.0.0.1") + bytes(8)


def resident(process):
    for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError("no VmRSS")


def cpu_seconds(process):
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def serve(calls, ready, options):
    """Accepts connections. Closes the connections that are counted, and then keeps the idle connections open."""
    listener = calls.open()
    calls.call("bind", listener, address(options.port), 16)
    calls.call("listen", listener, 4096)
    ready.send(b"1")
    for _ in range(options.count + 1):
        calls.call("close", calls.call("accept", listener, None, None))
    for _ in range(options.idle):
        calls.call("accept", listener, None, None)
    ready.send(b"1")
    ready.recv(1)


def measure(calls, ready, server, options):
    def connect():
        ours = calls.open()
        calls.call("connect", ours, address(options.port), 16)
        return ours
    ready.recv(1)
    calls.call("close", connect())
    began = time.monotonic()
    for _ in range(options.count):
        calls.call("close", connect())
    taken = time.monotonic() - began
    before = resident(server) + resident(os.getpid())
    kept = [connect() for _ in range(options.idle)]
    ready.recv(1)
    after = resident(server) + resident(os.getpid())
    used = cpu_seconds(server) + cpu_seconds(os.getpid())
    time.sleep(options.seconds)
    used = cpu_seconds(server) + cpu_seconds(os.getpid()) - used
    return {"connections_per_second": options.count / taken, "idle_connections": len(kept), "resident_bytes": after,
            "bytes_per_connection": (after - before) / max(1, len(kept)), "idle_cores": used / options.seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=TOP / "build", help="the build directory (default: build)")
    parser.add_argument("--tcp", action="store_true", help="the kernel's sockets")
    parser.add_argument("--fabric", default="auto")
    parser.add_argument("--count", type=int, default=20000, help="connections made and closed (default: 20000)")
    parser.add_argument("--idle", type=int, default=10000, help="idle connections (default: 10000)")
    parser.add_argument("--seconds", type=float, default=5, help="for which they are idle (default: 5)")
    parser.add_argument("--port", type=int, default=17701)
    options = parser.parse_args()
    os.environ.update({"RDMC_INSECURE": "1", "RDMC_FABRIC": options.fabric})
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    library = ("libc.so.6", "") if options.tcp else (str(options.build.resolve() / "lib/librdmc.so"), "rdmc_")
    ours, theirs = socket.socketpair()
    server = os.fork()
    if server == 0:
        ours.close()
        serve(Sockets(*library), theirs, options)
        os._exit(0)
    theirs.close()
    try:
        print(json.dumps(measure(Sockets(*library), ours, server, options)))
        ours.send(b"1")
        sys.stdout.flush()
        return 0
    except OSError as error:
        print(f"connections: {error}", file=sys.stderr)
        return 2
    finally:
        ours.close()
        os.waitpid(server, 0)


if __name__ == "__main__":
    sys.exit(main())
