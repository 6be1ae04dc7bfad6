#!/usr/bin/env python3
"""finds.py BUG TEST CASE: with the planted BUG (RDMC_PLANTED), CASE of the program TEST must fail, and that by a check of its own."""
import os
import subprocess
import sys

CHECK_FAILED = 201  # Boost.Test's exit_test_failure

bug, test, case = sys.argv[1:]
done = subprocess.run([test, f"--run_test={case}"], env={**os.environ, "RDMC_PLANTED": bug}, check=False)
sys.exit(0 if done.returncode == CHECK_FAILED else f"finds.py: {bug} was not found: exit status {done.returncode}")
