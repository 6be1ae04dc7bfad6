#!/usr/bin/env python3
"""finds.py BUG TEST CASE: runs CASE of the program TEST with the planted bug BUG (RDMC_PLANTED). The case must fail,
and a check of the case itself must be the cause."""
import os
import subprocess
import sys

CHECK_FAILED = 201  # Boost.Test's exit_test_failure.

bug, test, case = sys.argv[1:]
done = subprocess.run([test, f"--run_test={case}"], env={**os.environ, "RDMC_PLANTED": bug}, check=False)
sys.exit(0 if done.returncode == CHECK_FAILED else f"finds.py: {bug} was not found: exit status {done.returncode}")
