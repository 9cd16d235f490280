"""From coarse to fine: on which points, costs and precisions a problem is solved before the whole
problem, in which tier its kernel is kept, and how much memory that takes.

Tiers: "dense" has the kernel in one float32 buffer, "tiled" makes it anew, a few rows at a time,
"neighbors" keeps a few entries of each row and column, an approximation that has to be asked for.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...problems.epsilon import Schedule
from ...problems.low_rank import low_rank_problem
from ...problems.quadratic import QuadraticProblem
from ...quadratic.linearize import (
    FULL_TIERS,
    TIERS,
    Placement,
    Tier,
    TierName,
    is_factored,
    linearize,
    nbytes,
    tiers,
)
from ...quadratic.methods import PGD, Method
from ...quadratic.neighbors import NeighborTier
from ...quadratic.state import Linearization
from ...utils.orders import spread
from ...utils.precision import SINGLE, FloatPrecision
from ...utils.tuning import DEFAULT
from ...utils.validation import one_of
from ..options import ResolvedSettings
from .starts import QUANTILES

# Largest and least factor between the points of one level and the next.
GROWTH, MIN_GROWTH = 3.5, 1.2


class Level(NamedTuple):
    """A problem of some points, which are these rows of either side, or of all points."""

    problem: QuadraticProblem
    rows: list
    tier: Tier
    precision: FloatPrecision

    def linearization(self, options: ResolvedSettings) -> tuple[Linearization, Schedule]:
        """Return the `Linearization`, and the `Schedule` of epsilon."""
        threads, single = options.threads(self.problem), self.precision is SINGLE
        linearization = linearize(
            self.problem,
            threads,
            self.tier,
            method=options.method,
            precision=self.precision,
            deadline=options.limits.deadline,
            tuning=options.tuning,
            placement=options.placement,
        )
        schedule = linearization.schedule(options.epsilon)
        if single and options.precision is not SINGLE:
            # Float32 only finds the start here.
            least = SINGLE.min_epsilon * linearization.cost_scale
            last, first = max(schedule.last, least), max(schedule.first, least)
            schedule = dataclasses.replace(schedule, last=last, first=first)
        return linearization, schedule


def ladder(problem: QuadraticProblem, options: ResolvedSettings, *, races: bool) -> list[Level]:
    """Return the levels of a solve, the whole problem as the last; default starts race on few
    points first if it `races`.
    """
    rows, threads = [np.arange(n) for n in problem.shape], options.threads(problem)
    tuning = options.tuning
    levels, smooth, lower = tuning.levels and options.method is PGD, None, []
    coarse = levels and problem.is_balanced
    few = (races and not coarse) or options.limits.max_outer < 50
    if levels and not few and options.placement is None:
        smooth = low_rank_problem(problem, threads, tuning)
    if coarse and races:
        points = tuning.race_points[is_factored(problem) if smooth is None else 2]
        parts = fewer_points(smooth or problem, options, points)
        lower = [Level(*part, "dense", SINGLE) for part in parts]
    if smooth is not None:
        lower.append(Level(smooth, rows, "dense", SINGLE))
    many = math.prod(problem.shape) >= tuning.float32_from and not few
    if options.precision is not SINGLE and (coarse if races else many and levels):
        lower.append(Level(problem, rows, "dense", SINGLE))
    lower[1:] = [level for level in lower[1:] if fits(level.problem, options)]
    return [*lower, Level(problem, rows, options.tier, options.precision)]


def fewer_points(
    problem: QuadraticProblem, options: ResolvedSettings, points: int
) -> Iterator[tuple[QuadraticProblem, list[np.ndarray]]]:
    """Yield the problem on more and more points of both sides, `points` of them first, and which
    points these are.

    In the order "given" the first `points` with mass come first, then points spread evenly over all
    others, with the masses of all others: rare words have other costs than frequent words. Else the
    largest masses come first, points of equal mass spread evenly over mean squared costs.
    """
    sizes, largest, orders = [points], max(problem.shape), []
    while sizes[-1] * GROWTH < largest:
        sizes.append(int(sizes[-1] * GROWTH))
    sizes = [size for size in sizes if size * MIN_GROWTH < largest]
    if not sizes and options.tier != "dense":
        sizes = [largest]  # most starts are made as arrays, so that only a dense level can race
    for geometry, masses in ((problem.x, problem.p), (problem.y, problem.q)):
        if options.order == "given":
            first, rest = np.split(np.argsort(masses == 0, kind="stable"), [points])
            orders.append(np.append(first, spread(rest)))
        else:
            ranked = spread(np.argsort(geometry.square_times(masses), kind="stable"))
            orders.append(ranked[np.argsort(-masses[ranked], kind="stable")])
    for size in sizes:
        rows, rule = [np.sort(every[:size]) for every in orders], problem.rule
        if options.order == "given":
            p, q = rule.p.copy(), rule.q.copy()
            for every, x in zip(orders, (p, q), strict=True):
                if (mass := x[every[points:size]].sum()) > 0:
                    x[every[points:size]] *= x[every[points:]].sum() / mass
            rule = dataclasses.replace(rule, p=p, q=q)
        yield problem.replace(rule=rule).take(*rows), rows


class Effort(NamedTuple):
    """Work of a solve: the descents of `n_states` starts or, if it `races`, a race
    on few points and the descent of its winner on all.
    """

    method: Method = PGD
    itemsize: int = 4
    placement: Placement | None = None
    races: bool = True
    n_states: int = 1


RACE = Effort()


def needs(
    problem: QuadraticProblem, n_threads: int, effort: Effort = RACE, neighbors: Tier = "neighbors"
) -> dict[TierName, float]:
    """Return bytes by tier, less the input."""
    method = effort.method
    bytes_of: dict[TierName, float] = {
        tier: nbytes(
            problem,
            neighbors if tier == "neighbors" else tier,
            n_threads,
            method=method,
            itemsize=effort.itemsize,
            n_states=effort.n_states,
            placement=effort.placement,
        )
        for tier in tiers(problem, method)
    }
    if not effort.races or method is not PGD:
        return bytes_of
    if not problem.is_balanced:
        balanced = problem.replace(rule=problem.rule.balanced())
        first = needs(balanced, n_threads, neighbors=neighbors)
        # The balanced problem has the tier "neighbors" if this one has.
        return {
            tier: size + first[tier if tier == "neighbors" else "dense"]
            for tier, size in bytes_of.items()
        }
    factored, shape = is_factored(problem, method), problem.shape
    few, points = shape, DEFAULT.race_points[factored]
    if max(shape) > MIN_GROWTH * points:
        few = min(shape[0], points), min(shape[1], points)
    race = nbytes(problem, "dense", n_threads, shape=few, n_states=1 if factored else 7)
    profiles = 16 * QUANTILES * sum(few)
    race += 8 * few[0] * few[1] + 3 * profiles
    return {tier: max(size + profiles, race) for tier, size in bytes_of.items()}


def fits(problem: QuadraticProblem, options: ResolvedSettings) -> bool:
    """Return whether a dense solve from one start is within the memory limit of the options."""
    size = nbytes(problem, "dense", options.threads(problem), placement=options.placement)
    return size <= options.memory_limit


def choose(
    problem: QuadraticProblem, tier: Tier, limit: float, n_threads: int, effort: Effort = RACE
) -> Tier:
    """Return the tier to use within a limit of bytes: "auto" is the first that fits; MemoryError,
    with the sizes, if none fits.
    """
    method, neighbors = effort.method, NeighborTier.of(tier)
    name = "neighbors" if isinstance(tier, NeighborTier) else tier
    one_of(name, "tier", ("auto", *TIERS))
    allowed = tiers(problem, method)
    if name == "auto" and limit == math.inf:
        return allowed[0]
    if neighbors and effort.placement:
        raise ValueError(f"tier must be 'auto', 'dense' or 'tiled' on a cluster, got {str(tier)!r}")
    if name not in ("auto", *allowed):
        if is_factored(problem):
            raise ValueError(
                f"tier must be 'auto' or 'dense' with the method {method.name!r}, got {str(tier)!r}"
            )
        raise ValueError(
            "tier must be 'auto' or 'dense' for costs that are not two point clouds under the "
            f"squared loss, or have a matrix between them, got {str(tier)!r}"
        )
    bytes_of = needs(problem, n_threads, effort, neighbors or "neighbors")
    # Neighbors are an approximation, which has to be asked for.
    names = [name] if name != "auto" else [each for each in allowed if each in FULL_TIERS]
    for name in names:
        if bytes_of[name] <= limit:
            return neighbors or name
    n, m = problem.shape
    sizes = ", ".join(f"{size / 1e9:.3g} GB ({name})" for name, size in bytes_of.items())
    option = "" if tier == "auto" else f" with SolverOptions(tier={str(tier)!r})"
    fitting = [f"SolverOptions(tier={name!r})" for name, size in bytes_of.items() if size <= limit]
    raise MemoryError(
        f"a problem of {n} x {m} takes {sizes}, and memory_limit is {limit / 1e9:.3g} GB{option}; "
        f"{' or '.join([*fitting[:1], 'fewer points'])} would fit"
    )
