"""The C functions of librdmc for tests in Python, over the fabric RDMC_FABRIC without a key. Also has a peer, which is
a separate process and sends back everything that arrives. A test must run in a separate process, because the import
loads librdmc."""
import ctypes
import os
import socket
import struct
import subprocess
import sys
import threading

LIBRARY = os.environ["LIBRDMC"]
RDMC_SOL_SOCKET, RDMC_SO_GROUP = 0x52444d43, 2
PATIENCE = 60  # In seconds. Only a failing test waits this long.
os.environ.update(RDMC_INSECURE="1", RDMC_FABRIC=os.environ.get("RDMC_FABRIC", "udp"))
rdmc = ctypes.CDLL(LIBRARY, use_errno=True)
rdmc.rdmc_send.restype = rdmc.rdmc_recv.restype = rdmc.rdmc_sendmsg.restype = rdmc.rdmc_recvmsg.restype = ctypes.c_ssize_t


def call(name, *arguments):
    """Returns the result of a C function. If it has failed, returns minus errno."""
    result = getattr(rdmc, "rdmc_" + name)(*arguments)
    return -ctypes.get_errno() if result < 0 else result


def sockaddr(family, port):
    if family == socket.AF_INET:
        return struct.pack("=H", family) + struct.pack("!H4s8x", port, socket.inet_aton("127.0.0.1"))
    return struct.pack("=H", family) + struct.pack("!HI16sI", port, 0, socket.inet_pton(family, "::1"), 0)


def send(fd, data, flags=socket.MSG_NOSIGNAL):
    return call("send", fd, data, ctypes.c_size_t(len(data)), flags)


def receive(fd, count, flags=0):
    """Returns the received bytes. If the call has failed, returns minus errno."""
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


def new_socket(family, kind):
    fd = call("socket", family, kind, 0)
    if kind == socket.SOCK_RDM:
        option(fd, RDMC_SO_GROUP, b"news", RDMC_SOL_SOCKET)
    return fd


def listen(family=socket.AF_INET, kind=socket.SOCK_STREAM):
    fd = new_socket(family, kind)
    address = sockaddr(family, 0)
    if call("bind", fd, address, len(address)) < 0 or call("listen", fd, 64) < 0:
        raise OSError(ctypes.get_errno(), "listen")
    name = ctypes.create_string_buffer(len(address))
    call("getsockname", fd, name, ctypes.byref(ctypes.c_uint(len(address))))
    return fd, struct.unpack_from("!H", name.raw, 2)[0]


def connect(port, family=socket.AF_INET, kind=socket.SOCK_STREAM):
    fd = new_socket(family, kind)
    address = sockaddr(family, port)
    result = call("connect", fd, address, len(address))
    return fd if result == 0 else result


def serve(family, kind):
    """Sends back everything that arrives. Each connection has a thread."""
    listener, port = listen(family, kind)
    print(port, flush=True)

    def echo(fd):
        while isinstance(data := receive(fd, 100_000), bytes) and data:
            for at in range(0, len(data), 1 << 20):
                send(fd, data[at:])
        call("close", fd)
    while (fd := call("accept", listener, None, None)) >= 0:
        threading.Thread(target=echo, args=(fd,), daemon=True).start()


class Child:
    """A child process that ends at the end of its `with` block."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


class Echo(Child):
    def __init__(self, family=socket.AF_INET, kind=socket.SOCK_STREAM):
        self.process = subprocess.Popen([sys.executable, __file__, str(int(family)), str(int(kind))], stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline())


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
