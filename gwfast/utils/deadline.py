"""The time at which a computation has to end."""

import math
import time

from .validation import as_positive


class OutOfTime(Exception):
    """There was no time for anything that could be returned."""


class Deadline:
    """A time, by `time.perf_counter`, at which loops end with their last result. They look at it
    between calls of kernels.
    """

    __slots__ = ("at",)

    def __init__(self, at: float = math.inf) -> None:
        self.at = at

    @classmethod
    def after(cls, time_limit: float | None) -> "Deadline":
        """Return the deadline in `time_limit` seconds from now; None is never."""
        if time_limit is None:
            return cls()
        return cls(time.perf_counter() + as_positive(time_limit, "time_limit"))

    def passed(self, spare: float = 0.0) -> bool:
        """Return whether it is nearer than `spare` seconds."""
        return time.perf_counter() > self.at - spare

    @property
    def left(self) -> float | None:
        """Seconds until then, a nanosecond at least; None if there is no limit."""
        return None if self.at == math.inf else max(self.at - time.perf_counter(), 1e-9)

    def check(self, spare: float = 0.0) -> None:
        """Raise OutOfTime if it is nearer than `spare` seconds."""
        if self.passed(spare):
            raise OutOfTime

    def sooner(self, seconds: float) -> "Deadline":
        """Return a deadline `seconds` before this deadline, whose `stop` ends both."""
        return _Sooner(self, seconds)

    def stop(self) -> None:
        """Let it be over now, for all who look at it, from any thread."""
        self.at = -math.inf


class _Sooner(Deadline):
    __slots__ = ("_other", "_seconds")

    def __init__(self, other: Deadline, seconds: float) -> None:
        self._other, self._seconds = other, seconds

    @property
    def at(self) -> float:  # type: ignore[override]
        return self._other.at - self._seconds


# The deadline of calls without a limit, which must not be stopped.
NEVER = Deadline()


class Patience:
    """Time for a search: `seconds` in all, and half of that since something lower was found."""

    def __init__(self, seconds: float):
        now = time.perf_counter()
        self._seconds, self._began, self._found = seconds, now, now

    @property
    def goes_on(self) -> bool:
        now = time.perf_counter()
        return now - self._found < self._seconds / 2 and now - self._began < self._seconds

    def renew(self) -> None:
        """Note that something lower was found."""
        self._found = time.perf_counter()
