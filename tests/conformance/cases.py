"""Problems of every kind, in which every two values of two options meet if they go together."""

from copy import copy

import numpy as np
from helpers.marks import pairwise_cases
from scipy import sparse
from scipy.sparse import csgraph

import gwfast

FACTORS = {
    "method": ("pgd", "ppa", "bapg", "cg"),
    "cost": ("symmetric", "asymmetric", "sqeuclidean", "cosine", "euclidean", "lowrank", "graph"),
    "dtype": ("float32", "float64"),
    "tier": ("auto", "tiled", "neighbors"),
    "rule": ("balanced", "semirelaxed", "partial", "unbalanced"),
    "loss": ("square", "kl"),
    "size": ((1, 1), (2, 2), (7, 7), (33, 33), (64, 64), (260, 258), (7, 33)),
    "init": ("product", "profile", "plan", "auto"),
    "masses": ("uniform", "uneven", "zeros"),
    "linear": ("plain", "matrix", "features", "cosines"),
}
CLOUDS = "sqeuclidean", "cosine", "euclidean", "lowrank"
LARGE = (64, 64), (260, 258)
TIERS = "tiled", "neighbors"
# Combinations that `gromov_wasserstein` refuses, or that say nothing more than others.
EXCLUDED = (
    {"dtype": ("float64",), "cost": CLOUDS, "method": ("pgd", "ppa", "bapg")},
    {"dtype": ("float32",), "method": ("cg",)},
    {"method": ("bapg",), "rule": ("semirelaxed", "partial", "unbalanced")},
    {"method": ("ppa", "cg"), "rule": ("unbalanced",)},
    {"tier": TIERS, "cost": ("symmetric", "asymmetric", "euclidean", "graph")},
    {"tier": TIERS, "loss": ("kl",)},
    {"tier": TIERS, "linear": ("matrix",)},
    {"tier": TIERS, "method": ("ppa", "bapg", "cg")},
    {"tier": TIERS, "init": ("profile",)},
    {"tier": ("neighbors",), "size": LARGE[1:]},
    {"method": ("cg",), "init": ("profile",)},
    # These take many seconds.
    {"method": ("ppa",), "rule": ("partial",), "size": LARGE},
    {"method": ("ppa", "bapg"), "size": LARGE[1:]},
    {"init": ("auto",), "size": LARGE},
    {"masses": ("zeros",), "size": ((1, 1), (2, 2))},
)


def is_excluded(case):
    return any(all(case.get(name) in values for name, values in rule.items()) for rule in EXCLUDED)


CASES = pairwise_cases(FACTORS, is_excluded)


class Side:
    """Points of one side: their costs as a caller passes them and as a float64 matrix."""

    def __init__(self, kind, points, masses, seed):
        rng, n = np.random.default_rng(seed), len(points)
        self.kind, self.points, self.masses = kind, points, masses
        self.noise = rng.random((n, n))
        chain = sparse.diags_array(np.ones(n - 1), offsets=1, shape=(n, n)) if n > 1 else 0.0
        self.edges = np.triu(rng.random((n, n)) < 4.0 / n, 1) + chain
        self.edges = np.asarray(self.edges) * (0.5 + rng.random((n, n)))

    def permuted(self, order):
        """The same points in another order."""
        other = copy(self)
        other.masses, other.points = self.masses[order], self.points[order]
        for name in ("noise", "edges"):
            setattr(other, name, np.ascontiguousarray(getattr(self, name)[np.ix_(order, order)]))
        return other

    def arrays(self):
        return [self.points, self.masses, self.noise, self.edges]

    def matrix(self):
        x = self.points
        squares = np.square(x[:, None] - x).sum(axis=2)
        if self.kind in ("symmetric", "asymmetric"):
            cost = np.sqrt(squares) + 0.1
            return cost + self.noise * (0.3 if self.kind == "asymmetric" else 0.0)
        if self.kind == "graph":
            return csgraph.shortest_path(sparse.csr_array(self.edges), directed=False)
        if self.kind == "cosine":
            x = x / np.linalg.norm(x, axis=1, keepdims=True)
        return {"sqeuclidean": squares, "euclidean": np.sqrt(squares)}.get(self.kind, x @ x.T)

    def cost(self):
        if self.kind == "graph":
            return sparse.csr_array(self.edges)
        if self.kind == "lowrank":
            return gwfast.PointCloud.from_factors(self.points)
        return gwfast.PointCloud(self.points, self.kind) if self.kind in CLOUDS else self.matrix()


def quadratic_cost(plan, cost_x, cost_y, loss):
    """The linearized cost of a plan, in float64, whose mean by the plan is the objective."""
    rows, cols = plan.sum(axis=1), plan.sum(axis=0)
    f1, f2, h1, h2 = cost_x**2, cost_y**2, cost_x, 2 * cost_y
    if loss == "kl":
        f1, f2 = cost_x * np.log(cost_x + 1e-18) - cost_x, cost_y
        h2 = np.log(cost_y + 1e-18)
    there = (f1 @ rows)[:, None] + f2 @ cols - h1 @ plan @ h2.T
    back = (f1.T @ rows)[:, None] + f2.T @ cols - h1.T @ plan @ h2
    return (there + back) / 2


