"""Small problems on which POT converges, for the tests of gwfast.pot."""

import numpy as np
from helpers.problems import masses
from helpers.twins import balanced
from scipy.spatial.distance import cdist


def costs(n, seed, *, symmetric=True):
    """Return distances in an uneven cloud, from 0.3 to one, as the KL loss takes logarithms."""
    rng = np.random.default_rng([n, seed])
    points = rng.exponential(size=(n, 3)) * (3, 2, 1)
    cost = cdist(points, points)
    if not symmetric:
        cost = cost * rng.uniform(0.8, 1.2, size=cost.shape)
    return 0.3 + 0.7 * cost / cost.max()


def weights(n, seed):
    return masses(n, [n, seed, 1], 0.5, 1.5)


def between(n, m, seed):
    return np.random.default_rng([n, m, seed]).uniform(size=(n, m))


def start(p, q, seed):
    """Return a plan with these marginals that is not their product."""
    return balanced(np.random.default_rng(seed).uniform(0.5, 1.5, size=(len(p), len(q))), p, q)


def spaces(n=12, m=9, seed=0, *, symmetric=True):
    """Return C1, C2, M, p, q and G0."""
    p, q = weights(n, seed), weights(m, seed + 1)
    cost_x, cost_y = (costs(k, seed + i, symmetric=symmetric) for i, k in enumerate((n, m)))
    return cost_x, cost_y, between(n, m, seed), p, q, start(p, q, seed)


def random_space(n, seed, *, n_empty=1):
    """Return costs of a space of any kind, and masses with some zeros."""
    rng = np.random.default_rng([n, seed])
    points, masses = rng.normal(size=(n, 3)), rng.uniform(0.1, 1.0, n)
    cost = cdist(points, points) ** (1 + seed % 2)
    if seed % 3 == 0:
        cost = cost * rng.uniform(0.5, 1.5, cost.shape)
    masses[: n_empty if n > 1 else 0] = 0.0
    return cost, masses / masses.sum()


def batch(size=4, n=7, m=5, *, fused=True, starts=True, symmetric=True):
    """Return arguments of three steps of several problems, with linear problems that end exact."""
    cases = [spaces(n, m, seed, symmetric=symmetric) for seed in range(size)]
    names = ["Ca", "Cb", "M", "a", "b", "T_init"]
    arrays = {name: np.array(x) for name, x in zip(names, zip(*cases, strict=True), strict=True)}
    if not starts:
        del arrays["T_init"]
    if not fused:
        del arrays["M"]
    options = {"reg": 0.1, "max_iter": 3, "tol": 0.0, "max_iter_inner": 1000, "tol_inner": 1e-10}
    return arrays | options | ({"alpha": 0.7} if fused else {})


C1, C2, M, P, Q, G0 = spaces()
PLAIN = {"C1": C1, "C2": C2, "M": M}
GIVEN = PLAIN | {"p": P, "q": Q, "G0": G0}
