#!/usr/bin/env python3
"""Runs the commands of the documentation that concern several hosts, between hosts with the addresses of the pages."""
import json
import shlex
import shutil
import signal
import unittest

from certificates import Certificates
from documented_case import BCAST_BYTES, Documented, scenario
from harness import PATIENCE, ExitCode, listens
from lab_case import lab

REMOVED = 4  # The exit code of a removed `rdmc_control member`.
THREE_NODES = "10.0.0.1,10.0.0.2,10.0.0.3"


class Hosts(Documented):
    """Commands between hosts with the addresses of the pages: 10.0.0.1 to 10.0.0.9."""

    @classmethod
    def setUpClass(cls):
        cls.hosts = cls.enterClassContext(lab.Network(9, net="10.0.0")).hosts

    @scenario("copy")
    def test_agents_receive_what_the_sender_sends(self):
        source, sender = self.file(BCAST_BYTES, "image.tar"), self.hosts[0]
        self.key("key")
        roots, agents = [], []
        for host in self.hosts[1:]:
            roots.append(self.folder / f"files-{host.name}")
            roots[-1].mkdir()
            agents.append(self.start("rdmc_bcast agent --listen 10.0.0.2 --root /srv/files --key-file key", host=host,
                                     values={"address": host.address, "root": roots[-1]}))
        for agent, host in zip(agents, self.hosts[1:]):
            agent.wait_until(lambda agent=agent, host=host: listens(agent.process.pid, host.address, 7700), "the agent listens")
        self.run_documented("rdmc_bcast -w '10.0.0.[2-9]' --key-file key image.tar releases/image.tar", host=sender)
        for root in roots:
            self.assert_copy(source, root / "releases/image.tar")
            (root / "releases/image.tar").unlink()
        names = self.folder / "hosts"
        names.write_text("".join(f"{host.address} n{number:02}\n" for number, host in enumerate(self.hosts[1:], 1)), encoding="ascii")
        lab.run("mount", "--bind", names, "/etc/hosts")
        self.addCleanup(lab.run, "umount", "/etc/hosts")
        # Without jq, the test selects the lines itself.
        also = {} if shutil.which("jq") else {" | jq -c 'select(.event == \"receiver\")'": " | grep '\"event\":\"receiver\"'"}
        lines = self.run_documented("rdmc_bcast -w 'n[01-16]' --key-file key --json image.tar releases/ "
                                    "| jq -c 'select(.event == \"receiver\")'", host=sender, also=also).splitlines()
        self.assertEqual(sorted((one["event"], one["host"].split(":")[0], one["status"]) for one in map(json.loads, lines)),
                         [("receiver", f"n{number:02}", "ok") for number in range(1, 9)])
        for root in roots:
            self.assert_copy(source, root / "releases/image.tar")
        for agent in agents:
            self.assertEqual(agent.stop(), ExitCode.SUCCESS, str(agent))

    @scenario("one_node")
    def test_a_group_of_one_node_is_shown_and_changed(self):
        self.key("F")
        at = {"host": self.hosts[0]}
        node = self.start("rdmc_control serve --directory /var/lib/rdmc --key-file /etc/rdmc/key", values={"store": self.folder / "store"}, **at)
        self.run_until(lambda: self.start("rdmc_control views --key-file F", **at), "the node serves")
        first = self.start("rdmc_control member GROUP --name N --listen ADDR --key-file F --json", **at)
        first.wait_until(lambda: '"installed"' in first.output, "a first view")
        second = self.start("rdmc_control member GROUP --name N --listen ADDR --key-file F", **at)
        watch = self.start("rdmc_control watch GROUP --key-file F", **at)
        watch.wait_until(lambda: ", 2 members" in watch.output, "both are members")
        self.assertRegex(self.run_documented("rdmc_control views --key-file F", **at), r"^GROUP: epoch \d+, 2 members\n$")
        shown = self.run_documented("rdmc_control members GROUP --key-file F", **at).splitlines()
        self.assertEqual(sorted(line.split()[2] for line in shown[1:]), ["MEMBER", "N"])
        view = json.loads(self.run_documented("rdmc_control members GROUP --key-file F --json", **at))
        self.assertEqual((view["group"], sorted(one["name"] for one in view["members"])), ("GROUP", ["MEMBER", "N"]))
        self.assertEqual(sorted(view["members"][0]), ["address", "fabrics", "id", "name", "since"])
        self.run_documented("rdmc_control remove GROUP MEMBER --key-file F", **at)
        self.assertEqual(second.wait(), REMOVED, str(second))
        watch.wait_until(lambda: ", 1 members" in watch.output.split(", 2 members")[-1], "one member is left")
        for program in (first, watch, node):
            self.assertEqual(program.stop(), 0, str(program))

    @scenario("certificates")
    def test_certificates_replace_the_key(self):
        pki = self.folder / "pki"
        pki.mkdir()
        made = Certificates(pki, PATIENCE)
        node, ours = made.member("node"), made.member("operator")
        for name, path in zip("CPA", ours[1::2]):
            shutil.copy2(path, self.folder / name)
        self.shell(shlex.join(["exec", "rdmc_control", "serve", "--memory", *node]), host=self.hosts[0])
        self.run_until(lambda: self.start("rdmc_control views --certificate C --private-key P --authority A", host=self.hosts[0]),
                       "the node serves who has a certificate")

    def store_of_three(self, start, survivor):
        """Runs three nodes with `start(index, life)`. Two of them lose their state. `survivor()` starts the command
        that names the third one as the surviving node."""
        def answers():
            self.run_until(lambda: self.shell(f"exec rdmc_control views --store {THREE_NODES} --key-file F", host=self.hosts[3]), "the store answers")
        self.key("F")
        nodes = [start(index, 0) for index in range(3)]
        answers()
        for index in (1, 2):
            nodes[index].stop(signal.SIGKILL)
            nodes[index] = start(index, 1)
        for index in (1, 2):
            nodes[index].wait_until(lambda index=index: "listens on" in nodes[index].errors, "the node is there again")
        self.done(survivor())
        answers()
        for node in nodes:
            self.assertEqual(node.stop(), 0, str(node))

    @scenario("three_nodes")
    def test_a_survivor_continues_a_store_of_three_nodes(self):
        serve = "rdmc_control serve --directory /var/lib/rdmc --key-file /etc/rdmc/key --self 0 --nodes 10.0.0.1,10.0.0.2,10.0.0.3"
        self.store_of_three(
            lambda index, life: self.start(serve, values={"index": index, "store": self.folder / f"store-{index}-{life}"}, host=self.hosts[index]),
            lambda: self.start("rdmc_control survivor --store 10.0.0.1 --key-file /etc/rdmc/key", host=self.hosts[3]))

    @scenario("nodes_of_the_readme")
    def test_nodes_with_and_without_a_disk_are_one_store(self):
        def start(index, _):
            where = "--directory D" if index == 0 else "--memory"
            return self.start(f"rdmc_control serve {where} --key-file F --self 0 --nodes A,B,C", values={"index": index}, host=self.hosts[index])
        self.store_of_three(start, lambda: self.start("rdmc_control survivor --store A --key-file F", host=self.hosts[3]))

    @scenario("doctor")
    def test_the_doctor_says_what_auto_takes(self):
        told = self.run_documented("rdmc_doctor --address 10.0.0.2", host=self.hosts[1]).splitlines()
        self.assertRegex(told[-1], "^auto takes ")
        for fabric in ("shm", "verbs", "dpdk", "udp"):
            self.assertTrue(any(line.startswith(f"{fabric}: ") for line in told), fabric)

    def talk(self, server, client):
        """Runs a server on 10.0.0.2 and its client on 10.0.0.1. The client is started again until the server is
        there. Returns the client's output."""
        waiting = self.start(server, host=self.hosts[1])
        def asked():
            program = self.start(client, host=self.hosts[0])
            self.assertTrue(program.wait() == 0 or "refused" in program.errors, str(program))
            return program
        output = self.run_until(asked, "the server is there")
        self.done(waiting)
        return output

    @scenario("pingpong")
    def test_pingpong_talks_to_a_peer(self):
        self.assertIn("1000 iters in ", self.talk("ibv_rc_pingpong -g 1 -m 1024", "rdmc_pingpong -m 1024 10.0.0.2"))

    @scenario("ping")
    def test_ping_talks_to_a_peer(self):
        self.assertIn("100 texts of ", self.talk("rping -s -a 10.0.0.2 -V", "rdmc_ping -V -C 100 10.0.0.2"))


if __name__ == "__main__":
    lab.enter()
    unittest.main()
