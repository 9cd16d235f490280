"""Matrices of costs that solvers read as they came: of any type of number, mapped from
a file, and never copied whole."""

import itertools
import tracemalloc

import numpy as np
import pytest
from helpers.marks import mostly_slow
from helpers.problems import distances, rotated_pair

import gwfast
from gwfast.problems import low_rank
from gwfast.problems.geometry import DenseCost
from gwfast.quadratic import (
    dense,
    dense_terms,
    low_rank_update,
    matrix_products,
    product_memory,
    products,
)
from gwfast.solvers import levels, second_look
from gwfast.utils import blocks

N = 260


@pytest.fixture
def reads_costs(monkeypatch):
    """Have few points do what many do."""
    monkeypatch.setattr(dense_terms, "COPIED_BYTES", 0)
    monkeypatch.setattr(matrix_products, "PACKED_BYTES", 1 << 17)
    monkeypatch.setattr(product_memory, "COMBINED", 1 << 14)
    monkeypatch.setattr(products, "KEPT_ENTRIES", 0)
    for module in (low_rank, low_rank_update):
        monkeypatch.setattr(module, "MIN_POINTS", 200)


def pair(n=N):
    x, y, _ = rotated_pair(n, 3, 10, noise=0.02)
    return [(cost / cost.max()).astype(np.float32) for cost in map(distances, (x, y))]


def mapped(cost, folder, name):
    path = folder / name
    np.save(path, cost)
    return np.load(path, mmap_mode="r")


FORMS = {
    "float32": lambda cost, folder, name: cost,
    "float64": lambda cost, folder, name: cost.astype(np.float64),
    "Fortran": lambda cost, folder, name: np.asfortranarray(cost),
    "other bytes": lambda cost, folder, name: cost.astype(">f4"),
    "mapped": mapped,
    "float16": lambda cost, folder, name: cost.astype(np.float16),
    "mapped float16": lambda cost, folder, name: mapped(cost.astype(np.float16), folder, name),
}


INITS = ["product", "auto"]
CASES = [*itertools.product(["float32"], INITS), *zip(FORMS, 4 * INITS, strict=False)]


@pytest.mark.parametrize("case", mostly_slow(dict.fromkeys(CASES), fast=CASES[:2]))
def test_any_form_ends_where_a_copy_does(case, reads_costs, monkeypatch, tmp_path):
    form, init = case
    x, y = (FORMS[form](cost, tmp_path, f"{k}.npy") for k, cost in enumerate(pair()))
    options = dict(epsilon=gwfast.Epsilon(relative=0.05), init=init, seed=0)
    read = gwfast.gromov_wasserstein(x, y, **options)
    monkeypatch.setattr(dense_terms, "COPIED_BYTES", np.inf)
    copies = [np.array(one, dtype=np.float64) for one in (x, y)]
    copied = gwfast.gromov_wasserstein(*copies, **options, dtype="float32")
    assert read.status == copied.status
    assert read.gw_cost == pytest.approx(copied.gw_cost, rel=1e-4)
    assert read.n_outer <= copied.n_outer + 2
    np.testing.assert_allclose(read.plan, copied.plan, atol=1e-2 / N)
    assert gwfast.verify(gwfast.QuadraticProblem(x, y), read).objective.holds


@pytest.mark.parametrize("form", [name for name in FORMS if name != "other bytes"])
def test_matrices_are_not_copied(form, tmp_path):
    cost = FORMS[form](pair(40)[0], tmp_path, "cost.npy")
    geometry = DenseCost(cost)
    assert np.shares_memory(geometry.matrix, cost)
    assert np.shares_memory(geometry.shifted(0.5, 2.0).matrix, cost)


@pytest.mark.parametrize("offset, scale", [(1e6, 1.0), (0.0, 1e-35), (0.0, 1e35)])
def test_offsets_and_units_do_not_harm(offset, scale, reads_costs, monkeypatch):
    x, y = (np.float64(scale) * (one.astype(float) + offset) for one in pair())
    options = dict(epsilon=gwfast.Epsilon(relative=0.05), init="product")
    read = gwfast.gromov_wasserstein(x, y, **options, dtype="float32")
    monkeypatch.setattr(dense_terms, "COPIED_BYTES", np.inf)
    copied = gwfast.gromov_wasserstein(x, y, **options, dtype="float32")
    assert read.gw_cost == pytest.approx(copied.gw_cost, rel=1e-4)
    np.testing.assert_allclose(read.plan, copied.plan, atol=1e-2 / N)


@pytest.mark.slow
@pytest.mark.parametrize("init, dtype", [("product", np.float16), ("auto", np.float32)])
def test_beside_the_costs_there_are_three_matrices(init, dtype, reads_costs, monkeypatch):
    """What grows with n only, or not at all, is made small here, as n is."""
    monkeypatch.setattr(blocks, "SCRATCH_BYTES", 1 << 20)
    monkeypatch.setattr(low_rank_update, "FINISHED_BYTES", 1 << 18)
    monkeypatch.setattr(low_rank_update, "LEAST_RANK", 16)
    monkeypatch.setattr(low_rank_update, "POINTS_PER_VECTOR", 100)
    monkeypatch.setattr(dense, "SAMPLE_ENTRIES", 1 << 14)
    monkeypatch.setattr(low_rank, "RANK", 32)
    monkeypatch.setattr(levels, "RACE_POINTS_SMOOTH", 200)
    # After its race a search takes more, but only where there is room for that.
    monkeypatch.setattr(second_look, "has_room", lambda *_: False)
    x, y = (cost.astype(dtype) for cost in pair(1500))
    matrix, strip = 4 * 1500**2, 4 << 20
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        result = gwfast.gromov_wasserstein(
            x, y, init=init, n_threads=1, epsilon=gwfast.Epsilon(relative=0.05)
        )
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert result.converged
    assert peak - strip < 3.9 * matrix
