"""Progress: events of running work and the functions that receive them; the log has all of them.

The logger is ``gwfast``. It writes nothing by itself: give it a handler, as
``logging.basicConfig(level="INFO")`` does. INFO has the stages (a file that was read, a solve that
begins, a round of refinement, pairs and jobs that are done) and how each call ended; DEBUG also the
starts that are tried, and iterations where they are reported.
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
    with contextlib.ExitStack() as stack:
        show: Reporter | None
        if isinstance(progress, ProgressListener):
            show = progress.report
        elif callable(progress):
            show = lambda event: progress(event.text, event.done, event.total)  # noqa: E731
        elif not isinstance(progress, bool):
            raise TypeError(f"progress must be a bool or callable, got {type(progress).__name__}")
        else:
            show = stack.enter_context(progress_bar()) if progress else None

        def report(event):
            log.log(logging.DEBUG if event.stage in _DETAILS else logging.INFO, event.text)
            if show is not None:
                show(event)

        yield report


@contextlib.contextmanager
def reporting_on_terminal(
    line: Callable[[ProgressEvent], str | None], total: int | None = None, *, quiet: bool = False
) -> Iterator[Reporter]:
    """A function that shows events on stderr: as a bar, or if no bar can be drawn
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
    """A bar of rich's on stderr that shows the last event; it pulses while the total is
    unknown. With `total` it counts. Without rich, lines; and in notebooks without ipywidgets, where
    rich draws nothing but a warning.
    """
    bare = find_spec("rich") is None
    if bare or (console(stderr=True).is_jupyter and find_spec("ipywidgets") is None):
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


def _lines():
    """Return a function that prints the first event of each kind of work, then one a second."""
    printed = {}

    def print_line(event):
        now = time.monotonic()
        if now - printed.get(event.stage, -1.0) >= 1.0:
            printed[event.stage] = now
            print(event.text, file=sys.stderr, flush=True)

    return print_line


def console(*, stderr: bool = False) -> "Console":
    """Return a console of rich's; all text is literal, as names may look like rich's markup."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)
