#!/usr/bin/env python3
"""Tests which bytes of a transfer are visible on the path with --encrypt and without it. Also tests which processes are
refused if they do not use --encrypt."""
import unittest

from harness import ExitCode
from lab_case import LabCase, lab
from tap import Tap

SECRET = b"nobody on the path may read this"
COPIES = 40_000


class Encrypt(LabCase):
    def setUp(self):
        super().setUp()
        self.sender, *self.others = self.hosts
        self.source = self.folder / "source.bin"
        self.source.write_bytes(SECRET * COPIES)

    def seen_of(self, agents, *options):
        with Tap("port0", SECRET) as tap:
            done = self.send(self.source, "copy.bin", "--overwrite", *options, to=agents,
                             command_prefix=self.sender.command([]))
        self.assert_code(done, ExitCode.SUCCESS)
        for agent in agents:
            self.assert_copy(self.source, agent.root / "copy.bin")
        self.assertGreater(tap.octets, self.source.stat().st_size)
        return tap.seen

    def test_the_path_sees_every_byte_of_a_plain_transfer_and_none_of_an_encrypted_one(self):
        agents = [self.agent_on(host) for host in self.others]
        self.assertGreater(self.seen_of(agents), COPIES // 2)
        self.assertEqual(self.seen_of(agents, "--encrypt"), 0)

    def test_an_agent_that_demands_encryption_takes_part_in_nothing_else(self):
        strict, other = self.agent_on(self.others[0], "--encrypt"), self.agent_on(self.others[1])
        done = self.send(self.source, "copy.bin", to=[strict, other], command_prefix=self.sender.command([]))
        self.assert_code(done, ExitCode.SOME_FAILED)
        self.assert_cause(done, strict.host, "failed", "encrypted transfers only")
        self.assert_copy(self.source, other.root / "copy.bin")
        self.assertEqual(self.seen_of([strict, other], "--encrypt"), 0)


if __name__ == "__main__":
    lab.enter()
    unittest.main()
