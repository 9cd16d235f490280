"""Kernels that read rows made when asked for read what stored ones give."""

import numpy as np
import pytest
from helpers.kernel_cases import (
    COMPILED,
    Made,
    arguments,
    assert_same,
    buffer,
    build,
    factors,
    matrix,
    potentials,
    run,
)
from helpers.marks import ISAS, mostly_slow, pairwise
from helpers.problems import masses

from gwfast.kernels import _exponentials, _kernels, _products, _rows, reference

pytestmark = pytest.mark.usefixtures("one_blas_thread")
SHAPES = [(1, 1), (3, 2), (17, 15), (65, 63), (129, 257), (4100, 17), (9, 17001)]

# Kernels that take them, and the argument that may be such.
TAKERS = {
    "logsumexp_rows": "cost",
    "logsumexp_cols": "cost",
    "sinkhorn_passes": "kernel",
    "sinkhorn_passes-many": "kernel",
    "normal_product": "kernel",
    "matmul": "a",
    "matmul-dots": "a",
    "entropy": "plan",
    "topk_rows": "x",
}


def made_rows(kind, n, m, seed):
    rng = np.random.default_rng(seed)
    more = potentials(rng, n, m) | {"epsilon": 1.0} if kind == "Gibbs" else {}
    return Made(kind, **factors(rng, n, m), **more)


def stored(rows, n_threads=1):
    out = buffer(rows.n, rows.m)
    _kernels.copy_rows(rows, out, n_threads)
    return out


@pairwise(case=TAKERS, shape=SHAPES, kind=["Product", "Gibbs"], isa=ISAS)
def test_made_rows_give_the_same_bits_as_stored_ones(case, shape, kind, isa):
    given = arguments(case, *shape, seed=13)
    made = made_rows(kind, *given[TAKERS[case]].shape, seed=14)
    given[TAKERS[case]] = stored(made.build(COMPILED))
    expected = run(COMPILED, case, given)
    given[TAKERS[case]] = made
    assert_same(run(COMPILED, case, given, n_threads=3), expected)


def read(rows, n_threads):
    """All that the kernels read from a large matrix: what does not depend on the strips
    that it is made in, and what does."""
    n, m = rows.shape if isinstance(rows, np.ndarray) else (rows.n, rows.m)
    rng = np.random.default_rng(15)
    given = potentials(rng, n, m)
    by_row, by_col = np.empty(n), np.empty(m)
    _exponentials.logsumexp_rows(rows, **given, out=by_row, n_threads=n_threads)
    _exponentials.logsumexp_cols(rows, **given, out=by_col, n_threads=n_threads)
    out, dots, b = buffer(n, 3), np.empty(n), matrix(rng, 3, m)
    panels = _products.Panels(b, transposed=True)
    _products.matmul(rows, panels, out, b[0], dots, n_threads=n_threads)
    top = np.empty((n, 2), dtype=np.intp), buffer(n, 2)
    _kernels.topk_rows(rows, *top, n_threads)
    p, q, u, v = masses(n, rng), masses(m, rng), buffer(n), buffer(m)
    work = _rows.ColumnSums(n, m)
    error, _ = _kernels.sinkhorn_passes(rows, p, q, u, v, work, n_threads=n_threads)
    same = [by_row, by_col, out, dots, *top, u]
    return same, [v, error, _kernels.entropy(rows, n_threads)]


def test_scalings_leave_a_kernel_rounded_as_it_is(isa):
    """Where epsilon is small rounding moves each entry by hundreds of its digits."""
    rng, n, m, epsilon = np.random.default_rng(5), 37, 21, 1e-4
    left, right = rng.random((n, 3), np.float32), rng.random((m, 3), np.float32)
    g = rng.random(m)
    # Exponents of up to zero in each row.
    cost = left.astype(np.float64) @ right.T
    given = left, _products.Panels(right, True), (cost - g).min(axis=1), g, epsilon
    u, v = np.exp(rng.normal(size=n)), np.exp(rng.normal(size=m))
    u[3] = v[5] = 0.0
    with np.errstate(divide="ignore"):
        logarithms = np.log(u), np.log(v)
    expected = u[:, None] * stored(_products.Gibbs(*given)) * v
    came = stored(_products.Gibbs(*given, logarithms))
    np.testing.assert_allclose(came, expected, rtol=2e-5, atol=1e-37)
    assert (came > 1e-3).sum() >= n - 1
    absorbed = given[2] + epsilon * logarithms[0], g + epsilon * logarithms[1]
    other = stored(_products.Gibbs(*given[:2], *absorbed, epsilon))
    assert not np.allclose(other, expected, rtol=2e-5, atol=1e-37)


