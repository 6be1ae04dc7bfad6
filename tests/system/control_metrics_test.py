#!/usr/bin/env python3
"""Tests the metrics of a member and of a store node, as a monitor reads them. Every line must have the text format, and
the values must follow the events."""
import json
import os
import re
import signal
import socket
import subprocess
import time
import unittest
import urllib.error
import urllib.request

import control_test
from control_test import CONTROL, FAILED, SECONDS, run

LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"([a-zA-Z_:][a-zA-Z0-9_:]*)\{{({LABEL}(?:,{LABEL})*)\}} (-?[0-9.]+(?:e[+-]?[0-9]+)?)")


def parse(text):
    """Returns each series with its value. Fails if `text` does not follow the exposition format 0.0.4 and some stricter
    rules."""
    assert text.endswith("\n")
    helped, types, series = set(), {}, {}
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, _ = line[7:].split(" ", 1)
            assert name not in helped, line
            helped.add(name)
        elif line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            assert name in helped and name not in types and kind in ("gauge", "counter"), line
            assert (kind == "counter") == name.endswith("_total"), line
            types[name] = kind
            last = name
        else:
            found = SAMPLE.fullmatch(line)
            assert found and found[1] == last and (found[1], found[2]) not in series, line
            series[found[1], found[2]] = float(found[3])
    return series


def scrape(address):
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=SECONDS) as answer:
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        return parse(answer.read().decode("ascii"))


class Metrics(control_test.Group):
    GROUP = 'group="g"'

    def scrape(self):
        return scrape(self.address)

    def scrape_until(self, name, value):
        deadline = time.monotonic() + SECONDS
        while (series := self.scrape())[name, self.GROUP] != value:
            self.assertLess(time.monotonic(), deadline, series)
        return series

    def test_what_is_scraped_follows_the_group_and_the_store_and_unauthenticated_clients_cost_little(self):
        first = control_test.Member(self, "--name", 'a "first" \\one', "--metrics", "0", *self.common)
        first.wait_for_view_of([first])
        self.address = first.wait_for_event("metrics")["address"]
        self.assertTrue(self.address.startswith("127.0.0.1:"))
        second = control_test.Member(self, "--name", 'a "second" \\one', *self.common)
        first.wait_for_view_of([first, second])
        before = self.scrape()
        value = lambda series, name: series[name, self.GROUP]
        self.assertEqual((value(before, "rdmc_view_members"), value(before, "rdmc_view_is_member"), value(before, "rdmc_store_up")), (2, 1, 1))
        suspicion = [labels for name, labels in before if name == "rdmc_member_suspicion"]
        self.assertEqual(suspicion, [rf'{self.GROUP},member="{second.id}",name="a \"second\" \\one"'])
        second.process.kill()
        after = self.scrape_until("rdmc_view_members", 1)
        self.assertGreater(value(after, "rdmc_view_epoch"), value(before, "rdmc_view_epoch"))
        self.assertGreater(value(after, "rdmc_view_changes_total"), value(before, "rdmc_view_changes_total"))
        self.assertEqual(value(after, "rdmc_deaths_seen_total"), 1)
        self.assertEqual([value(after, f"rdmc_{name}") for name in ("messages_dropped_total", "identity_readable", "identity_failures_total")], [0, 1, 0])
        host, port = self.address.split(":")
        for method, path, status in ("GET", "/", 404), ("POST", "/metrics", 405):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(urllib.request.Request(f"http://{self.address}{path}", method=method), timeout=SECONDS)
            self.assertEqual(refused.exception.code, status)
            refused.exception.close()
        silent = [socket.create_connection((host, int(port))) for _ in range(8)]
        with socket.create_connection((host, int(port))) as endless:
            try:
                for _ in range(64):
                    endless.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 1024)
                self.assertEqual(endless.recv(1), b"")
            except ConnectionError:
                pass  # The server has closed the connection without reading the request.
        # This is the largest number of connections.
        silent += [socket.create_connection((host, int(port))) for _ in range(8)]
        self.scrape()
        for one in silent:
            one.close()
        self.store.kill()
        self.scrape_until("rdmc_store_up", 0)


    def test_a_member_that_stays_and_cannot_be_reached_is_said_and_shown_and_so_is_its_return(self):
        first = control_test.Member(self, "--name", "first", "--metrics", "0", *self.common)
        self.address = first.wait_for_event("metrics")["address"]
        second = control_test.Member(self, "--name", "second", *self.common)
        for member in first, second:
            member.wait_for_view_of([first, second])
        labels = f'{self.GROUP},member="{second.id}",name="second"'
        self.assertEqual(self.scrape()["rdmc_member_reachable", labels], 1)
        self.store.kill()  # Without a store, no member can be removed.
        self.scrape_until("rdmc_store_up", 0)
        before = time.monotonic_ns() // 1000
        second.process.send_signal(signal.SIGSTOP)
        lost = first.wait_for_event("unreachable", before)
        self.assertEqual((lost["id"], lost["name"], lost["heard"]), (second.id, "second", False))
        self.assertEqual(self.scrape()["rdmc_member_reachable", labels], 0)
        self.assertGreaterEqual(self.scrape()["rdmc_unreachable_total", self.GROUP], 1)
        second.process.send_signal(signal.SIGCONT)
        self.assertEqual(first.wait_for_event("reachable", lost["us"])["id"], second.id)
        deadline = time.monotonic() + SECONDS
        while self.scrape()["rdmc_member_reachable", labels] != 1:
            self.assertLess(time.monotonic(), deadline)


