"""From two sets of embeddings to tables on the terminal and a folder of results.

`run` is what `gwfast align` and `gwfast demo` share. Results go to stdout, progress
and warnings to stderr. Needs rich and matplotlib (the extra ``cli``).
"""

import contextlib
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace

import click
import numpy as np

import gwfast

from ..results.tables import Neighbors, Translations
from ..solvers.search.seeds import alike, known_pairs
from ..utils.progress import ProgressListener, console, reporting_on_terminal
from ..words import Embeddings
from ..words.evaluation import GoldStandard, Precision
from .coverage import looked_up
from .outputs import staged, summary, write
from .plain import json_line
from .terminal import show
from .watching import Watch
from .wording import as_options

_K = 10  # translations per word
_N_SHOWN = 20
_PATIENCE = 30  # seconds to look for a scheduler
# Words of a side below which the plan is not to be relied on: of the bundled Spanish and
# French words 34 % are translated right at 200 words, 60 % at 300, 75 % at 500.
_FEW_WORDS = 300
_NOT_WRITTEN = "nothing was written: --output DIR keeps translations, maps and a report"


@dataclass(frozen=True)
class Input:
    """Embeddings and what to call them: a path, as a rule."""

    name: str
    embeddings: Embeddings


@dataclass(frozen=True)
class Outcome:
    """All that is shown and written."""

    source: Input
    target: Input
    settings: SimpleNamespace  # the options of the command
    result: gwfast.Alignment
    gold: GoldStandard | None  # on the vocabularies, None without dictionary
    precision: dict[str, Precision]  # by method, empty without dictionary
    coupling: Translations  # of all rows that took part
    csls: Neighbors | Translations  # of `rows`
    rows: np.ndarray
    mutual: np.ndarray | None  # of `rows`, where these are all
    shown: np.ndarray  # rows for the table of translations
    warnings: tuple[str, ...]
    seconds: dict[str, float]


def run(
    source: Input,
    target: Input,
    dictionary: Mapping[str, set[str]],
    settings: SimpleNamespace,
    seeds: Mapping[str, set[str]] | None = None,
) -> None:
    """Align, show what came out, and write it where `settings.output`, checked, says.

    Nothing is written before everything has been computed, and the files appear
    together. `settings` are the options that `align` and `demo` share. With an empty
    dictionary there are no scores. `seeds` are translations to start from.
    """
    for given in (source, target):
        _check_vectors(given)
    gold, told = None, list[str]()
    if dictionary:
        vocabularies = source.embeddings.words, target.embeddings.words
        names = source.name, target.name
        gold, told = looked_up(dictionary, names, vocabularies, settings.convention)
        for doubt in told:
            _warn(doubt)
    with _warnings_told(told, UserWarning):
        init = _start(source.embeddings, target.embeddings, settings, seeds)
    with connected(settings.scheduler):
        outcome = _align(source, target, dictionary, gold, settings, init, told)
        if settings.output is not None:
            with staged(settings.output) as folder:
                write(outcome, folder)
    if settings.as_json:
        click.echo(json_line(summary(outcome)))
        return
    show(outcome)
    if settings.output is None and not settings.quiet:
        console(stderr=True).print(_NOT_WRITTEN, soft_wrap=True)


def _warn(message):
    console(stderr=True).print(f"gwfast: warning: {message}", soft_wrap=True)


