"""The base of the system tests. The tests run real rdmc_bcast processes in a separate directory, on separate loopback
addresses, and with a time limit for every wait. After each test, two things must not exist: a process that the test has
not stopped itself, and a partial file."""
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
import unittest
import uuid

BCAST = os.environ["RDMC_BCAST"]  # The program under test.
MARK = "RDMC_TEST_MARK"
PARTIAL = ".rdmc-partial"
# The longest time that a test waits for anything. The tests themselves check the stricter limits of the
# contract.
PATIENCE = 60.0


class ExitCode:
    SUCCESS, USAGE, LOCAL_ERROR, SOME_FAILED, ALL_FAILED, ALL_REFUSED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130


def wait_until(condition, what, patience=PATIENCE):
    """Waits until `condition()` is true, and returns its value. If this takes `patience` seconds, fails the test with a
    message that contains `what`."""
    deadline = time.monotonic() + patience
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience:g} s: {what}")
        threading.Event().wait(0.005)
    return value


def random_bytes(count, seed=1):
    return random.Random(seed).randbytes(count)


def xxh128(path):
    """Returns the digest that an independent program computes."""
    return subprocess.run(["xxh128sum", path], check=True, capture_output=True, text=True).stdout.split()[0]


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def processes_marked(mark):
    """Returns (pid, command line) of each living process whose environment contains `mark`."""
    needle, found = f"{MARK}={mark}".encode(), []
    for name in filter(str.isdigit, os.listdir("/proc")):
        folder = pathlib.Path("/proc", name)
        try:
            if needle in (folder / "environ").read_bytes().split(b"\0") and "\nState:\tZ" not in (folder / "status").read_text():
                found.append((int(name), (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()))
        except OSError:
            pass
    return found


def listens(pid, address, port):
    """Returns true if a TCP socket listens at `address`:`port` in the network namespace of `pid`."""
    wanted = f"{int.from_bytes(bytes(map(int, address.split('.'))), 'little'):08X}:{port:04X}"
    with open(f"/proc/{pid}/net/tcp", encoding="ascii") as table:
        return any(line.split()[1] == wanted and line.split()[3] == "0A" for line in list(table)[1:])


class EndedBefore(AssertionError):
    """A transfer has ended before the test could act on it. On a busy machine, a test may get no processor for a second."""


class Transfer:
    """A running rdmc_bcast --json that sends a file. Threads read the events that it prints."""

    def __init__(self, command, environment, **options):
        self.started = time.monotonic()
        self.events, self.junk, self.errors = [], [], ""
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env=environment, **options)
        self.readers = [threading.Thread(target=self._read_events), threading.Thread(target=self._read_errors)]
        for reader in self.readers:
            reader.start()

    def _read_events(self):
        for line in self.process.stdout:
            try:
                self.events.append(json.loads(line))
            except ValueError:
                self.junk.append(line)

    def _read_errors(self):
        self.errors = self.process.stderr.read()

    def of_kind(self, kind):
        return [event for event in list(self.events) if event["event"] == kind]

    def wait_for_bytes(self, count, or_end=False):
        """Waits until an event reports that receivers have `count` bytes. Before this, the transfer may end only if
        `or_end` is true."""
        def there():
            if self.process.poll() is not None:
                if or_end:
                    return True
                raise EndedBefore(f"ended before {count} bytes: {self.errors}")
            return any(event.get("bytes", 0) >= count for event in self.of_kind("progress"))
        wait_until(there, f"{count} bytes of progress")

    def wait(self, patience=PATIENCE):
        """Waits until the process and its output have ended. Returns this object, which then has the results."""
        self.process.wait(patience)
        for reader in self.readers:
            reader.join(patience)
            assert not reader.is_alive(), "somebody still holds the transfer's output open"
        self.process.stdout.close()
        self.process.stderr.close()
        self.seconds = time.monotonic() - self.started
        self.code = self.process.returncode
        self.receivers = {event["host"]: event for event in self.of_kind("receiver")}
        summaries = self.of_kind("summary")
        self.summary = summaries[-1] if summaries else None
        return self

    def __str__(self):
        return f"exit {self.code}, events {self.events[-12:]}, other output {self.junk}, stderr:\n{self.errors}"


def identity(key):
    """Returns the options for the credentials `key`. It is a key file, a list of other options, or None."""
    return list(key) if isinstance(key, list) else ["--key-file", str(key)] if key else ["--insecure"]