class NodeMetrics(control_test.Scratch):
    NODE = 'node="0"'

    def scrape_until(self, name, test, more=""):
        deadline = time.monotonic() + SECONDS
        while not test((series := scrape(self.address))[name, self.NODE + more]):
            self.assertLess(time.monotonic(), deadline, series)
        return series

    def test_what_a_node_of_the_store_tells_follows_its_clients_and_their_views(self):
        key = self.key("key")
        node = self.start(CONTROL, "serve", "--directory", str(self.path / "node"), "--listen", "127.0.0.1:0", "--key-file", key, "--json",
                          "--metrics", "0", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        with node.stdout:
            listening = json.loads(node.stdout.readline())
        self.address, common = listening["metrics"], ["--store", listening["address"], "--key-file", key]
        before = self.scrape_until("rdmc_node_serves", lambda serves: serves == 1)
        self.assertEqual([before[f"rdmc_node_{name}", self.NODE] for name in ("up", "epoch", "clients", "watches", "groups")],
                         [1, 1, 0, 0, 0])
        self.assertEqual(before["rdmc_node_proposals_accepted_total", self.NODE], 0)
        member = control_test.Member(self, "--name", "one", *common)
        member.wait_for_view_of([member])
        self.scrape_until("rdmc_node_proposals_accepted_total", lambda accepted: accepted == 1)
        during = self.scrape_until("rdmc_node_groups", lambda groups: groups == 1)
        self.assertEqual([during[f"rdmc_node_{name}", self.NODE] for name in ("clients", "watches")], [1, 1])
        self.assertGreater(during["rdmc_node_requests_total", self.NODE], 1)
        for wrong, reason in (self.key("other"), "authentication"), (None, "protocol error"):
            refused = "rdmc_node_connections_refused_total", f',reason="{reason}"'
            self.assertEqual(during[refused[0], self.NODE + refused[1]], 0)
            if wrong:
                self.assertEqual(run("views", "--store", listening["address"], "--key-file", wrong)[0], FAILED)
            else:
                with socket.create_connection(listening["address"].split(":")) as client:
                    client.sendall(b"\x00" * 64)
                    self.scrape_until(refused[0], lambda count: count == 1, refused[1])
            self.scrape_until(refused[0], lambda count: count == 1, refused[1])
        member.process.kill()
        self.scrape_until("rdmc_node_clients", lambda clients: clients == 0)

    def test_a_key_that_cannot_be_read_any_more_is_said_once_and_counted_and_so_is_its_return(self):
        key, said = self.key("key"), self.path / "said"
        with said.open("wb") as errors:
            node = self.start(CONTROL, "serve", "--directory", str(self.path / "node"), "--listen", "127.0.0.1:0", "--key-file", key, "--json",
                              "--metrics", "0", stdout=subprocess.PIPE, stderr=errors, text=True)
        with node.stdout:
            listening = json.loads(node.stdout.readline())
        self.address = listening["metrics"]
        member = control_test.Member(self, "--name", "one", "--store", listening["address"], "--key-file", key)
        readable = lambda wanted: self.scrape_until("rdmc_identity_readable", lambda value: value == wanted)["rdmc_identity_failures_total", self.NODE]
        self.assertEqual(readable(1), 0)
        for times, (hide, show) in enumerate([(lambda: os.chmod(key, 0o644), lambda: os.chmod(key, 0o600)),
                                              (lambda: os.rename(key, key + "-away"), lambda: os.rename(key + "-away", key))], 1):
            hide()
            self.assertEqual(readable(0), times)
            cause = member.wait_for(lambda e: e["event"] == "identity_lost" and len(member.of_kind("identity_lost")) == times, "it is said")
            self.assertIn(key, cause["cause"])
            show()
            self.assertEqual(readable(1), times)
            member.wait_for(lambda e: e["event"] == "identity_found" and len(member.of_kind("identity_found")) == times, "it is said")
        counts = lambda: [sum(words in line for line in said.read_text(encoding="utf-8").splitlines())
                          for words in ("go on with the key", "can be read again")]
        deadline = time.monotonic() + SECONDS
        while counts() != [2, 2]:
            self.assertLess(time.monotonic(), deadline, said.read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
