"""All pairs of many spaces, most of them small."""

from __future__ import annotations

import dataclasses
import functools
import time
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..kernels._exact_pairs import ExactPairs, Space
from ..kernels.threads import resolve_n_threads, single_threaded_blas
from ..linear.marginals import Balanced
from ..problems.bounds import lower_bounds, signature
from ..problems.epsilon import EpsilonLike
from ..problems.geometry import DenseCost
from ..problems.graphs import CostLike, as_geometry
from ..problems.losses import LOSSES, LossName
from ..problems.quadratic import QuadraticProblem, as_alpha
from ..quadratic.frank_wolfe import ROUNDING, SLICE, Side, whole_plan
from ..quadratic.plain_terms import FEW_POINTS
from ..quadratic.stopping import Limits
from ..results.pairwise import PairwiseResult
from ..results.result import ConvergenceWarning
from ..results.status import Status
from ..utils.callers import outside
from ..utils.deadline import Deadline
from ..utils.labels import in_order, labels_of
from ..utils.parallel import in_parallel
from ..utils.pot_names import QUADRATIC, knows_pot_names
from ..utils.progress import ProgressEvent, reporting
from ..utils.types import PathLike, Progress
from ..utils.validation import as_count, as_marginal, as_matrix, one_of
from .checkpoint import PAIRS, opened_for
from .gromov import solve
from .isomorphism import isomorphisms
from .options import SolveOptions
from .small import SmallSolve, solve_small

# Relative difference of mean costs that is rounding.
SAME_MEAN = 1e-9
# Pairs that a thread takes at a time.
CHUNK = 32
# Eigenvectors of either space along which exact problems start. Of 50 neurons 88 % have
# the nearest that 20 random starts find, in 2.7 times the time of the product plan, with
# which 66 % have; with two eigenvectors costs are by mean 1.2 % lower, in 4.5 times.
N_DIRECTIONS = 1


@knows_pot_names(QUADRATIC, p="masses", q="masses")
def pairwise_gromov_wasserstein(
    spaces: Iterable[CostLike],
    *,
    masses: Sequence[ArrayLike | None] | None = None,
    features: Sequence[ArrayLike] | None = None,
    alpha: float | None = None,
    loss: LossName = "square",
    epsilon: EpsilonLike = 0.0,
    n_starts: int | None = None,
    k_nearest: int | None = None,
    plans: bool = False,
    max_outer: int = 1000,
    tol: float = 1e-5,
    time_limit: float | None = None,
    n_threads: int | None = None,
    n_jobs: int | None = None,
    seed: int = 0,
    checkpoint: PathLike | None = None,
    progress: Progress = False,
) -> PairwiseResult:
    """Gromov-Wasserstein costs between all pairs of spaces, one thread a pair.

    Parameters
    ----------
    spaces : iterable of (n_i, n_i) array-like, PointCloud, DenseCost or graph
        Costs within each space, as `gromov_wasserstein` takes them; sizes may differ.
    masses : sequence of (n_i,) array-like or None, default=None
        Masses of the points of each space; None is uniform.
    features : sequence of (n_i, d) array-like or None, default=None
        Features of the points of each space. They make the problems fused: squared
        Euclidean distances of features are the linear cost.
    alpha : float or None, default=None
        Weight of the quadratic term if there are features; None is 0.5.
    loss : {"square", "kl"}, default="square"
        Under "kl" the cost of a pair depends on which comes first, and both are solved.
    epsilon : float, str or Epsilon, default=0
        0 is the exact problem, solved by conditional gradient; else the problems are
        regularized, and start from the product plan.
    n_starts : int or None, default=None
        Number of random plans that exact problems start from beside the product plan
        and, if costs are symmetric, two plans along the leading eigenvectors of both
        spaces (mirror images); the lowest cost counts. None is no random plan; 0 is the
        product plan alone.
    k_nearest : int or None, default=None
        If given, pairs whose lower bounds show that neither space is among the so many
        nearest ones of the other are skipped (only the squared loss has bounds).
    plans : bool, default=False
        Whether to keep the plans.
    max_outer, tol
        See `gromov_wasserstein`.
    time_limit : float or None, default=None
        Seconds after which it ends, with the best of the starts so far for a pair in
        hand; costs of pairs that are not solved by then are NaN.
    n_threads : int or None, default=None
        Number of pairs solved at a time in this process; None is one a core.
    n_jobs : int or None, default=None
        If given, joblib shares the pairs out over so many workers instead, of the
        backend that ``joblib.parallel_config`` chooses (processes by default; Dask).
    seed : int, default=0
        Seed of the random plans.
    checkpoint : path-like or None, default=None
        File that keeps the costs so far; the same call goes on from there. A file of
        other spaces, of other options (except `time_limit`, `n_threads`, `n_jobs` and
        `progress`) or of another version of gwfast is a ValueError. It can't be used
        with `plans`.
    progress : bool or callable, default=False
        As in `gromov_wasserstein`.

    Returns
    -------
    PairwiseResult

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it, and the
        number of the space.

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

    By the workers of a Dask cluster, in a script, whose workers import it to find its
    functions, hence the guard::

        import joblib
        from dask.distributed import Client, LocalCluster

        if __name__ == "__main__":
            with (
                Client(LocalCluster()),  # or Client("tcp://scheduler:8786")
                joblib.parallel_config(backend="dask"),
            ):
                found = gwfast.pairwise_gromov_wasserstein(spaces, n_jobs=-1)
    """
    began, deadline = time.perf_counter(), Deadline.after(time_limit)
    options = SolveOptions(
        Limits(max_outer, 10_000, tol, 1e-5, deadline=deadline),
        epsilon=epsilon,
        init="product",
        n_threads=1,
        seed=seed,
        n_starts=n_starts,
        takes_zero=True,
        checkpoint=checkpoint,
    )
    given = Spaces.checked(spaces, masses, features, alpha, loss)
    n = len(given)
    if k_nearest is not None:
        k_nearest = min(as_count(k_nearest, "k_nearest"), max(n - 1, 1))
    if plans and checkpoint is not None:
        raise ValueError("checkpoint must be None with plans=True")
    bounds = given.bounds() if loss == "square" else np.zeros((n, n))
    kept = opened_for(options, given.parts(), k_nearest=k_nearest)
    state = _State(bounds, kept, symmetric=loss == "square")
    # The file is that of all pairs, not of one.
    options = dataclasses.replace(options, checkpoint=None)
    n_threads = resolve_n_threads(n_threads, team=False)
    solver = _Solver(given, options, bool(plans), n_threads)
    save = kept.saver(PAIRS, state.export)
    with reporting(progress) as report:
        for pairs in state.rounds(k_nearest):
            for part, found in _solve_all(solver, pairs, n_jobs):
                state.take(part, found)
                text = f"solved {state.n_solved} pairs"
                done = state.n_solved + state.n_skipped
                report(ProgressEvent("match", text, done, done, state.total))
                if save is not None:
                    save()
            if deadline.passed():
                break
    return state.result(plans, kept.seconds + time.perf_counter() - began)


