#!/usr/bin/env python3
"""Tests that a child of fork() has none of its parent's sockets: it cannot use them, and it does not keep them alive
when the parent has died."""
import errno
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import unittest

from librdmc_calls import Echo, call, connect, listen, option, receive, receive_all, send, sockaddr


def well_in_child(function):
    """Runs `function` in a child process. Returns true if it returned true there."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if function() else 1)
        finally:
            os._exit(2)
    return os.waitpid(child, 0)[1] == 0


def echoed(fd, text):
    return send(fd, text) == len(text) and receive_all(fd, len(text)) == text


def is_refused(fd):
    return send(fd, b"x") == receive(fd, 1) == call("pollfd", fd) == -errno.EOPNOTSUPP


def fork_and_wait():
    """Acts as a parent that has a connection and a listener. The parent makes a child, which does not use them and
    lives until its standard input ends."""
    listener, port = listen()
    print(port, flush=True)
    call("accept", listener, None, None)
    child = os.fork()
    if child == 0:
        sys.stdin.read()
        os._exit(0)
    print(child, flush=True)
    signal.pause()


class Fork(unittest.TestCase):
    def test_a_child_has_none_of_its_parents_sockets_may_make_its_own_and_disturbs_nobody(self):
        with Echo() as echo:
            fd = connect(echo.port)

            def child():
                own = connect(echo.port)
                return is_refused(fd) and call("close", fd) == 0 and own >= 0 and echoed(own, b"mine")
            self.assertTrue(well_in_child(child))
            self.assertTrue(echoed(fd, b"still"))

    def test_a_grandchild_has_neither_its_parents_nor_theirs(self):
        with Echo() as echo:
            fd = connect(echo.port)

            def child():
                own = connect(echo.port)
                return well_in_child(lambda: is_refused(fd) and is_refused(own)) and echoed(own, b"mine")
            self.assertTrue(well_in_child(child))
            self.assertTrue(echoed(fd, b"still"))

    def test_numbers_that_mean_something_else_by_now_are_no_longer_the_parents(self):
        with Echo() as echo:
            fd, address = connect(echo.port), sockaddr(socket.AF_INET, echo.port)

            def child():
                os.closerange(3, 1000)
                os.dup2(0, fd)
                is_left_alone = call("close", fd) == -errno.ENOTSOCK and os.fstat(fd) == os.fstat(0)
                os.close(fd)
                while call("socket", socket.AF_INET, socket.SOCK_STREAM, 0) < fd:
                    pass  # Each socket gets the lowest free number, so the last one gets `fd`.
                return (is_left_alone and call("connect", fd, address, len(address)) == 0 and echoed(fd, b"mine") and
                        call("close", fd) == 0 and call("close", fd) < 0)
            self.assertTrue(well_in_child(child))
            self.assertTrue(echoed(fd, b"still"))

    def test_a_child_keeps_no_socket_and_no_ring_of_its_parents(self):
        with Echo() as echo:
            known = [connect(echo.port), listen()[0]]
            self.assertTrue(echoed(known[0], b"hello"))
            call("pollfd", known[0])

            def child():
                files = [os.readlink(entry) for entry in pathlib.Path("/proc/self/fd").iterdir() if entry.is_symlink()]
                kept = [name for name in files if name.startswith(("socket:", "anon_inode:[io_uring]", "/memfd"))]
                # The only kept file is the socket with which the child keeps the descriptor numbers in use.
                return len(set(kept)) == 1
            self.assertTrue(well_in_child(child))
            self.assertTrue(echoed(known[0], b"still"))

    def test_that_a_parent_has_died_its_peer_hears_though_a_child_lives_on(self):
        with subprocess.Popen([sys.executable, __file__, "--fork"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
            port = int(parent.stdout.readline())
            fd = connect(port)
            option(fd, socket.SO_RCVTIMEO, struct.pack("ll", 10, 0))
            child = int(parent.stdout.readline())
            parent.kill()
            self.assertEqual(receive(fd, 1), -errno.ECONNRESET)
            self.assertEqual(connect(port), -errno.ECONNREFUSED)
            os.kill(child, 0)  # This fails if the child no longer lives.
            parent.stdin.close()


if __name__ == "__main__":
    if sys.argv[1:] == ["--fork"]:
        fork_and_wait()
    unittest.main()
