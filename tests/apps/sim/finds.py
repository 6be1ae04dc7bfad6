#!/usr/bin/env python3
"""finds.py BUG TEST CASE: runs CASE of the program TEST with the planted bug BUG (RDMC_PLANTED). Exits with 0 if the
case fails because of a check in the case. A crash does not count."""
import os
import subprocess
import sys

CHECK_FAILED = 201  # The value of Boost.Test's exit_test_failure.

bug, test, case = sys.argv[1:]
done = subprocess.run([test, f"--run_test={case}"], env={**os.environ, "RDMC_PLANTED": bug}, check=False)
sys.exit(0 if done.returncode == CHECK_FAILED else f"finds.py: {bug} was not found: exit status {done.returncode}")
