"""Random problems for POT's functions, and whether POT solved one.

Needs NumPy and SciPy only: the tests run this file too.
"""

import dataclasses
import warnings

import numpy as np
from scipy.sparse import csgraph
from scipy.spatial.distance import cdist

# Decades of epsilon, in units of the objective of the product plan.
LEAST, MOST = -3.0, 1.0
# POT has not found a plan that misses its marginals by more, in L1.
MARGINAL_ERROR = 1e-6
# Where POT fails, as many passes as it makes may leave more, but not a plan's shape.
ROUGH_ERROR = 0.05
TOL = 1e-9


@dataclasses.dataclass(frozen=True)
class RandomProblem:
    """Arguments of one call of POT's.

    Attributes
    ----------
    name : str
        What it is, for tables.
    cost_x, cost_y : (n, n) and (m, m) float64 ndarrays
    p, q : (n,) and (m,) float64 ndarrays
    loss : {"square_loss", "kl_loss"}
    epsilon : float
        In POT's convention.
    linear_cost : (n, m) float64 ndarray or None
        Of a fused problem.
    alpha : float
        Share of the quadratic term in that.
    """

    name: str
    cost_x: np.ndarray
    cost_y: np.ndarray
    p: np.ndarray
    q: np.ndarray
    loss: str
    epsilon: float
    linear_cost: np.ndarray | None = None
    alpha: float = 0.5

    def solve(self, module, **options):
        """Plan, loss and log of ``module``, which has the names of `ot.gromov`."""
        arguments = self.cost_x, self.cost_y, self.p, self.q, self.loss
        options = {"epsilon": self.epsilon, "tol": TOL, "log": True, **options}
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
        """That of both marginals, in L1."""
        rows = np.abs(plan.sum(axis=1) - self.p).sum()
        return float(rows + np.abs(plan.sum(axis=0) - self.q).sum())

    def is_valid(self, plan, loss, most=ROUGH_ERROR):
        """Whether it is a coupling of p and q, up to a marginal error, and the loss is
        finite."""
        return bool(
            np.isfinite(plan).all()
            and (plan >= 0).all()
            and np.isfinite(loss)
            and self.marginal_error(plan) < most
        )

    def objective(self, plan, loss):
        """What the solvers minimize: ``loss - epsilon H(plan)``."""
        some = plan[plan > 0]
        return loss + self.epsilon * float(np.sum(some * np.log(some)))


@dataclasses.dataclass(frozen=True)
class Attempt:
    """What POT made of a problem.

    Attributes
    ----------
    failure : str
        Why it does not count as solved, or nothing.
    plan, loss : (n, m) ndarray and float, or None
        Where it does.
    """

    failure: str
    plan: np.ndarray | None = None
    loss: float | None = None


def attempt(problem, module):
    """Solve by POT; it has converged where it never warned, its change fell below the
    tolerance before the last iteration, and its plan has the marginals asked for.

    It is stopped at its first warning, since what follows seldom ends.
    """
    try:
        with warnings.catch_warnings():
            # Those of POT and of NumPy's floating-point errors; not of deprecations.
            warnings.simplefilter("ignore")
            for category in (UserWarning, RuntimeWarning):
                warnings.simplefilter("error", category)
            plan, loss, log = problem.solve(module)
    except (UserWarning, RuntimeWarning) as warning:
        return Attempt(str(warning).partition(".")[0])
    if not log["err"][-1] <= TOL:
        return Attempt("iterations used up")
    if not problem.is_valid(plan, loss, MARGINAL_ERROR):
        return Attempt("wrong marginals")
    return Attempt("", plan, loss)


def difference(plan, other):
    """Relative to the mass of the first, in L1."""
    return float(np.abs(plan - other).sum() / np.abs(plan).sum())


