#!/usr/bin/env python3
"""What goes wrong around sockets, through the C functions of librdmc: wrong descriptors, closing in mid-send, half-closes, peers
that are stopped or killed, fork, RLIMIT_NOFILE, signals, storms of EAGAIN, linger, threads; and IPv6. The peer is a process of its
own that sends back what comes."""
import ctypes
import errno
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import unittest

LIBRARY = os.environ["LIBRDMC"]
PATIENCE = 60  # seconds, only a failing test waits so long
os.environ.update(RDMC_INSECURE="1", RDMC_FABRIC=os.environ.get("RDMC_FABRIC", "udp"))
rdmc = ctypes.CDLL(LIBRARY, use_errno=True)
rdmc.rdmc_send.restype = rdmc.rdmc_recv.restype = rdmc.rdmc_sendmsg.restype = rdmc.rdmc_recvmsg.restype = ctypes.c_ssize_t


def call(name, *arguments):
    """What the C function says, or minus errno."""
    result = getattr(rdmc, "rdmc_" + name)(*arguments)
    return -ctypes.get_errno() if result < 0 else result


def sockaddr(family, port):
    if family == socket.AF_INET:
        return struct.pack("=H", family) + struct.pack("!H4s8x", port, socket.inet_aton("127.0.0.1"))
    return struct.pack("=H", family) + struct.pack("!HI16sI", port, 0, socket.inet_pton(family, "::1"), 0)


def send(fd, data, flags=socket.MSG_NOSIGNAL):
    return call("send", fd, data, ctypes.c_size_t(len(data)), flags)


def receive(fd, count, flags=0):
    """Bytes, or minus errno."""
    room = ctypes.create_string_buffer(max(count, 1))
    got = call("recv", fd, room, ctypes.c_size_t(count), flags)
    return got if got < 0 else room.raw[:got]


def receive_all(fd, count):
    data = b""
    while len(data) < count:
        got = receive(fd, count - len(data))
        if not isinstance(got, bytes) or not got:
            return got
        data += got
    return data


def option(fd, name, value, level=socket.SOL_SOCKET):
    return call("setsockopt", fd, level, name, value, len(value))


def listen(family=socket.AF_INET, kind=socket.SOCK_STREAM):
    fd = call("socket", family, kind, 0)
    address = sockaddr(family, 0)
    if call("bind", fd, address, len(address)) < 0 or call("listen", fd, 64) < 0:
        raise OSError(ctypes.get_errno(), "listen")
    name = ctypes.create_string_buffer(len(address))
    call("getsockname", fd, name, ctypes.byref(ctypes.c_uint(len(address))))
    return fd, struct.unpack_from("!H", name.raw, 2)[0]


def connect(port, family=socket.AF_INET, kind=socket.SOCK_STREAM):
    fd = call("socket", family, kind, 0)
    address = sockaddr(family, port)
    result = call("connect", fd, address, len(address))
    return fd if result == 0 else result


def serve(family, kind):
    """Sends back what comes, each connection in a thread."""
    listener, port = listen(family, kind)
    print(port, flush=True)

    def echo(fd):
        while isinstance(data := receive(fd, 100_000), bytes) and data:
            for at in range(0, len(data), 1 << 20):
                send(fd, data[at:])
        call("close", fd)
    while (fd := call("accept", listener, None, None)) >= 0:
        threading.Thread(target=echo, args=(fd,), daemon=True).start()


def flood(kind, port, count, size):
    """Sends more, once it is told to, than the one who listens there has memory for."""
    fds = [connect(port, kind=kind) for _ in range(count)]
    sys.stdin.readline()
    for fd in fds:
        send(fd, bytes(size))
    sys.stdin.read()


