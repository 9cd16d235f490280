"""Solves that are killed, and go on from their checkpoints."""

import functools

import numpy as np
import pytest
from helpers.checkpoints import (
    LINEAR,
    SOLVES,
    TIGHT,
    check_same,
    circling,
    clouds,
    costs,
    metric,
    mirrored,
    solving,
)
from helpers.marks import mostly_slow

import gwfast
from gwfast import Epsilon
from gwfast.problems import low_rank
from gwfast.quadratic import cycles, low_rank_update
from gwfast.quadratic.stopping import LOOK_EVERY
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


@pytest.mark.parametrize("every", [5, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("problem, options", SOLVES.values(), ids=SOLVES)
def test_a_killed_descent_ends_at_the_same_optimum(problem, options, every, killed):
    solve = solving(problem, options)
    if problem is circling:
        every = cycles.ROUND + every  # what steps have to be seen for
    plain = solve()
    result, n_killed = killed(solve, every)
    check_same(result, plain)
    same = slice(min(every, plain.n_outer - 1))
    before = [step.gw_cost for step in plain.history[same]]
    # In float64 some of these are in float32 where none is looked at.
    off = 1e-5 if options.get("dtype") == "float64" else 0.0
    after = [step.gw_cost for step in result.history[same]]
    assert after == pytest.approx(before, rel=off, abs=0.0)
    assert n_killed == (result.n_outer - 1) // every
    # What has ended ends again soon; small problems make a row of iterations before
    # one is looked at.
    again, _ = killed(solve, np.inf)
    check_same(again, result)
    is_small = result.plan.size <= 3000
    assert again.n_outer <= result.n_outer + (LOOK_EVERY if is_small else 2)


UPDATED = {
    "float32": dict(),
    "float64": TIGHT,
    "fused": dict(linear_cost=np.random.default_rng(4).random((300, 290)), alpha=0.7),
    "unbalanced": dict(marginals="unbalanced", rho=(0.5, 0.8)),
    "unbalanced float64": dict(marginals="unbalanced", rho=(0.5, 0.8), **TIGHT),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", UPDATED)
def test_one_killed_between_updates_ends_at_the_same_optimum(name, killed, monkeypatch):
    monkeypatch.setattr(low_rank_update, "MIN_POINTS", 200)
    options = dict(epsilon=Epsilon(relative=0.1), init="product") | UPDATED[name]
    problem = [cost + 0.1 for cost in metric(300, 290)]
    solve = functools.partial(gwfast.gromov_wasserstein, *problem, **options)
    result, n_killed = killed(solve, 3)
    check_same(result, solve())
    assert n_killed >= (result.n_outer - 2) // 3 > 0


@pytest.fixture
def small_race(monkeypatch):
    """Three levels, eigenvectors and few starts, of small problems."""
    monkeypatch.setattr(levels, "RACE_POINTS", 40)
    monkeypatch.setattr(levels, "RACE_POINTS_DENSE", 16)
    monkeypatch.setattr(levels, "GROWTH", 1.6)
    monkeypatch.setattr(starts, "MAX_RANDOM", (2, 2))
    monkeypatch.setattr(low_rank, "MIN_POINTS", 60)
    monkeypatch.setattr(low_rank_update, "MIN_POINTS", 60)


def race(costs, solve=gwfast.gromov_wasserstein, **options):
    return functools.partial(solve, *costs, **options)


SEVERAL = dict(solve=gwfast.multistart, starts=1, max_outer=60)
RACES = {
    "clouds": race(clouds()),
    "costs": race(metric(40, 36)),
    "float64": race(metric(40, 36), **TIGHT),
    "eigenvectors": race(metric(90, 80), epsilon=0.02),
    "eigenvectors in float64": race(metric(90, 80), epsilon=0.02, dtype="float64"),
    "fused": race(costs(), epsilon=0.01, linear_cost=LINEAR),
    "tie": race(mirrored()),
    "one level": race(metric(15, 12)),
    "max_outer": race(clouds(), max_outer=7),
    "semirelaxed": race(metric(30, 24), marginals="semirelaxed"),
    "unbalanced": race(metric(30, 24), marginals="unbalanced", rho=1.0),
    "multistart": race(mirrored(), **SEVERAL),
    "multistart to the end": race(mirrored(), prune=False, **SEVERAL),
}


@pytest.mark.parametrize("name", mostly_slow(RACES, fast=["clouds", "eigenvectors"]))
@pytest.mark.parametrize("every", [29, pytest.param(7, marks=pytest.mark.slow)])
def test_a_killed_race_ends_at_the_same_optimum(name, every, killed, small_race):
    solve = RACES[name]
    plain = solve()
    result, n_killed = killed(solve, every)
    check_same(result, plain)
    # What escapes from a plan depends on its last bits.
    starts = [
        {one.start for one in found.candidates if not one.start.startswith("escape")}
        for found in (result, plain)
    ]
    assert starts[0] == starts[1]
    # Of a race more iterations than its winner's count.
    is_race = name not in ("semirelaxed", "unbalanced")
    assert n_killed >= (result.n_outer - 1) // every + is_race


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_warm_starts_go_on_from_where_they_were(dtype, killed, monkeypatch):
    monkeypatch.setattr(stages, "MIN_FLOAT32_ENTRIES", 1)
    monkeypatch.setattr(low_rank, "MIN_POINTS", 1)
    monkeypatch.setattr(low_rank, "MAX_LEFT_OUT", 1.0)
    tol = 1e-6 if dtype == "float32" else 1e-7  # what rounding allows
    options = dict(init="profile", dtype=dtype, tol=tol, marginal_tol=tol)
    problem = metric(60, 50)
    solve = functools.partial(gwfast.gromov_wasserstein, *problem, **options)
    plain = solve()
    visited = set()
    saver = checkpoint.Checkpoint.saver

    def look(self, stage, export):
        visited.add(stage)
        return saver(self, stage, export)

    monkeypatch.setattr(checkpoint.Checkpoint, "saver", look)
    result, _ = killed(solve, 3)
    check_same(result, plain)
    assert {"low rank", "descent"} <= visited
    assert ("float32" in visited) == (dtype == "float64")


@pytest.mark.parametrize("name", ["clouds", "float64"])
def test_what_a_time_limit_has_cut_short_is_not_kept(name, tmp_path, monkeypatch, small_race):
    monkeypatch.setattr(checkpoint, "MAX_SHARE", np.inf)
    solve = RACES[name]
    plain = solve()
    for time_limit in (1e-6, 0.02, 0.1, 0.05):
        solve(checkpoint=tmp_path / "kept", time_limit=time_limit)
    check_same(solve(checkpoint=tmp_path / "kept"), plain)