def kl2(sums, masses):
    """``KL(a x a | b x b)``, the price of other sums."""
    here = sums > 0
    logs = sums[here] @ np.log(sums[here] / masses[here])
    total = sums.sum()
    return 2 * total * (logs - total + masses.sum()) + (total - masses.sum()) ** 2


class Case:
    """The problem of a case, and how it is solved."""

    def __init__(self, case):
        self.__dict__.update(case)
        rng = np.random.default_rng(sum(case["size"]))
        n, m = self.size
        x = rng.standard_exponential((max(n, m), 3)) * (0.4, 0.7, 1.0)
        y = (x + 0.05 * rng.standard_exponential(x.shape))[:m][::-1]
        self.x = Side(self.cost, x[:n], self.masses_of(n, 1), 1)
        self.y = Side(self.cost, y, self.masses_of(m, 2), 2)
        self.prices = 0.3, 0.5
        if self.rule == "unbalanced":
            self.y.masses *= 1.2
        self.features = x[:n, :2], y[:, 1:] + 0.1
        self.start = rng.random((n, m)) * self.x.masses[:, None] * self.y.masses
        self.start = self.start.astype(self.dtype) if self.init == "plan" else None

    def masses_of(self, n, seed):
        weights = np.ones(n)
        if self.masses != "uniform":
            weights = np.random.default_rng(seed).uniform(0.5, 1.5, n)
        if self.masses == "zeros":
            weights[:: max(3, n // 5)] = 0.0
        return weights / weights.sum()

    def otherwise(self, rows, cols, turned):
        """The same problem with its points in another order, and perhaps with sides swapped."""
        other = copy(self)
        other.x, other.y = self.x.permuted(rows), self.y.permuted(cols)
        other.features = self.features[0][rows], self.features[1][cols]
        other.start = None if self.start is None else self.start[rows][:, cols]
        if turned:
            other.x, other.y, other.features = other.y, other.x, other.features[::-1]
            other.prices = self.prices[::-1]
            other.start = None if self.start is None else other.start.T
        return other

    def arrays(self):
        """All arrays that a call is given, or that what it is given is made of."""
        start = [] if self.start is None else [self.start]
        return [*self.x.arrays(), *self.y.arrays(), *self.features, *start]

    def linear_cost(self):
        left, right = self.features
        if self.linear == "matrix":
            return np.square(left[:, None] - right).sum(axis=2)
        metric = "cosine" if self.linear == "cosines" else "sqeuclidean"
        return gwfast.CrossCost(left, right, metric)

    def half_gradient(self, plan, share=0.5):
        """Half of the gradient of the objective; with all of the linear cost as its `share` the
        mean by the plan is the objective.
        """
        cost, linear = quadratic_cost(plan, self.x.matrix(), self.y.matrix(), self.loss), 0.0
        if self.linear != "plain":
            linear = self.linear_cost()
            linear = linear.toarray() if isinstance(linear, gwfast.CrossCost) else linear
            cost *= 0.6
        return cost + 0.4 * share * linear

    def objective(self, plan):
        return np.vdot(plan, self.half_gradient(plan, share=1.0))

    def fixed_point(self, plan, epsilon):
        """The plan without slope of an unbalanced problem, by the sums and the mass of a plan."""
        p, q, mass = self.x.masses, self.y.masses, plan.sum()
        exponent = -self.half_gradient(plan) / epsilon
        for masses, axis, price in zip((p, q), (1, 0), self.rho(), strict=True):
            sums = plan.sum(axis=axis)
            ratio = np.divide(sums, masses, where=sums > 0, out=np.ones(len(sums)))
            slope = sums @ np.log(ratio) + mass * np.log(ratio)
            exponent -= price / epsilon * np.expand_dims(slope, axis)
        outer, alive = np.multiply.outer(p, q), plan > 0
        exponent -= plan[alive] @ np.log(plan[alive] / outer[alive])
        return outer * np.exp(exponent / mass)

    def size_of_objective(self):
        """The objective of the product plan, but for problems where it is zero."""
        return max(self.objective(np.multiply.outer(self.x.masses, self.y.masses)), 0.1)

    def rho(self):
        return tuple(price * self.size_of_objective() for price in self.prices)

    def problem(self):
        rules = {"partial": gwfast.Partial(0.7), "unbalanced": gwfast.Unbalanced(self.rho())}
        terms = {"loss": self.loss, "marginals": rules.get(self.rule, self.rule)}
        if self.linear != "plain":
            terms |= {"linear_cost": self.linear_cost(), "alpha": 0.6}
        q = None if self.rule == "semirelaxed" else self.y.masses
        return gwfast.QuadraticProblem(self.x.cost(), self.y.cost(), self.x.masses, q, **terms)

    def options(self, n_threads):
        exact, few = self.method == "cg", self.tier == "neighbors"
        fraction = {"ppa": 0.02, "bapg": 0.1, "cg": 0.0}.get(self.method, 0.02 if few else 0.04)
        rare = dict(method="pgd" if exact else self.method, n_neighbors=100 if few else None)
        return dict(
            epsilon=fraction * self.size_of_objective(),
            options=gwfast.SolverOptions(tier=self.tier, **rare),
            dtype=None if exact else self.dtype,
            init=self.init if self.start is None else self.start,
            n_threads=n_threads,
        )

    def solve(self, n_threads=1):
        return gwfast.gromov_wasserstein(self.problem(), **self.options(n_threads))