@pytest.mark.parametrize("kind", mostly_slow(["Product", "Gibbs"], fast=["Gibbs"]))
def test_rows_made_in_several_strips_give_what_stored_ones_give(kind):
    """Which strips there are does not depend on the instruction set."""
    n, m = 8443, 4001
    made = made_rows(kind, n, m, seed=16)
    rows, given = made.build(COMPILED), build(COMPILED, made.given)
    assert rows.strip == 256, "a chunk has 264"
    whole, expected = stored(rows, 2), buffer(n, m)
    if kind == "Product":
        _products.matmul(*given.values(), expected, n_threads=2)
    else:
        work = _rows.ColumnSums(n, m)
        _products.gibbs_product(*given.values(), expected, work, 2)
    np.testing.assert_array_equal(whole, expected)
    same, near = read(whole, 1)
    came_same, came_near = read(rows, 2)
    assert_same(came_same, same)
    for left, right in zip(came_near, near, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6)


@pairwise(
    shape=[(1, 1), (3, 2), (17, 15), (129, 257), (4100, 17)],
    dtype=[np.float16, np.float32, np.float64],
    isa=ISAS,
)
def test_shifted_rows_are_what_their_twin_says(shape, dtype, isa, seed):
    rng, n = np.random.default_rng(seed), shape[0]
    cost = (rng.random(shape) + 3).astype(dtype)
    cost.flags.writeable = False
    rows = _rows.Shifted(cost, 3.5, -2.0)
    whole, expected = stored(rows, 3), reference.Shifted(cost, 3.5, -2.0)
    np.testing.assert_allclose(whole, expected, rtol=1e-6, atol=1e-7)
    assert rows.matrix is cost
    assert (rows.shape, len(rows), rows.dtype) == (shape, n, np.float32)
    for some in (rng.integers(0, n, 5), slice(n // 2, None)):
        np.testing.assert_array_equal(stored(rows[some]), whole[some])


def test_every_finite_half_is_that_number(isa):
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)].reshape(-1, 2)
    came = stored(_rows.Shifted(halves))
    np.testing.assert_array_equal(came, halves.astype(np.float32))


@pairwise(shape=[(1, 1), (15, 3), (67, 200), (300, 31)], dtype=[np.float16, np.float32], isa=ISAS)
def test_panels_of_made_rows_are_those_of_stored_ones(shape, dtype, isa):
    rng, (n, k) = np.random.default_rng(3), shape
    a = matrix(rng, 9, k)
    rows = _rows.Shifted(rng.random(shape).astype(dtype), 0.25, 3.0)
    held = stored(rows)
    expected, came = buffer(9, n), buffer(9, n)
    _products.matmul(a, _products.Panels(held, True), expected)
    _products.matmul(a, _products.Panels(rows, True, n_threads=3), came, n_threads=2)
    np.testing.assert_array_equal(came, expected)
    expected, came = buffer(n, 9), buffer(n, 9)
    _products.matmul(held, _products.Panels(a, True), expected)
    _products.matmul(rows, _products.Panels(a, True), came)
    np.testing.assert_array_equal(came, expected)


def test_shifted_rows_refuse_what_they_cannot_read():
    square = np.ones((4, 4))
    with pytest.raises(ValueError, match="float16, float32 or float64, got int64"):
        _rows.Shifted(square.astype(np.int64))
    with pytest.raises(ValueError, match=r"contig|last axis"):
        _rows.Shifted(square[:, :2])
    rows = _rows.Shifted(square)
    for scale in (None, np.ones(4, np.float32)):
        with pytest.raises(ValueError, match="transposed"):
            _products.Panels(rows, scale is not None, scale)
