"""Solves at small epsilon are right, whether or not the caller flushes subnormal numbers,
under each rule and in each tier."""

import contextlib
import functools
import importlib
import warnings
from pathlib import Path

import numpy as np
import pytest
from helpers.settings import settings

import gwfast
from gwfast.kernels import _rows

needs_bits = pytest.mark.skipif(not _rows.FLUSH_BITS, reason="nothing to set here")
N = 120
# The documented limit of epsilon is far below; at .02 % of the objective of the product
# plan most entries of a kernel underflow.
SMALL = "0.02%"


def clouds(seed):
    """Return points, a noisy copy in another order, and that order."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, 3)) * np.linspace(1, 2, 3)
    order = rng.permutation(N)
    return x, x[order] + 0.05 * rng.normal(size=x.shape), order


def squares(x):
    return ((x[:, None] - x) ** 2).sum(axis=2)


@contextlib.contextmanager
def flushing():
    before = _rows.float_controls()[0]
    _rows.set_float_control(before | _rows.FLUSH_BITS)
    try:
        yield
    finally:
        _rows.set_float_control(before)


PROBLEM_TYPES = {
    "clouds": {},
    "tiled": {"tier": "tiled"},
    "neighbors": {"tier": "neighbors"},
    "cross": {"cross": True},
    "matrices": {"dense": True},
    "float64": {"dense": True, "dtype": "float64"},
    "semirelaxed": {"dense": True, "marginals": "semirelaxed"},
    "partial": {"dense": True, "marginals": gwfast.Partial(0.7), "epsilon": "0.5%"},
    "unbalanced": {"dense": True, "marginals": gwfast.Unbalanced(1.0)},
    "semirelaxed clouds": {"marginals": "semirelaxed"},
    "unbalanced clouds": {"marginals": gwfast.Unbalanced(1.0)},
    "proximal": {"dense": True, "method": "ppa", "epsilon": "5%", "max_iter": 50},
}


def solve(name):
    how = {"epsilon": SMALL, "init": "product", "n_threads": 2, **PROBLEM_TYPES[name]}
    x, y, order = clouds(1)
    if how.pop("cross", False):
        how["linear_cost"] = gwfast.CrossCost(x, y)
    if how.pop("dense", False):
        costs = squares(x), squares(y)
    else:
        costs = gwfast.PointCloud(x, "sqeuclidean"), gwfast.PointCloud(y, "sqeuclidean")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = gwfast.gromov_wasserstein(*costs, **settings(**how))
    return result, float(np.mean((squares(x[order]) - squares(y)) ** 2))


@needs_bits
@pytest.mark.parametrize("name", PROBLEM_TYPES)
def test_solves_are_the_same_if_the_caller_flushes(name):
    plain, _ = solve(name)
    with flushing():
        flushed, _ = solve(name)
    assert flushed.gw_cost == plain.gw_cost
    np.testing.assert_array_equal(flushed.plan, plain.plan)


@pytest.mark.parametrize("name", ["clouds", "tiled", "matrices", "float64"])
def test_small_epsilons_find_the_planted_match(name):
    result, planted = solve(name)
    assert str(result.status) == "converged"
    assert result.gw_cost <= 1.02 * planted


@pytest.mark.slow
@pytest.mark.data
@needs_bits
def test_kernels_write_no_subnormal_numbers(shared_data, monkeypatch):
    """The first second of each solve of the ablation's list counts."""
    root = Path(__file__).resolve().parents[2]
    if not (root / "benchmarks").is_dir():
        pytest.skip("the benchmarks are not there")
    monkeypatch.syspath_prepend(root)
    problems = importlib.import_module("benchmarks.common.problems")
    subnormals = importlib.import_module("benchmarks.subnormals")
    found = {}
    for name, *_ in problems.PROBLEMS:
        call = functools.partial(subnormals.solver(name), time_limit=1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found[name], _ = subnormals.count(call)
    assert not any(found.values()), found
