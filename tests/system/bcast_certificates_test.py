#!/usr/bin/env python3
"""Tests a transfer without a cluster key, between processes whose certificates one authority has signed. All other
processes must be refused."""
import unittest

from certificates import Certificates
from harness import PATIENCE, BcastCase, ExitCode


class WithCertificates(BcastCase):
    def setUp(self):
        super().setUp()
        self.certificates = Certificates(self.folder, PATIENCE)

    def test_whom_the_authority_has_signed_takes_part_and_nobody_else(self):
        names = ["sender", "first", "second"]
        sender, first, second = map(self.certificates.member, names)
        outsider = self.certificates.member("outsider", "theirs")
        agents = [self.agent(key=first), self.agent(key=second)]
        others = [self.agent(key=outsider), self.agent()]
        source = self.file(3 << 20)
        done = self.send(source, "copy", "--encrypt", to=agents, key=sender)
        self.assert_code(done, ExitCode.SUCCESS)
        for agent in agents:
            self.assert_copy(source, agent.root / "copy")
        done = self.send(source, "again", to=agents + others, key=sender)
        self.assert_code(done, ExitCode.SOME_FAILED)
        for agent in agents:
            self.assert_copy(source, agent.root / "again")
        for agent in others:
            self.assert_cause(done, agent.host, "refused", "certificate", "key")
        for wrong in outsider, True:
            done = self.send(source, "never", to=agents, key=wrong)
            self.assert_code(done, ExitCode.ALL_REFUSED)
            for agent in agents:
                self.assertFalse((agent.root / "never").exists())

    def test_half_of_a_certificate_is_a_usage_error(self):
        words = self.certificates.member("sender")
        done = self.send(self.file(1), "copy", to=["127.0.0.1:1"], key=words[:4])
        self.assert_code(done, ExitCode.USAGE)
        self.assertIn("go together", done.errors)


if __name__ == "__main__":
    unittest.main()
