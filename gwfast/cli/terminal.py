"""An alignment on the terminal: facts, translations and scores.

Needs rich (the extra ``cli``).
"""

import re

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from ..kernels._rows import openmp_version
from ..utils.progress import console
from ..words import Embeddings
from ..words.evaluation import CONVENTIONS
from .wording import (
    METHOD_LABELS,
    best_targets,
    given_start,
    printable,
    right_translations,
    threads_of,
)

# They change the direction of all text that follows on a line.
_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")


def literal(text):
    """What a terminal shows and does not obey."""
    return _TURNS.sub("", printable(text))


def described(embeddings: Embeddings) -> str:
    """How many words and columns there are, and what was dropped."""
    n, d = embeddings.vectors.shape
    text = f"{n:,} word{'s' * (n > 1)}, {d} column{'s' * (d > 1)}"
    told = {
        "dropped (duplicates)": embeddings.n_duplicates,
        "dropped (not UTF-8)": embeddings.n_undecodable,
        "dropped (cannot be used)": embeddings.n_skipped - embeddings.n_undecodable,
    }
    if not embeddings.n_skipped:
        told["with replaced bytes"] = told.pop("dropped (not UTF-8)")
    for what, count in told.items():
        text += f", {count:,} {what}" if count > 0 else ""
    return text


def show(outcome):
    """Print the tables; to what is no terminal as lines of fields with tabs between,
    of which none is cut or padded."""
    out = console()
    facts = _facts(outcome)
    if out.is_terminal:
        grid = Table.grid(padding=(0, 2))
        for row in facts:
            grid.add_row(*row)
        out.print(grid)
    else:
        print_fields(out, facts)
    out.print()
    _print_translations(outcome, out)
    if outcome.precision:
        out.print()
        _print_precision(outcome.precision, out)
        # What the figures stand for.
        whole = max(outcome.precision.values(), key=lambda score: score.n_queries)
        rules = CONVENTIONS[outcome.settings.convention]
        of = "pairs" if rules.coverage == "pairs" else "words"
        out.print(
            f"convention {rules.name}: the vocabularies cover {whole.coverage:.1%} of"
            f" the list's {of}",
            soft_wrap=not out.is_terminal,
        )


def print_fields(out, rows):
    """Rows of text as lines, with tabs between."""
    for row in rows:
        # Consoles make spaces of tabs.
        out.file.write("\t".join(map(str, row)) + "\n")


def _facts(outcome):
    """Names and values."""
    result, gw = outcome.result, outcome.result.gw
    facts = [
        (label, f"{literal(given.name)}: {described(given.embeddings)}")
        for label, given in (("source", outcome.source), ("target", outcome.target))
    ]
    n, m = result.gw.coupling.shape
    threads = threads_of(result)
    if not openmp_version():
        threads = "one core: this gwfast was built without OpenMP"
    transport = f"{n:,} x {m:,} words, {result.seconds:.1f} s on {threads}"
    facts.append(("transport", transport))
    status = f"{gw.status}, after {gw.n_iter} outer iterations"
    if np.isfinite(gw.confidence):
        status += f", confidence {gw.confidence:.2f}"
    facts.append(("status", status))
    if gw.candidates:
        fates = [row.fate for row in gw.candidates]
        tried = sum(fate != "went on" for fate in fates)
        won = gw.candidates[fates.index("won")].start
        facts.append(("start", f"{won}, the best of {tried}"))
    elif (start := given_start(outcome.settings)) is not None:
        facts.append(("start", f"{start}: one start, not searched"))
    if result.refinement:
        last = result.refinement[-1]
        times = f"{last.iteration} times, on {last.n_pairs:,} mutual matches"
        facts.append(("refined", times))
    cost = f"{gw.gw_cost:.6g} at epsilon {gw.epsilon:.3g}, marginal error {gw.marginal_error:.1e}"
    facts.append(("gw_cost", cost))
    folder = outcome.settings.output
    if folder is not None:
        facts.append(("written", f"{folder / 'report.html'}, and others"))
    return facts


def _print_table(out, title, columns, rows, caption=None, **style):
    """A table of `columns`, styles by name, on a terminal; else lines of fields."""
    if not out.is_terminal:
        captions = [(caption,)] if caption else []
        print_fields(out, [(title,), tuple(columns), *rows, *captions])
        return
    left = {"title_justify": "left", "title_style": "bold", "caption_justify": "left"}
    table = Table(title=title, caption=caption, box=SIMPLE_HEAD, **left, **style)
    for name, column in columns.items():
        table.add_column(name, **column)
    for cells in rows:
        table.add_row(*cells)
    out.print(table)


def _print_translations(outcome, out):
    """Twenty words, from frequent to rare, and whether the list knows better."""
    x, y = outcome.source.embeddings.words, outcome.target.embeddings.words
    right, wrong = ("✓", "✗") if out.encoding.startswith("utf") else ("+", "-")
    right_rows = right_translations(outcome.gold)

    def cell(row, target):
        known = right_rows.get(row)
        if known is None:
            return Text(literal(y[target]))
        tick, color = (right, "green") if target in known else (wrong, "red")
        return Text(f"{tick} {literal(y[target])}", style=color)

    rows = []
    for row in outcome.shown.tolist():
        candidates = best_targets(outcome, row)
        plan = outcome.coupling.indices
        took_part = row < len(plan) and plan[row, 0] >= 0
        best = cell(row, int(plan[row, 0])) if took_part else ""
        more = ", ".join(literal(y[target]) for target in candidates[1:5])
        rows.append((Text(literal(x[row])), best, cell(row, candidates[0]), Text(more)))
    narrow = {"no_wrap": True, "overflow": "ellipsis", "max_width": 20}
    columns = dict.fromkeys(("word", "coupling", "CSLS"), narrow)
    # The column with a ratio is the one that gives way.
    columns["CSLS 2 to 5"] = {"no_wrap": True, "overflow": "ellipsis", "ratio": 1}
    caption = f"{right} the list has it, {wrong} it does not" if right_rows else None
    width = min(out.width, 80)
    _print_table(out, "translations", columns, rows, caption, width=width)


def _print_precision(precision, out):
    # The interval is what a narrow terminal can do without.
    with_interval = out.width >= 72 or not out.is_terminal
    rows = []
    for method, score in precision.items():
        low, high = score.interval(1)
        found = {f"P@{k}": f"{fraction:.3f}" for k, fraction in score.at.items()}
        if with_interval:
            first, *others = found.items()
            found = dict([first, ("95 %", f"{low:.3f} to {high:.3f}"), *others])
        figures = found.values() if score.n_queries else ["-"] * len(found)
        scored = f"{score.n_queries:,} of {score.n_words:,}"
        rows.append((METHOD_LABELS[method], *figures, scored))
    figure = {"justify": "right", "no_wrap": True, "min_width": 5}
    columns = {"method": {}, **dict.fromkeys(found, figure)}
    columns["words scored"] = {"justify": "right"}
    _print_table(out, "accuracy", columns, rows)
