"""The alignment of two sets of embeddings, as the terminal and the files show it."""

import contextlib
import warnings
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple

import click
import numpy as np

import gwfast

from ..results.coupling import shares_of
from ..results.tables import Neighbors, Translations
from ..solvers.search.seeds import alike, known_pairs
from ..utils.progress import ProgressListener
from ..words import Embeddings
from ..words.evaluation import Precision, gold_standard
from .options import arguments_of, as_options, single_backslashes
from .terminal import watched


class NamedEmbeddings(NamedTuple):
    """Embeddings and their name: a path, as a rule."""

    name: str
    embeddings: Embeddings


class Entry(NamedTuple):
    """A source word with its translations, best first."""

    row: int
    word: str
    best: list[str]  # by CSLS
    scores: list[float]
    plan: str  # the word to which most of the mass moves; empty if the word took no part
    share: float
    mutual: bool
    right: list[str] | None  # None if the dictionary lacks the word


@dataclass(frozen=True)
class Outcome:
    """An alignment with all that is shown and written of it."""

    source: NamedEmbeddings
    target: NamedEmbeddings
    settings: SimpleNamespace  # the options of the command
    result: gwfast.Alignment
    right: dict[int, frozenset[int]]  # target rows of source rows, by the dictionary
    precision: dict[str, Precision]  # by method, empty without a dictionary
    plan: Translations  # of all rows that took part; the scores are shares of their masses
    csls: Neighbors | Translations  # of `rows`
    rows: np.ndarray
    mutual: np.ndarray | None  # of `rows`, if these are all
    backward: np.ndarray | None  # the best source row of each target row, as `mutual`
    shown: np.ndarray  # positions in `rows` for the table of translations
    warnings: list[str]

    def entries(self, positions):
        """Yield the `Entry` at each of these positions in `rows`."""
        x, y = self.source.embeddings.words, self.target.embeddings.words
        for position in np.asarray(positions).tolist():
            row = int(self.rows[position])
            right = self.right.get(row)
            took_part = row < len(self.plan.indices) and self.plan.indices[row, 0] >= 0
            yield Entry(
                row=row,
                word=x[row],
                best=[y[target] for target in self.csls.indices[position].tolist()],
                scores=self.csls.scores[position].tolist(),
                plan=y[self.plan.indices[row, 0]] if took_part else "",
                share=float(self.plan.scores[row, 0]) if took_part else 0.0,
                mutual=self.mutual is not None and bool(self.mutual[position]),
                right=right and [y[target] for target in sorted(right)],
            )


def align(source, target, dictionary, settings, seeds=None):
    """Return the `Outcome` of two sides; warnings are shown, and kept in it.

    `settings` are the options of the command, `seeds` translations to start from, or None.
    """
    x, y = source.embeddings, target.embeddings
    known_rows, right, precision, mutual, backward, told = None, {}, {}, None, None, []
    if dictionary:
        gold = gold_standard(dictionary, x.words, y.words, settings.convention)
        known_rows, right = gold.rows, dict(zip(gold.rows.tolist(), gold.targets, strict=True))
        check_fit(len(gold), dictionary, f"{source.name} and {target.name}")
    with shown_warnings(told):
        result = _solve(x, y, settings, _start(x, y, settings, seeds))
        n, m = result.n_words
        # In the bundled sample 34 % of the words are right at 200 words, 60 % at 300.
        if min(n, m) < 300:
            few = f"plans of less than 300 words are often wrong, got {n} and {m}"
            warnings.warn(few, stacklevel=2)
        if dictionary:
            rules = {"methods": settings.methods, "convention": settings.convention}
            precision = result.evaluate(dictionary, **rules)
    known_rows = np.arange(n) if known_rows is None else known_rows
    # Words that took part have two translations to show.
    shown = thinned(known_rows[known_rows < n] if known_rows[0] < n else known_rows, 20)
    if settings.output is not None:
        rows = np.arange(len(x))
        best = result.best_matches(10)
        csls, mutual, backward = best.forward, best.mutual, best.backward
    else:
        rows = known_rows if dictionary else shown
        csls = result.translate(rows, method="csls", k=10)
    plan = result.translate(method="plan", k=10)
    plan = plan._replace(scores=shares_of(result.gw.coupling, plan))
    shown = np.searchsorted(rows, shown)
    return Outcome(
        source,
        target,
        settings,
        result,
        right,
        precision,
        plan,
        csls,
        rows,
        mutual,
        backward,
        shown,
        told,
    )


def check_fit(n_queries, dictionary, sides):
    """Refuse a dictionary without a word that can be scored."""
    if not n_queries:
        raise ValueError(
            f"--dictionary or --reverse-dictionary must have a pair whose words are in {sides},"
            f" got none of {len(dictionary)} words: other languages, or the wrong way round?"
        )


@contextlib.contextmanager
def shown_warnings(told):
    """Show warnings on stderr, and add their texts to `told`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in caught:
        told.append(single_backslashes(as_options(str(warning.message))))
        click.echo(f"gwfast: warning: {told[-1]}", err=True)


def thinned(items, count, power=1):
    """Return at most `count` of the items; the first items are denser if `power` is above 1."""
    places = np.linspace(0, 1, count) ** power * (len(items) - 1)
    return items if len(items) <= count else items[np.unique(places.astype(np.int64))]


def _start(x, y, settings, seeds):
    """Return the argument `init` of `align`."""
    words = [side.words[: settings.n_words] for side in (x, y)]
    if seeds is not None:
        return gwfast.Seeds(known_pairs(seeds, *words, "--seeds"))
    if settings.init == "identical":
        return gwfast.Seeds(alike(*words, "--init identical"))
    return settings.init


def _solve(x, y, settings, init):
    """Return the `Alignment` of two `Embeddings`, with progress on stderr."""
    weights = {"uniform": (None, None), "zipf": ("zipf", "zipf"), "counts": (x.counts, y.counts)}
    arguments = arguments_of(gwfast.align, settings) | {"init": init}
    options = gwfast.SolverOptions(**arguments_of(gwfast.SolverOptions, settings))
    with watched(settings) as (callback, report):
        arguments |= {"callback": callback, "progress": ProgressListener(report)}
        return gwfast.align(x, y, *weights[settings.marginals], options=options, **arguments)
