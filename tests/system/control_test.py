#!/usr/bin/env python3
"""rdmc_control with a node of its own and with a real etcd-server that holds a view written by hand."""
import base64
import json
import os
import pathlib
import secrets
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest
import urllib.request

CONTROL = os.environ["RDMC_CONTROL"]
SECONDS = 60
DONE, USAGE, FAILED, NOT_FOUND = 0, 1, 2, 3


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def field(number, value):
    """A protobuf field: bytes, or a number below 128."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value)]) + value


def member(number, name):
    return bytes([1 << 3 | 1]) + struct.pack("<Q", number) + field(2, name) + field(3, bytes([10, 0, 0, number])) + field(4, 77)


def view(epoch, *members):
    return field(1, epoch) + b"".join(field(2, one) for one in members)


def run(*words):
    done = subprocess.run([CONTROL, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
    return done.returncode, done.stdout, done.stderr


class Scratch(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.path = pathlib.Path(self.directory.name)

    def start(self, *words, **options):
        program = subprocess.Popen(words, stdin=subprocess.DEVNULL, **options)
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        return program


class OwnNode(Scratch):
    def key(self, name):
        path = self.path / name
        path.touch(mode=0o600)
        path.write_text(f"rdmc-key-1:{secrets.token_hex(32)}\n", encoding="ascii")
        return str(path)

    def test_a_node_says_that_it_is_ready_serves_who_has_the_key_and_ends_when_asked(self):
        key, ready = self.key("key"), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(ready.close)
        ready.bind(str(self.path / "notify"))
        ready.settimeout(SECONDS)
        node = self.start(CONTROL, "serve", "--directory", str(self.path / "node"), "--listen", "127.0.0.1:0", "--key-file", key,
                          "--json", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          env={**os.environ, "NOTIFY_SOCKET": str(self.path / "notify")})
        with node.stdout:
            address = json.loads(node.stdout.readline())["address"]
        self.assertEqual(ready.recv(100), b"READY=1")
        deadline = time.monotonic() + SECONDS
        while (answer := run("views", "--store", address, "--key-file", key))[0] != DONE and time.monotonic() < deadline:
            pass  # it leads in a moment
        self.assertEqual(answer, (DONE, "", ""))
        self.assertEqual(run("members", "nobody", "--store", address, "--key-file", key)[0], NOT_FOUND)
        code, _, errors = run("views", "--store", address, "--key-file", self.key("other"))
        self.assertEqual(code, FAILED)
        self.assertIn("key", errors)
        self.assertEqual(run("views", "--store", address, "--insecure")[0], FAILED)
        node.send_signal(signal.SIGTERM)
        self.assertEqual(node.wait(SECONDS), DONE)
        self.assertEqual(run("views", "--store", address, "--key-file", key)[0], FAILED)

    def test_a_wrong_command_line_is_a_usage_error(self):
        for words in [[], ["views"], ["views", "--insecure", "--key-file", "k"], ["members", "--insecure"], ["nonsense"]]:
            self.assertEqual(run(*words)[0], USAGE, words)


class InEtcd(Scratch):
    def setUp(self):
        super().setUp()
        client, peer = f"http://{free_address()}", f"http://{free_address()}"
        self.start("etcd", "--data-dir", str(self.path / "data"), "--listen-client-urls", client, "--advertise-client-urls", client,
                   "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.url, self.store = client, ["--store", "etcd:" + client.removeprefix("http://"), "--json"]
        deadline = time.monotonic() + SECONDS
        while run("views", *self.store)[0] != DONE:
            self.assertLess(time.monotonic(), deadline, "etcd does not answer: is etcd-server installed?")

    def put(self, group, value):
        key = base64.b64encode(f"/rdmc/views/{group}".encode()).decode()
        body = json.dumps({"key": key, "value": base64.b64encode(value).decode()}).encode()
        urllib.request.urlopen(f"{self.url}/v3/kv/put", body, SECONDS).close()

    def test_views_members_remove_and_watch(self):
        self.put("g", view(3, member(1, b"one"), member(2, b"two")))
        watch = self.start(CONTROL, "watch", "g", "--count", "2", *self.store, stdout=subprocess.PIPE, text=True)
        with watch.stdout:
            self.assertEqual(json.loads(watch.stdout.readline())["epoch"], 3)
            code, out, _ = run("views", *self.store)
            self.assertEqual((code, [one["group"] for one in map(json.loads, out.splitlines())]), (DONE, ["g"]))
            code, out, _ = run("members", "g", *self.store)
            self.assertEqual([(one["name"], one["address"]) for one in json.loads(out)["members"]],
                             [("one", "10.0.0.1:77"), ("two", "10.0.0.2:77")])
            self.assertEqual(run("remove", "g", "10.0.0.9:77", *self.store)[0], NOT_FOUND)
            self.assertEqual(run("remove", "g", f"{1:016x}", *self.store)[0], DONE)
            last = json.loads(watch.stdout.readline())
        self.assertEqual((last["epoch"], [one["name"] for one in last["members"]]), (4, ["two"]))
        self.assertEqual(watch.wait(SECONDS), DONE)

    def test_what_is_no_view_is_said_to_be_none(self):
        self.put("g", b"\xff\xff")
        code, _, errors = run("members", "g", *self.store)
        self.assertEqual(code, FAILED)
        self.assertIn("no view", errors)


if __name__ == "__main__":
    unittest.main(verbosity=2)
