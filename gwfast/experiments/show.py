"""How experiments look on a terminal, and in a file that it was piped to."""

import math
from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

# Tables are made for this width, as long as the terminal is not narrower.
_WIDTH = 80
# Blanks around a column, those between two shared.
_GAP = 3


def print_columns(
    out: Console,
    title: str,
    heads: Sequence[str],
    columns: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
    *,
    note: str | None = None,
) -> None:
    """Print a table of many narrow columns, in parts as wide as fit.

    Every part repeats the columns on the left, of which `heads` are the names. A row holds their
    texts, then a dict of texts by column; where a part has no text of it, it is left out there.
    """
    lefts = [max(len(head), *(len(row[k]) for row in rows)) for k, head in enumerate(heads)]
    widths = {
        name: max(len(name), *(len(row[-1].get(name, "")) for row in rows)) for name in columns
    }
    room = min(out.width, _WIDTH) - sum(left + _GAP for left in lefts) - 2
    parts: list[list[str]] = [[]]
    used = 0
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
        for head, width in zip(heads, lefts, strict=True):
            shown.add_column(head, no_wrap=True, min_width=width)
        for name in part:
            shown.add_column(name, justify="right", no_wrap=True)
        for *left, cells in rows:
            texts = [cells.get(name, "") for name in part]
            if any(texts):
                shown.add_row(*left, *texts)
        out.print(shown)
    if note:
        out.print(note)


def percent(fraction: float | None) -> str:
    """A fraction in percent as the paper's tables have it; a dash for none."""
    if fraction is None or math.isnan(fraction):
        return "-"
    return f"{100 * fraction:.1f}"
