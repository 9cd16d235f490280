"""Random problems for POT's functions, and whether POT solved one."""

import dataclasses
import warnings

import numpy as np
from scipy.sparse import csgraph
from scipy.spatial.distance import cdist

# Largest L1 error of the marginals: of plans by POT's tolerance, and of plans that end at POT's
# limit of iterations.
MARGINAL_ERROR, ROUGH_ERROR = 1e-6, 0.05
TOL = 1e-9


@dataclasses.dataclass(frozen=True)
class RandomProblem:
    """Arguments of a call of POT's; `alpha` and a `linear_cost` of a fused problem."""

    cost_x: np.ndarray
    cost_y: np.ndarray
    p: np.ndarray
    q: np.ndarray
    loss: str
    epsilon: float = 0.0
    linear_cost: np.ndarray | None = None
    alpha: float = 0.5

    def solve(self, module):
        """Return plan, loss and log of a module, which has the names of `ot.gromov`."""
        arguments = self.cost_x, self.cost_y, self.p, self.q, self.loss
        options = {"epsilon": self.epsilon, "tol": TOL, "log": True}
        if self.linear_cost is None:
            plan, log = module.entropic_gromov_wasserstein(*arguments, **options)
            return plan, float(log["gw_dist"]), log
        plan, log = module.entropic_fused_gromov_wasserstein(
            self.linear_cost, *arguments, alpha=self.alpha, **options
        )
        return plan, float(log["fgw_dist"]), log

    @property
    def is_symmetric(self):
        return all((cost == cost.T).all() for cost in (self.cost_x, self.cost_y))

    def marginal_error(self, plan):
        """Return the L1 error of both marginals."""
        rows = np.abs(plan.sum(axis=1) - self.p).sum()
        return float(rows + np.abs(plan.sum(axis=0) - self.q).sum())

    def is_valid(self, plan, loss, most=ROUGH_ERROR):
        """Return whether a plan is a coupling up to a marginal error, and its loss is finite."""
        finite = np.isfinite(plan).all() and np.isfinite(loss)
        return bool(finite and (plan >= 0).all() and self.marginal_error(plan) < most)


def attempt(problem, module):
    """Solve by POT; return why that does not count as solved (or nothing), plan and loss.

    POT has converged if it never warned, its change fell below the tolerance before the last
    iteration, and its plan has the marginals asked for. It is stopped at its first warning, since
    what follows seldom ends.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for category in (UserWarning, RuntimeWarning):
                warnings.simplefilter("error", category)
            plan, loss, log = problem.solve(module)
    except (UserWarning, RuntimeWarning) as warning:
        return str(warning).partition(".")[0], None, None
    if not log["err"][-1] <= TOL:
        return "iterations used up", None, None
    if not problem.is_valid(plan, loss, MARGINAL_ERROR):
        return "wrong marginals", None, None
    return "", plan, loss


def random_problem(seed, largest=200):
    """Return a problem of a family that has a bit of all that users have: kinds of costs, sizes, as
    often of any order of magnitude as of any number, losses, weights, a linear term or none, and
    epsilon from .001 to 10 times the objective of the product plan.
    """
    rng = np.random.default_rng(seed)
    n, m = (_size(rng, largest) for _ in range(2))
    if rng.random() < 0.25:
        m = n
    kind = KINDS[rng.integers(len(KINDS))]
    loss = ("square_loss", "kl_loss")[rng.integers(2)]
    cost_x, cost_y = (kind(rng, size) for size in (n, m))
    p, q = (_weights(rng, size) for size in (n, m))
    epsilon = 10 ** rng.uniform(-3.0, 1.0)
    scale = _product_objective(cost_x, cost_y, p, q, loss)
    problem = RandomProblem(cost_x, cost_y, p, q, loss)
    if rng.random() < 1 / 3:
        linear_cost = cdist(rng.random((n, 3)), rng.random((m, 3)), "sqeuclidean")
        alpha = rng.uniform(0.1, 0.9)
        scale = alpha * scale + (1 - alpha) * (p @ linear_cost @ q)
        problem = dataclasses.replace(problem, linear_cost=linear_cost, alpha=alpha)
    # Two single points have nothing between them, and any epsilon is as good.
    return dataclasses.replace(problem, epsilon=epsilon * (scale if scale > 0 else 1.0))


def _size(rng, largest):
    if rng.random() < 0.5:
        return int(rng.integers(1, largest + 1))
    return round(largest ** rng.random())


def _weights(rng, n):
    weights = np.ones(n) if rng.random() < 0.5 else rng.uniform(0.2, 1.2, n)
    return weights / weights.sum()


def _distances(rng, n):
    points = rng.standard_normal((n, 3)) * rng.uniform(0.5, 2.0, 3)
    return _to_one(cdist(points, points))


def _shortest_paths(rng, n):
    edges = np.triu(rng.random((n, n)) < min(1.0, 6.0 / n), 1).astype(float)
    return _reached(csgraph.shortest_path(edges, directed=False, unweighted=True))


def _directed_paths(rng, n):
    """Return lengths of paths along edges that go one way."""
    edges = np.where(rng.random((n, n)) < min(1.0, 6.0 / n), rng.random((n, n)), 0.0)
    return _reached(csgraph.shortest_path(edges, directed=True))


def _reached(paths):
    """Return paths in which what cannot be reached is as far as the farthest."""
    paths[np.isinf(paths)] = paths[np.isfinite(paths)].max()
    return _to_one(paths)


def _symmetric_numbers(rng, n):
    numbers = rng.random((n, n))
    return (numbers + numbers.T) / 2


KINDS = (
    _distances,
    lambda rng, n: _distances(rng, n) ** 2,
    _shortest_paths,
    _directed_paths,
    _symmetric_numbers,
    lambda rng, n: rng.random((n, n)),
)


def _to_one(cost):
    return cost / (cost.max() or 1.0)


def _product_objective(cost_x, cost_y, p, q, loss):
    """Return the loss of the product plan, whose terms are weighted by the masses alone."""
    if loss == "square_loss":
        mean = (p @ cost_x @ p) * (q @ cost_y @ q)
        return p @ cost_x**2 @ p + q @ cost_y**2 @ q - 2 * mean
    # POT keeps logarithms finite in the same way.
    left = p @ (cost_x * np.log(cost_x + 1e-15) - cost_x) @ p + q @ cost_y @ q
    return left - (p @ cost_x @ p) * (q @ np.log(cost_y + 1e-15) @ q)