@contextlib.contextmanager
def _warnings_told(told, category):
    """Warnings inside are shown, and their texts added to `told`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", category)
        yield
    messages = [as_options(str(warning.message)).replace("\n", " ") for warning in caught]
    for message in messages:
        _warn(message)
    told += messages


def _check_vectors(given):
    vectors = given.embeddings.vectors
    if vectors.shape[1] == 1:
        raise ValueError(f"{given.name}: vectors have one column: is this an embedding file?")
    nonzero = vectors.any(axis=1)
    if not nonzero.all():
        word = given.embeddings.words[int(np.argmin(nonzero))]
        raise ValueError(
            f"{given.name}: expected vectors with a direction, got 0 for {word!r}"
            f" ({np.sum(~nonzero):,} of {len(nonzero):,} rows); --encoding-errors skip"
            " leaves such rows out"
        )


def _start(x, y, settings, seeds):
    """Return the argument `init` of `align`."""
    if seeds is None and settings.init != "identical":
        return settings.init
    taking_part = [side.words[: settings.n_words] for side in (x, y)]
    if seeds is not None:
        return gwfast.Seeds(known_pairs(seeds, *taking_part, "--seeds"))
    return gwfast.Seeds(alike(*taking_part, "--init identical"))


def _align(source, target, dictionary, gold, settings, init, told):
    """Solve, translate and score; warnings are added to those that were `told`."""
    x, y = source.embeddings, target.embeddings
    with _warnings_told(told, gwfast.ConvergenceWarning):
        result = _solve(x, y, settings, init)
    start = time.perf_counter()
    n, m = result.gw.coupling.shape
    if min(n, m) < _FEW_WORDS:
        few = "plans of less than {} words are often wrong, got {} and {}"
        told.append(few.format(_FEW_WORDS, n, m))
        _warn(told[-1])
    coupling = result.translate(method="coupling", k=_K)
    known = np.arange(n) if gold is None else gold.rows
    # Where the list allows, words that took part: they have two translations to show.
    shown = _spread(known[known < n] if known[0] < n else known)
    mutual = None
    if settings.output is not None:
        rows = np.arange(len(x))
        best = result.best_matches(_K)
        csls, mutual = best.forward, best.mutual
    else:
        rows = shown if gold is None else gold.rows
        csls = result.translate(rows, method="csls", k=_K)
    precision = {}
    if gold is not None:
        rules = {"methods": settings.methods, "convention": settings.convention}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # `looked_up` has told it
            precision = result.evaluate(dictionary, **rules)
    seconds = {"align": result.seconds, "translate": time.perf_counter() - start}
    return Outcome(
        source, target, settings, result, gold, precision, coupling, csls, rows,
        mutual, shown, tuple(told), seconds,
    )  # fmt: skip


def _solve(x, y, settings, init):
    """Return the `Alignment` of two `Embeddings`, with progress on stderr."""
    weights = {"uniform": (None, None), "zipf": ("zipf", "zipf")}
    p, q = weights.get(settings.marginals, (x.counts, y.counts))
    watch = Watch(settings.tol)
    with reporting_on_terminal(watch.line, quiet=settings.quiet) as report_progress:

        def report_iteration(step):
            report_progress(watch.event(step))

        try:
            return gwfast.align(
                x,
                y,
                p,
                q,
                n_words=settings.n_words,
                normalize=settings.normalize,
                epsilon=settings.epsilon,
                init=init,
                refine=settings.refine,
                tol=settings.tol,
                time_limit=settings.time_limit,
                n_threads=settings.threads,
                memory_limit=settings.memory_limit,
                seed=settings.seed,
                checkpoint=settings.checkpoint,
                callback=None if settings.quiet else report_iteration,
                progress=ProgressListener(report_progress),
                options=gwfast.SolverOptions(tier=settings.tier, search_time=settings.search_time),
            )
        except KeyboardInterrupt:
            kept = settings.checkpoint
            if kept is None or not kept.is_file():
                raise
            message = f"kept in {kept}: the same command goes on from there"
            raise KeyboardInterrupt(message) from None


@contextlib.contextmanager
def connected(address):
    """Solve large problems on the workers of a Dask scheduler; None means this process."""
    if address is None:
        yield
        return
    try:
        from distributed import Client

        from ..distributed import cluster
    except ImportError:
        raise click.UsageError(
            "--scheduler needs dask: pip install 'gwfast-ot[distributed]'"
        ) from None
    try:
        client = Client(address, timeout=_PATIENCE)
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--scheduler {address}: {error}") from error
    with client, cluster(client):
        yield


def _spread(rows):
    """At most `_N_SHOWN` of the rows, evenly over their whole range."""
    count = min(_N_SHOWN, len(rows))
    return rows[np.linspace(0, len(rows) - 1, count).astype(np.int64)]
