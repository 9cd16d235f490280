"""Results on the terminal, and the progress of a solve."""

import contextlib
import math
import re
from collections import deque

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from ..utils.progress import ProgressEvent, console, duration, progress_bar

# Characters that end a line, command a terminal, change the direction of all text after them, or
# have no place in HTML and UTF-8.
_UNSAFE = "[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"


def literal(text):
    """Return text with escapes of Python for characters that a terminal obeys."""
    return re.sub(_UNSAFE, _escaped, text)


def field(word):
    """Return a word as a field of a table, with escapes of Python; `word_of` is the inverse."""
    return re.sub(rf"\\|^ +| +$|{_UNSAFE}", _escaped, word)


def word_of(field):
    """Return the word of a field."""
    return field.encode("latin-1", "backslashreplace").decode("unicode_escape")


def _escaped(match):
    return match[0].encode("unicode_escape").decode().replace(" ", r"\x20")


@contextlib.contextmanager
def watched(settings):
    """Yield a callback for outer iterations, or None, and a reporter of progress on stderr."""
    if settings.quiet:
        yield None, lambda event: None
        return
    # Acceleration makes single changes jump, and a longer past says less.
    steps = deque(maxlen=10)
    with progress_bar() as report:

        def report_iteration(step):
            if steps and step.iteration <= steps[-1].iteration:
                steps.clear()  # another descent
            steps.append(step)
            text = f"outer {step.iteration}: gw_cost {step.gw_cost:.6g}"
            # The time until the change is at the tolerance, if it falls on at its mean rate.
            if len(steps) > 2 and 0 < step.change < steps[0].change:
                falls = math.log(step.change / settings.tol) / math.log(
                    steps[0].change / step.change
                )
                left = duration(max(0.0, falls * (step.seconds - steps[0].seconds)))
                text += f", about {left} left of this descent"
            text += f", change {step.change:.1e}, marginal error {step.marginal_error:.1e}"
            report(ProgressEvent("iteration", text, step.iteration, step.iteration))

        yield report_iteration, report


def show(text, title):
    """Print blocks of lines; a terminal shows the title too, and fields with tabs as tables."""
    out = console()
    if not out.is_terminal:
        out.file.write(text)
        return
    spaced = True  # an empty line, or nothing, stands above
    for block in (title + text).strip("\n").split("\n\n"):
        if not spaced:
            out.print()
        lines = block.split("\n")
        rows = [line.split("\t") for line in lines if "\t" in line]
        title, *captions = [line for line in lines if "\t" not in line] or [""]
        table = Table.grid(padding=(0, 2))
        if title:
            header, *rows = rows
            table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
            for name, cells in zip(header, zip(*rows, strict=True), strict=True):
                style = {"overflow": "ellipsis", "max_width": 40}
                if all(cell == "-" or re.match(r"\d", cell) for cell in cells):
                    style = {"justify": "right", "min_width": max(map(len, cells))}
                table.add_column(name, no_wrap=True, **style)
        for row in rows:
            # Signs say whether a translation is right.
            colors = {"✓ ": "green", "+ ": "green", "✗ ": "red", "- ": "red"}
            table.add_row(*(Text(cell, colors.get(cell[:2], "")) for cell in row))
        out.print(table, *captions, sep="\n")
        spaced = bool(title and not captions)  # a table ends with an empty line
