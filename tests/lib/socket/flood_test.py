#!/usr/bin/env python3
"""Tests a peer that sends more than this process has memory for. Only the connections with this peer may be lost."""
import ctypes
import errno
import resource
import select
import socket
import subprocess
import sys
import unittest

from librdmc_calls import PATIENCE, Child, Echo, call, connect, listen, receive_all, send


def flood(kind, port, count, size):
    """Waits for a line of input, and then sends more than the listening process has memory for."""
    fds = [connect(port, kind=kind) for _ in range(count)]
    sys.stdin.readline()
    for fd in fds:
        send(fd, bytes(size))
    sys.stdin.read()


READ_AT_MOST = 1 << 20


def reads_of_a_group(port, room):
    """Joins a group. If `room` is not 0, limits this process to `room` more bytes of memory. Each line of input is a
    number of messages to read. Prints the sizes of these messages."""
    fd = connect(port, kind=socket.SOCK_RDM)
    print(fd, flush=True)
    buffer = ctypes.create_string_buffer(READ_AT_MOST)
    if room:
        resource.setrlimit(resource.RLIMIT_AS, (used_memory() + room, resource.RLIM_INFINITY))
    for line in sys.stdin:
        print(*(call("recv", fd, buffer, ctypes.c_size_t(len(buffer)), 0) for _ in range(int(line))), flush=True)


def used_memory():
    with open("/proc/self/statm", encoding="ascii") as pages:
        return int(pages.read().split()[0]) * resource.getpagesize()


class Member(Child):
    def __init__(self, port, room=0):
        self.process = subprocess.Popen([sys.executable, __file__, "--member", str(port), str(room)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert int(self.process.stdout.readline()) >= 0

    def ask(self, count):
        self.process.stdin.write(b"%d\n" % count)
        self.process.stdin.flush()

    def read(self, count=1):
        self.ask(count)
        return [int(word) for word in self.process.stdout.readline().split()]


class Groups(unittest.TestCase):
    def test_a_member_without_memory_for_a_message_is_told(self):
        root, port = listen(kind=socket.SOCK_RDM)
        with Member(port, 60 << 20) as poor:
            self.assertEqual((send(root, b"small"), poor.read()), (5, [5]))
            self.assertEqual(send(root, bytes(200 << 20)), 200 << 20)
            self.assertEqual(poor.read(2), [-errno.ENOBUFS, 0])
        call("close", root)

    def test_a_root_is_held_up_by_who_does_not_read_messages_of_nothing_until_it_does(self):
        root, port = listen(kind=socket.SOCK_RDM)
        with Member(port) as member:
            sent = 0
            while (said := send(root, b"", socket.MSG_DONTWAIT)) == 0 and sent < 2_000_000:
                sent += 1
            self.assertEqual(said, -errno.EAGAIN)
            member.ask(sent + 1)
            self.assertEqual(send(root, b"last"), 4)
            self.assertEqual(member.process.stdout.readline().split(), [b"0"] * sent + [b"4"])
        call("close", root)


class Flood(unittest.TestCase):
    def test_a_peer_that_sends_more_than_there_is_memory_for_is_lost_and_nobody_else(self):
        # The peer sends 100 MB in the first round and 128 MB in the second one, but only 40 MB can be
        # allocated. In the second round, the memory that the allocator has kept from the first round is
        # available, too.
        for kind, count, size in ((socket.SOCK_STREAM, 400, 250_000), (socket.SOCK_SEQPACKET, 8, 16 << 20)):
            listener, port = listen(kind=kind)
            flooder = subprocess.Popen([sys.executable, __file__, "--flood", *map(str, (int(kind), port, count, size))], stdin=subprocess.PIPE)
            with Echo() as echo:
                ends = [call("accept", listener, None, None) for _ in range(count)]
                fd, poller, before = connect(echo.port), select.poll(), resource.getrlimit(resource.RLIMIT_AS)
                for end in ends:
                    poller.register(call("pollfd", end), select.POLLRDHUP)
                resource.setrlimit(resource.RLIMIT_AS, (used_memory() + (40 << 20), before[1]))
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
    if sys.argv[1:2] == ["--member"]:
        sys.exit(reads_of_a_group(*map(int, sys.argv[2:])))
    unittest.main()
