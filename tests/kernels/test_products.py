"""Products of any sides, and what is made along with them."""

import numpy as np
import pytest
from helpers.kernel_cases import COMPILED, assert_close, buffer, matrix, potentials, run
from helpers.marks import ISAS, pairwise

from gwfast.kernels import _exponentials, _products, _rows, reference

pytestmark = pytest.mark.usefixtures("one_blas_thread")


def guarded(n, m):
    """A matrix for results, and the buffer around it that nothing may be written to."""
    around = buffer(n * m + 64)
    return around[32:-32].reshape(n, m), around


# Both sides of a vector and of a panel (two vectors) on all instruction sets, and, for
# the inner side, of the rows of a panel that are summed at a time (224 at most).
@pairwise(
    m=[1, 3, 5, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 65], k=[1, 7, 223, 224, 225, 400], isa=ISAS
)
def test_products_of_any_inner_side_and_width(k, m, isa, seed):
    rng = np.random.default_rng(seed)
    b = rng.normal(size=(k, m)).astype(np.float32)
    scale = np.full(k, 1 / k, dtype=np.float32)
    panels = _products.Panels(b, scale=scale)
    twin = reference.Panels(b, scale=scale)
    for n in (1, 2, 3, 4, 5, 7, 9, 137):
        a = rng.normal(size=(n, k)).astype(np.float32)
        cost, around_cost = guarded(n, m)
        _products.matmul(a, panels, cost)
        error = np.abs(cost - reference.Product(a, twin))
        assert (error <= 6e-8 * (2 + k**0.5) * (np.abs(a) @ np.abs(twin))).all()

        given = potentials(rng, n, m)
        kernel, around_kernel = guarded(n, m)
        work = _rows.ColumnSums(n, m)
        peak = _products.gibbs_product(a, panels, **given, out=kernel, work=work)
        expected = np.empty_like(cost)
        # Up to what rounding takes from the potentials, which only the product keeps.
        stored = _exponentials.gibbs_kernel(cost, **given, out=expected)
        assert peak == pytest.approx(stored, abs=1e-5)
        np.testing.assert_allclose(kernel, expected, rtol=2e-5, atol=1e-37)
        sums = kernel.sum(axis=0, dtype=np.float64)
        np.testing.assert_allclose(work.values, sums, rtol=6e-7)
        for around in (around_cost, around_kernel):
            assert (around[:32] == 7).all() and (around[-32:] == 7).all()


@pairwise(transposed=[False, True], isa=ISAS)
def test_panels_are_the_same_on_any_number_of_threads(transposed, isa):
    rng = np.random.default_rng(10)
    a, b = matrix(rng, 19, 31), matrix(rng, *((203, 31) if transposed else (31, 203)))
    given, alone, together = (b, transposed, matrix(rng, 1, 31)[0]), *buffer(2, 19, 203)
    _products.matmul(a, _products.Panels(*given), alone)
    for n_threads in (2, 3, 5):
        _products.matmul(a, _products.Panels(*given, n_threads), together)
        np.testing.assert_array_equal(together, alone)


# So many that they are made in parts: of rows, of columns that stay in cache (256 of
# float32), of few columns for each thread, and of the inner side (224).
@pairwise(
    shape=[(3, 450, 1100), (64, 895, 70), (137, 225, 290), (300, 40, 1100)],
    dtype=[np.float32, np.float64],
    isa=ISAS,
)
def test_products_do_not_depend_on_their_parts(shape, dtype, isa, seed):
    n, k, m = shape
    rng = np.random.default_rng(seed)
    a, b, plus = (rng.normal(size=s).astype(dtype) for s in ((n, k), (k, m), (n, m)))
    size, alone = np.abs(a) @ np.abs(b), np.empty((n, m), dtype)
    _products.matmul(a, _products.Panels(b), alone)
    few = 4 * np.finfo(dtype).eps * k**0.5
    assert (np.abs(alone - a.astype(float) @ b.astype(float)) <= few * size).all()
    added = np.empty((n, m), dtype)
    _products.matmul(a, _products.Panels(b), added, plus=plus)
    assert (np.abs(added - alone - plus) <= few * (size + np.abs(plus))).all()
    wide, around = np.empty((n, m), dtype), np.empty((n, m + 9), dtype)
    for n_threads in (1, 2, 3, 16):
        _products.matmul(a, _products.Panels(b), wide, n_threads=n_threads)
        np.testing.assert_array_equal(wide, alone)
        _products.matmul(a, _products.Panels(b), wide, plus=plus, n_threads=n_threads)
        np.testing.assert_array_equal(wide, added)
        _products.matmul_few(a, b, around[:, 4:-5], n_threads=n_threads)
        np.testing.assert_array_equal(around[:, 4:-5], alone)
        turned = np.ascontiguousarray(b.T)
        _products.matmul_few(a, turned, wide, True, n_threads=n_threads)
        np.testing.assert_array_equal(wide, alone)
    if dtype == np.float32:
        rows = _rows.Shifted(turned, 0.25, 3.0)
        _products.matmul(a, _products.Panels(rows, True), alone)
        _products.matmul_few(a, rows, wide, True, n_threads=2)
        np.testing.assert_array_equal(wide, alone)


def test_products_of_few_rows_refuse_what_they_cannot_read():
    a, b = np.ones((2, 5), np.float32), np.ones((5, 7), np.float32)
    out = np.empty((2, 7), np.float32)
    with pytest.raises(ValueError, match="columns of a"):
        _products.matmul_few(a, b, out, True)
    with pytest.raises(ValueError, match="out must have shape"):
        _products.matmul_few(a, b, out[:, :6])
    with pytest.raises(ValueError, match="transposed"):
        _products.matmul_few(a, _rows.Shifted(b), out)
    with pytest.raises(ValueError, match="plus must have shape"):
        _products.matmul(a, _products.Panels(b), out, plus=out[:1])


def test_gram_of_many_columns_agrees_with_its_twin(seed):
    """Where its partial products are so large that there are but four of them."""
    rng = np.random.default_rng(seed)
    given = {"x": matrix(rng, 101, 2100), "y": matrix(rng, 101, 2200)}
    given["out"] = buffer(2100, 2200, dtype=float)
    came = run(COMPILED, "gram", given, n_threads=2)
    assert_close("gram", came, run(reference, "gram", given))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns_of_matrices_are_read_and_written_in_place(dtype, isa, seed):
    rng = np.random.default_rng(seed)
    a, b = (rng.normal(size=shape).astype(dtype) for shape in ((41, 7), (7, 90)))
    expected = np.empty((41, 90), dtype)
    _products.matmul(a, _products.Panels(b), expected)
    out = np.full((41, 200), 7, dtype)
    for cols in (slice(0, 1), slice(1, 50), slice(50, 90)):
        at = slice(cols.start + 20, cols.stop + 20)
        _products.matmul(a, _products.Panels(b[:, cols]), out[:, at], n_threads=2)
    np.testing.assert_array_equal(out[:, 20:110], expected)
    assert (out[:, :20] == 7).all() and (out[:, 110:] == 7).all()
    wide = np.full((41, 30), 7, dtype)
    wide[:, 5:12] = a
    again = np.empty((3, 41), dtype)
    _products.matmul(b.T[:3].copy(), _products.Panels(wide[:, 5:12], True), again)
    np.testing.assert_array_equal(again, expected[:, :3].T)
    for other in (wide[:, ::2], wide[::-1], wide.T):
        with pytest.raises(ValueError, match="C-contiguous"):
            _products.Panels(other)
