"""How experiments look on a terminal, and in a file that it was piped to."""

import math
from contextlib import contextmanager

from rich.box import SIMPLE_HEAD
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Column, Table

from ..utils.progress import console

# Tables are made for this width, as long as the terminal is not narrower.
_WIDTH = 80
# Blanks around a column, those between two shared.
_GAP = 3


def print_columns(out, title, heads, columns, rows, *, note=None):
    """Print a table of many narrow columns, in parts as wide as fit.

    Parameters
    ----------
    out : Console
    title : str
    heads : sequence of str
        Names of the columns on the left, which every part repeats.
    columns : sequence of str
        Names of the others.
    rows : sequence of tuple
        Texts of the columns on the left, then a dict of texts by column. A row
        without any text in a part is left out there.
    note : str, optional
        Below.
    """
    lefts = [
        max(len(head), *(len(row[k]) for row in rows)) for k, head in enumerate(heads)
    ]
    widths = {
        name: max(len(name), *(len(row[-1].get(name, "")) for row in rows))
        for name in columns
    }
    room = min(out.width, _WIDTH) - sum(left + _GAP for left in lefts) - 2
    parts, used = [[]], 0
    for name in columns:
        if parts[-1] and used + widths[name] + _GAP > room:
            parts.append([])
            used = 0
        parts[-1].append(name)
        used += widths[name] + _GAP
    for number, part in enumerate(parts):
        # A title of the table's own would be wrapped to its width.
        out.print(f"{title}, continued" if number else title, style="bold")
        shown = Table(box=SIMPLE_HEAD)
        for head, left in zip(heads, lefts, strict=True):
            shown.add_column(head, no_wrap=True, min_width=left)
        for name in part:
            shown.add_column(name, justify="right", no_wrap=True)
        for *left, cells in rows:
            texts = [cells.get(name, "") for name in part]
            if any(texts):
                shown.add_row(*left, *texts)
        out.print(shown)
    if note:
        out.print(note)


def percent(share):
    """A share in percent as the paper's tables have it; a dash for none."""
    if share is None or math.isnan(share):
        return "-"
    return f"{100 * share:.1f}"


class _Lines:
    """Progress where no bar can be drawn: a line for each job."""

    def __init__(self, out, total, done):
        self.out, self.total, self.n_done = out, total, done

    def start(self, label):
        pass

    def watch(self, text, done=None, total=None):
        pass

    def done(self, label, seconds):
        self.n_done += 1
        self.out.print(
            f"{self.n_done} of {self.total}: {label} ({seconds:.1f} s)", soft_wrap=True
        )


class _Bar:
    """A bar of jobs, and what the one that runs in this process is at."""

    def __init__(self, bar, total, done):
        self.bar, self.label = bar, ""
        self.task = bar.add_task("starting", total=total, completed=done)

    def start(self, label):
        self.label = label
        self.bar.update(self.task, description=label)

    def watch(self, text, done=None, total=None):
        self.bar.update(self.task, description=f"{self.label}: {text}")

    def done(self, label, seconds):
        self.bar.update(self.task, advance=1, description=label)


class _Silence:
    watch = None

    def start(self, label):
        pass

    def done(self, label, seconds):
        pass


@contextmanager
def progress(total, done, quiet):
    """Something with `start`, `watch` and `done`, on stderr."""
    err = console(stderr=True)
    if quiet:
        yield _Silence()
    elif not err.is_terminal:
        yield _Lines(err, total, done)
    else:
        text = TextColumn(
            "{task.description}",
            markup=False,
            table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
        )
        columns = text, BarColumn(16), MofNCompleteColumn()
        with Progress(*columns, console=err, expand=True) as bar:
            yield _Bar(bar, total, done)
