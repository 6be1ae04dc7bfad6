"""The lab's time limits: one deadline for all its stages together, and another one for the cleanup after them. A lab
that exceeds its limit has failed, and the message names the stage. So a test runner's longer timeout never has to end
it."""
import contextlib
import os
import signal
import time


class OverBudget(BaseException):
    """This class is not derived from Exception, so that code which handles a failed run does not catch it."""


class Budget:
    """Allows `seconds` from entry to exit. Must be used in the main thread. There may be only one at a time. After the
    limit, the running code has `clean_up` more seconds. After these, the program ends with status 1. Its namespaces,
    and all processes in them, end with the program."""

    def __init__(self, seconds, clean_up=15):
        self._seconds, self._clean_up, self._stage, self._took = seconds, clean_up, "start", {}

    def __enter__(self):
        self._former = signal.signal(signal.SIGALRM, self._strike)
        signal.setitimer(signal.ITIMER_REAL, self._seconds)
        return self

    def __exit__(self, *_):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._former)

    @contextlib.contextmanager
    def stage(self, name):
        self._stage, start = name, time.monotonic()
        try:
            yield
        finally:
            self._took[name] = self._took.get(name, 0) + time.monotonic() - start

    def __str__(self):
        return ", ".join(f"{name} {seconds:.0f} s" for name, seconds in self._took.items())

    def _strike(self, *_):
        over = f"over the budget of {self._seconds:g} s in the stage \"{self._stage}\"; before it: {str(self) or 'nothing'}"
        signal.signal(signal.SIGALRM, lambda *_: self._give_up(over))
        signal.setitimer(signal.ITIMER_REAL, self._clean_up)
        raise OverBudget(over)

    def _give_up(self, over):
        # Ends the process at once, without `finally` blocks and without flushing buffers. Either of these
        # could wait.
        os.write(1, f"FAILED: {over}; tidying up took more than {self._clean_up:g} s\n".encode())
        os._exit(1)
