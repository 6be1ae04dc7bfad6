#!/usr/bin/env python3
"""Tests that the group example works when only a launcher starts its processes. The launcher is srun, with real Slurm
daemons on this machine. The processes learn of each other from srun's variables or from a PMIx server. The tests fail
without Slurm (package group `check`)."""
import json
import os
import pathlib
import secrets
import tempfile
import unittest

import slurm

EXAMPLE, BCAST = os.environ["RDMC_GROUP_EXAMPLE"], os.environ["RDMC_BCAST"]
DELIVERED = ["message 0: 10000000 times x", "message 1: 11 times y"]


class UnderSlurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(slurm.Cluster())
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.home = cls.home_with_key(folder / "home")
        cls.other_home = cls.home_with_key(folder / "other")

    @staticmethod
    def home_with_key(home):
        """Makes a home directory with a cluster key at the default path."""
        (home / ".config/rdmc").mkdir(parents=True)
        key = home / ".config/rdmc/key"
        key.touch(mode=0o600)
        key.write_text(f"rdmc-key-1:{secrets.token_hex(32)}\n", encoding="ascii")
        return str(home)

    def run_example(self, *words, home=None):
        environment = {"HOME": home or self.home, "XDG_CONFIG_HOME": "", "RDMC_KEY_FILE": ""}
        return self.cluster.run("--kill-on-bad-exit", *words, environment=environment)

    def assert_delivered(self, done, receivers):
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(sorted(done.stdout.splitlines()), sorted(DELIVERED * receivers))

    def test_srun_on_four_nodes_is_all_that_it_takes(self):
        self.assert_delivered(self.run_example("-N4", "-n6", EXAMPLE), 5)
        self.assert_delivered(self.run_example("-N4", "-n6", "-m", "cyclic", EXAMPLE, "slurm"), 5)

    def test_pmix_is_preferred_and_knows_an_order_that_variables_do_not_tell(self):
        self.assert_delivered(self.run_example("--mpi=pmix", "-N4", "-n6", EXAMPLE), 5)
        arbitrary = ["-n", "4", "-m", "arbitrary", "-w", ",".join(self.cluster.names[i] for i in (2, 0, 2, 1))]
        self.assert_delivered(self.run_example("--mpi=pmix", *arbitrary, EXAMPLE, "pmix"), 3)
        refused = self.run_example(*arbitrary, EXAMPLE)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("SLURM_DISTRIBUTION is 'arbitrary'", refused.stderr)
        self.assertIn("srun --mpi=pmix", refused.stderr)

    def test_who_has_no_key_is_told_where_one_is_looked_for_and_another_key_does_not_do(self):
        lost = self.run_example("-N1", "-n1", EXAMPLE, home="/nonexistent")
        self.assertIn("/nonexistent/.config/rdmc/key", lost.stderr)
        self.assertIn("rdmc_bcast keygen", lost.stderr)
        mixed = self.run_example("-N2", "sh", "-c",
                                 f'[ $SLURM_PROCID = 0 ] || export HOME="{self.other_home}"; exec {EXAMPLE}')
        self.assertNotEqual(mixed.returncode, 0)
        self.assertIn("key", mixed.stderr)
        self.assertEqual(mixed.stdout, "")

    def copy_to_all(self, options, launch):
        """Sends a file from the first task to the other three tasks. Each task has its own directory, because all tasks
        are on one machine."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        source = folder / "source"
        source.write_bytes(secrets.token_bytes(5_000_000))
        done = self.run_example(*options, "sh", "-c", f"mkdir {folder}/$SLURM_PROCID && cd {folder}/$SLURM_PROCID && "
                                f"exec {BCAST} --json --launch {launch} {source} new/copy")
        self.assertEqual(done.returncode, 0, done.stderr)
        events = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([event["ok"] for event in events if event["event"] == "summary"], [3], done.stdout)
        for task in (1, 2, 3):
            self.assertEqual((folder / str(task) / "new/copy").read_bytes(), source.read_bytes(), f"task {task}")
        self.assertEqual(list((folder / "0").iterdir()), [])

    def test_rdmc_bcast_sends_from_the_first_task_to_all_others(self):
        self.copy_to_all(["-N4"], "slurm")
        self.copy_to_all(["-N4", "--mpi=pmix"], "pmix")


if __name__ == "__main__":
    unittest.main(verbosity=2)