@dataclasses.dataclass(frozen=True, eq=False)
class Spaces:
    """The spaces, checked: geometries, masses, features and how to weigh them."""

    geometries: list[DenseCost]
    masses: list[np.ndarray]
    features: list[np.ndarray] | None
    alpha: float
    loss: LossName
    shift: float

    @classmethod
    def checked(cls, spaces, masses, features, alpha, loss):
        """Of the arguments of `pairwise_gromov_wasserstein`."""
        one_of(loss, "loss", LOSSES)
        alpha = as_alpha(alpha, features, "features")
        if isinstance(spaces, str) or not isinstance(spaces, Iterable):
            came = type(spaces).__name__
            raise TypeError(f"spaces must be an iterable of costs, got {came}")
        given = list(spaces)
        if not given:
            raise ValueError("spaces must not be empty")
        geometries = [as_geometry(one, f"spaces[{k}]").to_dense() for k, one in enumerate(given)]
        for name, several in (("masses", masses), ("features", features)):
            if several is not None and len(several) != len(given):
                raise ValueError(
                    f"{name} must be as many as spaces, {len(given)}, got {len(several)}"
                )
        masses = [None] * len(given) if masses is None else masses
        checked = [
            as_marginal(
                in_order(masses[k], f"masses[{k}]", one.labels, of=f"spaces[{k}]"),
                f"masses[{k}]",
                one.n,
            )
            for k, one in enumerate(geometries)
        ]
        if features is not None:
            columns = labels_of(features[0], 1)
            of = "spaces and features[0]"
            features = [
                in_order(one, f"features[{k}]", geometries[k].labels, columns, of=of)
                for k, one in enumerate(features)
            ]
            width = as_matrix(features[0], "features[0]").shape[1]
            shapes = [(one.n, width) for one in geometries]
            features = [
                as_matrix(one, f"features[{k}]", shape=shapes[k]).astype(np.float64)
                for k, one in enumerate(features)
            ]
        shift = 0.0
        if LOSSES[loss].shift_invariant:
            pairs = zip(geometries, checked, strict=True)
            shift = float(np.mean([one.mean_of(mass) for one, mass in pairs]))
        return cls(geometries, checked, features, alpha, loss, shift)

    def __len__(self):
        return len(self.geometries)

    def parts(self):
        """All that results depend on, for a checkpoint."""
        names = "geometries", "masses", "features", "alpha", "loss"
        return {name: getattr(self, name) for name in names}

    def bounds(self):
        """Lower bounds (N, N) of the costs."""
        pairs = zip(self.geometries, self.masses, strict=True)
        weight = 1.0 if self.features is None else self.alpha
        return weight * lower_bounds([signature(*pair) for pair in pairs])

    def problem(self, i, j):
        """The `QuadraticProblem` of a pair."""
        rule, linear = Balanced(self.masses[i], self.masses[j]), None
        if self.features is not None:
            x, y = self.features[i], self.features[j]
            linear = np.square(x).sum(axis=1)[:, None] + np.square(y).sum(axis=1)
            linear = np.maximum(linear - 2.0 * x @ y.T, 0.0)
        return QuadraticProblem.from_checked(
            self.geometries[i],
            self.geometries[j],
            rule,
            loss=self.loss,
            linear_cost=linear,
            alpha=self.alpha,
        )


