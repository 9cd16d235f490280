"""Ladders of hardness: rung by rung a problem loses what tells its points apart, until
no search finds the optimum that known matches lead to, and then until there is none.

Of each ladder two breaking points are shown: that of a search, the last rung before the
first at which it ends above the optimum from known matches, and that of the problem,
the last rung before the first at which some start without matches ends below it, that
is, where the known matches are no longer the best. All choices are by the objective.
"""

import itertools
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import gwfast

from ..common import pairs
from ..common.markdown import show
from .families.digits import edge_histograms
from .families.graphs import near_neighbors, rewired, steps
from .families.languages import centered, flat, with_noise, word_sides
from .families.problem import NEAR, NOTHING

N_WORDS, N_IMAGES, N_NODES = 1000, 1000, 60
# What a rung is solved from, beside known matches.
STARTS = "product", "random", "auto"


class Rung(NamedTuple):
    """A problem: its name, both sides, and known matches, pairs of rows."""

    name: str
    x: Any
    y: Any
    known: np.ndarray


class Ladder(NamedTuple):
    """Its name, what its rungs are, and a function that yields them."""

    name: str
    of: str
    rungs: Callable


def ladders_table(n_random=50, only=""):
    """A table of each ladder whose data are there, then all breaking points; `only`
    those whose names have this text.
    """
    broken = []
    for ladder in LADDERS:
        if only not in f"{ladder.name}, by {ladder.of}":
            continue
        try:
            rungs = list(ladder.rungs())
        except (FileNotFoundError, ImportError) as error:
            print(f"{ladder.name} left out: {error}", file=sys.stderr)
            continue
        found = [_climb(rung, n_random) for rung in rungs]
        show(f"{ladder.name}, by {ladder.of}", TITLES, [_row(*one) for one in found])
        broken.append((ladder.name, str(len(found)), *map(str, _breaking(found))))
    titles = "ladder", "rungs", "auto until", "problem until"
    show("breaking points, in rungs from the first", titles, broken)


TITLES = (
    "rung", "known matches", "product", "best random", "auto", "s, auto", "ends as"
)  # fmt: skip


class Found(NamedTuple):
    """Objectives by start; seconds and status of the search; what counts as none."""

    rung: str
    costs: dict
    seconds: float
    status: str
    nothing: float


def _climb(rung, n_random):
    """What every start finds."""

    def solve(**options):
        return gwfast.gromov_wasserstein(rung.x, rung.y, **options)

    costs = {
        "known": solve(init=gwfast.Seeds(rung.known)).gw_cost,
        "product": solve(init="product").gw_cost,
        "random": min(
            (solve(init="random", seed=k).gw_cost for k in range(n_random)), default=np.nan
        ),
    }
    began = time.perf_counter()
    result = solve()
    seconds = time.perf_counter() - began
    costs["auto"], status = result.gw_cost, str(result.status)
    print(rung.name, costs, seconds, file=sys.stderr, flush=True)
    nothing = NOTHING * solve(max_iter=1, init="product").history[0].gw_cost
    return Found(rung.name, costs, seconds, status, nothing)


def _row(rung, costs, seconds, status, nothing):
    least = np.nanmin([*costs.values()]) or 1.0
    shown = [f"{costs['known']:.5g}"]
    for name in STARTS:
        above = f"{costs[name]:.5g} ({100 * (costs[name] / least - 1):+.1f} %)"
        shown.append("-" if np.isnan(costs[name]) else above)
    return rung, *shown, f"{seconds:.1f}", status


def _breaking(found):
    """How many rungs the search goes, and the problem."""

    def above(one, name, other):
        return one.costs[name] > one.costs[other] * (1 + NEAR) + one.nothing

    def rungs_until(broken):
        return sum(1 for _ in itertools.takewhile(lambda one: not broken(one), found))

    search = rungs_until(lambda one: above(one, "auto", "known"))
    problem = rungs_until(lambda one: any(above(one, "known", other) for other in STARTS))
    return search, problem


# --- Words ------------------------------------------------------------------------


def _word_pair(name, n_words=N_WORDS, change=None, rows=None):
    """The most frequent words of a pair of languages, or these rows of either, with
    known matches among them; ``change(x, y)`` is done to the vectors first.
    """
    rows = rows or (np.arange(n_words), np.arange(n_words))
    x, y, [known], _ = word_sides(*pairs.language_pair(name), rows, change)
    return x, y, known


def _noisy_words(name):
    for size in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.3):
        yield Rung(f"{size:g}", *_word_pair(name, change=with_noise(size)))


def _flat_words():
    for k in (50, 30, 20, 15, 10, 7, 5):
        yield Rung(str(k), *_word_pair("es-en", change=flat(k)))


def _few_words():
    for n_words in (2000, 1400, 1000, 700, 500, 350, 250):
        yield Rung(str(n_words), *_word_pair("es-en", n_words))


def _sampled_words():
    """The same number of words, of more and more: fewer have a match."""
    for most in (1000, 1300, 1700, 2200, 3000, 4000):
        rng = np.random.default_rng(2)
        rows = [np.sort(rng.permutation(most)[:N_WORDS]) for _ in range(2)]
        yield Rung(str(most), *_word_pair("es-en", rows=rows))


# --- Cells, images, graphs --------------------------------------------------------


def _cells_with_dropout():
    """One modality against itself with entries lost; costs are steps in graphs."""
    points = pairs.cells("PBMC")[0][:N_WORDS]
    known = np.stack([np.arange(0, len(points), 3)] * 2, axis=1)
    for lost in (0.0, 0.1, 0.2, 0.3, 0.4, 0.5):
        rng = np.random.default_rng(3)
        other = np.where(rng.random(points.shape) < lost, 0.0, points)
        yield Rung(f"{lost:g}", *(pairs.hops(one, 20) for one in (points, other)), known)


def _digits():
    """Images as pixels against histograms of the directions of their edges, which get coarser."""
    from sklearn.datasets import load_digits

    images = load_digits().images[:N_IMAGES]
    known = np.stack([np.arange(0, len(images), 3)] * 2, axis=1)
    for cells, angles in ((4, 8), (4, 4), (2, 8), (2, 4), (1, 8)):
        edges = edge_histograms(images, cells, angles)
        sides = images.reshape(len(images), -1), edges
        clouds = (gwfast.PointCloud(centered(one)) for one in sides)
        yield Rung(f"{cells} x {cells} x {angles}", *clouds, known)


def _rewired_graphs():
    """Steps in a graph of near neighbors against the same with edges moved, its nodes
    in another order.
    """
    rng = np.random.default_rng(4)
    edges = near_neighbors(rng.random((N_NODES, 2)))
    order = rng.permutation(N_NODES)
    known = np.stack([order, np.arange(N_NODES)], axis=1)
    for share in (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3):
        moved = rewired(edges, N_NODES, share, np.random.default_rng(5))
        x, y = (steps(one, N_NODES) for one in (edges, moved))
        yield Rung(f"{share:g}", x, y[np.ix_(order, order)], known)


LADDERS = (
    Ladder("es-en, 1000 words", "noise", lambda: _noisy_words("es-en")),
    Ladder("es-fr, 1000 words", "noise", lambda: _noisy_words("es-fr")),
    Ladder("es-en, 1000 words", "principal dimensions", _flat_words),
    Ladder("es-en", "words", _few_words),
    Ladder("es-en, 1000 words", "the most frequent words they are of", _sampled_words),
    Ladder("cells", "entries lost", _cells_with_dropout),
    Ladder("digits", "histograms", _digits),
    Ladder("a graph of 60 nodes", "edges moved", _rewired_graphs),
)
