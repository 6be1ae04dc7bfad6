#!/usr/bin/env python3
"""Tests rdmc_control with its own store node, and with a real etcd server. The etcd server has a view that the test has
encoded itself."""
import base64
import json
import os
import pathlib
import re
import secrets
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

CONTROL = os.environ["RDMC_CONTROL"]
SECONDS = 60
DONE, USAGE, FAILED, NOT_FOUND, REMOVED = 0, 1, 2, 3, 4


RESERVED = []


def free_address():
    """Returns a loopback address. No other process gets its port while this program runs, unless the process requests
    exactly this port. A socket that is bound and does not listen reserves the port."""
    RESERVED.append(socket.socket())
    RESERVED[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    RESERVED[-1].bind(("127.0.0.1", 0))
    return f"127.0.0.1:{RESERVED[-1].getsockname()[1]}"


def field(number, value):
    """Encodes a protobuf field. The value is either bytes or a number below 128."""
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


    def key(self, name):
        path = self.path / name
        path.touch(mode=0o600)
        path.write_text(f"rdmc-key-1:{secrets.token_hex(32)}\n", encoding="ascii")
        return str(path)


class OwnNode(Scratch):
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
            pass  # The node answers clients after a moment.
        self.assertEqual(answer, (DONE, "", ""))
        self.assertEqual(run("members", "nobody", "--store", address, "--key-file", key)[0], NOT_FOUND)
        code, _, errors = run("views", "--store", address, "--key-file", self.key("other"))
        self.assertEqual(code, FAILED)
        self.assertIn("key", errors)
        self.assertEqual(run("views", "--store", address, "--insecure")[0], FAILED)
        node.send_signal(signal.SIGTERM)
        self.assertEqual(node.wait(SECONDS), DONE)
        self.assertEqual(run("views", "--store", address, "--key-file", key)[0], FAILED)

    def test_when_two_of_three_nodes_have_lost_their_state_the_store_waits_until_an_operator_names_the_third(self):
        addresses, key = [free_address() for _ in range(3)], self.key("key")
        common = ["--store", ",".join(addresses), "--key-file", key]

        def serve(index, directory):
            return self.start(CONTROL, "serve", "--directory", str(self.path / directory), "--self", str(index), "--nodes",
                              ",".join(addresses), "--key-file", key, stderr=subprocess.DEVNULL)

        def wait_until_it_answers():
            deadline = time.monotonic() + SECONDS
            while run("views", *common)[0] != DONE:
                self.assertLess(time.monotonic(), deadline)

        nodes = [serve(index, f"node{index}") for index in range(3)]
        wait_until_it_answers()
        survivor = ["survivor", "--store", addresses[0], "--key-file"]
        self.assertEqual(run(*survivor, self.key("other"))[0], FAILED)
        code, _, errors = run(*survivor, key)
        self.assertEqual(code, FAILED)
        self.assertIn("needs no survivor", errors)
        for index in (1, 2):
            nodes[index].kill()
            nodes[index].wait(SECONDS)
            serve(index, f"empty{index}")
        self.assertEqual(run("views", *common)[0], FAILED)
        self.assertEqual(run(*survivor, key)[0], DONE)
        wait_until_it_answers()

    def test_a_node_that_an_operator_replaces_although_it_has_its_state_ends_with_the_reason(self):
        addresses, key = [free_address() for _ in range(3)], self.key("key")
        nodes = [self.start(CONTROL, "serve", "--memory", "--self", str(index), "--nodes", ",".join(addresses), "--key-file", key,
                            stderr=subprocess.PIPE, text=True) for index in range(3)]
        deadline = time.monotonic() + SECONDS
        while run("survivor", "--force", "--store", addresses[0], "--key-file", key)[0] != DONE:
            self.assertLess(time.monotonic(), deadline)
        for node in nodes[1:]:
            errors = node.communicate(timeout=SECONDS)[1]
            self.assertEqual(node.returncode, FAILED)
            self.assertIn("its place was given to another node", errors)

    def test_a_wrong_command_line_is_a_usage_error(self):
        for words in [[], ["views"], ["views", "--insecure", "--key-file", "k"], ["members", "--insecure"], ["nonsense"],
                      ["members", "g?claim", "--insecure"], ["member", "", "--insecure"],
                      ["member", "g", "--insecure", "--lease", "5"], ["watch", "g" * 250, "--insecure"]]:
            self.assertEqual(run(*words)[0], USAGE, words)


class Member:
    """A process that takes part in a group. A thread reads the events that the process prints."""

    def __init__(self, case, *words, group="g", under=()):
        self.process = case.start(*under, CONTROL, "member", group, "--json", *words, stdout=subprocess.PIPE, text=True)
        self.events, self.changed = [], threading.Condition()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()
        case.addCleanup(self.reader.join)
        case.addCleanup(self.process.kill)
        self.id = self.wait_for(lambda event: event["event"] == "joining", "it begins")["id"]

    def read(self):
        with self.process.stdout:
            for line in self.process.stdout:
                with self.changed:
                    self.events.append(json.loads(line))
                    self.changed.notify_all()

    def wait_for(self, test, what, after=0):
        """Returns the first event after the time `after` for which `test` returns true."""
        found = []
        with self.changed:
            self.changed.wait_for(lambda: found.extend(e for e in self.events if e["us"] > after and test(e)) or found, SECONDS)
            assert found, f"not within {SECONDS} s: {what}; {self.events}"
        return found[0]

    def wait_for_view_of(self, members, after=0):
        ids = {member.id for member in members}
        return self.wait_for(lambda e: e["event"] == "installed" and {one["id"] for one in e["members"]} == ids, f"a view of {ids}", after)

    def has_view_of(self, members, after=0):
        ids = {member.id for member in members}
        return any(e["us"] > after and {one["id"] for one in e["members"]} == ids for e in self.of_kind("installed"))

    def wait_for_end_of_leases(self, epoch, after):
        return self.wait_for(lambda e: e["event"] == "earlier_leases_over" and e["epoch"] == epoch, "the leases are over", after)

    def wait_for_event(self, kind, after=0):
        return self.wait_for(lambda event: event["event"] == kind, kind, after)

    def of_kind(self, kind):
        with self.changed:
            return [event for event in self.events if event["event"] == kind]

    def has(self, kind):
        return bool(self.of_kind(kind))


class Group(Scratch):
    """A test with its own store."""

    def setUp(self):
        super().setUp()
        address = free_address()
        self.common = ["--store", address, "--key-file", self.key("key")]
        self.store = self.start(CONTROL, "serve", "--directory", str(self.path / "node"), "--listen", address, *self.common[2:],
                                stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + SECONDS
        while run("views", *self.common)[0] != DONE:
            self.assertLess(time.monotonic(), deadline)

    def form(self, count, *words):
        members = [Member(self, "--name", f"m{i}", "--beat", "20", *self.common, *words) for i in range(count)]
        for member in members:
            member.wait_for_view_of(members)
        return members


class Members(Group):
    def test_members_come_and_go_and_are_removed_and_the_others_hear_each_other_in_every_view(self):
        members = self.form(4, "--fabric", "udp")
        killed, left, removed, last = members
        before = time.monotonic_ns() // 1000
        killed.process.kill()
        for member in members[1:]:
            member.wait_for_view_of(members[1:], before)
            member.wait_for_event("first_delivery", before)
        left.process.terminate()
        self.assertEqual(left.process.wait(SECONDS), DONE)
        last.wait_for_view_of([removed, last])
        code, out, _ = run("remove", "g", removed.id, "--json", *self.common)
        self.assertEqual((code, [one["id"] for one in json.loads(out)["members"]]), (DONE, [last.id]))
        self.assertEqual(removed.process.wait(SECONDS), REMOVED)
        last.wait_for_view_of([last])
        self.assertFalse(any(member.has("visible") for member in members))

    def test_a_member_with_a_lease_holds_it_and_the_others_say_when_it_is_over(self):
        holder = Member(self, "--lease", "1000", *self.common)
        holder.wait_for_view_of([holder])
        other = Member(self, *self.common)
        other.wait_for_view_of([holder, other])
        holder.wait_for_event("lease_gained")
        holder.process.send_signal(signal.SIGSTOP)
        try:
            before = time.monotonic_ns() // 1000
            self.assertEqual(run("remove", "g", holder.id, *self.common)[0], DONE)
            epoch = other.wait_for_view_of([other], before)["epoch"]
            over = other.wait_for_end_of_leases(epoch, before)
            self.assertGreaterEqual(over["us"] - before, 1_000_000)
        finally:
            holder.process.send_signal(signal.SIGCONT)
        holder.wait_for_event("lease_lost", before)
        self.assertEqual(holder.process.wait(SECONDS), REMOVED)
        self.assertFalse(other.has("lease_gained"))

    def test_who_sees_the_exit_of_a_member_does_not_wait_for_its_lease(self):
        others = [Member(self, *self.common) for _ in range(2)]
        waits = []
        deadline = time.monotonic() + SECONDS
        # On a busy machine, the agreement on the next view may take as long as the lease lasts. In this case
        # the test tries again.
        while time.monotonic() < deadline:
            holder = Member(self, "--lease", "1000", *self.common)
            for other in others:
                other.wait_for_view_of([holder, *others])
            holder.wait_for_event("lease_gained")
            before = time.monotonic_ns() // 1000
            holder.process.kill()
            epochs = [other.wait_for_view_of(others, before)["epoch"] for other in others]
            over = [other.wait_for_end_of_leases(epoch, before) for other, epoch in zip(others, epochs)]
            waits.append(max(one["us"] for one in over) - before)
            if waits[-1] < 600_000:
                return
        self.fail(f"each of them waited: {waits}")

    def test_a_process_of_another_group_where_a_member_was_is_no_member(self):
        address = free_address()
        former = Member(self, "--listen", address, *self.common)
        former.wait_for_view_of([former])
        former.process.kill()
        former.process.wait()
        other = Member(self, "--listen", address, *self.common, group="other")
        other.wait_for_view_of([other])
        # In a PID namespace of its own, the joiner cannot ask the kernel whether the former process has ended.
        joiner = Member(self, *self.common, under=("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"))
        self.assertIn("another group", joiner.wait_for_event("refused")["cause"])
        joiner.wait_for_view_of([joiner])
        self.assertEqual(len(other.of_kind("installed")), 1)

    def test_a_group_whose_processes_have_all_ended_on_this_host_is_begun_again_at_once(self):
        former = self.form(3)
        for member in former:
            member.process.kill()
            member.process.wait()
        # Without the kernel's word that they have ended, a joiner writes a liveness query to the store and waits 5 s.
        joiner = Member(self, *self.common)
        view = joiner.wait_for_view_of([joiner])
        begun = joiner.wait_for_event("joining")["us"]
        print(f"the group was begun again after {(view['us'] - begun) / 1000:.0f} ms")
        self.assertLess(view["us"] - begun, 4_000_000)

    def test_who_is_stopped_and_continued_learns_that_it_is_out_and_what_it_did_is_seen_by_nobody(self):
        for fabric in "udp", "auto":
            with self.subTest(fabric=fabric):
                stopped, *others = members = self.form(3, "--fabric", fabric)
                for member in members:
                    member.wait_for_event("written_to")
                before = time.monotonic_ns() // 1000
                stopped.process.send_signal(signal.SIGSTOP)
                for member in others:
                    member.wait_for_view_of(others, before)
                stopped.process.send_signal(signal.SIGCONT)
                stopped.wait_for_event("removed", before)
                self.assertEqual(stopped.process.wait(SECONDS), REMOVED)
                # The others must continue. They check the messages that they have received since.
                after = time.monotonic_ns() // 1000
                others.append(Member(self, "--name", "new", "--beat", "20", "--fabric", fabric, *self.common))
                for member in others:
                    member.wait_for_view_of(others, before)
                    member.wait_for_event("first_delivery", after)
                    member.process.terminate()
                for member in others:
                    self.assertIn(member.process.wait(SECONDS), (DONE, REMOVED))
                    member.reader.join()
                self.assertEqual([member.wait_for_event("end")["visible"] for member in members + others[2:]], [0] * 4)

    def wait_until_signals_are_awaited(self, pid):
        deadline = time.monotonic() + SECONDS
        blocked = lambda: re.search(r"SigBlk:\s*(\w+)", pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii"))[1]
        while not int(blocked(), 16) >> signal.SIGTERM - 1 & 1:
            self.assertLess(time.monotonic(), deadline)

    def test_who_prints_what_nobody_reads_takes_part_all_the_same_and_ends_when_asked(self):
        unread, full = os.pipe()
        self.addCleanup(os.close, unread)
        self.addCleanup(os.close, full)
        os.set_blocking(full, False)
        with self.assertRaises(BlockingIOError):
            while True:
                os.write(full, b"x" * 4096)
        os.set_blocking(full, True)
        silent = self.start(CONTROL, "member", "g", "--name", "silent", "--json", *self.common, stdout=full)
        watch = self.start(CONTROL, "watch", "g", *self.common, stdout=full)
        other = Member(self, "--name", "other", *self.common)
        both = other.wait_for(lambda e: e["event"] == "installed" and len(e["members"]) == 2, "a view of both")
        for process in silent, watch:
            self.wait_until_signals_are_awaited(process.pid)
            process.terminate()
            self.assertEqual(process.wait(SECONDS), DONE)
        other.wait_for(lambda e: e["event"] == "installed" and len(e["members"]) == 1, "it leaves in order", both["us"])


class Etcd(Scratch):
    """A test with a real etcd server."""

    def setUp(self):
        super().setUp()
        self.url, peer = f"http://{free_address()}", f"http://{free_address()}"
        self.command = ["etcd", "--data-dir", str(self.path / "data"), "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
                        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]
        self.store = ["--store", "etcd:" + self.url.removeprefix("http://"), "--json"]
        self.start_server()

    def start_server(self):
        self.server = self.start(*self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + SECONDS
        while run("views", *self.store)[0] != DONE:
            self.assertLess(time.monotonic(), deadline, "etcd does not answer: is etcd-server installed?")


class InEtcd(Etcd):
    def put(self, group, value):
        key = base64.b64encode(f"/rdmc/views/{group}".encode()).decode()
        body = json.dumps({"key": key, "value": base64.b64encode(value).decode()}).encode()
        urllib.request.urlopen(f"{self.url}/v3/kv/put", body, SECONDS).close()

    def test_views_members_remove_and_watch(self):
        self.put("g", view(3, member(1, b"one"), member(2, b"two"), member(3, b"two")))
        watch = self.start(CONTROL, "watch", "g", "--count", "2", *self.store, stdout=subprocess.PIPE, text=True)
        with watch.stdout:
            self.assertEqual(json.loads(watch.stdout.readline())["epoch"], 3)
            code, out, _ = run("views", *self.store)
            self.assertEqual((code, [one["group"] for one in map(json.loads, out.splitlines())]), (DONE, ["g"]))
            code, out, _ = run("members", "g", *self.store)
            self.assertEqual([(one["name"], one["address"]) for one in json.loads(out)["members"]],
                             [("one", "10.0.0.1:77"), ("two", "10.0.0.2:77"), ("two", "10.0.0.3:77")])
            for nobody in "10.0.0.9:77", "three":
                self.assertEqual(run("remove", "g", nobody, *self.store)[0], NOT_FOUND)
            code, _, errors = run("remove", "g", "two", *self.store)
            self.assertEqual(code, FAILED)
            self.assertIn("2 members are called 'two'", errors)
            self.assertEqual(run("remove", "g", "one", *self.store)[0], DONE)
            last = json.loads(watch.stdout.readline())
        self.assertEqual((last["epoch"], [one["name"] for one in last["members"]]), (4, ["two", "two"]))
        self.assertEqual(watch.wait(SECONDS), DONE)

    def test_what_is_no_view_is_said_to_be_none(self):
        self.put("g", b"\xff\xff")
        code, _, errors = run("members", "g", *self.store)
        self.assertEqual(code, FAILED)
        self.assertIn("no view", errors)


if __name__ == "__main__":
    unittest.main(verbosity=2)