class Agent:
    """A running `rdmc_bcast agent`. `host` is the name by which the sender reports it."""

    def __init__(self, case, address, port, root, key, command_prefix=(), environment=None, options=()):
        self.address, self.port, self.root = address, port, pathlib.Path(root)
        self.host = f"{address}:{port}"
        self.log = open(case.folder / f"agent-{self.host}.log", "w+", encoding="utf-8")
        self.process = subprocess.Popen([*command_prefix, BCAST, "agent", "--listen", self.host, "--root", root, *identity(key),
                                         *options],
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        env={**case.environment, **(environment or {})})
        case.addCleanup(self.stop)
        wait_until(lambda: self.process.poll() is not None or listens(self.process.pid, address, port),
                   f"agent {self.host} listens")
        if self.process.poll() is not None:
            raise AssertionError(f"agent {self.host} ended at once: {self.output()}")

    def output(self):
        return pathlib.Path(self.log.name).read_text()

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self):
        """Requests the agent to end, as its operator would do. The agent must then end by itself. Does nothing if the
        agent has already ended."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"agent {self.host} did not stop: {self.output()}") from None
        self.log.close()


class BcastCase(unittest.TestCase):
    """A test with a directory and a cluster key. After the test, checks that nothing is left."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rdmc-test-"))
        self.mark = uuid.uuid4().hex
        self.environment = {**os.environ, MARK: self.mark}
        self.addCleanup(self._audit)
        # A /24 network of the loopback addresses that only this test uses.
        self.net = f"127.{random.SystemRandom().randrange(64, 250)}.{random.SystemRandom().randrange(1, 250)}"
        self.next_host = 1
        self.port = 7700

    def _audit(self):
        """Runs after the cleanup of the test. So the test has left every process and partial file that still exists."""
        left = []
        try:
            wait_until(lambda: not processes_marked(self.mark), "every process has ended", 5)
        except AssertionError:
            left = processes_marked(self.mark)
            for pid, _ in left:
                os.kill(pid, signal.SIGKILL)
        partial = [str(path) for path in self.folder.rglob(f"*{PARTIAL}*")]
        shutil.rmtree(self.folder, ignore_errors=True)
        self.assertEqual(left, [], "processes were left behind")
        self.assertEqual(partial, [], "partial files were left behind")

    # Functions that prepare a test follow.

    def file(self, size, name="source.bin", seed=1):
        path = self.folder / name
        path.write_bytes(random_bytes(size, seed))
        # No usual umask gives this mode. So if a copy has this mode, it comes from the source.
        path.chmod(0o660)
        return path

    def key(self, name="key"):
        path = self.folder / name
        if not path.exists():
            subprocess.run([BCAST, "keygen", path], check=True, timeout=PATIENCE)
        return path

    def agent(self, root=None, key=True, command_prefix=(), environment=None):
        """Starts an agent with its own receive directory. If `key` is True, the agent has the test's key. Other values
        are those of identity()."""
        address = f"{self.net}.{self.next_host}"
        self.next_host += 1
        if root is None:
            root = self.folder / f"root-{address}"
            root.mkdir()
        return Agent(self, address, self.port, root, self.key() if key is True else key, command_prefix,
                     environment)

    def start_agent(self, *arguments):
        """Runs an agent that must fail at once. Returns the result."""
        return subprocess.run([BCAST, "agent", *map(str, arguments)], capture_output=True, text=True, check=False,
                              timeout=15, stdin=subprocess.DEVNULL, env=self.environment)

    def agents(self, count):
        return [self.agent() for _ in range(count)]

    def start(self, source, destination, *options, to=(), key=True, environment=None, command_prefix=(), **popen):
        """Starts a transfer to the receivers `to` (agents or "ADDR:PORT"), or a transfer with the given options."""
        command = [*command_prefix, BCAST, "--json", *map(str, options)]
        if to:
            command += ["-w", ",".join(getattr(host, "host", host) for host in to)]
            command += identity(self.key() if key is True else key)
        transfer = Transfer([*command, str(source), str(destination)], {**self.environment, **(environment or {})},
                            **popen)
        self.addCleanup(self._end, transfer)
        return transfer

    @staticmethod
    def _end(transfer):
        if transfer.process.poll() is None:
            transfer.process.kill()
        transfer.process.wait()

    def send(self, *arguments, **options):
        return self.start(*arguments, **options).wait()

    # Functions that check results follow.

    def assert_code(self, transfer, code):
        self.assertEqual(transfer.code, code, str(transfer))
        self.assertEqual(transfer.junk, [], "stdout carries JSON lines only")

    def assert_copy(self, source, copy):
        self.assertTrue(copy.is_file(), f"{copy} is missing")
        self.assertEqual(digest(copy), digest(source), f"{copy} differs")
        wanted, given = (stat.S_IMODE(path.stat().st_mode) for path in (source, copy))
        self.assertEqual(oct(given), oct(wanted & 0o777), f"the mode of {copy}")

    def assert_cause(self, transfer, host, status, *words):
        """Checks the receiver's JSON line and the text for people. Both must name `host`, and a cause that contains one
        of `words`."""
        self.assertIn(host, transfer.receivers, str(transfer))
        event = transfer.receivers[host]
        self.assertEqual(event["status"], status, str(transfer))
        self.assertTrue(any(word in event["cause"].lower() for word in words), f"{words} not in: {event['cause']}")
        self.assertIn(host, transfer.errors)
        self.assertTrue(any(word in transfer.errors.lower() for word in words), f"{words} not in: {transfer.errors}")

    def assert_left_out(self, bad, good, bound, *words, size=8 << 20, destination="copy"):
        """Runs a transfer to a bad receiver and to good ones. Checks that the good ones get the file, and that the bad
        one is named with the cause within `bound` seconds."""
        source = self.file(size)
        done = self.send(source, destination, to=[*good, bad])
        self.assert_code(done, ExitCode.SOME_FAILED)
        self.assert_cause(done, bad.host, "failed", *words)
        self.assertLess(done.seconds, bound)
        for agent in good:
            self.assert_copy(source, agent.root / destination)

    def assert_nothing_in(self, *folders):
        """Checks that there is no final file and no partial file. A receiver may still be removing files, so this waits
        for a limited time."""
        def files():
            return [str(path) for folder in folders for path in pathlib.Path(folder).rglob("*") if path.is_file()]
        try:
            wait_until(lambda: not files(), "no file is left", 10)
        except AssertionError as late:
            raise AssertionError(f"{late}: {files()}") from None

    def assert_usable(self, agents):
        """Checks that one more transfer reaches all these agents."""
        source = self.file(300_000, "afterwards.bin", seed=99)
        again = self.send(source, "afterwards.bin", "--overwrite", to=agents)
        self.assert_code(again, ExitCode.SUCCESS)
        for agent in agents:
            self.assert_copy(source, agent.root / "afterwards.bin")
