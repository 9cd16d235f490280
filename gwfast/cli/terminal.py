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
from ..words import CONVENTIONS, Embeddings
from .page import METHOD_LABELS, printable, right_translations

# They change the direction of all text that follows on a line.
_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")


def _literal(text):
    """What a terminal shows and does not obey."""
    return _TURNS.sub("", printable(text))


def described(embeddings: Embeddings) -> str:
    """How many words and columns there are, and what was dropped."""
    n, d = embeddings.vectors.shape
    text = f"{n:,} word{'s' * (n > 1)}, {d} column{'s' * (d > 1)}"
    dropped = embeddings.n_duplicates, embeddings.n_undecodable
    for count, why in zip(dropped, ("duplicates", "not UTF-8"), strict=True):
        text += f", {count:,} dropped ({why})" if count else ""
    return text


def show(outcome):
    """Print the tables."""
    out = console()
    result, gw = outcome.result, outcome.result.gw
    facts = Table.grid(padding=(0, 2))
    for label, given in (("source", outcome.source), ("target", outcome.target)):
        facts.add_row(label, f"{_literal(given.name)}: {described(given.embeddings)}")
    n, m = result.gw.coupling.shape
    threads = f"{result.n_threads} thread{'s' * (result.n_threads > 1)}"
    if not openmp_version():
        threads = "one core: this gwfast was built without OpenMP"
    facts.add_row(
        "transport", f"{n:,} x {m:,} words, {result.seconds:.1f} s on {threads}"
    )
    facts.add_row("stopped", f"{gw.status}, after {gw.n_outer} outer iterations")
    if gw.candidates:
        fates = [row.fate for row in gw.candidates]
        tried = sum(fate != "went on" for fate in fates)
        facts.add_row(
            "start", f"{gw.candidates[fates.index('won')].start}, the best of {tried}"
        )
    if outcome.refined:
        last = outcome.refined[-1]
        facts.add_row(
            "refined", f"{last.iteration} times, on {last.n_pairs:,} mutual matches"
        )
    facts.add_row(
        "gw_cost",
        f"{gw.gw_cost:.6g} at epsilon {gw.epsilon:.3g},"
        f" marginal error {gw.marginal_error:.1e}",
    )
    if outcome.settings.output is not None:
        facts.add_row(
            "written", f"{outcome.settings.output / 'report.html'}, and others"
        )
    out.print(facts)
    out.print()
    out.print(_translations_table(outcome, out))
    if outcome.precision:
        out.print()
        out.print(_precision_table(outcome.precision, out))
        # What the figures stand for.
        whole = max(outcome.precision.values(), key=lambda score: score.n_queries)
        rules = CONVENTIONS[outcome.settings.convention]
        of = "pairs" if rules.coverage == "pairs" else "words"
        out.print(
            f"convention {rules.name}: the vocabularies cover {whole.coverage:.1%} of"
            f" the list's {of}"
        )


def _table(title):
    return Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)


def _translations_table(outcome, out):
    """Twenty words, from frequent to rare, and whether the list knows better."""
    x, y = outcome.source.embeddings.words, outcome.target.embeddings.words
    ticks = ("✓", "✗") if out.encoding.startswith("utf") else ("+", "-")
    right_rows = right_translations(outcome.gold)
    table = _table("translations")
    table.width = min(out.width, 80)
    for name in ("word", "coupling", "CSLS"):
        table.add_column(name, no_wrap=True, overflow="ellipsis", max_width=20)
    # The column with a ratio is the one that gives way.
    table.add_column("CSLS 2 to 5", no_wrap=True, overflow="ellipsis", ratio=1)
    for row in outcome.shown.tolist():
        right = right_rows.get(row)

        def cell(target, right=right):
            if right is None:
                return Text(_literal(y[target]))
            tick, color = (ticks[0], "green") if target in right else (ticks[1], "red")
            return Text(f"{tick} {_literal(y[target])}", style=color)

        candidates = outcome.csls.indices[np.searchsorted(outcome.rows, row)].tolist()
        took_part = row < len(outcome.coupling.indices)
        table.add_row(
            Text(_literal(x[row])),
            cell(int(outcome.coupling.indices[row, 0])) if took_part else "",
            cell(candidates[0]),
            Text(", ".join(_literal(y[target]) for target in candidates[1:5])),
        )
    if right_rows:
        table.caption = f"{ticks[0]} the list has it, {ticks[1]} it does not"
        table.caption_justify = "left"
    return table


def _precision_table(precision, out):
    table = _table("accuracy")
    table.add_column("method")
    ks = list(next(iter(precision.values())).at)
    # The interval is what a narrow terminal can do without.
    with_interval = out.width >= 72
    interval = ("95 %",) if with_interval else ()
    for name in ("P@1", *interval, *(f"P@{k}" for k in ks[1:])):
        table.add_column(name, justify="right", no_wrap=True, min_width=5)
    table.add_column("words scored", justify="right")
    for method, score in precision.items():
        found = [
            f"{fraction:.3f}" if score.n_queries else "-"
            for fraction in score.at.values()
        ]
        low, high = score.interval(1)
        between = f"{low:.3f} to {high:.3f}" if score.n_queries else "-"
        scored = f"{score.n_queries:,} of {score.n_words:,}"
        interval = (between,) if with_interval else ()
        table.add_row(METHOD_LABELS[method], found[0], *interval, *found[1:], scored)
    return table
