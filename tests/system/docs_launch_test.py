#!/usr/bin/env python3
"""Runs the commands of the documentation that start jobs, under a Slurm cluster on this machine and under mpirun."""
import shutil
import unittest

import slurm
from documented_case import BCAST_BYTES, Documented, scenario


class Launchers(Documented):
    @scenario("launchers")
    def test_a_launcher_is_all_that_jobs_need(self):
        source, copies = self.file(BCAST_BYTES), self.folder / "copies"
        copies.mkdir()
        self.run_documented("mkdir -p ~/.config/rdmc")
        self.run_documented("rdmc_bcast keygen ~/.config/rdmc/key")
        values = {"source": source, "folder": copies}
        delivered = sorted(["message 0: 10000000 times x", "message 1: 11 times y"] * 3)
        cluster = self.enterContext(slurm.Cluster())
        mpirun = {"SLURM_CONF": cluster.environment["SLURM_CONF"], "OMPI_ALLOW_RUN_AS_ROOT": "1",
                  "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
        # srun has a PMIx server, too. It stands in for mpirun where Open MPI is not installed.
        also = {} if shutil.which("mpirun") else {"mpirun -n 4": "srun --mpi=pmix -N4 -n4"}
        for text in ("srun -N4 build/lib/rdmc_group_example", "mpirun -n 4 build/lib/rdmc_group_example"):
            self.assertEqual(sorted(self.run_documented(text, also=also, environment=mpirun).splitlines()), delivered)
        for text in ("srun -N16 --ntasks-per-node=1 rdmc_bcast --launch slurm SRC DEST",
                     "mpirun -n 16 rdmc_bcast --launch pmix SRC DEST"):
            self.run_documented(text, also=also, values=values, environment=mpirun)
            made = list(copies.iterdir())
            self.assertEqual(len(made), 4)
            received = [folder / "DEST" for folder in made if (folder / "DEST").exists()]
            self.assertEqual(len(received), 3)
            for copy in received:
                self.assert_copy(source, copy)
            for folder in made:
                shutil.rmtree(folder)


if __name__ == "__main__":
    unittest.main()
