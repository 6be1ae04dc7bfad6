#!/usr/bin/env python3
"""Gives random commands to rdmc_kv and to Debian's redis-server, and compares their replies. RDMC_COMMANDS=N chooses how
many commands, RDMC_SEED=N which ones. Without redis-server, the test is skipped."""
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

from harness import wait_until
from kv_commands import Generator, comparable

KV = os.environ["RDMC_KV"]
REDIS = shutil.which("redis-server")
COMMANDS = int(os.environ.get("RDMC_COMMANDS", "100000"))
# `./check --seeds` sets the first seed.
SEED = int(os.environ.get("RDMC_SEED", os.environ.get("RDMC_FIRST_SEED", "1")))
PIPELINE = 100


class Connection:
    """A client with RESP2 or RESP3. Errors are values here."""

    class Error(str):
        pass

    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port))
        self.file = self.socket.makefile("rb")

    def send(self, commands):
        out = bytearray()
        for words in commands:
            out += b"*%d\r\n" % len(words)
            for word in words:
                out += b"$%d\r\n%s\r\n" % (len(word), word)
        self.socket.sendall(out)

    def read(self):
        line = self.file.readline()
        assert line.endswith(b"\r\n"), line
        kind, rest = line[:1], line[1:-2]
        if kind in b"+":
            return ("simple", rest)
        if kind == b"-":
            return self.Error(rest.decode("latin-1"))
        if kind == b":":
            return int(rest)
        if kind in (b",", b"#", b"("):
            return (kind, rest)
        if kind == b"_":
            return None
        if kind in (b"$", b"="):
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind in (b"*", b"~", b">"):
            return (kind, None) if rest == b"-1" else [kind, *(self.read() for _ in range(int(rest)))]
        if kind == b"%":
            return [kind, *((self.read(), self.read()) for _ in range(int(rest)))]
        raise AssertionError(line)

    def close(self):
        self.file.close()
        self.socket.close()


class Server:
    def __init__(self, command):
        # Nobody else uses a random address of this machine.
        self.host, self.port = f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}.{random.randrange(1, 255)}", 7000
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen([word.replace("HOST", self.host).replace("PORT", str(self.port)) for word in command], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        self.connection = wait_until(self.connect, "the server listens", 60)

    def connect(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the server has ended with {self.process.returncode}")
        try:
            return Connection(self.host, self.port)
        except ConnectionRefusedError:
            return None

    def end(self):
        self.connection.close()
        self.process.terminate()
        self.process.wait()


@unittest.skipUnless(REDIS, "there is no redis-server")
class DifferentialTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.ours = Server([KV, "serve", "--listen", "HOST:PORT"])
        self.addCleanup(self.ours.end)
        self.theirs = Server([REDIS, "--bind", "HOST", "--port", "PORT", "--save", "", "--appendonly", "no", "--dir", self.folder.name])
        self.addCleanup(self.theirs.end)

    def compare(self, commands):
        """Returns the number of replies that could be compared."""
        for server in self.ours, self.theirs:
            server.connection.send(commands)
        compared = 0
        differences = []
        for words in commands:
            ours, theirs = (server.connection.read() for server in (self.ours, self.theirs))
            ours, theirs = comparable(words, ours), comparable(words, theirs)
            compared += 1
            if ours != theirs:
                differences.append(f"{b' '.join(words)[:300]}\n  rdmc_kv: {str(ours)[:500]}\n  redis:   {str(theirs)[:500]}")
        if differences and not int(os.environ.get("RDMC_KEEP_GOING", "0")):
            self.fail(f"RDMC_SEED={SEED}: {len(differences)} differences. The first one:\n{differences[0]}")
        for one in differences:
            print(one)
        return compared

    def run_protocol(self, version, count):
        generator = Generator(random.Random(SEED + version))
        self.compare([[b"FLUSHALL"], [b"HELLO", b"%d" % version]][:1])
        for server in self.ours, self.theirs:
            server.connection.send([[b"HELLO", b"%d" % version]])
            server.connection.read()
        done = 0
        while done < count:
            done += self.compare([generator.command() for _ in range(PIPELINE)])

    def test_both_servers_give_the_same_replies_in_resp2(self):
        self.run_protocol(2, COMMANDS * 2 // 3)

    def test_both_servers_give_the_same_replies_in_resp3(self):
        self.run_protocol(3, COMMANDS // 3)


if __name__ == "__main__":
    if not REDIS:
        print("redis-server is not installed")
        sys.exit(77)
    print(f"RDMC_SEED={SEED}")
    unittest.main(verbosity=2)
