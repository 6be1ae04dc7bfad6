#!/usr/bin/env python3
"""Tests several threads that close the same socket, for every kind of socket, and also while the process exits. The
close of one thread succeeds. All other threads get the error that there is no such socket."""
import ctypes
import errno
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest

from librdmc_calls import PATIENCE, Echo, call, connect, listen, option, receive_all, send

LINGER = struct.pack("ii", 1, 1)  # The linger time is one second.
KINDS = (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_RDM)


class Member:
    """A process that joins a group and never reads."""

    def __init__(self, port):
        self.process = subprocess.Popen([sys.executable, __file__, "--member", str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process.stdout.readline()

    def end(self):
        self.process.communicate()


def root_of_a_member_that_does_not_read():
    """Returns a root and its member. A close of the root waits for the whole linger time."""
    root, port = listen(kind=socket.SOCK_RDM)
    member = Member(port)
    option(root, socket.SO_SNDTIMEO, struct.pack("ll", 0, 300_000))
    while send(root, bytes(1 << 20)) > 0:
        pass
    option(root, socket.SO_LINGER, LINGER)
    return root, member


def to_a_peer_that_does_not_read():
    """Returns a connection and its peer. The connection has more to send than the peer accepts, and its linger time is
    longer than any wait of a test."""
    echo = Echo()
    fd = connect(echo.port)
    os.kill(echo.process.pid, signal.SIGSTOP)
    os.waitpid(echo.process.pid, os.WUNTRACED)
    while send(fd, bytes(60_000), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL) > 0:
        pass
    option(fd, socket.SO_LINGER, struct.pack("ii", 1, PATIENCE))
    return fd, echo


def close_in_threads(fd, count):
    results, together = [], threading.Barrier(count)

    def close():
        together.wait()
        results.append(call("close", fd))
    threads = [threading.Thread(target=close) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(results)


def exit_while_a_thread_closes():
    root, _ = root_of_a_member_that_does_not_read()
    threading.Thread(target=call, args=("close", root), daemon=True).start()
    value, length = ctypes.c_int(), ctypes.c_uint(4)
    # After this loop, the close has started. Its linger time ends much later.
    for _ in range(1000):
        if call("getsockopt", root, socket.SOL_SOCKET, socket.SO_TYPE, ctypes.byref(value), ctypes.byref(length)) < 0:
            break
    ctypes.CDLL(None).exit(7)  # The member ends when its standard input ends.


class Close(unittest.TestCase):
    def test_of_several_threads_that_close_at_once_one_does(self):
        for kind in KINDS:
            for make in (lambda kind: listen(kind=kind)[0], lambda kind: connect(listen(kind=kind)[1], kind=kind)):
                fd = make(kind)
                with self.subTest(kind=kind, fd=fd):
                    self.assertEqual(close_in_threads(fd, 3), [-errno.EBADF, -errno.EBADF, 0])

    def test_while_a_close_lingers_others_find_nothing_to_close(self):
        root, member = root_of_a_member_that_does_not_read()
        self.assertEqual(close_in_threads(root, 2), [-errno.EBADF, 0])
        member.end()

    def test_a_stream_whose_close_lingers_is_closed_already(self):
        listener, port = listen()
        fd = connect(port)
        end = call("accept", listener, None, None)
        sent = send(fd, bytes(1 << 20), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        option(fd, socket.SO_LINGER, LINGER)
        self.assertEqual(close_in_threads(fd, 2), [-errno.EBADF, 0])
        self.assertEqual(len(receive_all(end, sent)), sent)

    def test_a_close_that_lingers_ends_with_its_connection(self):
        fd, echo = to_a_peer_that_does_not_read()
        closing = threading.Thread(target=call, args=("close", fd))
        closing.start()
        echo.process.kill()
        closing.join(PATIENCE / 2)
        self.assertFalse(closing.is_alive())
        echo.process.communicate()

    def test_a_process_that_exits_does_not_linger(self):
        began = time.monotonic()
        with subprocess.Popen([sys.executable, __file__, "--linger"], stdout=subprocess.PIPE) as exiting:
            stopped = int(exiting.stdout.readline())
            code = exiting.wait()
            os.kill(stopped, signal.SIGKILL)
        self.assertEqual(code, 7)
        self.assertLess(time.monotonic() - began, PATIENCE / 2)

    def test_a_process_exits_while_a_thread_of_it_closes(self):
        ended = subprocess.run([sys.executable, __file__, "--exit"], capture_output=True, check=False)
        self.assertEqual((ended.returncode, ended.stderr), (7, b""))


if __name__ == "__main__":
    if sys.argv[1:] == ["--linger"]:
        print(to_a_peer_that_does_not_read()[1].process.pid, flush=True)
        ctypes.CDLL(None).exit(7)
    if sys.argv[1:] == ["--exit"]:
        exit_while_a_thread_closes()
    if sys.argv[1:2] == ["--member"]:
        assert connect(int(sys.argv[2]), kind=socket.SOCK_RDM) > 0
        print("joined", flush=True)
        sys.exit(len(sys.stdin.read()))
    unittest.main()
