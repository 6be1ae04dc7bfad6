"""The lab's time: one deadline over all its stages, whatever waits in them, and another one over tidying up after it. Who
is over it has failed, and the stage is named; no runner's own, more generous timeout has to strike first."""
import contextlib
import os
import signal
import time


class OverBudget(BaseException):
    """Not an Exception: whoever takes a failed run for a result must not take this for one."""


class Budget:
    """`seconds` from entry to exit. In the main thread, one at a time. Over it, whoever is on the way has `clean_up`
    seconds more; then the program ends with 1, and with it its namespaces and all that runs in them."""

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
        # Past everything that waits: no `finally`, no buffer that is in use.
        os.write(1, f"FAILED: {over}; tidying up took more than {self._clean_up:g} s\n".encode())
        os._exit(1)
