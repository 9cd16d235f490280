"""The switches that the ablation turns."""

import dataclasses
import functools
import runpy
from pathlib import Path

import numpy as np
import pytest
from helpers.problems import hops
from scipy.spatial.distance import cdist

import gwfast
from gwfast.quadratic import dense
from gwfast.quadratic.stopping import Limits
from gwfast.solvers.gromov import solve
from gwfast.solvers.options import SolveOptions
from gwfast.utils.mechanisms import ALL, Mechanisms, without

LINES = Path(__file__).resolve().parents[2] / "benchmarks" / "ablation" / "lines.py"
NAMES = [field.name for field in dataclasses.fields(Mechanisms)]
LIMITS = Limits(max_outer=1000, max_inner=10_000, tol=1e-5, marginal_tol=1e-5)
# What moves no optimum of the problem below; starts lead to others without a search.
SEARCH = {"coarse_levels", "second_look"}


def costs(n, m=None):
    x = np.random.default_rng(n).exponential(size=(n, 3)) * [1, 2, 3]
    return [cost / cost.max() for cost in (cdist(x, x), cdist(x[:m], x[:m]))]


def solved(sides, mechanisms=ALL, **how):
    problem = gwfast.QuadraticProblem(*sides)
    return solve(problem, SolveOptions(LIMITS, mechanisms=mechanisms, **how))


@functools.cache
def with_all(dtype):
    return solved(costs(300), init="product", dtype=dtype)


@pytest.mark.parametrize("name", sorted({*NAMES} - SEARCH))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_no_mechanism_moves_the_optimum(name, dtype):
    one = with_all(dtype)
    other = solved(costs(300), without(name), init="product", dtype=dtype)
    assert one.converged and other.converged
    assert other.gw_cost == pytest.approx(one.gw_cost, rel=1e-3)


def test_a_switch_that_does_not_exist_is_an_error():
    with pytest.raises(TypeError, match="tea"):
        without("tea")


def test_the_ablation_counts_the_lines_of_all():
    if not LINES.is_file():
        pytest.skip("the benchmarks are not there")
    made = runpy.run_path(str(LINES))
    assert sorted(made["WHERE"]) == sorted(NAMES)
    assert all(made["lines_of"](name) > 0 for name in NAMES)


N_POINTS, NEIGHBORS = 260, 5


@pytest.mark.parametrize("seed", [19, 29, 45])
def test_they_leave_saddles_on_the_side_of_exact_ones(seed, monkeypatch):
    """On these clouds a tolerance of a hundredth of the change leads elsewhere."""
    rng = np.random.default_rng(seed)
    costs = [hops(rng.random((N_POINTS, 3)), NEIGHBORS) for _ in range(2)]
    options = dict(epsilon=1e-3, init="product", dtype="float64", tol=1e-8)
    found = gwfast.gromov_wasserstein(*costs, **options)
    monkeypatch.setattr(dense, "FAITHFUL_FRACTION", 1e-5)
    exact = gwfast.gromov_wasserstein(*costs, **options)
    assert found.gw_cost == pytest.approx(exact.gw_cost, rel=1e-6)
