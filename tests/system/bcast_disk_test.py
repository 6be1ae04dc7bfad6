#!/usr/bin/env python3
"""Tests a receiver whose disk is full or not writable. It must fail alone, without any effect on the other
receivers."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lab"))
import lab
from harness import BcastCase, ExitCode

MIB = 1 << 20
BOUND = 15.0  # The limit in seconds until rdmc_bcast ends.


class Disk(BcastCase):
    def disk(self, name, options):
        """Mounts a separate file system at a folder with this name. Returns the folder."""
        folder = self.folder / name
        folder.mkdir()
        lab.run("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder))
        self.addCleanup(lab.run, "umount", str(folder))
        return folder

    def test_full_from_the_start(self):
        small = self.disk("small", "size=4m")
        (small / "hog").write_bytes(bytes(4 * MIB))
        bad = self.agent(root=small)
        self.assert_left_out(bad, self.agents(2), BOUND, "no space")
        self.assertEqual([path.name for path in small.iterdir()], ["hog"])

    def test_too_small(self):
        small = self.disk("small", "size=8m")
        bad = self.agent(root=small)
        self.assert_left_out(bad, self.agents(2), BOUND, "no space", size=64 * MIB)
        self.assert_nothing_in(small)
        self.assert_usable([bad])

    def test_a_dry_run_says_that_it_is_too_small(self):
        bad = self.agent(root=self.disk("small", "size=8m"))
        done = self.send(self.file(64 * MIB), "copy", "--dry-run", to=[bad])
        self.assert_code(done, ExitCode.ALL_FAILED)
        self.assert_cause(done, bad.host, "failed", "no space")

    def test_read_only_from_now_on(self):
        folder = self.disk("fixed", "rw")
        bad = self.agent(root=folder)
        lab.run("mount", "-o", "remount,ro", str(folder))
        self.assert_left_out(bad, self.agents(2), BOUND, "read-only", "permission denied")

    def test_an_agent_does_not_start_where_it_cannot_write(self):
        folder = self.disk("fixed", "ro")
        done = self.start_agent("--listen", f"{self.net}.1", "--root", folder, "--key-file", self.key())
        self.assertEqual(done.returncode, ExitCode.LOCAL_ERROR)
        self.assertIn(str(folder), done.stderr)
        self.assertIn("read-only", done.stderr.lower())


if __name__ == "__main__":
    lab.enter()
    unittest.main()
