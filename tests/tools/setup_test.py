#!/usr/bin/env python3
"""Tests that tools/setup prints what it will install before it installs anything. It must request only the missing
packages from apt. If it lacks the rights to install, it must print the command. Scripts replace the package tools of
the system and record how they were called."""
import os
import pathlib
import subprocess
import tempfile
import unittest

SETUP = pathlib.Path(__file__).resolve().parents[2] / "tools/setup"


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bin = pathlib.Path(folder.name)
        self.calls = self.bin / "calls"
        self.fake("id", f"echo ${{FAKE_UID}}")
        self.fake("apt-get", f'echo "apt-get $*" >> {self.calls}; [ "${{FAKE_APT:-0}}" = 0 ]')
        self.fake("sudo", f'[ "$1" = -n ] && exit "${{FAKE_SUDO}}"; echo sudo >> {self.calls}; exec "$@"')
        self.installed(set())

    def fake(self, name, body):
        (self.bin / name).write_text(f"#!/bin/sh\n{body}\n")
        (self.bin / name).chmod(0o755)

    def installed(self, missing):
        """Makes all packages installed, except those in `missing`."""
        cases = "".join(f"{name}) ;; " for name in missing)
        self.fake("dpkg-query", f'shift 2; for p in "$@"; do case $p in {cases}*) echo "installed $p" ;; esac; done')

    def run_setup(self, *groups, uid=0, sudo=1, apt=0):
        environment = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", "CI": "true",
                       "FAKE_UID": str(uid), "FAKE_SUDO": str(sudo), "FAKE_APT": str(apt)}
        done = subprocess.run([SETUP, *groups], capture_output=True, text=True, check=False, env=environment,
                              stdin=subprocess.DEVNULL, timeout=20)
        calls = self.calls.read_text() if self.calls.exists() else ""
        return done.returncode, done.stdout, done.stderr, calls

    def test_with_everything_there_it_is_silent_and_calls_nobody(self):
        self.assertEqual(self.run_setup("build", "check", uid=1000), (0, "", "", ""))

    def test_it_says_what_it_installs_and_installs_only_that(self):
        self.installed({"meson", "nftables"})
        status, out, _, calls = self.run_setup("build", "check")
        self.assertEqual(status, 0)
        self.assertLess(out.index("missing and will be installed now"), out.index("apt-get update"))
        self.assertRegex(out, r"meson +configures the build")
        install = [line for line in calls.splitlines() if " install " in line]
        self.assertEqual(len(install), 1)
        self.assertTrue(install[0].endswith("--no-install-recommends meson nftables"), install)

    def test_groups_that_were_not_asked_for_are_left_alone(self):
        self.installed({"nftables", "iperf3"})
        self.assertEqual(self.run_setup("build"), (0, "", "", ""))

    def test_sudo_is_used_when_it_asks_nothing(self):
        self.installed({"meson"})
        status, _, _, calls = self.run_setup("build", uid=1000, sudo=0)
        self.assertEqual(status, 0)
        self.assertEqual(calls.count("sudo"), calls.count("apt-get"))

    def test_without_root_or_sudo_it_names_the_command(self):
        self.installed({"meson", "g++"})
        status, _, err, calls = self.run_setup("build", uid=1000, sudo=1)
        self.assertEqual((status, calls), (2, ""))
        self.assertIn("apt-get update && apt-get install -y --no-install-recommends g++ meson\n", err)

    def test_a_failing_installation_is_a_failure(self):
        self.installed({"meson"})
        status, _, err, _ = self.run_setup("build", apt=1)
        self.assertEqual(status, 1)
        self.assertIn("could not install: meson", err)

    def test_an_unknown_group_is_refused(self):
        self.assertEqual(self.run_setup("biuld")[0], 2)


if __name__ == "__main__":
    unittest.main()
