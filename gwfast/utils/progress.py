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
def reporting_on_terminal(
    line: Callable[[ProgressEvent], str | None], *, quiet: bool = False
) -> Iterator[Reporter]:
    """Give a function that shows events on stderr: as a bar, or if no bar can be drawn as the lines
    that `line` makes of some of them; nothing if `quiet`. The log has what is reported below.
    """
    err = None if quiet else console(stderr=True)
    if err is not None and err.is_terminal:
        with progress_bar() as show:
            yield show
        return

    def print_line(event):
        if err is not None and (text := line(event)) is not None:
            err.print(text, soft_wrap=True)

    yield print_line


@contextlib.contextmanager
def progress_bar() -> Iterator[Reporter]:
    """Give a function that shows the last event in a bar of rich on stderr, which pulses while the
    total is unknown; or in lines without rich, and in notebooks without ipywidgets, where rich
    draws nothing but a warning.
    """
    if find_spec("rich") is None or (
        console(stderr=True).is_jupyter and find_spec("ipywidgets") is None
    ):
        yield _print_lines()
        return
    from rich import progress as bars
    from rich.table import Column

    one_line = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    # Names of starts may look like the markup of rich.
    text = bars.TextColumn("{task.description}", markup=False, table_column=one_line)
    columns = (text, bars.BarColumn(16), bars.TimeElapsedColumn())
    with bars.Progress(*columns, console=console(stderr=True), expand=True) as bar:
        task = bar.add_task("starting", total=None)

        def show(event):
            bar.update(task, description=event.text, completed=event.done or 0, total=event.total)

        yield show
        bar.update(task, total=bar.tasks[0].completed)


def _print_lines():
    """Return a function that prints the first event of each kind of work, then one a second."""
    printed = {}

    def show(event):
        now = time.monotonic()
        if now - printed.get(event.stage, -1.0) >= 1.0:
            printed[event.stage] = now
            print(event.text, file=sys.stderr, flush=True)

    return show


def console(*, stderr: bool = False) -> "Console":
    """Return a console of rich; all text is literal, as names may look like the markup of rich."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)