class _Found(NamedTuple):
    """What was found of some pairs, the first of those that were asked for."""

    costs: np.ndarray
    converged: np.ndarray
    plans: list | None


class _Solver:
    """Solves pairs of `Spaces`; what is made of one space is kept. Of small ones with
    entropy each call solves so many at a time as there are threads, of others one.

    Attributes
    ----------
    at_once : int
        How many calls there may be at a time.
    """

    def __init__(self, spaces, options, plans, n_threads=1):
        self.spaces, self.options, self.plans = spaces, options, plans
        few = all(one.n <= FEW_POINTS for one in spaces.geometries)
        together = few and not options.is_exact
        self.at_once, self._n_threads = n_threads, 1
        if together:
            self.at_once, self._n_threads = 1, n_threads
        loss, fused = LOSSES[spaces.loss], spaces.features is not None
        self._weight = spaces.alpha if fused else 1.0
        turned = options.n_starts != 0

        @functools.cache
        def side(number, k):
            given = spaces.geometries[k], spaces.masses[k], loss, spaces.shift
            made = Side(number, *given, self._weight)
            features = spaces.features[k][made.some] if fused else None
            return made, Space(
                made.values,
                made.transposed,
                made.masses,
                float(made.masses @ made.constants),
                made.largest,
                made.most,
                features,
                made.directions(N_DIRECTIONS) if turned and made.symmetric else None,
            )

        @functools.cache
        def mean(k):
            masses, cost = spaces.masses[k], spaces.geometries[k].matrix
            return len(masses), masses @ cost @ masses

        self._side, self._mean, self._idle = side, mean, []

    def __call__(self, pairs):
        """The `_Found` of pairs, as many as there was time for."""
        if not self.options.is_exact:
            return self._regularized(pairs)
        descents = self._idle.pop() if self._idle else self._pairs()
        sides = [(self._side(0, i), self._side(1, j)) for i, j in pairs]
        costs, converged, plans = [], [], []
        # One at a time if plans are kept.
        for some in [[one] for one in sides] if self.plans else [sides]:
            descents.begin([x for (_, x), _ in some], [y for _, (_, y) in some])
            while not self.options.limits.deadline.passed():
                if ExactPairs.go_on([descents], SLICE):
                    break
            else:
                descents.settle()
            n_done = descents.n_done
            costs.append(descents.costs[:n_done])
            converged.append(descents.converged[:n_done])
            if self.plans and n_done:
                (x, _), (y, _) = some[0]
                plans.append(sparse.csr_array(whole_plan(descents.plan, x, y)))
        self._idle.append(descents)
        costs, converged = np.concatenate(costs), np.concatenate(converged)
        n_done = len(costs)
        for k, pair in enumerate(pairs[:n_done]):
            plan = self._isomorphism(*pair)
            if plan is not None:
                costs[k], converged[k] = 0.0, True
                if self.plans:
                    plans[k] = sparse.csr_array(plan)
        return _Found(costs, converged, plans if self.plans else None)

    def _isomorphism(self, i, j):
        """A plan of objective zero, or None."""
        (x, left), (y, right) = self._mean(i), self._mean(j)
        if x != y or abs(left - right) > SAME_MEAN * max(abs(left), abs(right)):
            return None
        return next(isomorphisms(self.spaces.problem(i, j)), None)

    def _pairs(self):
        options, weight = self.options, (1.0 - self._weight) / 2
        limits = options.limits.max_outer, options.limits.tol
        return ExactPairs(options.n_starts or 0, options.seed, *limits, ROUNDING, weight)

    def _regularized(self, pairs):
        options, costs, converged, plans = self.options, [], [], []
        problems = {k: self.spaces.problem(*pair) for k, pair in enumerate(pairs)}
        deadline = options.limits.deadline

        def prepare(k):
            return SmallSolve.of(problems[k], options)

        found = dict(solve_small(problems, prepare, deadline, self._n_threads))
        for k, problem in problems.items():
            if k not in found and deadline.passed():
                break
            result = found.get(k) or solve(problem, options)
            if result.status == Status.TIME_LIMIT:
                break
            costs.append(result.gw_cost)
            converged.append(result.converged)
            if self.plans:
                plans.append(result.coupling.tocsr())
        found = np.array(costs), np.array(converged, dtype=bool)
        return _Found(*found, plans if self.plans else None)