def random_problem(seed, largest=200):
    """One of a family that has a bit of all that users have.

    Every choice is a throw of its own: the kind of costs, for both spaces; the sizes,
    as often of any order of magnitude as of any number; the loss; weights; a linear
    term, or none; and epsilon, over four decades.

    Parameters
    ----------
    seed : int
    largest : int, default=200
        Points a side at most.

    Returns
    -------
    RandomProblem
    """
    rng = np.random.default_rng(seed)
    n, m = (_size(rng, largest) for _ in range(2))
    if rng.random() < 0.25:
        m = n
    kind = KINDS[rng.integers(len(KINDS))]
    loss = ("square_loss", "kl_loss")[rng.integers(2)]
    cost_x, cost_y = (kind(rng, size) for size in (n, m))
    p, q = (_weights(rng, size) for size in (n, m))
    epsilon = 10 ** rng.uniform(LEAST, MOST)
    name = f"{n} x {m}, {kind.__name__.replace('_', ' ')}, {loss}, {epsilon:.2g}"
    scale = _product_objective(cost_x, cost_y, p, q, loss)
    problem = RandomProblem(name, cost_x, cost_y, p, q, loss, 0.0)
    if rng.random() < 1 / 3:
        linear_cost = cdist(rng.random((n, 3)), rng.random((m, 3)), "sqeuclidean")
        alpha = rng.uniform(0.1, 0.9)
        scale = alpha * scale + (1 - alpha) * (p @ linear_cost @ q)
        problem = dataclasses.replace(
            problem, name=f"{name}, fused", linear_cost=linear_cost, alpha=alpha
        )
    # Two single points have nothing between them, and any epsilon is as good.
    return dataclasses.replace(problem, epsilon=epsilon * (scale if scale > 0 else 1.0))


def _size(rng, largest):
    if rng.random() < 0.5:
        return int(rng.integers(1, largest + 1))
    return round(largest ** rng.random())


def _weights(rng, n):
    if rng.random() < 0.5:
        return np.full(n, 1 / n)
    weights = rng.uniform(0.2, 1.2, n)
    return weights / weights.sum()


def distances(rng, n):
    """Between the points of a cloud; the largest is one."""
    points = rng.standard_normal((n, 3)) * rng.uniform(0.5, 2.0, 3)
    return _to_one(cdist(points, points))


def squared_distances(rng, n):
    return distances(rng, n) ** 2


def shortest_paths(rng, n):
    """Steps in a random graph; what cannot be reached is as far as the farthest."""
    edges = np.triu(rng.random((n, n)) < min(1.0, 6.0 / n), 1)
    paths = csgraph.shortest_path(edges.astype(float), directed=False, unweighted=True)
    paths[np.isinf(paths)] = paths[np.isfinite(paths)].max()
    return _to_one(paths)


def directed_paths(rng, n):
    """The same along edges that go one way, with lengths."""
    edges = np.where(rng.random((n, n)) < min(1.0, 6.0 / n), rng.random((n, n)), 0.0)
    paths = csgraph.shortest_path(edges, directed=True)
    paths[np.isinf(paths)] = paths[np.isfinite(paths)].max()
    return _to_one(paths)


def symmetric_numbers(rng, n):
    numbers = rng.random((n, n))
    return (numbers + numbers.T) / 2


def asymmetric_numbers(rng, n):
    return rng.random((n, n))


KINDS = (
    distances, squared_distances, shortest_paths, directed_paths, symmetric_numbers,
    asymmetric_numbers,
)  # fmt: skip


def _to_one(cost):
    return cost / (cost.max() or 1.0)


def _product_objective(cost_x, cost_y, p, q, loss):
    """The loss of the product plan, whose terms are weighted by the masses alone."""
    if loss == "square_loss":
        mean = (p @ cost_x @ p) * (q @ cost_y @ q)
        return p @ cost_x**2 @ p + q @ cost_y**2 @ q - 2 * mean
    # POT keeps logarithms finite in the same way.
    left = p @ (cost_x * np.log(cost_x + 1e-15) - cost_x) @ p + q @ cost_y @ q
    return left - (p @ cost_x @ p) * (q @ np.log(cost_y + 1e-15) @ q)
