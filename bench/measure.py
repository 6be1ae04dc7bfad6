"""Common functions of the side-by-side scripts: running the measured programs, and reporting the results."""
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess

TOP = pathlib.Path(__file__).resolve().parent.parent


class Failed(Exception):
    """A program could not be run. The text says which program and why."""


def run(command, environment=None):
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL, timeout=600, env={**os.environ, **(environment or {})})
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def bits_per_second(rate):
    """Converts a rate as tc writes it, for example 200mbit."""
    number, unit = re.fullmatch(r"(\d+)([kmg])bit", rate).groups()
    return int(number) * {"k": 10**3, "m": 10**6, "g": 10**9}[unit]


def report(*command, environment=None):
    """Returns the JSON object that a program prints."""
    return json.loads(run(command, environment))


def spread(figures):
    return f"{statistics.median(figures):.1f} ({min(figures):.1f}-{max(figures):.1f})"


def circumstances():
    """Returns the date, the commit and the machine, for the end of a table's first line."""
    commit = subprocess.run(["git", "-c", "safe.directory=*", "-C", TOP, "describe", "--always", "--dirty"],
                            capture_output=True, text=True, check=False).stdout.strip()
    return f"{datetime.date.today()}, commit {commit}, {os.cpu_count()} cores, Linux {platform.release()}"
