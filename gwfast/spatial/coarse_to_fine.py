"""Slices of many spots: few spots are matched first, then more and more, each time with less
entropy, from the plan of the spots before.
"""

import dataclasses
import functools
import math
import time

import numpy as np
from scipy import sparse
from scipy.spatial import cKDTree
from scipy.stats import chi2

from ..problems.epsilon import Epsilon
from ..results.coupling import SparseCoupling
from ..results.status import Ending
from ..results.tables import Candidate, Candidates
from ..singlecell.advice import quiet_solve
from ..utils.memory import as_memory_limit

# Spots a side of the first level, where starts race, and the factor to the next level: its spots
# are twice as near to one another.
FIRST, GROWTH = 1500, 4.0
# Pairs of spots up to which a kernel with all entries is the faster one: 1 GiB.
MAX_DENSE = 1 << 28
# Where slices overlap in part, distances mislead until the overlap is known: starts follow their
# features first, with fractions of `alpha`, or of this if it is smaller.
MOST_ALPHA = 0.1


def with_tier(problem, blur, options):
    """Return the options with the tier for "auto": "dense" while it is faster and fits, else
    "neighbors" for plans that spread over `blur` spots.

    The linearized problem takes ``alpha r^2 / d`` times the matched mass for a match of the spot in
    the middle that is r spots too far, in d dimensions, and more for other spots, so that the plan
    of a spot is within a Gaussian; features only narrow it. Beyond r is its tail; the number of
    spots within r is the volume of a ball.
    """
    n_pairs = math.prod(problem.shape)
    if options.tier != "auto":
        return options
    if n_pairs <= MAX_DENSE and 8 * n_pairs <= as_memory_limit(None):
        return dataclasses.replace(options, tier="dense")
    d = problem.x.n_coordinates
    # On grids of 50,000 spots .001 leaves .005 of the mass outside of the neighbors.
    r = blur * math.sqrt(chi2.isf(1e-4, d) * d / (2 * problem.mass))
    volume = math.pi ** (d / 2) / math.gamma(d / 2 + 1) * r**d
    return dataclasses.replace(options, tier="neighbors", n_neighbors=math.ceil(volume))


