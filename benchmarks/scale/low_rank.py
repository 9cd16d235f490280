"""OTT-JAX's low-rank solver as moscot 0.5.2 calls it.

``moscot.backends.ott.solver.GWSolver`` gives ``LRGromovWasserstein`` `gamma` = 10, `gamma_rescale`
and OTT's random initializer. ``moscot.problems.space.AlignmentProblem.solve`` has ``alpha=0.5,
threshold=1e-3, scale_cost="mean"``; its epsilon is set to zero here, as it recommends. OTT may
stop as soon as the threshold is met, which favors it in time: by default it makes 10,000
iterations at least.

With moscot's ``fused_penalty = (1 - alpha) / alpha`` the objective is gwfast's. (In OTT's full-rank
solver that is ``(1 - alpha) / (2 alpha)``.)
"""

import numpy as np

from gwfast.results.coupling import Coupling

# Iterations between two looks at the threshold, and at most.
EVERY, MOST = 10, 3000


class LowRankPlan(Coupling):
    """The plan ``q diag(1 / g) r'``, whose entries are made by blocks of rows."""

    dtype = np.dtype(np.float64)

    def __init__(self, q, r, g):
        super().__init__((len(q), len(r)), 1)
        self._left = np.asarray(q, np.float64) / np.asarray(g, np.float64)
        self._right = np.asarray(r, np.float64)

    def _rows(self, rows):
        return self._left[rows] @ self._right.T


def prepared(case, rank):
    """Return a compiled function that returns a plan, its iterations, and OTT's own objective."""
    import jax
    from ott.geometry import pointcloud
    from ott.initializers.linear import initializers_lr
    from ott.problems.quadratic import quadratic_problem
    from ott.solvers.quadratic import gromov_wasserstein_lr

    solver = gromov_wasserstein_lr.LRGromovWasserstein(
        rank=rank,
        gamma=10.0,
        gamma_rescale=True,
        epsilon=0.0,
        initializer=initializers_lr.RandomInitializer(rank),
        threshold=1e-3,
        min_iterations=0,
        max_iterations=MOST,
        inner_iterations=EVERY,
    )
    penalty = (1 - case.problem.alpha) / case.problem.alpha

    def solve(x, y, u, v):
        problem = quadratic_problem.QuadraticProblem(
            pointcloud.PointCloud(x),
            pointcloud.PointCloud(y),
            geom_xy=pointcloud.PointCloud(u, v),
            fused_penalty=penalty,
        )
        out = solver(problem)
        return out.q, out.r, out.g, out.errors, out.primal_cost

    arrays = [jax.device_put(np.asarray(array, np.float32)) for array in case.arrays]
    compiled = jax.jit(solve).lower(*arrays).compile()

    def run():
        q, r, g, errors, own = jax.block_until_ready(compiled(*arrays))
        checks = int((np.asarray(errors) != -1).sum())
        return LowRankPlan(q, r, g), EVERY * checks, float(own)

    return run
