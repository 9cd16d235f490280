"""Progress: events of running work and the functions that receive them.

The logger ``gwfast`` has all events. It writes nothing by itself: give it a handler, as
``logging.basicConfig(level="INFO")`` does. INFO has the stages (a file that was read, a solve that
begins, pairs and jobs that are done) and how each call ended; DEBUG also starts and iterations.
"""

import contextlib
import logging
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, NamedTuple

from .types import Progress

if TYPE_CHECKING:
    from rich.console import Console

log = logging.getLogger("gwfast")
log.addHandler(logging.NullHandler())
# Stages that a solve reports dozens or thousands of times.
_DETAILS = frozenset({"start", "round", "iteration"})


class ProgressEvent(NamedTuple):
    """A step of running work."""

    # The kind of work that begins; of "iteration" and "finished" (a job), that ended.
    stage: Literal[
        "level", "start", "round", "solve", "iteration", "refinement", "match", "job", "finished"
    ]
    text: str
    number: int = 1  # within its stage
    done: int | None = None  # how much of the whole is done, None if unknown
    total: int | None = None


Reporter = Callable[[ProgressEvent], object]


@dataclass(frozen=True)
class ProgressListener:
    """A `progress` argument that is given the events themselves."""

    report: Reporter


@contextlib.contextmanager
def reporting(progress: Progress | ProgressListener) -> Iterator[Reporter]:
    """Give a function to report `ProgressEvent` to: False drops them, True shows a bar on stderr,
    and a function is called as ``progress(text, done, total)``. The log has them in any case.
    """
    if not isinstance(progress, bool | ProgressListener) and not callable(progress):
        raise TypeError(f"progress must be a bool or callable, got {type(progress).__name__}")
    with progress_bar() if progress is True else contextlib.nullcontext() as show:

        def report(event):
            log.log(logging.DEBUG if event.stage in _DETAILS else logging.INFO, event.text)
            if show is not None:
                show(event)
            elif isinstance(progress, ProgressListener):
                progress.report(event)
            elif callable(progress):
                progress(event.text, event.done, event.total)

        yield report


@contextlib.contextmanager
def progress_bar() -> Iterator[Reporter]:
    """Give a function that shows the last event in a bar of rich on stderr, which pulses while the
    total is unknown; or in lines if rich cannot draw a bar: if it is missing, in files and pipes,
    and in notebooks without ipywidgets.
    """
    err = console(stderr=True) if find_spec("rich") else None
    if err is None or not (find_spec("ipywidgets") if err.is_jupyter else err.is_terminal):
        yield _print_lines()
        return
    from rich import progress as bars
    from rich.table import Column

    one_line = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    # Names of starts may look like the markup of rich.
    text = bars.TextColumn("{task.description}", markup=False, table_column=one_line)
    columns = (text, bars.BarColumn(16), bars.TimeElapsedColumn())
    with bars.Progress(*columns, console=err, expand=True) as bar:
        task = bar.add_task("starting", total=None)

        def show(event):
            bar.update(task, description=event.text, completed=event.done or 0, total=event.total)

        yield show
        bar.update(task, total=bar.tasks[0].completed)


def _print_lines():
    """Return a function that prints the first event of each kind of work, then one in 5 seconds."""
    began = printed = time.monotonic()
    stages = set()

    def show(event):
        nonlocal printed
        now = time.monotonic()
        if event.number == 1 or event.stage not in stages or now - printed >= 5.0:
            printed = now
            stages.add(event.stage)
            print(f"{event.text} ({duration(now - began)})", file=sys.stderr, flush=True)

    return show


def duration(seconds: float) -> str:
    """Return text as exact as a waiting reader needs."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def console(*, stderr: bool = False) -> "Console":
    """Return a console of rich; all text is literal, as names may look like the markup of rich."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)