class Echo:
    def __init__(self, family=socket.AF_INET, kind=socket.SOCK_STREAM):
        self.process = subprocess.Popen([sys.executable, __file__, "--serve", str(int(family)), str(int(kind))], stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


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
        self.fails(errno.EINVAL, call("listen", group, 1))  # it has no name
        self.fails(errno.ENOTCONN, send(group, b"x"))
        self.fails(errno.EOPNOTSUPP, call("shutdown", group, socket.SHUT_WR))
        self.assertEqual((call("close", fd), call("close", group)), (0, 0))

    def test_a_gather_or_scatter_of_more_than_any_memory_is_named(self):
        listener, port = listen()
        fd = connect(port)
        accepted, byte = call("accept", listener, None, None), ctypes.create_string_buffer(1)
        for lengths, error in (((2**64 - 1,), errno.EINVAL), ((2**62, 2**62), errno.EINVAL), ((2**62,), errno.ENOMEM)):
            pieces = b"".join(struct.pack("=QQ", ctypes.addressof(byte), length) for length in lengths)
            room = ctypes.create_string_buffer(pieces)
            header = struct.pack("=QIxxxxQQQQi", 0, 0, ctypes.addressof(room), len(lengths), 0, 0, 0).ljust(56, b"\0")
            for name in ("sendmsg", "recvmsg"):
                with self.subTest(name, lengths=lengths):
                    self.fails(error, call(name, fd, ctypes.create_string_buffer(header), socket.MSG_DONTWAIT))
        for one in (fd, accepted, listener):
            call("close", one)

    def test_a_close_ends_the_sends_of_another_thread_and_resets_the_peer_that_was_to_read_on(self):
        with Echo() as echo:
            fd, ended = connect(echo.port), []
            sender = threading.Thread(target=lambda: ended.append(send(fd, b"x" * 50_000_000)))
            sender.start()
            while isinstance(receive(fd, 1, socket.MSG_PEEK), int):  # it is under way
                pass
            self.assertEqual(call("close", fd), 0)
            sender.join(PATIENCE)
            self.assertTrue(ended and (0 < ended[0] < 50_000_000 or ended[0] in (-errno.EBADF, -errno.ENOTSOCK)), ended)
            self.assertEqual(self.echoed(connect(echo.port)), b"hello")  # others are not disturbed

    def echoed(self, fd, text=b"hello"):
        self.assertEqual(send(fd, text), len(text))
        return receive_all(fd, len(text))

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
            sent = refused = 0
            while refused < 20_000:  # a storm, while what was sent goes its way
                if (count := send(fd, b"y" * 60_000, socket.MSG_DONTWAIT)) > 0:
                    sent += count
                    continue
                self.fails(errno.EAGAIN, count)
                self.fails(errno.EAGAIN, receive(fd, 1, socket.MSG_DONTWAIT))
                refused += 1
            self.assertGreaterEqual(sent, 500_000)
            # So long, groups would have given it up.
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

    def test_a_child_has_none_of_its_parents_sockets_may_make_its_own_and_disturbs_nobody(self):
        with Echo() as echo:
            fd = connect(echo.port)
            child = os.fork()
            if child == 0:
                own = connect(echo.port)
                well = (send(fd, b"x") == -errno.EOPNOTSUPP and receive(fd, 1) == -errno.EOPNOTSUPP and call("close", fd) == 0 and
                        own >= 0 and send(own, b"mine") == 4 and receive_all(own, 4) == b"mine")
                os._exit(0 if well else 1)
            self.assertEqual(self.echoed(fd), b"hello")
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(self.echoed(fd, b"still"), b"still")

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
                self.assertEqual(self.echoed(fd), b"hello")
                for each in (*ends, fd, listener):
                    call("close", each)

    def test_a_signal_ends_a_blocking_call_unless_its_handler_says_to_restart(self):
        listener, port = listen()
        fd = connect(port)
        end = call("accept", listener, None, None)
        woken, writes = os.pipe()
        os.set_blocking(writes, False)
        signal.signal(signal.SIGALRM, lambda *_: None)  # as Python installs it: without SA_RESTART
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
            for poller, readable in ((select.poll(), select.POLLIN), (select.epoll(), select.EPOLLIN)):
                poller.register(fd, readable)
                poller.register(ends[0], readable)
                self.assertEqual(poller.poll(0), [])
                send(fd, b"q")
                self.assertEqual(poller.poll(PATIENCE), [(fd, readable)])
                os.write(ends[1], b"p")
                self.assertEqual(sorted(poller.poll(PATIENCE)), sorted([(fd, readable), (ends[0], readable)]))
                self.assertEqual((receive(fd, 1), os.read(ends[0], 1)), (b"q", b"p"))
                self.assertEqual(poller.poll(0), [])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(int(sys.argv[2]), int(sys.argv[3]))
    if sys.argv[1:2] == ["--flood"]:
        sys.exit(flood(*map(int, sys.argv[2:])))
    unittest.main()
