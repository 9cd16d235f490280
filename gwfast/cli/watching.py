"""What is shown of a solve while it runs: how far it has come, and when it may end."""

import math
import time
from collections import deque

from ..results.records import OuterStep
from ..utils.progress import ProgressEvent


class Watch:
    """Events and lines of one solve that ends at a relative change `tol`."""

    def __init__(self, tol: float) -> None:
        self._tol = tol
        # Acceleration makes single changes jump, and a longer past says less.
        self._steps: deque[OuterStep] = deque(maxlen=10)
        self._shown: set[str] = set()
        self._began = self._printed = time.monotonic()

    def event(self, step):
        """The `ProgressEvent` of an `OuterStep`. What matters most comes first, as a
        bar cuts what is too long.
        """
        if self._steps and step.iteration <= self._steps[-1].iteration:
            self._steps.clear()  # another descent
        self._steps.append(step)
        left = seconds_left(self._steps, self._tol)
        text = (
            f"outer {step.iteration}: gw_cost {step.gw_cost:.6g}"
            f"{'' if left is None else f', about {duration(left)} left of this descent'}"
            f", change {step.change:.1e}, marginal error {step.marginal_error:.1e}"
        )
        at = step.iteration
        return ProgressEvent("iteration", text, at, at, None)

    def line(self, event):
        """What is printed of an event where no bar fits, if anything."""
        now = time.monotonic()
        # Of starts, candidates and iterations the first, or there would be dozens.
        detail = event.stage in ("start", "round", "iteration")
        later = event.number > 1 and event.stage in self._shown
        if detail and later and now - self._printed < 5.0:
            return None
        self._printed = now
        self._shown.add(event.stage)
        return f"{event.text} ({duration(now - self._began)})"


def seconds_left(steps, tol):
    """An estimate of when the change of the last of some `OuterStep`s will be at `tol`:
    as if it fell on at its mean rate. None where it does not fall, or of too few.
    """
    first, last = steps[0], steps[-1]
    if len(steps) < 3 or not 0 < last.change < first.change:
        return None
    taken = (last.seconds - first.seconds) / (len(steps) - 1)
    rate = math.log(first.change / last.change) / (len(steps) - 1)
    return taken * max(1.0, math.log(last.change / tol) / rate)


def duration(seconds):
    """Text that is as exact as a reader who waits needs it."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes / 60:.1f} h"
