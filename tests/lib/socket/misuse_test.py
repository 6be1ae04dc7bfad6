#!/usr/bin/env python3
"""Tests errors around sockets, by the C functions of librdmc: wrong descriptors, a close during a send, half-closes,
peers that are stopped or killed, RLIMIT_NOFILE, signals, many EAGAINs, linger, threads, and IPv6. The peer is a
separate process that sends back everything that arrives."""
import ctypes
import errno
import os
import resource
import select
import signal
import socket
import struct
import threading
import time
import unittest

from librdmc_calls import PATIENCE, RDMC_SOL_SOCKET, Echo, call, connect, listen, option, receive, receive_all, send, sockaddr


class Misuse(unittest.TestCase):
    def fails(self, error, result):
        self.assertEqual(result, -error, f"not {errno.errorcode[error]}")

    def test_other_descriptors_and_closed_ones_are_named_by_every_call(self):
        ends = os.pipe()
        closed = call("socket", socket.AF_INET, socket.SOCK_STREAM, 0)
        self.assertEqual(call("close", closed), 0)
        for fd, error in ((ends[0], errno.ENOTSOCK), (closed, errno.EBADF), (-1, errno.EBADF)):
            address, length = sockaddr(socket.AF_INET, 1), ctypes.c_uint(16)
            for name, arguments in (("bind", (address, 16)), ("listen", (1,)), ("accept", (None, None)), ("connect", (address, 16)),
                                    ("send", (b"x", 1, 0)), ("recv", (ctypes.create_string_buffer(1), 1, 0)), ("shutdown", (1,)),
                                    ("close", ()), ("pollfd", ()), ("getsockname", (ctypes.create_string_buffer(16), ctypes.byref(length))),
                                    ("getsockopt", (1, 3, ctypes.create_string_buffer(4), ctypes.byref(length))), ("fcntl", (3, 0))):
                with self.subTest(name, fd=fd):
                    self.fails(error, call(name, fd, *arguments))
        for end in ends:
            os.close(end)

    def test_impossible_arguments_are_named(self):
        fd, address = call("socket", socket.AF_INET, socket.SOCK_STREAM, 0), sockaddr(socket.AF_INET, 1)
        self.fails(errno.EAFNOSUPPORT, call("socket", socket.AF_UNIX, socket.SOCK_STREAM, 0))
        self.fails(errno.ESOCKTNOSUPPORT, call("socket", socket.AF_INET, socket.SOCK_DGRAM, 0))
        self.fails(errno.EFAULT, call("connect", fd, None, 16))
        self.fails(errno.EINVAL, call("connect", fd, address, 3))
        self.fails(errno.EAFNOSUPPORT, call("connect", fd, sockaddr(socket.AF_INET6, 1), 28))
        self.fails(errno.EOPNOTSUPP, send(fd, b"x", socket.MSG_OOB))
        self.fails(errno.ENOPROTOOPT, option(fd, 999, b"1234"))
        group = call("socket", socket.AF_INET, socket.SOCK_RDM, 0)
        self.fails(errno.EINVAL, call("listen", group, 1))  # The group has no name.
        self.fails(errno.ENOTCONN, send(group, b"x"))
        self.fails(errno.EOPNOTSUPP, call("shutdown", group, socket.SHUT_WR))
        self.assertEqual((call("close", fd), call("close", group)), (0, 0))

    def test_memory_that_is_not_there_is_named(self):
        listener, port = listen()
        fd, none = connect(port), ctypes.c_size_t(1)
        end, two = call("accept", listener, None, None), ctypes.byref(ctypes.c_uint(16))
        piece = ctypes.create_string_buffer(struct.pack("=QQ", 0, 5))
        for pieces, error in ((ctypes.addressof(piece), errno.EFAULT), (0, errno.EFAULT)):
            header = struct.pack("=QIxxxxQQQQi", 0, 0, pieces, 1, 0, 0, 0).ljust(56, b"\0")
            for name in ("sendmsg", "recvmsg"):
                self.fails(error, call(name, fd, ctypes.create_string_buffer(header), socket.MSG_DONTWAIT))
        for name, arguments in (("poll", (None, none, 0)), ("send", (fd, None, none, 0)), ("recv", (fd, None, none, socket.MSG_DONTWAIT)),
                                ("sendmsg", (fd, None, 0)), ("recvmsg", (fd, None, 0)), ("accept", (listener, piece, None)),
                                ("getsockname", (fd, None, two)), ("getpeername", (fd, piece, None)), ("recv_zc", (end, None, 0)),
                                ("getsockopt", (fd, 1, socket.SO_TYPE, None, two)), ("getsockopt", (fd, 1, socket.SO_TYPE, piece, None)),
                                ("setsockopt", (fd, 1, socket.SO_LINGER, None, 8)), ("bind", (call("socket", 2, 1, 0), None, 16))):
            with self.subTest(name):
                self.fails(errno.EFAULT, call(name, *arguments))
        self.assertEqual((send(fd, b"well"), receive_all(end, 4)), (4, b"well"))

    @unittest.skipIf("RDMC_SANITIZED" in os.environ, "a sanitizer ends the process where memory ends")
    def test_a_gather_or_scatter_of_more_than_any_memory_is_named(self):
        listener, port = listen()
        fd = connect(port)
        accepted, byte = call("accept", listener, None, None), ctypes.create_string_buffer(1)
        for lengths, error in (((2**64 - 1,), errno.EINVAL), ((2**62, 2**62), errno.EINVAL), ((2**61, 2**61), errno.ENOMEM)):
            pieces = b"".join(struct.pack("=QQ", ctypes.addressof(byte), length) for length in lengths)
            room = ctypes.create_string_buffer(pieces)
            header = struct.pack("=QIxxxxQQQQi", 0, 0, ctypes.addressof(room), len(lengths), 0, 0, 0).ljust(56, b"\0")
            for name in ("sendmsg", "recvmsg"):
                with self.subTest(name, lengths=lengths):
                    self.fails(error, call(name, fd, ctypes.create_string_buffer(header), socket.MSG_DONTWAIT))
        for one in (fd, accepted, listener):
            call("close", one)

    def test_gathering_and_scattering_pieces_copies_once_more_and_one_piece_does_not(self):
        listener, port = listen()
        fd = connect(port)
        end, data, room = call("accept", listener, None, None), ctypes.create_string_buffer(b"abcdefgh"), ctypes.create_string_buffer(9)

        def copied(one):
            value, length = ctypes.c_uint64(), ctypes.c_uint(8)
            self.assertEqual(call("getsockopt", one, RDMC_SOL_SOCKET, 4, ctypes.byref(value), ctypes.byref(length)), 0)
            return value.value

        def moved(name, one, at, *lengths):
            pieces, before = b"", copied(one)
            for length in lengths:
                pieces += struct.pack("=QQ", at, length)
                at += length
            pieces = ctypes.create_string_buffer(pieces)
            header = struct.pack("=QIxxxxQQQQi", 0, 0, ctypes.addressof(pieces), len(lengths), 0, 0, 0).ljust(56, b"\0")
            self.assertEqual(call(name, one, ctypes.create_string_buffer(header), 0), 8)
            return copied(one) - before
        for lengths, times in (((8,), 1), ((3, 0, 5), 2)):
            ctypes.memset(room, 0, 9)
            self.assertEqual(moved("sendmsg", fd, ctypes.addressof(data), *lengths), 8 * times)
            self.assertEqual(moved("recvmsg", end, ctypes.addressof(room), *lengths), 8 * times)
            self.assertEqual(room.value, b"abcdefgh")

    def test_a_close_ends_the_sends_of_another_thread_and_resets_the_peer_that_was_to_read_on(self):
        with Echo() as echo:
            fd, ended = connect(echo.port), []
            sender = threading.Thread(target=lambda: ended.append(send(fd, b"x" * 50_000_000)))
            sender.start()
            # After this loop, the send has started.
            while isinstance(receive(fd, 1, socket.MSG_PEEK), int):
                pass
            self.assertEqual(call("close", fd), 0)
            sender.join(PATIENCE)
            self.assertTrue(ended and (0 < ended[0] < 50_000_000 or ended[0] in (-errno.EBADF, -errno.ENOTSOCK)), ended)
            # Other connections must not be disturbed.
            self.assertEqual(self.echoed(connect(echo.port)), b"hello")

    def echoed(self, fd, text=b"hello"):
        self.assertEqual(send(fd, text), len(text))
        return receive_all(fd, len(text))

    def test_no_payload_goes_through_the_kernels_tcp(self):
        def through_tcp():
            """Returns the number of bytes that the TCP connections of this process have sent and received, as the
            kernel counts them (struct tcp_info)."""
            count = 0
            for name in os.listdir("/proc/self/fd"):
                try:
                    with socket.socket(fileno=os.dup(int(name))) as one:
                        if one.family == socket.AF_INET and one.type == socket.SOCK_STREAM:
                            info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 208)
                            count += sum(struct.unpack_from("=Q", info, at)[0] for at in (128, 200))
                except OSError:
                    continue  # It is no socket, or was closed meanwhile.
            return count
        with Echo() as echo:
            fd, data = connect(echo.port), bytes(5_000_000)
            sender = threading.Thread(target=send, args=(fd, data))
            sender.start()
            self.assertEqual(len(receive_all(fd, len(data))), len(data))
            sender.join(PATIENCE)
            # These are the bytes of the control connection.
            self.assertTrue(0 < through_tcp() < 20_000, through_tcp())

    def test_halves_are_closed_one_after_the_other(self):
        with Echo() as echo:
            fd = connect(echo.port)
            self.assertEqual((send(fd, b"all"), call("shutdown", fd, socket.SHUT_WR)), (3, 0))
            self.fails(errno.EPIPE, send(fd, b"more"))
            self.assertEqual((receive_all(fd, 3), receive(fd, 1), receive(fd, 1)), (b"all", b"", b""))
            fd = connect(echo.port)
            self.assertEqual(call("shutdown", fd, socket.SHUT_RD), 0)
            self.assertEqual((send(fd, b"x"), call("close", fd)), (1, 0))

    def test_a_stopped_peer_makes_senders_wait_and_readers_time_out_and_goes_on(self):
        with Echo() as echo:
            fd = connect(echo.port)
            self.assertEqual(self.echoed(fd), b"hello")
            os.kill(echo.process.pid, signal.SIGSTOP)
            # Until the peer has stopped, it may still answer.
            os.waitpid(echo.process.pid, os.WUNTRACED)
            sent = refused = 0
            latest = time.monotonic() + PATIENCE
            # Many calls are refused while the sent bytes are in flight.
            while (refused < 20_000 or sent < 500_000) and time.monotonic() < latest:
                if (count := send(fd, b"y" * 60_000, socket.MSG_DONTWAIT)) > 0:
                    sent += count
                    continue
                self.fails(errno.EAGAIN, count)
                self.fails(errno.EAGAIN, receive(fd, 1, socket.MSG_DONTWAIT))
                refused += 1
            self.assertGreaterEqual(sent, 500_000)
            # A group would have given up a peer that was silent for this long.
            self.assertEqual(option(fd, socket.SO_RCVTIMEO, struct.pack("ll", 1, 500_000)), 0)
            self.fails(errno.EAGAIN, receive(fd, 1))
            self.assertEqual(option(fd, socket.SO_RCVTIMEO, struct.pack("ll", 0, 0)), 0)
            os.kill(echo.process.pid, signal.SIGCONT)
            self.assertEqual(len(receive_all(fd, sent)), sent)
            waiting = []
            reader = threading.Thread(target=lambda: waiting.append(receive(fd, 1)))
            reader.start()
            echo.process.kill()
            reader.join(PATIENCE)
            self.assertEqual(waiting, [-errno.ECONNRESET])

    def test_without_descriptors_calls_say_so_and_a_connection_waits_to_be_accepted(self):
        listener, port = listen()
        fd = connect(port)
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        highest = max(int(name) for name in os.listdir("/proc/self/fd"))
        fill = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 2, before[1]))
        try:
            while True:
                fill.append(os.dup(0))
        except OSError:
            pass
        try:
            self.fails(errno.EMFILE, call("socket", socket.AF_INET, socket.SOCK_STREAM, 0))
            self.fails(errno.EMFILE, call("accept", listener, None, None))
            self.fails(errno.EMFILE, call("pollfd", fd))
            self.assertEqual(send(fd, b"kept"), 4)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
            for each in fill:
                os.close(each)
        end = call("accept", listener, None, None)
        self.assertEqual(receive_all(end, 4), b"kept")

    def test_a_signal_ends_a_blocking_call_unless_its_handler_says_to_restart(self):
        listener, port = listen()
        fd = connect(port)
        end = call("accept", listener, None, None)
        woken, writes = os.pipe()
        os.set_blocking(writes, False)
        # Python installs handlers without SA_RESTART.
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        try:
            self.fails(errno.EINTR, receive(end, 1))
            signal.siginterrupt(signal.SIGALRM, False)

            def after_some_signals():
                for _ in range(5):
                    os.read(woken, 1)
                send(fd, b"z")
            helper = threading.Thread(target=after_some_signals)
            helper.start()
            self.assertEqual(receive(end, 1), b"z")
            helper.join()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.set_wakeup_fd(-1)

    def test_linger_of_0_resets_and_of_n_waits_until_all_is_on_its_way(self):
        listener, port = listen()
        fd = connect(port)
        end = call("accept", listener, None, None)
        option(fd, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.assertEqual(call("close", fd), 0)
        self.fails(errno.ECONNRESET, receive(end, 1))
        fd, data = connect(port), b"w" * 400_000
        end = call("accept", listener, None, None)
        option(fd, socket.SO_LINGER, struct.pack("ii", 1, PATIENCE))
        self.assertEqual(send(fd, data), len(data))
        closing, read = threading.Thread(target=lambda: call("close", fd)), []
        closing.start()
        reader = threading.Thread(target=lambda: read.append(receive_all(end, len(data))))
        reader.start()
        closing.join(PATIENCE)
        reader.join(PATIENCE)
        self.assertTrue(read[0] == data and receive(end, 1) == b"")

    def test_two_threads_share_a_socket_and_many_have_their_own(self):
        with Echo() as echo:
            results = []

            def both_ways(size):
                fd, data = connect(echo.port), os.urandom(size)
                sender = threading.Thread(target=send, args=(fd, data))
                sender.start()
                results.append(receive_all(fd, size) == data)
                sender.join(PATIENCE)
                call("close", fd)
            threads = [threading.Thread(target=both_ways, args=(size,)) for size in [5_000_000] + [200_000] * 7]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(PATIENCE)
            self.assertEqual(results, [True] * 8)

    def test_ipv6_connects_and_says_its_names(self):
        for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
            with Echo(socket.AF_INET6, kind) as echo:
                fd, name = connect(echo.port, socket.AF_INET6, kind), ctypes.create_string_buffer(28)
                self.assertEqual(receive_all(fd, 5) if send(fd, b"hello") == 5 else None, b"hello")
                self.assertEqual(call("getpeername", fd, name, ctypes.byref(ctypes.c_uint(28))), 0)
                self.assertEqual(name.raw[:24], sockaddr(socket.AF_INET6, echo.port)[:24])

    def test_a_pollfd_is_ready_in_poll_and_epoll_beside_others(self):
        with Echo() as echo:
            fd, ends = connect(echo.port), os.pipe()
            self.assertEqual(call("pollfd", fd), fd)
            for poller, readable, patience in ((select.poll(), select.POLLIN, PATIENCE * 1000), (select.epoll(), select.EPOLLIN, PATIENCE)):
                poller.register(fd, readable)
                poller.register(ends[0], readable)
                self.assertEqual(poller.poll(0), [])
                send(fd, b"q")
                self.assertEqual(poller.poll(patience), [(fd, readable)])
                os.write(ends[1], b"p")
                self.assertEqual(sorted(poller.poll(patience)), sorted([(fd, readable), (ends[0], readable)]))
                self.assertEqual((receive(fd, 1), os.read(ends[0], 1)), (b"q", b"p"))
                self.assertEqual(poller.poll(0), [])


if __name__ == "__main__":
    unittest.main()
