"""The base of the tests that run the commands of the documentation. documented.py says which test runs which command."""
import os
import pathlib
import shlex
import signal
import subprocess
import tempfile

from documented import COMMANDS, Here
from harness import PATIENCE, BcastCase, wait_until

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["RDMC_BUILD"])
PROGRAMS = ["apps/bcast-cli/rdmc_bcast", "apps/control/rdmc_control", "apps/replicated-kv/rdmc_kv", "apps/sim/rdmc_sim", "apps/tools/rdmc_doctor",
            "apps/tools/rdmc_ping", "apps/tools/rdmc_pingpong"]
BCAST_BYTES = 4 << 20  # The size of a file that is copied.


def scenario(name):
    """Marks the test method that runs the commands whose entries have this name."""
    def mark(method):
        method.scenario = name
        return method
    return mark


class Program:
    """A command that a shell runs in the background. Its output is in files, so nobody must read it in time."""

    def __init__(self, case, words, folder, environment, stdin):
        self.words = words
        self._files = [tempfile.TemporaryFile("w+", encoding="utf-8") for _ in range(2)]
        self.process = subprocess.Popen(words, cwd=folder, env=environment, stdin=stdin or subprocess.DEVNULL,
                                        stdout=self._files[0], stderr=self._files[1])
        case.addCleanup(self._end)

    def _end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for file in self._files:
            file.close()

    def _text(self, file):
        # The program writes at the offset of the same open file, so this reads without moving it.
        return os.pread(file.fileno(), 1 << 24, 0).decode(errors="replace")

    @property
    def output(self):
        return self._text(self._files[0])

    @property
    def errors(self):
        return self._text(self._files[1])

    def wait(self):
        return self.process.wait(PATIENCE)

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.wait()

    def wait_until(self, condition, what):
        """Waits until `condition()` is true. Fails if the program has ended before."""
        def there():
            value = condition()
            assert value or self.process.poll() is None, f"ended before {what}: {self}"
            return value
        return wait_until(there, f"{what}: {self}")

    def __str__(self):
        return f"{shlex.join(self.words)}: exit {self.process.poll()}\n{self.output}{self.errors}"


class Documented(BcastCase):
    """A test in a directory that has the build directory as `build`, with the programs on the path. After the test,
    every command whose entry names it must have been run."""

    def setUp(self):
        super().setUp()
        named = getattr(getattr(self, self._testMethodName), "scenario", None)
        self.due = {text for text, entry in COMMANDS.items() if entry.test == named}
        self.home, self.bin = self.folder / "home", self.folder / "bin"
        self.home.mkdir()
        self.bin.mkdir()
        for program in PROGRAMS:
            (self.bin / pathlib.Path(program).name).symlink_to(BUILD / program)
        (self.folder / "build").symlink_to(BUILD)
        self.environment |= {"HOME": str(self.home), "XDG_CONFIG_HOME": "", "RDMC_KEY_FILE": "", "LC_ALL": "C.UTF-8",
                             "PATH": f"{self.bin}:{os.environ['PATH']}:/usr/sbin:/sbin"}

    def tearDown(self):
        self.assertEqual(self.due, set(), "not run, or the test ended before")

    def shell(self, text, host=None, folder=None, environment=None, stdin=None):
        """Starts a command that no page shows, or that was replaced."""
        words = ["sh", "-c", text]
        return Program(self, host.command(words) if host else words, folder or self.folder,
                       {**self.environment, **(environment or {})}, stdin)

    def start(self, text, *, also=None, values=None, **options):
        """Starts a command of the documentation. `values` are the values of the names in braces in its
        entry. `also` has further replacements, which are needed only on some machines."""
        entry = COMMANDS[text]
        self.assertIsInstance(entry, Here)
        self.due.discard(text)
        for old, new in entry.instead.items():
            self.assertIn(old, text)
            text = text.replace(old, new.format(**(values or {})))
        for old, new in (also or {}).items():
            text = text.replace(old, new)
        return self.shell(text if text.startswith("cd ") else f"exec {text}", **options)

    def done(self, program, code=0):
        """Waits for the end of a program, checks its exit code, and returns its output."""
        program.wait()
        self.assertEqual(program.process.returncode, code, str(program))
        return program.output

    def run_documented(self, text, **options):
        return self.done(self.start(text, **options))

    def run_until(self, start, what):
        """Starts a program again until it succeeds. Returns its output."""
        def succeeds():
            program = start()
            self.last = program
            return program if program.wait() == 0 else None
        try:
            return wait_until(succeeds, what).output
        except AssertionError as late:
            raise AssertionError(f"{late}; the last time: {self.last}") from None