def by_levels(problem, epsilon, options, deadline, **others):
    """Return the `GWResult` of a fused problem of the spots of two slices, whose clouds have
    squared distances; `others` are arguments of `gromov_wasserstein`.
    """
    began, largest = time.perf_counter(), max(problem.shape)
    sizes = [*level_sizes(largest), largest]
    orders = [evenly(problem.x.points, problem.p), evenly(problem.y.points, problem.q)]
    # The width of the plan, in distances of the level's own spots, is the same on each level; a
    # level ends with the epsilon of the next level, for which its plan is then right.
    epsilons = [epsilon * largest / size for size in [*sizes, largest]]
    gw, before, candidates = None, None, []
    for size, first, last in zip(sizes, epsilons, epsilons[1:], strict=False):
        rows = [np.sort(order[: -(-size * len(order) // largest)]) for order in orders]
        part, level, max_iter = problem, options, 1000
        if size < largest:
            part, level, max_iter = problem.take(*rows), _coarser(options), 40
        if gw is None:
            level = dataclasses.replace(level, tier="dense", n_neighbors=None)
        solve = functools.partial(quiet_solve, tol=1e-3, max_iter=max_iter, options=level, **others)
        if gw is None:
            least = min(1.0, MOST_ALPHA / problem.alpha) * size / largest
            gw, candidates = _first(part, solve, first, last, least, deadline)
            doubt, confidence = gw.ending, gw.confidence
        elif deadline.passed():
            gw = quiet_solve(problem, init="product", epsilon=epsilon, time_limit=deadline.left)
            break
        else:
            start = _extended(gw, part.shape, rows, before)
            schedule = Epsilon(last, anneal_from=first / last, anneal_by=0.5)
            gw = solve(part, init=start, epsilon=schedule, time_limit=deadline.left)
            candidates = [*candidates, _row(_winner(candidates), gw, "won")]
        before = rows
    if gw.ending == Ending.CONVERGED and doubt in (Ending.TIE, Ending.UNCERTAIN):
        gw = dataclasses.replace(gw, ending=doubt)
    seconds = time.perf_counter() - began
    return dataclasses.replace(gw, candidates=Candidates(candidates, confidence), seconds=seconds)


def _coarser(options):
    """Return the options of a level before the last."""
    neighbors = options.n_neighbors
    if options.tier == "neighbors":
        # The plan of the level ends as narrow, in spots, as half of them.
        neighbors = math.ceil((neighbors or 32) / GROWTH)
    max_inner = min(options.max_inner, 1000)
    return dataclasses.replace(options, n_neighbors=neighbors, max_inner=max_inner)


def _first(part, solve, first, last, least, deadline):
    """Return the best `GWResult` of the first level, and the candidates: of a search, and for
    slices that overlap in part of starts where distances weigh fractions of `least` of their
    weight.
    """
    gw = solve(part, epsilon=Epsilon(last, anneal_from=first / last), time_limit=deadline.left)
    if part.is_balanced or part.alpha == 1.0:
        return gw, gw.candidates
    field = [(_winner(gw.candidates), gw)]
    for factor in (0.1 * least, 0.3 * least):
        led = solve(
            part.replace(alpha=factor * part.alpha), init="product", epsilon=factor * first,
            time_limit=deadline.left,
        )  # fmt: skip
        if deadline.passed():
            break
        schedule = Epsilon(last, anneal_from=first / last, anneal_by=0.5)
        led = solve(part, init=led, epsilon=schedule, time_limit=deadline.left)
        field.append((f"alpha={factor * part.alpha:.2g}", led))
    field.sort(key=lambda pair: pair[1].gw_cost)
    fates = ["won", "lost", "lost"]
    return field[0][1], [_row(*pair, fate) for pair, fate in zip(field, fates, strict=False)]


def _winner(candidates):
    """Return the start that has won, or ""."""
    return next((row.start for row in candidates if row.fate == "won"), "")


def _row(start, gw, fate):
    """Return the `Candidate` of a start."""
    size = max(gw.coupling.shape)
    return Candidate(start, size, gw.epsilon, gw.gw_cost, gw.n_iter, gw.seconds, fate)


def _extended(gw, shape, rows, before):
    """Return the result with its plan between the spots `before` as a plan of the spots `rows`,
    whose other spots have no mass: its moments are the same.
    """
    plan = gw.coupling.tocsr().tocoo()
    i, j = (np.searchsorted(*pair) for pair in zip(rows, before, strict=True))
    plan = sparse.csr_array((plan.data, (i[plan.row], j[plan.col])), shape=shape)
    return dataclasses.replace(gw, coupling=SparseCoupling(plan, gw.coupling.n_threads))


def disagree(candidates):
    """Return whether the two lowest plans of the first level differ in their objectives."""
    costs = [row.gw_cost for row in candidates[:2]]
    return len(costs) == 2 and costs[1] - costs[0] > 1e-3 * abs(costs[0])


def level_sizes(largest):
    """Return the spots a side of the levels before the last."""
    sizes, size = [], FIRST
    while size < 0.6 * largest:
        sizes.append(size)
        size = int(size * GROWTH)
    return sizes


def evenly(points, masses):
    """Return the spots (n,) in an order whose first spots are spread evenly over the slice, which
    keeps its moments: at even steps through a tree of halves. Spots without mass come last.
    """
    # Multiples of the golden ratio modulo one: the first k fill the interval evenly, for every k.
    golden = np.arange(len(points)) * ((np.sqrt(5.0) - 1.0) / 2.0) % 1.0
    order = cKDTree(points, leafsize=1).indices[np.argsort(golden, kind="stable")]
    return order[np.argsort(masses[order] == 0, kind="stable")]