def _solve_all(solver, pairs, n_jobs):
    """Yields parts of the pairs and what was found of them, as they are there, by
    threads of this process or by workers of joblib.
    """
    parts = [pairs[k : k + CHUNK] for k in range(0, len(pairs), CHUNK)]
    spaces, options = solver.spaces, solver.options
    if n_jobs is not None:
        calls = [(spaces, options, solver.plans, part) for part in parts]
        done = in_parallel(_solve_elsewhere, calls, n_jobs)
        yield from ((parts[number], found) for number, found in done)
        return
    with single_threaded_blas(), ThreadPoolExecutor(solver.at_once) as pool:
        running = {pool.submit(solver, part): part for part in parts}
        try:
            for future in as_completed(running):
                yield running[future], future.result()
        except BaseException:
            options.limits.deadline.stop()
            pool.shutdown(cancel_futures=True)
            raise


def _solve_elsewhere(spaces, options, plans, pairs):
    """`_Solver` in another process."""
    with single_threaded_blas():
        return _Solver(spaces, options, plans)(pairs)


class _State:
    """Which pairs are solved, and what they cost: none, or those of a checkpoint."""

    def __init__(self, bounds, checkpoint, symmetric):
        n = len(bounds)
        self.costs = np.full((n, n), np.nan)
        np.fill_diagonal(self.costs, 0.0)
        self._bounds, self._symmetric = bounds, symmetric
        self.plans, self.n_solved, self.n_unconverged, self.n_skipped = {}, 0, 0, 0
        self.total = n * (n - 1) // (2 if symmetric else 1)
        saved = checkpoint.at(PAIRS)
        if saved is not None:
            with checkpoint.restoring():
                np.copyto(self.costs, saved["costs"])
                self.n_unconverged = int(saved["n_unconverged"])
                self.n_solved = self.total - len(self._left())

    def export(self):
        return dict(costs=self.costs, n_unconverged=self.n_unconverged)

    def rounds(self, k_nearest):
        """Lists of pairs to be solved, one after the other: without `k_nearest` all at
        once, else pairs with the lowest bounds first, and of the others only those that
        may still be among the nearest.
        """
        left = self._left()
        if k_nearest is None:
            if left:
                yield left
            return
        left.sort(key=lambda pair: self._bounds[pair])
        # In 24 rounds at most: after each of them pairs are given up.
        size = max(-(-len(left) // 24), CHUNK)
        while left:
            yield left[:size]
            left = self._open(left[size:], k_nearest)

    def take(self, pairs, found):
        """Take the `_Found` of some pairs."""
        n_found = len(found.costs)
        if not n_found:
            return
        rows, cols = np.transpose(pairs[:n_found])
        self.costs[rows, cols] = found.costs
        if self._symmetric:
            self.costs[cols, rows] = found.costs
        if found.plans is not None:
            self.plans.update(zip(pairs, found.plans, strict=False))
        self.n_solved += n_found
        self.n_unconverged += n_found - int(np.count_nonzero(found.converged))

    def result(self, plans, seconds):
        """The `PairwiseResult`, with a warning where solvers ended at a limit."""
        if self.n_unconverged:
            warnings.warn(
                f"{self.n_unconverged} of {self.n_solved} pairs did not converge; try "
                "a larger max_outer or tol",
                ConvergenceWarning,
                stacklevel=outside(),
            )
        return PairwiseResult(
            costs=self.costs,
            lower_bounds=self._bounds,
            plans=self.plans if plans else None,
            n_solved=self.n_solved,
            n_skipped=self.n_skipped,
            n_unconverged=self.n_unconverged,
            seconds=seconds,
        )

    def _left(self):
        """Pairs without a cost, by their places."""
        rows, cols = np.nonzero(np.isnan(self.costs))
        pairs = zip(rows.tolist(), cols.tolist(), strict=True)
        return [(i, j) for i, j in pairs if i < j or not self._symmetric]

    def _open(self, left, k_nearest):
        """The pairs that may be among the nearest of either space; others are given up."""
        known = np.where(np.isnan(self.costs), np.inf, self.costs)
        np.fill_diagonal(known, np.inf)
        farthest = np.partition(known, k_nearest - 1, axis=1)[:, k_nearest - 1]
        still = []
        for i, j in left:
            if self._bounds[i, j] <= max(farthest[i], farthest[j]):
                still.append((i, j))
                continue
            self.n_skipped += 1
            self.costs[i, j] = self.costs[j, i] = np.inf
        return still
