#!/usr/bin/env python3
"""Whatever clients do, the memory of a server is bounded, and other clients are served: clients that send much without a
pause, that do not finish their requests, that are idle, and that do not read. A server without free descriptors refuses
clients, and uses no processor time."""
import pathlib
import resource
import socket
import threading
import time
import unittest

import kv_service
from harness import wait_until

MEGABYTE = 1 << 20
LIMIT = 128 * MEGABYTE
# The limit for all clients, what each idle or half-open client may have, the data, the batches, and what the library keeps.
MOST_RESIDENT = 700 * MEGABYTE
CLIENTS = 1000
VALUE = b"v" * (64 << 10)
SET = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%s\r\n" % (len(VALUE), VALUE)


def resident_bytes(server):
    return int(pathlib.Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * resource.getpagesize()


def processor_seconds(server):
    fields = pathlib.Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def address_of(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


class Bounds(unittest.TestCase):
    def connect(self, address):
        connection = socket.create_connection(address_of(address), timeout=200)
        self.addCleanup(connection.close)
        return connection

    def service(self, count):
        service = kv_service.Service(count, "--unavailable-after", "100s")
        self.addCleanup(service.end)
        service.wait_until_whole()
        return service

    def pipeline(self, address, count, replies):
        """Sends `count` writes without waiting for replies, and reads the replies at the same time."""
        connection = self.connect(address)
        sender = threading.Thread(target=lambda: [connection.sendall(SET) for _ in range(count)])
        sender.start()
        expected = b"+OK\r\n" * count
        got = bytearray()
        while len(got) < len(expected):
            piece = connection.recv(1 << 16)
            if not piece:
                break
            got += piece
        sender.join()
        replies.append(bytes(got) == expected)

    @staticmethod
    def read_slowly(connection, count, result):
        got = 0
        while got < count and (piece := connection.recv(16 << 10)):
            got += len(piece)
        result.append(got)

    def test_memory_is_bounded_and_others_are_served_whatever_clients_do(self):
        service = self.service(3)
        main = service.main()
        server = next(server for server in service.servers if server is not main)
        other = kv_service.Connection(server.address, 200.0)
        self.addCleanup(other.close)
        self.assertEqual(other("CONFIG", "SET", "maxmemory-clients", LIMIT), "OK")
        self.assertEqual(other("SET", "big", "b" * MEGABYTE), "OK")
        clients = [self.connect(server.address) for _ in range(CLIENTS)]
        # Each of these has a request of 2 MB, sends a part of it, and then nothing. The memory for all parts together is more
        # than permitted. So the server closes some of these connections when they have sent nothing for 10 s.
        half = b"*3\r\n$3\r\nSET\r\n$1\r\nh\r\n$2000000\r\n" + b"h" * (100 << 10)
        waiting = []
        for _ in range(CLIENTS):
            client = self.connect(server.address)
            client.setblocking(False)
            try:
                client.send(half)
            except BlockingIOError:
                pass
            waiting.append(client)
        slow = [self.connect(server.address) for _ in range(20)]
        for client in slow:
            client.sendall(b"*2\r\n$3\r\nGET\r\n$3\r\nbig\r\n" * 100)
        # One of them reads, a little at a time. It must get everything. The others do not read, and may lose their connections.
        replies, most, got = [], 0, []
        reader = threading.Thread(target=self.read_slowly, args=(slow[0], 100 * (MEGABYTE + len("$1048576\r\n\r\n")), got))
        reader.start()
        gigabyte = threading.Thread(target=self.pipeline, args=(server.address, (1 << 30) // len(SET), replies))
        gigabyte.start()
        served = 0
        while gigabyte.is_alive():
            self.assertEqual(other("SET", "other", served), "OK")
            self.assertEqual(other("GET", "other"), str(served))
            served += 1
            most = max(most, *(resident_bytes(one) for one in service.servers))
            self.assertLess(most, MOST_RESIDENT)
        gigabyte.join()
        self.assertEqual(replies, [True])
        self.assertGreater(served, 0)
        self.assertEqual(other("PING"), "PONG")
        reader.join()
        self.assertEqual(got, [100 * (MEGABYTE + len("$1048576\r\n\r\n"))])
        print(f"{served} requests of another client, at most {most / MEGABYTE:.0f} MB resident; {len(clients)} idle clients")

    def test_a_server_without_free_descriptors_refuses_clients_and_then_takes_them_again(self):
        service = kv_service.Service(1)
        self.addCleanup(service.end)
        server = service.servers[0]
        first = wait_until(lambda: self.try_connect(server.address), "the server listens")
        self.assertEqual(first("PING"), "PONG")
        used = len(list(pathlib.Path(f"/proc/{server.process.pid}/fd").iterdir()))
        before = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (used, resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)[1]))
        for _ in range(20):
            refused = self.connect(server.address)
            self.assertEqual(refused.recv(1), b"")
        self.assertEqual(first("PING"), "PONG")
        self.assertIn("rejected_connections:20\r\n", first("INFO", "stats"))
        self.assertEqual(service.complaints().count("connections of clients are refused"), 1)
        start, used_before = time.monotonic(), processor_seconds(server)
        wait_until(lambda: time.monotonic() - start > 1, "a second has passed")
        self.assertLess(processor_seconds(server) - used_before, 0.5)
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, before)
        again = kv_service.Connection(server.address)
        self.assertEqual(again("PING"), "PONG")
        again.close()
        first.close()

    @staticmethod
    def try_connect(address):
        try:
            return kv_service.Connection(address)
        except OSError:
            return None


if __name__ == "__main__":
    unittest.main()
