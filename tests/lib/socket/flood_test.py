#!/usr/bin/env python3
"""A peer that sends more than this process has memory for."""
import ctypes
import errno
import resource
import select
import socket
import subprocess
import sys
import unittest

from librdmc_calls import PATIENCE, Echo, call, connect, listen, receive_all, send


def flood(kind, port, count, size):
    """Sends more, once it is told to, than the one who listens there has memory for."""
    fds = [connect(port, kind=kind) for _ in range(count)]
    sys.stdin.readline()
    for fd in fds:
        send(fd, bytes(size))
    sys.stdin.read()


class Flood(unittest.TestCase):
    def test_a_peer_that_sends_more_than_there_is_memory_for_is_lost_and_nobody_else(self):
        for kind, count, size in ((socket.SOCK_SEQPACKET, 8, 16 << 20), (socket.SOCK_STREAM, 400, 250_000)):
            listener, port = listen(kind=kind)
            flooder = subprocess.Popen([sys.executable, __file__, "--flood", *map(str, (int(kind), port, count, size))], stdin=subprocess.PIPE)
            with Echo() as echo:
                ends = [call("accept", listener, None, None) for _ in range(count)]
                fd, poller, before = connect(echo.port), select.poll(), resource.getrlimit(resource.RLIMIT_AS)
                for end in ends:
                    poller.register(call("pollfd", end), select.POLLRDHUP)
                with open("/proc/self/statm", encoding="ascii") as pages:
                    used = int(pages.read().split()[0]) * resource.getpagesize()
                resource.setrlimit(resource.RLIMIT_AS, (used + (40 << 20), before[1]))
                try:
                    flooder.stdin.write(b"\n")
                    flooder.stdin.flush()
                    poller.poll(PATIENCE * 1000)
                finally:
                    resource.setrlimit(resource.RLIMIT_AS, before)
                flooder.kill()
                flooder.communicate()
                room = ctypes.create_string_buffer(1 << 20)
                said = [call("recv", end, room, ctypes.c_size_t(len(room)), socket.MSG_DONTWAIT) for end in ends for _ in range(2)]
                self.assertIn(-errno.ENOBUFS, said)
                self.assertEqual((send(fd, b"hello"), receive_all(fd, 5)), (5, b"hello"))
                for each in (*ends, fd, listener):
                    call("close", each)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--flood"]:
        sys.exit(flood(*map(int, sys.argv[2:])))
    unittest.main()
