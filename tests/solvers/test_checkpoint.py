"""Solves that are killed, and go on from their checkpoints."""

import dataclasses
import functools

import numpy as np
import pytest
from helpers.problems import distances, masses, random_cost, rotated_pair

import gwfast
from gwfast import Epsilon, PointCloud
from gwfast.problems import low_rank
from gwfast.solvers import checkpoint, levels, stages, starts

pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


class Killed(Exception):
    """Stands for SIGKILL."""


@pytest.fixture
def killed(monkeypatch, tmp_path):
    """A function that solves with a checkpoint and is killed whenever that has been
    written so often; returns the result, and how often it was killed.
    """
    monkeypatch.setattr(checkpoint, "MAX_SHARE", np.inf)
    write, left = checkpoint.write_tree, 0

    def write_and_die(*args):
        nonlocal left
        write(*args)
        left -= 1
        if left == 0:
            raise Killed

    monkeypatch.setattr(checkpoint, "write_tree", write_and_die)

    def run(solve, every):
        nonlocal left
        n_killed = 0
        while True:
            left = every
            try:
                return solve(checkpoint=tmp_path / "kept"), n_killed
            except Killed:
                n_killed += 1

    return run


def told(result):
    """All that a result says, but for seconds."""
    fields = {
        field.name: getattr(result, field.name) for field in dataclasses.fields(result)
    }
    del fields["seconds"]
    fields["coupling"] = result.plan.tobytes()
    fields["potentials"] = [one.tobytes() for one in result.potentials]
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
    cost = distances(np.vstack([half, half * [-1.0, 1.0]]))
    return cost, cost


LINEAR = np.random.default_rng(4).random((40, 30))
TIGHT = dict(tol=1e-9, marginal_tol=1e-9, dtype="float64")
SOLVES = {
    "dense tier": (clouds, dict(init="product")),
    "sparse tier": (clouds, dict(tier="sparse", epsilon=Epsilon(relative=0.008))),
    "tiled tier": (clouds, dict(tier="tiled")),
    "annealed": (clouds, dict(epsilon=Epsilon(relative=0.01, anneal_from=4))),
    "costs": (costs, dict(epsilon=0.02)),
    "metrics": (functools.partial(metric, 60, 50), dict(init="profile")),
    "asymmetric": (functools.partial(costs, symmetric=False), dict(epsilon=0.02)),
    "kl": (costs, dict(epsilon=0.05, loss="kl")),
    "float64": (functools.partial(metric, 60, 50), TIGHT),
    "fused": (costs, dict(epsilon=0.01, linear_cost=LINEAR, alpha=0.6)),
    "fused float64": (costs, dict(epsilon=0.01, linear_cost=LINEAR, **TIGHT)),
    "semirelaxed": (lambda: costs()[:3], dict(epsilon=0.02, marginals="semirelaxed")),
    "partial": (costs, dict(epsilon=0.02, marginals="partial", mass=0.6)),
    "ppa": (costs, dict(epsilon=0.1, method="ppa", max_outer=60)),
    "bapg": (costs, dict(epsilon=0.1, method="bapg", max_outer=60, dtype="float64")),
    "max_outer": (clouds, dict(max_outer=4)),
    "plan": (costs, dict(epsilon=0.05, init=LINEAR)),
}


@pytest.mark.parametrize("every", [1, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize("problem, options", SOLVES.values(), ids=SOLVES)
def test_a_killed_descent_ends_at_the_same_bits(problem, options, every, killed):
    options = {"init": "product", "max_outer": 200, **options}
    solve = functools.partial(gwfast.gromov_wasserstein, *problem(), **options)
    plain = solve()
    result, n_killed = killed(solve, every)
    assert told(result) == told(plain)
    assert n_killed == (plain.n_outer - 1) // every


@pytest.fixture
def small_race(monkeypatch):
    """Three levels, and few starts, of small problems."""
    monkeypatch.setattr(levels, "RACE_POINTS", 40)
    monkeypatch.setattr(levels, "RACE_POINTS_DENSE", 16)
    monkeypatch.setattr(levels, "GROWTH", 1.6)
    monkeypatch.setattr(starts, "MAX_RANDOM", 2)


RACES = {
    "clouds": (clouds, {}, 3),
    "sparse": (clouds, dict(tier="sparse", epsilon=Epsilon(relative=0.01)), 3),
    "costs": (functools.partial(metric, 40, 36), {}, 7),
    "float64": (functools.partial(metric, 40, 36), TIGHT, 7),
    "fused": (costs, dict(epsilon=0.01, linear_cost=LINEAR), 7),
    "tie": (mirrored, {}, 7),
    "one level": (functools.partial(metric, 15, 12), {}, 5),
    "max_outer": (clouds, dict(max_outer=9), 5),
}


@pytest.mark.parametrize("problem, options, every", RACES.values(), ids=RACES)
def test_a_killed_race_ends_at_the_same_bits(
    problem, options, every, killed, small_race
):
    solve = functools.partial(gwfast.gromov_wasserstein, *problem(), **options)
    plain = solve()
    result, n_killed = killed(solve, every)
    assert told(result) == told(plain)
    assert n_killed > plain.n_outer // every


@pytest.mark.slow
@pytest.mark.parametrize("problem, options, every", RACES.values(), ids=RACES)
def test_after_any_iteration_of_a_race(problem, options, every, killed, small_race):
    solve = functools.partial(gwfast.gromov_wasserstein, *problem(), **options)
    assert told(killed(solve, 1)[0]) == told(solve())


@pytest.mark.parametrize("prune", [True, False])
def test_a_killed_multistart_ends_at_the_same_bits(prune, killed):
    problem = gwfast.QuadraticProblem(*mirrored())
    solve = functools.partial(
        gwfast.multistart, problem, starts=1, prune=prune, max_outer=60
    )
    plain = solve()
    assert told(killed(solve, 13)[0]) == told(plain)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_warm_starts_go_on_from_where_they_were(dtype, killed, monkeypatch):
    monkeypatch.setattr(stages, "MIN_FLOAT32_ENTRIES", 1)
    monkeypatch.setattr(low_rank, "MIN_POINTS", 1)
    monkeypatch.setattr(low_rank, "MAX_LEFT_OUT", 1.0)
    options = dict(init="profile", dtype=dtype, tol=1e-7, marginal_tol=1e-7)
    problem = metric(60, 50)
    solve = functools.partial(gwfast.gromov_wasserstein, *problem, **options)
    plain = solve()
    visited = set()
    saver = checkpoint.Checkpoint.saver

    def look(self, stage, export):
        visited.add(stage)
        return saver(self, stage, export)

    monkeypatch.setattr(checkpoint.Checkpoint, "saver", look)
    result, _ = killed(solve, 1)
    assert told(result) == told(plain)
    assert {"low rank", "descent"} <= visited
    assert ("float32" in visited) == (dtype == "float64")
