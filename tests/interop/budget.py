"""The lab's time: one deadline over all its stages, whatever waits in them. Who is over it has failed, and the stage is
named; no runner's own, more generous timeout has to strike first."""
import contextlib
import signal
import time


class OverBudget(BaseException):
    """Not an Exception: whoever takes a failed run for a result must not take this for one."""


class Budget:
    """`seconds` from entry to exit. In the main thread, one at a time."""

    def __init__(self, seconds):
        self._seconds, self._stage, self._took = seconds, "start", {}

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
        raise OverBudget(f"over the budget of {self._seconds:g} s in the stage \"{self._stage}\"; before it: {str(self) or 'nothing'}")
