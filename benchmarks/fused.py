"""Fused problems of two point clouds beside OTT-JAX: ``python -m benchmarks.fused``.

Points have 50 coordinates, a copy of them is rotated, permuted and noisy, and both have
10 features in common. Both solvers take points and features, form no matrix of costs,
begin at the product plan and use two threads; OTT's is compiled before. Objective and
marginal errors are computed here, in float64, from both plans.

OTT adds ``fused_penalty`` times the linear cost to half of the quadratic term's
gradient, which is half of the gradient of ``gw + 2 * fused_penalty * linear``: that is
our objective, divided by `alpha`, for ``fused_penalty = (1 - alpha) / (2 * alpha)``,
and OTT's epsilon is ours divided by `alpha`.
"""

import argparse
import functools
import statistics
import time
import warnings

import numpy as np

from .ablation.problems import fused_clouds
from .common import markdown, settings
from .common.settings import solver_arguments
from .solvers.contenders import CONTENDERS, ott_function

ALPHA, SHARE, ROUNDS = 0.5, 0.0175, 3
# How OTT is called; gwfast has a row with the same tolerances.
OTT = CONTENDERS["OTT-JAX tight"].options
TITLES = "points", "solver", "seconds", "ratio", "outer", "objective", "marginal error"


def with_gwfast(x, y, features, epsilon, **options):
    import gwfast

    def solve():
        found = gwfast.gromov_wasserstein(
            x, y, epsilon=epsilon, linear_cost=features, alpha=ALPHA, init="product",
            n_threads=settings.THREADS, **solver_arguments(**options),
        )  # fmt: skip
        return found.plan, found.n_iter

    return solve


def with_ott(x, y, features, epsilon):
    import jax
    from ott.geometry import pointcloud
    from ott.problems.quadratic import quadratic_problem

    function = ott_function(**OTT)

    @jax.jit
    def compiled(x, y, left, right):
        spaces = [pointcloud.PointCloud(one) for one in (x, y)]
        problem = quadratic_problem.QuadraticProblem(
            *spaces,
            geom_xy=pointcloud.PointCloud(left, right),
            fused_penalty=(1 - ALPHA) / (2 * ALPHA),
        )
        return function(problem, epsilon / ALPHA)

    # |x - y|^2 = 1 - cos of rows of this length.
    sides = [np.sqrt(0.5) * one.points for one in (x, y)]
    # Of |u - v|^2 = row + col + left right', left is -2 u.
    sides += [features.scale**0.5 * one for one in (-features.left / 2, features.right)]
    given = [jax.device_put(one.astype(np.float32)) for one in sides]

    def solve():
        plan, n_outer = jax.block_until_ready(compiled(*given))
        return np.asarray(plan), int(n_outer)

    return solve


def judged(plan, x, y, features):
    """Objective and L1 error of the marginals, in float64."""
    plan = plan.astype(np.float64)
    rows, cols = plan.sum(axis=1), plan.sum(axis=0)
    u, v = (one.points.astype(np.float64) for one in (x, y))
    both = np.square(u.T @ plan @ v).sum()
    own = (np.square(one @ one.T) for one in (u, v))
    quadratic = sum(s @ c @ s for s, c in zip((rows, cols), own, strict=True)) - 2 * both
    linear = np.vdot(features.toarray(), plan)
    missed = sum(np.abs(sums - 1 / len(sums)).sum() for sums in (rows, cols))
    return ALPHA * quadratic + (1 - ALPHA) * linear, missed


def rows_of(n):
    """A row of the table for each solver."""
    x, y, features = fused_clouds(n)
    product = np.full((n, n), 1 / n**2)
    epsilon = SHARE * judged(product, x, y, features)[0]
    made, reference = [], None
    tolerances = {"tol": OTT["tol"], "marginal_tol": OTT["inner_tol"]}
    loose = functools.partial(with_gwfast, **tolerances)
    solvers = {"gwfast, OTT's tolerances": loose, "gwfast": with_gwfast}
    solvers["OTT-JAX"] = with_ott
    for name, solver in solvers.items():
        solve, seconds = solver(x, y, features, epsilon), []
        for _ in range(1 + ROUNDS):
            began = time.perf_counter()
            plan, n_outer = solve()
            seconds.append(time.perf_counter() - began)
        median = statistics.median(seconds[1:])
        reference = reference or median
        cost, missed = judged(plan, x, y, features)
        made.append(
            (str(n), name, f"{median:.3g}", f"{median / reference:.2f}", str(n_outer),
             f"{cost:.7g}", f"{missed:.1e}")
        )  # fmt: skip
    return made


def main(argv=None):
    parser = argparse.ArgumentParser(prog="benchmarks.fused", description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, default=[2000, 5000])
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    rows = [row for n in options.sizes for row in rows_of(n)]
    markdown.show("fused problems of point clouds", TITLES, rows)


if __name__ == "__main__":
    main()
