"""The problems, and the solvers that are compared on them, each as it is called.

A solver is ``solver(problem, **options)``: it converts, untimed, and returns the function that is
timed, which returns a plan and the outer iterations. All get product start, uniform marginals, and
float32 or float64 as each does by default. The epsilon of POT, which hands Sinkhorn the whole
gradient, is twice ours; OTT-JAX's is ours.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

import gwfast
from gwfast.words import load_sample

from ..common import data, problems, runner
from ..common.problems import solver_arguments


class Problem(NamedTuple):
    """Two spaces, each a `PointCloud` or costs, and what is known about them.

    Attributes
    ----------
    name : str
    x, y : PointCloud or (n, n) ndarray
    epsilon : float
        In gwfast's convention.
    terms : dict
        Arguments of a fused `QuadraticProblem`.
    raw : tuple of ndarrays, or None
        All vectors as they were read; the spaces have the first of them.
    right : callable or None
        Maps the best column of each row to the share of rows with a right match.
    """

    name: str
    x: Any
    y: Any
    epsilon: float
    terms: Mapping[str, Any] = MappingProxyType({})
    raw: tuple | None = None
    right: Any = None

    @property
    def quadratic(self):
        return gwfast.QuadraticProblem(self.x, self.y, **self.terms)

    def matrices(self):
        """Return the costs as matrices of float64."""
        sides = (getattr(side, "points", None) for side in (self.x, self.y))
        costs = zip((self.x, self.y), sides, strict=True)
        return [cost if x is None else x.astype(np.float64) @ x.T for cost, x in costs]


def judged(problem, plan):
    """Return what a plan is worth, by the independent `gwfast.verify` in float64."""
    found = gwfast.verify(problem.quadratic, plan, epsilon=problem.epsilon, max_iter=1)
    worth = {"objective": found.gw_cost, "marginal_error": found.marginals.value}
    if problem.right is not None:
        worth["right"] = float(problem.right(np.asarray(plan).argmax(axis=1)))
    return worth


# --- Problems -------------------------------------------------------------------------


def words(pair, n, epsilon):
    """Return cosine similarities of frequent words, of the bundled sample without the data."""
    try:
        source, target, dictionary = data.language_pair(pair)
    except FileNotFoundError:
        pair, epsilon = "es-fr (bundled sample)", 3e-4
        source, target, dictionary = load_sample()
    if n > min(len(source), len(target)):
        raise FileNotFoundError(f"{n} words a side of {pair}")
    translations = data.translations(dictionary, source.words[:n], target.words[:n])

    def right(best):
        return np.mean([best[row] in columns for row, columns in translations.items()])

    raw = source.vectors, target.vectors
    clouds = (gwfast.PointCloud(problems.normalized(vectors)[:n]) for vectors in raw)
    return Problem(f"{pair}, {n} x {n} words", *clouds, epsilon, raw=raw, right=right)


def graph(pair, n):
    """Return shortest paths along the nearest neighbors of words."""
    points = words(pair, n, 1.0)
    costs = [data.shortest_paths(side.points.astype(np.float64)) for side in (points.x, points.y)]
    return scaled(Problem(f"paths in graphs of {points.name}", *costs, 0.0), 0.02)


def hops(name, k):
    """Return steps along the nearest neighbors of cells, seen in two ways."""
    x, y, types_x, types_y = data.cells(name)
    return scaled(
        Problem(
            f"hops between cells of {name}, {k} neighbors",
            data.hops(x, k),
            data.hops(y, k),
            0.0,
            right=lambda best: np.mean(types_x == types_y[best]),
        ),
        0.02,
    )


def fused(n):
    """Return clouds of 50 coordinates and 10 features in common."""
    x, y, features = problems.fused_clouds(n)
    terms = dict(linear_cost=features, alpha=0.5)
    return scaled(Problem(f"fused clouds of {n} points", x, y, 0.0, terms), 0.0175)


def scaled(problem, share):
    """Return a problem with an epsilon relative to the objective of the product plan."""
    n, m = problem.quadratic.shape
    objective = judged(problem._replace(epsilon=1.0, right=None), np.full((n, m), 1 / (n * m)))
    epsilon = float(f"{share * objective['objective']:.2g}")
    return problem._replace(epsilon=epsilon)


PROBLEMS = {"words": words, "graph": graph, "hops": hops, "fused": fused}


# --- Solvers --------------------------------------------------------------------------


def with_gwfast(problem, **options):
    """Call ``align`` from the raw vectors, with normalization and mapping, if there are any."""
    options = {"epsilon": problem.epsilon, **options}
    options = solver_arguments(n_threads=runner.THREADS, **options)
    call = problem.quadratic

    def solve():
        if problem.raw is None:
            result = gwfast.gromov_wasserstein(call, **options)
        else:
            n_words = problem.x.points.shape[0]
            result = gwfast.align(*problem.raw, n_words=n_words, **options).gw
        return result.plan, len(result.history)

    return solve


def with_pot(problem, **options):
    """Call POT on matrices, whose making is not timed."""
    import ot

    matrices, calls = problem.matrices(), []
    # POT's log has an entry for every tenth iteration, and costs a product more.
    module, inner = ot.gromov._bregman, ot.gromov._bregman.sinkhorn

    def counted(*arguments, **more):
        calls.append(1)
        return inner(*arguments, **more)

    module.sinkhorn = counted

    def solve():
        calls.clear()
        epsilon = 2 * problem.epsilon
        plan = ot.gromov.entropic_gromov_wasserstein(*matrices, epsilon=epsilon, **options)
        return plan, len(calls)

    return solve


def with_ott(problem, *, max_inner, inner_tol, tol):
    """Call OTT-JAX, compiled, on points where there are any.

    ``|x - y|^2 = 1 - cos`` for rows of length ``2^(-1/2)``. OTT-JAX is fastest on squared
    Euclidean clouds, whose costs it does not form either. It adds ``fused_penalty`` times the
    linear cost to half of the quadratic term's gradient: its objective is ours, divided by
    `alpha`, for ``fused_penalty = (1 - alpha) / (2 alpha)``, and its epsilon is ours over `alpha`.
    """
    import jax
    import jax.numpy as jnp
    from ott.geometry import geometry, pointcloud
    from ott.problems.quadratic import quadratic_problem
    from ott.solvers.linear import sinkhorn
    from ott.solvers.quadratic import gromov_wasserstein

    inner = sinkhorn.Sinkhorn(threshold=inner_tol, max_iterations=max_inner, inner_iterations=10)
    alpha, features = problem.terms.get("alpha", 1.0), problem.terms.get("linear_cost")
    is_cloud = hasattr(problem.x, "points")
    space_of = pointcloud.PointCloud if is_cloud else geometry.Geometry

    @jax.jit
    def compiled(x, y, *between):
        fused = {}
        if between:
            penalty = (1 - alpha) / (2 * alpha)
            fused = dict(geom_xy=pointcloud.PointCloud(*between), fused_penalty=penalty)
        solver = gromov_wasserstein.GromovWasserstein(
            inner,
            epsilon=problem.epsilon / alpha,
            warm_start=True,
            threshold=tol,
            min_iterations=5,
            max_iterations=200,
        )
        out = solver(quadratic_problem.QuadraticProblem(space_of(x), space_of(y), **fused))
        # One more solves the first linearization, before the loop.
        return out.matrix, 1 + jnp.sum(out.costs != -1)

    sides = [0.5**0.5 * x.points if is_cloud else x for x in (problem.x, problem.y)]
    if features is not None:
        # |u - v|^2 = row + column + left right' with left = -2 u.
        sides += [features.scale**0.5 * x for x in (-features.left / 2, features.right)]
    sides = [jax.device_put(np.asarray(x, dtype=np.float32)) for x in sides]

    def solve():
        plan, n_outer = jax.block_until_ready(compiled(*sides))
        return np.asarray(plan), int(n_outer)

    return solve


# Solver and options by name; other solvers are compared with the first.
CONTENDERS = {
    "gwfast": (with_gwfast, {"init": "product"}),
    # The default call of `align`: a search over starts, and an epsilon of its own, so that its
    # objective is another objective.
    "gwfast, the default call": (with_gwfast, {"init": "auto", "epsilon": "auto"}),
    # Marginals and objective as loose as OTT-JAX's fast setting leaves them.
    "gwfast loose": (with_gwfast, {"init": "product", "tol": 1e-3, "marginal_tol": 2e-3}),
    # After 30 inner iterations POT misses the marginals by percents, which makes the objective
    # smaller than any coupling's; 100 is about the least with an objective within 0.5 %.
    "POT 30": (with_pot, {"numItermax": 30, "tol": 1e-5}),
    "POT 100": (with_pot, {"numItermax": 100, "tol": 1e-5}),
    "POT defaults": (with_pot, {}),
    # The fastest with an objective within 0.5 %, and with a marginal error of 1e-4; the defaults
    # of OTT-JAX (threshold=1e-3) stop too early to compare.
    "OTT-JAX": (with_ott, {"max_inner": 10, "inner_tol": 1e-3, "tol": 1e-4}),
    "OTT-JAX tight": (with_ott, {"max_inner": 100, "inner_tol": 1e-4, "tol": 1e-4}),
}
