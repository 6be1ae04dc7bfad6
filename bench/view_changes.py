#!/usr/bin/env python3
"""view_changes.py RDMC_CONTROL [--members N] [--rounds N] [--silent N] [--store embedded|etcd] [--fabric F]:
measures how fast real processes agree on views.

Starts a store and N members on this machine. All times are from one clock:
- the time from the start of the last process until the group is formed,
- the time from a kill until every other process has installed the view without the killed process,
- the time from when a process falls silent (SIGSTOP) until every other process has installed the view without it,
- the time from the store's agreement to the first delivery in the new epoch.

Two rules are checked. A process that is stopped for 300 ms must stay in the view. No member may see what a process
does after its removal. Prints one JSON object. Exit status: 0 if both rules were kept, 1 if not."""
import argparse
import json
import pathlib
import secrets
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

PATIENCE = 30
LOOK_EVERY = 0.1  # In seconds.
AT_REST = 0.3  # In seconds. After this time, the newest member is connected with all other members.


def now_us():
    return time.monotonic_ns() // 1000


def free_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


class Member:
    """A member process. Its events go to a file that is read at intervals. Reading each event as it is printed would
    influence the measurement."""

    def __init__(self, command, path):
        with path.open("wb") as output:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output)
        self.lines = path.open(encoding="utf-8")
        self.part, self.events = "", []

    def read(self):
        self.part += self.lines.read()
        *whole, self.part = self.part.split("\n")
        self.events += map(json.loads, whole)

    def wait_for(self, test, what):
        """Returns the first event for which `test` is true."""
        end, seen = time.monotonic() + PATIENCE, 0
        while True:
            self.read()
            for event in self.events[seen:]:
                if test(event):
                    return event
            seen = len(self.events)
            if time.monotonic() > end:
                raise SystemExit(f"not within {PATIENCE} s: {what}; {self.events[-3:]}")
            time.sleep(LOOK_EVERY)

    def all_of(self, kind):
        self.read()
        return [event for event in self.events if event["event"] == kind]

    def id(self):
        return self.wait_for(lambda e: e["event"] == "joining", "it begins")["id"]

    def end(self, number):
        self.process.send_signal(number)
        self.process.wait(PATIENCE)


class Group:
    def __init__(self, options, folder):
        self.options = options
        key = folder / "key"
        key.touch(mode=0o600)
        key.write_text(f"rdmc-key-1:{secrets.token_hex(32)}\n", encoding="ascii")
        self.quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        address = free_address()
        if options.store == "etcd":
            peer = f"http://{free_address()}"
            self.server = subprocess.Popen(["etcd", "--data-dir", folder / "etcd", "--listen-client-urls", f"http://{address}",
                                            "--advertise-client-urls", f"http://{address}", "--listen-peer-urls", peer,
                                            "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"], **self.quiet)
            address = "etcd:" + address
        else:
            self.server = subprocess.Popen([options.rdmc_control, "serve", "--directory", folder / "node", "--listen", address,
                                            "--key-file", key], **self.quiet)
        self.folder, self.started = folder, 0
        self.common = ["--store", address, "--key-file", str(key)]
        while subprocess.run([options.rdmc_control, "views", *self.common], check=False, **self.quiet).returncode != 0:
            pass
        self.members, self.left = [], []

    def start(self):
        self.started += 1
        self.members.append(Member([self.options.rdmc_control, "member", "g", "--fabric", self.options.fabric, "--beat", "1000", "--json",
                                    *self.common], self.folder / f"events-{self.started}"))
        return self.members[-1]

    def installed(self, test, what):
        """Returns the time when the last of the members has installed a view for whose members `test` is true."""
        def holds(event):
            return event["event"] == "installed" and test({one["id"] for one in event["members"]})
        return max(member.wait_for(holds, what)["us"] for member in self.members)

    def whole(self):
        ids = {member.id() for member in self.members}
        return self.installed(lambda members: members == ids, "a view of all")

    def form(self):
        for _ in range(self.options.members):
            self.start()
        last_up = max(member.wait_for(lambda e: e["event"] == "joining", "it begins")["us"] for member in self.members)
        return self.whole() - last_up

    def lose(self, number):
        """Sends the signal `number` to a random member. Returns this member, and the time until all other members are
        in a view without it."""
        victim = self.members.pop(secrets.randbelow(len(self.members)))
        lost, begin = victim.id(), now_us()
        victim.process.send_signal(number)
        # A view from before the member joined is also without it.
        def without(event):
            return event["event"] == "installed" and event["us"] > begin and lost not in {one["id"] for one in event["members"]}
        took = max(member.wait_for(without, "a view without it")["us"] for member in self.members) - begin
        return victim, took

    def restore(self):
        self.start()
        self.whole()


def summary(microseconds):
    ordered = sorted(microseconds)
    return {"median_ms": round(statistics.median(ordered) / 1000, 2), "p99_ms": round(ordered[(len(ordered) - 1) * 99 // 100] / 1000, 2),
            "max_ms": round(ordered[-1] / 1000, 2), "count": len(ordered)}


def change_times(members):
    """Returns one time for every view change and every member: from the store's agreement to the member's first
    delivery in the new epoch."""
    agreed = {event["epoch"]: event["us"] for member in members for event in member.all_of("agreed")}
    return [event["us"] - agreed[event["epoch"]] for member in members for event in member.all_of("first_delivery")
            if event["epoch"] in agreed]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rdmc_control")
    parser.add_argument("--members", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--silent", type=int, default=5)
    parser.add_argument("--store", choices=["embedded", "etcd"], default="embedded")
    parser.add_argument("--fabric", default="udp")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        group = Group(options, pathlib.Path(name))
        ended = []
        try:
            formed = group.form()
            killed, silent, stayed = [], [], True
            for _ in range(options.rounds):
                time.sleep(AT_REST)
                victim, took = group.lose(signal.SIGKILL)
                killed.append(took)
                victim.process.wait(PATIENCE)
                ended.append(victim)
                group.restore()
            for _ in range(options.silent):
                time.sleep(1)  # First, the heartbeats of all members must have their usual intervals.
                epochs = len(group.members[0].all_of("installed"))
                still = group.members[secrets.randbelow(len(group.members))]
                still.process.send_signal(signal.SIGSTOP)
                time.sleep(0.3)
                still.process.send_signal(signal.SIGCONT)
                time.sleep(0.7)
                stayed = stayed and len(group.members[0].all_of("installed")) == epochs
                victim, took = group.lose(signal.SIGSTOP)
                silent.append(took)
                victim.process.send_signal(signal.SIGCONT)
                victim.wait_for(lambda e: e["event"] == "removed", "it is told that it was removed")
                victim.process.wait(PATIENCE)
                ended.append(victim)
                group.restore()
            changes = change_times([*group.members, *ended])
        finally:
            for member in group.members:
                member.end(signal.SIGKILL)
            group.server.kill()
            group.server.wait()
        visible = sum(len(member.all_of("visible")) for member in [*group.members, *ended])
        print(json.dumps({"members": options.members, "store": options.store, "fabric": options.fabric, "formed_ms": formed / 1000,
                          "killed": summary(killed), "silent": summary(silent) if silent else None, "change": summary(changes),
                          "stopped_300_ms_stays": stayed, "visible": visible}))
        sys.exit(0 if stayed and visible == 0 else 1)


if __name__ == "__main__":
    main()
