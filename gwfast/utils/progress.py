"""Progress: events from whoever works, and where they go."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from .types import Progress

if TYPE_CHECKING:
    from rich.console import Console


class ProgressEvent(NamedTuple):
    """What is going on."""

    # The kind of work that begins; of "iteration" and "finished" (a job), that ended.
    stage: Literal[
        "start", "round", "solve", "iteration", "refinement", "match", "job", "finished"
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
    """A function to report `ProgressEvent` to: False drops them, True shows a bar on
    stderr, and a function is called as ``progress(text, done, total)``.
    """
    if isinstance(progress, ProgressListener):
        yield progress.report
    elif callable(progress):
        yield lambda event: progress(event.text, event.done, event.total)
    elif not isinstance(progress, bool):
        raise TypeError(
            f"progress must be a bool or callable, got {type(progress).__name__}"
        )
    elif not progress:
        yield lambda event: None
    else:
        with progress_bar() as report_progress:
            yield report_progress


@contextlib.contextmanager
def reporting_on_terminal(
    line: Callable[[ProgressEvent], str | None], total: int | None = None
) -> Iterator[Reporter]:
    """A function that shows events on stderr: as a bar, or where no bar can be drawn
    as the lines that `line` makes of some of them. For `total` see `progress_bar`.
    """
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
    knows the total. With `total` it counts.
    """
    try:
        from rich import progress as bars
        from rich.table import Column
    except ImportError as error:
        raise ImportError(
            "progress=True needs the package rich (pip install rich)"
        ) from error
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
            bar.update(
                task,
                description=event.text,
                completed=event.done or 0,
                total=event.total,
            )

        yield report_progress
        bar.update(task, total=bar.tasks[0].completed)


def console(*, stderr: bool = False) -> "Console":
    """rich's, where words and names may look like its markup: all text is literal."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)
