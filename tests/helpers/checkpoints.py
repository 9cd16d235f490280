"""Problems of the tests of checkpoints, and what solves that went on have in common."""

import dataclasses
import functools

import numpy as np
import pytest
from helpers.problems import distances, masses, random_cost, rotated_pair

import gwfast
from gwfast import Epsilon, PointCloud


def check_same(result, expected, *, rel=1e-4):
    """Of one that went on: the same optimum within the tolerances, and all iterations
    since the first call.
    """
    # How sure a search is depends on the last bits of its plan.
    ends = {result.status, expected.status}
    assert len(ends) == 1 or ends == {"converged", "uncertain"}
    # What is nearly zero is known as well as marginals let it be, in units of epsilon.
    tolerance = dict(rel=rel, abs=2e-3 * expected.epsilon)
    assert result.gw_cost == pytest.approx(expected.gw_cost, **tolerance)
    if expected.status != "tie":  # which of several plans depends on the last bits
        assert np.abs(result.plan - expected.plan).sum() <= 0.02 * expected.plan.sum()
    numbers = [step.iteration for step in result.history]
    assert numbers == [*range(1, result.n_outer + 1)]


def told(result):
    """All that a result says, but for seconds."""
    fields = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    del fields["seconds"]
    fields["coupling"] = result.plan.tobytes()
    fields["potentials"] = [one.tobytes() for one in result.potentials]
    fields["p"], fields["q"] = result.p.tobytes(), result.q.tobytes()
    for name in ("history", "candidates"):
        fields[name] = [one._replace(seconds=0.0) for one in fields[name]]
    return fields


def clouds(n=90, m=80, d=4):
    x, y, _ = rotated_pair(max(n, m), d, 3, noise=0.01)
    return PointCloud(x[:n]), PointCloud(y[:m])


def costs(n=40, m=30, symmetric=True):
    cost_x = random_cost(n, 0, symmetric=symmetric) + 0.1
    cost_y = random_cost(m, 1, symmetric=symmetric) + 0.1
    return cost_x, cost_y, masses(n, 2), masses(m, 3)


def metric(n, m):
    x, y, _ = rotated_pair(max(n, m), 3, 5, noise=0.01)
    return distances(x[:n]), distances(y[:m])


def mirrored():
    """Costs of points that are their own mirror image: two plans are as good."""
    half = np.random.default_rng(14).standard_exponential((25, 2)) * [1.0, 2.0]
    half += [1.0, 0.0]
    # Not the same points on both sides, which need no race.
    halves = half, half + 1e-3 * np.random.default_rng(15).standard_normal(half.shape)
    return [distances(np.vstack([one, one * [-1.0, 1.0]])) for one in halves]


def circling():
    """Two points a side, between whose plans the partial problem goes round."""
    rng = np.random.default_rng(2)
    sides = [random_cost(2, rng.integers(1000)) for _ in range(2)]
    return *sides, *(rng.dirichlet([1.0, 1.0]) for _ in range(2))


LINEAR = np.random.default_rng(4).random((40, 30))
TIGHT = dict(tol=1e-9, marginal_tol=1e-9, dtype="float64")
PART = dict(marginals="partial", mass=0.7)
SOLVES = {
    "dense tier": (clouds, dict(init="product")),
    "tiled tier": (clouds, dict(tier="tiled")),
    "neighbors tier": (clouds, dict(tier="neighbors", epsilon=Epsilon(relative=0.008))),
    "annealed": (clouds, dict(epsilon=Epsilon(relative=0.01, anneal_from=4))),
    "costs": (costs, dict(epsilon=0.02)),
    "asymmetric": (functools.partial(costs, symmetric=False), dict(epsilon=0.02)),
    "kl": (costs, dict(epsilon=0.05, loss="kl")),
    "float64": (functools.partial(metric, 60, 50), TIGHT),
    "fused": (costs, dict(epsilon=0.01, linear_cost=LINEAR, alpha=0.6)),
    "semirelaxed": (lambda: costs()[:3], dict(epsilon=0.02, marginals="semirelaxed")),
    "partial": (costs, dict(epsilon=0.02, marginals="partial", mass=0.6)),
    "unbalanced": (costs, dict(epsilon=0.02, marginals="unbalanced", rho=(0.3, 2.0))),
    "ppa": (costs, dict(epsilon=0.1, method="ppa", max_outer=60)),
    "bapg": (costs, dict(epsilon=0.1, method="bapg", max_outer=60, dtype="float64")),
    "unbalanced clouds": (clouds, dict(marginals="unbalanced", rho=1.0)),
    "partial clouds": (clouds, PART),
    "cycle": (circling, dict(dtype="float64", epsilon=0.05, **PART)),
    "plan": (costs, dict(epsilon=0.05, init=LINEAR)),
}


def solving(problem, options):
    options = {"init": "product", "max_outer": 200, **options}
    return functools.partial(gwfast.gromov_wasserstein, *problem(), **options)
