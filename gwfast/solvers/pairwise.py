"""All pairs of many spaces, most of them small."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..kernels._exact_pairs import ExactPairs, Space
from ..kernels.threads import resolve_n_threads, single_threaded_blas
from ..linear.rules import Balanced
from ..problems.bounds import lower_bounds, signature
from ..problems.dense_cost import check_extremes
from ..problems.epsilon import EpsilonLike
from ..problems.geometry import DenseCost
from ..problems.graphs import CostLike, as_geometry
from ..problems.losses import LOSSES, LossName
from ..problems.quadratic import QuadraticProblem, as_alpha
from ..quadratic.frank_wolfe import ROUNDING, SLICE, directions, exact_side, has_ties
from ..results.pairwise import PairwiseResult
from ..results.result import ConvergenceWarning
from ..results.status import Ending, Status
from ..utils.callers import outside
from ..utils.deadline import Deadline
from ..utils.labels import in_order, labels_of
from ..utils.parallel import in_parallel
from ..utils.pot_names import QUADRATIC, knows_pot_names
from ..utils.progress import ProgressEvent, reporting
from ..utils.types import PathLike, Progress
from ..utils.validation import as_count, as_marginal, as_matrix, one_of
from .batch import solve_all
from .checkpoint import Checkpoint, digest
from .options import Settings, SolverOptions
from .search.isomorphism import isomorphisms

Pair: TypeAlias = tuple[int, int]
# Costs of some pairs, whether these converged, and plans.
Solved: TypeAlias = tuple[np.ndarray, np.ndarray, list[Any]]
# Pairs that a thread takes at a time.
CHUNK = 32


@knows_pot_names(QUADRATIC, p="masses", q="masses")
def pairwise_gromov_wasserstein(
    spaces: Iterable[CostLike],
    *,
    masses: Sequence[ArrayLike | None] | None = None,
    features: Sequence[ArrayLike] | None = None,
    alpha: float = 0.5,
    loss: LossName = "square",
    epsilon: EpsilonLike = 0.0,
    n_starts: int | None = None,
    k_nearest: int | None = None,
    plans: bool = False,
    tol: float = 1e-5,
    time_limit: float | None = None,
    n_threads: int | None = None,
    n_jobs: int | None = None,
    seed: int = 0,
    checkpoint: PathLike | None = None,
    progress: Progress = False,
) -> PairwiseResult:
    """Return the Gromov-Wasserstein costs between all pairs of spaces, one thread a pair.

    Parameters
    ----------
    spaces : iterable of (n_i, n_i) array-like, PointCloud, DenseCost or graph
        Costs within each space, as `gromov_wasserstein` takes them; sizes may differ.
    masses : sequence of (n_i,) array-like or None, default=None
        Masses of the points of each space; None is uniform.
    features : sequence of (n_i, d) array-like or None, default=None
        Features of the points of each space, whose squared Euclidean distances are the linear cost
        of fused problems.
    alpha : float, default=0.5
        Weight of the quadratic term if there are features.
    loss : {"square", "kl"}, default="square"
        Under "kl" the cost of a pair depends on which comes first, and both are solved.
    epsilon : float, str or Epsilon, default=0
        0 is the exact problem, by conditional gradient; others start from the product plan.
    n_starts : int or None, default=None
        Number of random plans that exact problems start from beside the product plan and, if costs
        are symmetric, the best of three plans along leading eigenvectors; 0 is the product plan
        alone. None is the plan along eigenvectors alone, or the product plan if there is none.
    k_nearest : int or None, default=None
        If given, pairs are skipped if lower bounds (of the squared loss) show that neither space is
        among the k nearest spaces of the other; their costs are infinite.
    plans : bool, default=False
        Whether to keep the plans.
    tol, progress
        See `gromov_wasserstein`.
    time_limit : float or None, default=None
        Seconds after which it ends; costs of pairs that are not solved by then are NaN.
    n_threads : int or None, default=None
        Number of pairs solved at a time in this process; None is one a core.
    n_jobs : int or None, default=None
        Number of joblib's workers that share the pairs out instead, of the backend that
        ``joblib.parallel_config`` chooses (processes by default; Dask).
    seed : int, default=0
        Seed of the random plans.
    checkpoint : path-like or None, default=None
        File that keeps the costs so far; the same call goes on from there. A file of other spaces
        or options is a ValueError. Not with `plans`.

    Returns
    -------
    PairwiseResult

    Warns
    -----
    ConvergenceWarning
        Once, if solvers ended at a limit.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> path = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    >>> star = np.array([[0, 1, 1, 1], [1, 0, 2, 2], [1, 2, 0, 2], [1, 2, 2, 0.0]])
    >>> found = gwfast.pairwise_gromov_wasserstein([path, star, path[::-1, ::-1]])
    >>> found.costs.round(3)
    array([[0.   , 0.375, 0.   ],
           [0.375, 0.   , 0.375],
           [0.   , 0.375, 0.   ]])
    """
    began, deadline = time.perf_counter(), Deadline.after(time_limit)
    options = Settings.of(
        SolverOptions(n_starts=n_starts),
        deadline,
        tol=tol,
        epsilon=epsilon,
        init="product",
        n_threads=1,
        seed=seed,
        takes_zero=True,
        checkpoint=checkpoint,
    )
    checked = Spaces.of(spaces, masses, features, alpha, loss)
    if k_nearest is not None:
        k_nearest = min(as_count(k_nearest, "k_nearest"), max(len(checked.geometries) - 1, 1))
    if plans and checkpoint is not None:
        raise ValueError("checkpoint must be None with plans=True")
    arrays = [one.matrix for one in checked.geometries] + checked.masses + (checked.features or [])
    numbers = alpha, loss, epsilon, seed, n_starts, tol, k_nearest
    kept, saved = None, None
    if options.checkpoint is not None:  # the file is for all pairs
        kept = Checkpoint(options.checkpoint, digest(*arrays, numbers))
        if kept.is_there:
            saved = kept.load({"costs": ((len(checked.sizes),) * 2, np.float64)})
        options = dataclasses.replace(options, checkpoint=None)
    comparison = _Comparison(checked, saved)
    solver = _Solver(checked, options, bool(plans), resolve_n_threads(n_threads))
    with reporting(progress) as report:
        for pairs in comparison.rounds(k_nearest):
            for part, results in _solve_all(solver, pairs, n_jobs):
                comparison.take(part, *results)
                done = comparison.n_solved + comparison.n_skipped
                text = f"solved {comparison.n_solved} pairs"
                report(ProgressEvent("match", text, done, done, comparison.total))
                if kept is not None:
                    kept.save(costs=comparison.costs, n_unconverged=comparison.n_unconverged)
            if deadline.passed():
                break
    if comparison.n_unconverged:
        warnings.warn(
            f"{comparison.n_unconverged} of {comparison.n_solved} pairs did not converge; try a "
            "larger tol",
            ConvergenceWarning,
            stacklevel=outside(),
        )
    return PairwiseResult(
        costs=comparison.costs,
        lower_bounds=comparison.bounds,
        plans=comparison.plans if plans else None,
        n_solved=comparison.n_solved,
        n_skipped=comparison.n_skipped,
        n_unconverged=comparison.n_unconverged,
        seconds=time.perf_counter() - began,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class Spaces:
    """The spaces, checked, with their masses and features, and a shift of all costs; without the
    points that have no mass. `sizes` count these as well, and `points` are the others.
    """

    sizes: list[int]
    points: list[np.ndarray]
    geometries: list[DenseCost]
    masses: list[np.ndarray]
    features: list[np.ndarray] | None
    alpha: float
    loss: LossName
    shift: float

    @classmethod
    def of(
        cls,
        spaces: Iterable[CostLike],
        masses: Sequence[ArrayLike | None] | None,
        features: Sequence[ArrayLike] | None,
        alpha: float,
        loss: LossName,
    ) -> Spaces:
        """Check arguments of `pairwise_gromov_wasserstein`."""
        one_of(loss, "loss", LOSSES)
        alpha = as_alpha(alpha, features, "features")
        if isinstance(spaces, str) or not isinstance(spaces, Iterable):
            raise TypeError(f"spaces must be an iterable of costs, got {type(spaces).__name__}")
        geometries = [as_geometry(x, f"spaces[{k}]").to_dense() for k, x in enumerate(spaces)]
        n = len(geometries)
        if not n:
            raise ValueError("spaces must not be empty")
        for name, several in (("masses", masses), ("features", features)):
            if several is not None and len(several) != n:
                raise ValueError(f"{name} must be as many as spaces, {n}, got {len(several)}")
        checked = []
        masses = [None] * n if masses is None else masses
        for k, (mass, cost) in enumerate(zip(masses, geometries, strict=True)):
            mass = in_order(mass, f"masses[{k}]", cost.labels, of=f"spaces[{k}]")
            checked.append(as_marginal(mass, f"masses[{k}]", cost.n))
        if features is not None:
            columns, of = labels_of(features[0], 1), "spaces and features[0]"
            width = as_matrix(features[0], "features[0]").shape[1]
            vectors = []
            for k, (x, cost) in enumerate(zip(features, geometries, strict=True)):
                x = in_order(x, f"features[{k}]", cost.labels, columns, of=of)
                x = as_matrix(x, f"features[{k}]", shape=(cost.n, width))
                check_extremes(float(x.min()), float(x.max()), f"features[{k}]")
                vectors.append(np.ascontiguousarray(x, np.float64))
            features = vectors
        sizes, points = [cost.n for cost in geometries], list(map(np.flatnonzero, checked))
        for k, with_mass in enumerate(points):
            if len(with_mass) < sizes[k]:
                geometries[k], checked[k] = geometries[k].take(with_mass), checked[k][with_mass]
                if features is not None:
                    features[k] = features[k][with_mass]
        shift = 0.0
        if LOSSES[loss].shift_invariant:
            shift = float(np.mean([x.mean_of(p) for x, p in zip(geometries, checked, strict=True)]))
        return cls(sizes, points, geometries, checked, features, alpha, loss, shift)

    def problem(self, i: int, j: int) -> QuadraticProblem:
        """Return the `QuadraticProblem` of a pair."""
        linear = None
        if self.features is not None:
            x, y = self.features[i], self.features[j]
            linear = np.square(x).sum(axis=1)[:, None] + np.square(y).sum(axis=1)
            linear = np.maximum(linear - 2.0 * x @ y.T, 0.0)
        return QuadraticProblem.from_checked(
            self.geometries[i],
            self.geometries[j],
            Balanced(self.masses[i], self.masses[j]),
            loss=self.loss,
            linear_cost=linear,
            alpha=self.alpha,
        )

    def with_all_points(self, pair: Pair, plan: np.ndarray | sparse.csr_array) -> sparse.csr_array:
        """Return the plan of a pair, an array or sparse, as a CSR array with all points."""
        plan, (i, j) = sparse.coo_array(plan), pair
        entries = self.points[i][plan.row], self.points[j][plan.col]
        return sparse.csr_array((plan.data, entries), (self.sizes[i], self.sizes[j]))


class _Solver:
    """Solves pairs of `Spaces`: a call returns the costs of a list of pairs, NaN if time is up,
    whether they converged, and their plans if these are kept.
    """

    def __init__(self, spaces: Spaces, options: Settings, plans: bool, n_threads: int = 1) -> None:
        self.spaces, self.options, self.plans, self._n_threads = spaces, options, plans, n_threads
        # Pairs of a call: an `ExactPairs` keeps the last plan alone.
        self.n_pairs = n_threads if plans and options.is_exact else CHUNK * n_threads
        self._weight = 1.0 if spaces.features is None else spaces.alpha
        self._space = functools.cache(self._make_space)
        self._directions = dict[tuple[int, int], np.ndarray]()
        self._mean = functools.cache(lambda k: spaces.geometries[k].mean_of(spaces.masses[k]))
        limits = options.limits.max_outer, options.limits.tol
        starts = options.n_starts or 0, options.seed
        self._descents = [
            ExactPairs(
                *starts,
                *limits,
                ROUNDING,
                (1.0 - self._weight) / 2,
                from_product=options.n_starts is not None,
            )
            for _ in range(n_threads)
        ]

    def _make_space(self, number: int, k: int) -> Space:
        """Return the `Space` of a space in pairs."""
        spaces, geometry, masses = self.spaces, self.spaces.geometries[k], self.spaces.masses[k]
        points, loss = np.arange(geometry.n), LOSSES[spaces.loss]
        side = exact_side(number, geometry, points, masses, loss, spaces.shift, self._weight, True)
        values, constants = side.matrix, self._weight * side.linear
        turns = None
        if self.options.n_starts != 0 and geometry.symmetric:
            # From the best of three first steps along two eigenvectors costs are by mean 3 to 7 %
            # lower than from the product plan, in about its time. If h is linear, both sides have
            # the same eigenvectors.
            shared = self._directions.get((1 - number, k)) if loss.keeps_factors else None
            turns = (
                directions(-values if number else values, masses, 2) if shared is None else shared
            )
            self._directions[number, k] = turns
        return Space(
            values,
            values if geometry.symmetric else values.T.copy(),
            masses,
            float(masses @ constants),
            float(abs(values).max()),
            float(abs(constants).max()),
            None if spaces.features is None else spaces.features[k],
            turns,
            turns is not None and spaces.features is None and has_ties(values, masses),
        )

    def __call__(self, pairs: list[Pair]) -> Solved:
        if not self.options.is_exact:
            problems = [self.spaces.problem(*pair) for pair in pairs]
            results = solve_all(problems, self.options, self._n_threads, lambda event: None)
            late = [result.ending == Ending.TIME_LIMIT for result in results]
            # The cost is right also if all plans have it.
            settled = Status.CONVERGED, Status.UNCERTAIN
            sure = [one.status in settled or one.ending == Ending.EQUAL_COSTS for one in results]
            plans = []
            if self.plans:
                # Entries that are left out are below the rounding of float32.
                plans = [result.coupling.tocsr(1e-8) for result in results]
                plans = list(map(self.spaces.with_all_points, pairs, plans))
            costs = np.where(late, np.nan, [result.gw_cost for result in results])
            return costs, np.array(sure), plans
        deadline, costs = self.options.limits.deadline, np.full(len(pairs), np.nan)
        converged, plans = np.zeros(len(pairs), bool), [None] * len(pairs)
        working = self._descents[: len(pairs)]
        for k, descents in enumerate(working):
            share = pairs[k :: len(working)]
            descents.begin(
                [self._space(0, i) for i, _ in share], [self._space(1, j) for _, j in share]
            )
        while not deadline.passed():
            if ExactPairs.go_on(working, SLICE):
                break
        for k, descents in enumerate(working):
            descents.settle()
            solved = range(k, len(pairs), len(working))[: descents.n_done]
            costs[solved] = descents.costs[: descents.n_done]
            converged[solved] = descents.converged[: descents.n_done]
            for number in solved:
                plan = self._isomorphism(*pairs[number])
                if plan is not None:
                    costs[number], converged[number] = 0.0, True
                if self.plans:
                    plan = descents.plan if plan is None else plan
                    plans[number] = self.spaces.with_all_points(pairs[number], plan)
        return costs, converged, plans

    def _isomorphism(self, i: int, j: int) -> np.ndarray | None:
        """Return a plan of objective zero, or None."""
        left, right = self._mean(i), self._mean(j)
        same_size = self.spaces.geometries[i].n == self.spaces.geometries[j].n
        if not same_size or abs(left - right) > 1e-9 * max(abs(left), abs(right)):
            return None
        return next(isomorphisms(self.spaces.problem(i, j)), None)


def _solve_all(
    solver: _Solver, pairs: list[Pair], n_jobs: int | None
) -> Iterator[tuple[list[Pair], Solved]]:
    """Yield parts of the pairs and their results, by threads of this process or by workers of
    joblib.
    """
    size = solver.n_pairs if n_jobs is None else CHUNK
    parts = [pairs[k : k + size] for k in range(0, len(pairs), size)]
    if n_jobs is None:
        with single_threaded_blas():
            for part in parts:
                yield part, solver(part)
        return
    calls = [(solver.spaces, solver.options, solver.plans, part) for part in parts]
    for number, results in in_parallel(_solve_elsewhere, calls, n_jobs):
        yield parts[number], results


def _solve_elsewhere(spaces: Spaces, options: Settings, plans: bool, pairs: list[Pair]) -> Solved:
    """Solve pairs in another process."""
    solver, results = _Solver(spaces, options, plans), []
    for _, result in _solve_all(solver, pairs, None):
        results.append(result)
    costs, converged, kept = zip(*results, strict=True)
    return np.concatenate(costs), np.concatenate(converged), list(itertools.chain(*kept))


class _Comparison:
    """Costs of all pairs so far, NaN before a pair is solved; a checkpoint has some at first."""

    def __init__(self, spaces: Spaces, saved: dict[str, Any] | None) -> None:
        self._symmetric, n = spaces.loss == "square", len(spaces.geometries)
        self.bounds, self.costs = np.zeros((n, n)), np.full((n, n), np.nan)
        if self._symmetric:
            sides = zip(spaces.geometries, spaces.masses, strict=True)
            weight = 1.0 if spaces.features is None else spaces.alpha
            self.bounds = weight * lower_bounds([signature(*side) for side in sides])
        np.fill_diagonal(self.costs, 0.0)
        self.plans = dict[Pair, sparse.csr_array]()
        self.n_solved, self.n_skipped, self.n_unconverged = 0, 0, 0
        self.total = n * (n - 1) // (2 if self._symmetric else 1)
        if saved is not None:
            np.copyto(self.costs, saved["costs"])
            self.n_unconverged = int(saved["n_unconverged"])
            self.n_solved = self.total - len(self._left())

    def rounds(self, k_nearest: int | None) -> Iterator[list[Pair]]:
        """Yield lists of pairs to be solved: without `k_nearest` all, else pairs with the lowest
        bounds first, and of the rest only pairs that may still be among the nearest.
        """
        left = self._left()
        if k_nearest is None:
            yield left
            return
        left.sort(key=lambda pair: self.bounds[pair])
        # In 24 rounds at most: after each of them pairs are given up.
        size = max(-(-len(left) // 24), CHUNK)
        while left:
            yield left[:size]
            finite = np.where(np.isnan(self.costs), np.inf, self.costs)
            np.fill_diagonal(finite, np.inf)
            farthest = np.partition(finite, k_nearest - 1, axis=1)[:, k_nearest - 1]
            still = []
            for i, j in left[size:]:
                if self.bounds[i, j] <= max(farthest[i], farthest[j]):
                    still.append((i, j))
                else:
                    self.n_skipped += 1
                    self.costs[i, j] = self.costs[j, i] = np.inf
            left = still

    def take(
        self,
        pairs: list[Pair],
        costs: np.ndarray,
        converged: np.ndarray,
        plans: list[sparse.csr_array],
    ) -> None:
        """Take what `_Solver` returned for some pairs."""
        solved = ~np.isnan(costs)
        for (i, j), cost in zip(pairs, costs, strict=True):
            self.costs[i, j] = cost
            if self._symmetric:
                self.costs[j, i] = cost
        kept = zip(pairs, plans, solved, strict=False)
        self.plans.update({pair: plan for pair, plan, is_solved in kept if is_solved})
        self.n_solved += int(np.count_nonzero(solved))
        self.n_unconverged += int(np.count_nonzero(solved & ~converged))

    def _left(self) -> list[Pair]:
        """Return the pairs without a cost, by their places."""
        pairs = np.argwhere(np.isnan(self.costs)).tolist()
        return [(i, j) for i, j in pairs if i < j or not self._symmetric]
