"""The lab's time limits: one deadline for all its stages, and another one for the cleanup after it. A lab over its
limit has failed, and the stage is named. In this way the longer timeout of a test runner is not needed."""
import contextlib
import os
import signal
import time


class OverBudget(BaseException):
    """Not an Exception, so that code which handles a failed run does not handle this."""


class Budget:
    """Allows `seconds` from entry to exit. Must be used in the main thread, one at a time. After the limit, the
    running code has `clean_up` more seconds. Then the program ends with status 1, and its namespaces and all
    processes in them end with it."""

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
        # Ends at once, without `finally` blocks and without flushing buffers, because either could wait.
        os.write(1, f"FAILED: {over}; tidying up took more than {self._clean_up:g} s\n".encode())
        os._exit(1)
