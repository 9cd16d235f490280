"""Progress: events from whoever works, and where they go; all go to the log as well.

The logger is ``gwfast``. It writes nothing by itself: whoever wants its records gives it a
handler, as ``logging.basicConfig(level="INFO")`` does. INFO has the stages (a file that was read,
a solve that begins, a round of refinement, pairs and jobs that are done) and how each call ended;
DEBUG also the starts that are tried, and iterations where they are reported. What goes wrong is a
warning (`ConvergenceWarning`, to be had here by ``logging.captureWarnings(True)``) or an
exception. Processes that work for this one (``n_jobs``) have loggers of their own.
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
# Stages of which there are dozens in a solve, or thousands.
_DETAILS = frozenset({"start", "round", "iteration"})
# Seconds between lines about one kind of work, where no bar can be drawn.
_LINE_EVERY = 1.0


class ProgressEvent(NamedTuple):
    """What is going on."""

    # The kind of work that begins; of "iteration" and "finished" (a job), that ended.
    stage: Literal[
        "level", "start", "round", "solve", "iteration", "refinement", "match", "job", "finished"
    ]
    text: str
    # Within its stage.
    number: int = 1
    # How much of the whole is done, and of how much; None is unknown.
    done: int | None = None
    total: int | None = None


Reporter = Callable[[ProgressEvent], object]


@dataclass(frozen=True)
class ProgressListener:
    """A `progress` argument that is given the events themselves."""

    report: Reporter


@contextlib.contextmanager
def reporting(progress: Progress | ProgressListener) -> Iterator[Reporter]:
    """A function to report `ProgressEvent` to: False drops them, True shows a bar on stderr, and a
    function is called as ``progress(text, done, total)``. The log has them in any case.
    """
    with _shown(progress) as show:

        def report(event):
            level = logging.DEBUG if event.stage in _DETAILS else logging.INFO
            log.log(level, event.text)
            show(event)

        yield report


@contextlib.contextmanager
def _shown(progress):
    if isinstance(progress, ProgressListener):
        yield progress.report
    elif callable(progress):
        yield lambda event: progress(event.text, event.done, event.total)
    elif not isinstance(progress, bool):
        raise TypeError(f"progress must be a bool or callable, got {type(progress).__name__}")
    elif not progress:
        yield lambda event: None
    else:
        with progress_bar() as report_progress:
            yield report_progress


@contextlib.contextmanager
def reporting_on_terminal(
    line: Callable[[ProgressEvent], str | None], total: int | None = None, *, quiet: bool = False
) -> Iterator[Reporter]:
    """A function that shows events on stderr: as a bar, or where no bar can be drawn
    as the lines that `line` makes of some of them; nothing if `quiet`. For `total` see
    `progress_bar`. The log has what is reported below, not this.
    """
    if quiet:
        yield lambda event: None
        return
    err = console(stderr=True)
    if err.is_terminal:
        with progress_bar(total) as report_progress:
            yield report_progress
        return

    def print_line(event):
        if (text := line(event)) is not None:
            err.print(text, soft_wrap=True)

    yield print_line


@contextlib.contextmanager
def progress_bar(total: int | None = None) -> Iterator[Reporter]:
    """A bar of rich's on stderr that shows the last event; it pulses as long as nobody
    knows the total. With `total` it counts. Without rich, lines; and in notebooks
    without ipywidgets, where rich draws nothing but a warning.
    """
    if not _can_draw():
        yield _lines()
        return
    from rich import progress as bars
    from rich.table import Column

    one_line = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    columns = (
        # Names of starts may look like rich's markup.
        bars.TextColumn("{task.description}", markup=False, table_column=one_line),
        bars.BarColumn(16),
        *([] if total is None else [bars.MofNCompleteColumn()]),
        bars.TimeElapsedColumn(),
    )
    with bars.Progress(*columns, console=console(stderr=True), expand=True) as bar:
        task = bar.add_task("starting", total=total)

        def report_progress(event):
            bar.update(task, description=event.text, completed=event.done or 0, total=event.total)

        yield report_progress
        bar.update(task, total=bar.tasks[0].completed)


def _can_draw():
    if find_spec("rich") is None:
        return False
    return not console(stderr=True).is_jupyter or find_spec("ipywidgets") is not None


def _lines():
    """A function that prints events: the first of each kind of work, and then one a
    second at most."""
    printed = {}

    def print_line(event):
        now = time.monotonic()
        if now - printed.get(event.stage, -_LINE_EVERY) >= _LINE_EVERY:
            printed[event.stage] = now
            print(event.text, file=sys.stderr, flush=True)

    return print_line


def console(*, stderr: bool = False) -> "Console":
    """rich's, where words and names may look like its markup: all text is literal."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)
