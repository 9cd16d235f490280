"""Kernels where float32 and 32-bit indices end: points without mass, underflow and
overflow, long sums, large potentials, ties, matrices of more than 2^31 entries."""

import numpy as np
import pytest
from helpers.kernel_cases import rounding_of_sums
from helpers.marks import ISAS, pairwise

from gwfast.kernels import _costs, _exponentials, _kernels, _products, _rows, reference

pytestmark = pytest.mark.usefixtures("one_blas_thread")
F4_MAX = np.finfo(np.float32).max
TYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def sinkhorn_pass(kernel, p, q, u, v, omega=1.0, rtol=5e-6):
    """Scalings and the error, which are those of the twin."""
    made = []
    for module, sums in ((_kernels, _rows), (reference, reference)):
        x, y = (np.full(len(one), of, np.float32) for one, of in ((p, u), (q, v)))
        work = sums.ColumnSums(*kernel.shape)
        error, _ = module.sinkhorn_passes(kernel, p, q, x, y, work, omega)
        made.append((x, y, error))
    for one, other in zip(*made, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol)
    return made[0]


def even(n, m):
    return np.full(n, 1 / n), np.full(m, 1 / m)


def gibbs(cost, f, g, epsilon):
    """The kernel in all ways to make it, and the peaks of those that tell it."""
    n, m = cost.shape
    out = [np.full((n, m), np.nan, dtype=np.float32) for _ in range(3)]
    eye = np.eye(m, dtype=np.float32)
    panels, work = _products.Panels(eye), _rows.ColumnSums(n, m)
    peak = _exponentials.gibbs_kernel(cost, f, g, epsilon, out[0])
    other = _products.gibbs_product(cost, panels, f, g, epsilon, out[1], work)
    assert peak == pytest.approx(other, rel=1e-6, abs=1e-5)
    _kernels.copy_rows(_products.Gibbs(cost, panels, f, g, epsilon), out[2])
    # Only products keep what rounding takes from potentials.
    np.testing.assert_array_equal(out[1], out[2])
    np.testing.assert_allclose(out[1], out[0], rtol=2e-6, atol=1e-37)
    np.testing.assert_allclose(work.values, out[1].sum(axis=0, dtype=float), rtol=1e-6)
    return out[0], peak


def compare_logsumexp(cost, f, g, epsilon, rtol=0.0, atol=1e-6, shift=0.0):
    """With the twins, whose potentials may be shifted against one another; returns what
    came of rows and of columns."""
    made = _products.Product(cost, _products.Panels(np.eye(len(g), dtype=np.float32)))
    found = []
    for name, size in (("logsumexp_rows", len(f)), ("logsumexp_cols", len(g))):
        came, of_made, expected = np.empty((3, size))
        getattr(_exponentials, name)(cost, f, g, epsilon, came)
        getattr(_exponentials, name)(made, f, g, epsilon, of_made)
        np.testing.assert_array_equal(of_made, came)
        getattr(reference, name)(cost, f + shift, g - shift, epsilon, expected)
        np.testing.assert_array_equal(np.isneginf(came), np.isneginf(expected))
        largest = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
        off = atol + rtol * largest
        np.testing.assert_allclose(came, expected, rtol=0, atol=off)
        found.append(came)
    return found


# --- Points without mass --------------------------------------------------------------


@pairwise(omega=[1.0, 1.9], shape=[(5, 3), (33, 17), (200, 65)], isa=ISAS)
def test_points_without_mass_get_no_scaling(shape, omega, isa, seed):
    n, m = shape
    kernel = np.random.default_rng(seed).random(shape, dtype=np.float32)
    p, q = np.ones(n), np.ones(m)
    p[: n // 2], q[-1] = 0.0, 0.0
    u, v, _ = sinkhorn_pass(kernel, p, q, 1.0, 1.0, omega)
    assert (u[: n // 2] == 0).all() and v[-1] == 0


@pytest.mark.parametrize("dead_rows", [1, 4, 5, 40])
def test_log_domain_takes_potentials_of_minus_infinity(dead_rows, isa, seed):
    rng = np.random.default_rng(seed)
    n, m = 130, 19
    cost = rng.normal(size=(n, m)).astype(np.float32)
    f, g = rng.normal(size=n), rng.normal(size=m)
    f[:dead_rows], g[[0, 7]] = -np.inf, -np.inf
    for came in compare_logsumexp(cost, f, g, 0.1, atol=1e-5):
        assert np.isneginf(came).any()


def test_gibbs_kernel_of_points_without_mass_is_zero(isa):
    f, g = np.zeros(9), np.zeros(7)
    f[3], g[2] = -np.inf, -np.inf
    kernel, peak = gibbs(np.full((9, 7), -1.0, dtype=np.float32), f, g, 0.5)
    dead = np.zeros((9, 7), dtype=bool)
    dead[3], dead[:, 2] = True, True
    assert (kernel[dead] == 0).all()
    np.testing.assert_allclose(kernel[~dead], np.exp(2.0), rtol=1e-6)
    assert peak == 2.0


# --- Underflow and overflow -----------------------------------------------------------


@pytest.mark.parametrize("row, column", [(0, 6), (3, 3), (8, 0)])
def test_row_and_column_that_died_show_in_the_error(row, column, isa):
    kernel = np.ones((9, 7), dtype=np.float32)
    kernel[row], kernel[:, column] = 0.0, 0.0
    p, q = even(9, 7)
    u, v, _ = sinkhorn_pass(kernel, p, q, 1.0, 1.0)
    assert np.flatnonzero(u == 0).tolist() == [row]
    assert np.flatnonzero(v == 0).tolist() == [column]
    # The columns that live share all mass of the rows that live: the dead column's too.
    again, _ = _kernels.sinkhorn_passes(kernel, p, q, u, v, _rows.ColumnSums(9, 7))
    assert again == pytest.approx(1 / 9 + abs(6 / 7 - 8 / 9), rel=1e-5)


@pytest.mark.parametrize("omega", [1.0, 1.9])
def test_scalings_never_overflow(omega, isa):
    """p / (K v) beyond the range of float32 used to be an infinity, and 0 times that a
    NaN which killed every column."""
    start = 1e-3
    kernel = np.full((9, 7), 1.2e-38, dtype=np.float32)
    kernel[:, 0] = 0.0
    p, q = even(9, 7)
    u, v, error = sinkhorn_pass(kernel, p, q, 1.0, start, omega)
    assert u.max() == F4_MAX and np.isfinite(v).all() and np.isfinite(error)
    u, v, error = sinkhorn_pass(kernel.T.copy(), q, p, 1.0, start, omega)
    assert np.isfinite(u).all() and np.isfinite(v).all() and np.isfinite(error)


def test_over_relaxation_revives_scalings_of_zero(isa):
    """A power of zero is zero or infinite, and would stay so."""
    kernel = np.ones((9, 7), dtype=np.float32)
    u, v, error = sinkhorn_pass(kernel, *even(9, 7), 0.0, 1.0, 1.9)
    np.testing.assert_allclose(u, 1 / 63, rtol=1e-6)
    assert np.isfinite(v).all() and v.min() > 0
    assert error == pytest.approx(1.0)


def test_rescaled_columns_never_overflow(isa):
    work, v = _rows.ColumnSums(9, 5), np.ones(5, dtype=np.float32)
    work.values[:] = 0.0, 1e-300, 2.0, np.inf, 0.0
    _kernels.rescale_columns(v, np.array([1.0, 1.0, 0.0, 1.0, 0.0]), work)
    np.testing.assert_array_equal(v, np.float32([0.0, F4_MAX, 0.0, 0.0, 0.0]))


def test_gibbs_kernel_reports_the_exponent_that_overflowed(isa):
    cost = np.ones((65, 33), dtype=np.float32)
    cost[40, 20] = -99.0
    zeros = np.zeros(65), np.zeros(33)
    kernel, peak = gibbs(cost, *zeros, 1.0)
    assert peak == 99.0
    assert kernel[40, 20] == np.inf and np.isinf(kernel).sum() == 1
    kernel, peak = gibbs(cost, *zeros, 2.0)
    assert peak == 49.5
    assert kernel[40, 20] == pytest.approx(np.exp(49.5), rel=1e-5)


@pytest.mark.parametrize("epsilon", [1e-30, 1e-5, 1.0, 1e5, 1e30])
def test_logsumexp_neither_overflows_nor_loses_everything(epsilon, isa, seed):
    rng = np.random.default_rng(seed)
    cost = rng.uniform(-1, 1, (65, 33)).astype(np.float32)
    f, g = rng.normal(size=65), rng.normal(size=33)
    # The exponent is known as well as float32 knows potentials and costs.
    compare_logsumexp(cost, f, g, epsilon, rtol=1e-6)


def test_large_potentials_that_cancel_do_no_harm(isa, seed):
    rng = np.random.default_rng(seed)
    cost = rng.random((65, 33), dtype=np.float32)
    f, g = rng.normal(size=65), rng.normal(size=33)
    near, _ = gibbs(cost, f, g, 0.5)
    far, _ = gibbs(cost, f + 1e6, g - 1e6, 0.5)
    np.testing.assert_allclose(far, near, rtol=2e-6)
    compare_logsumexp(cost, f, g, 0.5, atol=2e-6, shift=1e6)


# --- Caps, and costs of nothing -------------------------------------------------------


@TYPES
def test_capped_scalings_bound_the_marginals(dtype, isa, seed):
    """With a cap of one the solution keeps within p and q, and meets them where the cap
    does not bind (a projection, Chizat et al. 2018)."""
    rng = np.random.default_rng(seed)
    n, m = 37, 21
    kernel = rng.random((n, m)).astype(dtype) / (n * m)
    p, q = rng.random(n) / n, rng.random(m) / m
    u, v, work = np.ones(n, dtype), np.ones(m, dtype), _rows.ColumnSums(n, m, dtype)
    most, tol = 5000, 1e-13 if dtype == np.float64 else 1e-7
    rule = _rows.Rule(np.ones(n), np.ones(m))
    error, done = _kernels.sinkhorn_passes(kernel, p, q, u, v, work, most=most, tol=tol, rule=rule)
    assert error <= tol and done < most
    assert 0 < (u == 1).mean() < 1 and 0 < (v == 1).mean() < 1
    plan = u[:, None].astype(float) * kernel * v
    for scaling, came, bound in ((u, plan.sum(1), p), (v, plan.sum(0), q)):
        rtol = 1e-10 if dtype == np.float64 else 2e-5
        assert scaling.max() == 1 and (came <= bound * (1 + rtol)).all()
        np.testing.assert_allclose(came[scaling < 1], bound[scaling < 1], rtol=rtol)


@TYPES
def test_proximal_cost_of_nothing_is_that_of_the_least_entry(dtype, isa):
    least = _kernels.LEAST_ENTRY[np.dtype(dtype)]
    plan = np.array([[0.0, least / 2, least, 1.0, np.exp(-3.0)]], dtype)
    cost = np.zeros((1, 5), dtype)
    _exponentials.proximal_cost(cost, plan, 2.0)
    expected = [-2 * np.log(float(least))] * 3 + [0.0, 6.0]
    np.testing.assert_allclose(cost[0], expected, rtol=1e-6)


# --- Long sums ------------------------------------------------------------------------


VALUES = [None, 0.1, 0.3, 0.7, 1 / 3]


@pairwise(value=VALUES, shape=[(100_000, 3), (3, 100_000)], isa=ISAS)
def test_long_sums_keep_2e7_or_of_equal_entries_1e6(shape, value, isa, seed):
    """Their roundings all go the same way: 2.5e-6 on four lanes when the strips had the
    same length on all instruction sets."""
    n, m = shape
    x = np.random.default_rng(seed).random(shape, dtype=np.float32)
    if value is not None:
        x[:] = value
    exact = x.astype(np.float64)
    rtol = (2e-7 if value is None else 1e-6) * rounding_of_sums()
    rows, cols, total = np.empty(n), np.empty(m), _kernels.dot(x, np.ones_like(x), 2)
    _kernels.marginals(x, rows, cols, _rows.ColumnSums(n, m), 2)
    u, v, _ = sinkhorn_pass(x, *even(n, m), 1.0, 1.0, rtol=5e-6 * rounding_of_sums())
    assert total == pytest.approx(exact.sum(), rel=rtol)
    by_row = exact.sum(axis=1)
    scaled = (exact / by_row[:, None]).sum(axis=0) / n
    # Sums of three terms are as good as what they are of is rounded.
    few = 1e-6 * rounding_of_sums()
    for came, expected, terms in (
        (rows, by_row, m),
        (cols, exact.sum(axis=0), n),
        (1 / n / u.astype(np.float64), by_row, m),
        (1 / m / v.astype(np.float64), scaled, n),
    ):
        np.testing.assert_allclose(came, expected, rtol=rtol if terms > 3 else few)


@pairwise(value=VALUES, isa=ISAS)
def test_long_column_sums_of_a_gibbs_product(value, isa, seed):
    n, m = 100_000, 3
    cost = np.random.default_rng(seed).random((n, 1)) if value is None else value
    cost = np.full((n, 1), -np.log(cost), dtype=np.float32)
    panels, work = _products.Panels(np.ones((1, m), "f4")), _rows.ColumnSums(n, m)
    out = np.empty((n, m), dtype=np.float32)
    _products.gibbs_product(cost, panels, np.zeros(n), np.zeros(m), 1.0, out, work, 2)
    rtol = 2e-7 if value is None else 1e-6
    np.testing.assert_allclose(work.values, out.sum(axis=0, dtype=float), rtol=rtol)


@pytest.mark.parametrize("k", [1_000, 100_000])
@pytest.mark.parametrize("value, rtol", [(None, 3e-6), (0.1, 1e-5), (1 / 3, 1e-5)])
def test_products_of_a_long_inner_side(value, rtol, k, isa, seed):
    """One running sum of k terms was off by 7e-4 where all roundings go one way."""
    rng = np.random.default_rng(seed)
    a, b = rng.random((9, k), dtype=np.float32), rng.random((k, 35), dtype=np.float32)
    if value is not None:
        a[:], b[:] = value, 1.0
    out, dots = np.empty((9, 35), dtype=np.float32), np.empty(9)
    _products.matmul(a, _products.Panels(b), out, np.ascontiguousarray(b[:, 0]), dots)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(out, exact, rtol=rtol)
    np.testing.assert_allclose(dots, exact[:, 0], rtol=2e-7 if value is None else 1e-6)
    gram = np.empty((9, 35))
    _products.gram(np.ascontiguousarray(a.T), b, gram)
    # BLAS, whose sums of equal numbers run as long as a chunk.
    np.testing.assert_allclose(gram, exact, rtol=rtol if value is None else 1e-4)


# --- The largest entries --------------------------------------------------------------


def of_few_values(m, rng):
    """Of which many are the same."""
    return rng.choice([-np.inf, -1.0, -0.0, 0.0, 1.0, np.inf], (3, m))


def anywhere(m, rng):
    """The largest one is at another place in each row, and so is the least."""
    x = np.zeros((m, m)) - np.eye(m)[::-1]
    np.fill_diagonal(x, 2.0)
    return x


ROWS = {
    "ties": of_few_values,
    "anywhere": anywhere,
    "different": lambda m, rng: rng.normal(size=(3, m)),
    "infinite": lambda m, rng: np.full((2, m), -np.inf),
}


@pairwise(kind=ROWS, m=[1, 2, 63, 64, 65, 129, 1000], k=[1, 5, 150, "all"], isa=ISAS)
def test_the_largest_entries_are_found_and_ties_go_by_column(kind, m, k, isa, seed):
    x = ROWS[kind](m, np.random.default_rng(seed)).astype(np.float32)
    k = m if k == "all" else min(k, m)
    indices = np.full((len(x), k), -1, dtype=np.intp)
    values = np.full((len(x), k), np.nan, dtype=np.float32)
    _kernels.topk_rows(x, indices, values)
    np.testing.assert_array_equal(indices, np.argsort(-x, axis=1, kind="stable")[:, :k])
    np.testing.assert_array_equal(values, np.take_along_axis(x, indices, axis=1))


@pytest.mark.parametrize("k", [0, 8])
def test_topk_refuses_an_impossible_k(k):
    indices, values = np.zeros((3, k), np.intp), np.zeros((3, k), np.float32)
    with pytest.raises(ValueError, match=f"k must be between 1 and the 7 .* got {k}"):
        _kernels.topk_rows(np.zeros((3, 7), dtype=np.float32), indices, values)


# --- More than 2^31 entries -----------------------------------------------------------


@pytest.mark.slow
def test_entries_beyond_two_to_the_31_are_found():
    """The matrix is 8.7 GB of pages that nothing but a few entries are written to, so
    that little more than the sums is ever in memory. Indices are the same for all
    instruction sets."""
    n, m = 2**22, 520
    try:
        x = np.zeros((n, m), dtype=np.float32)
    except MemoryError:
        pytest.skip("the system does not lend 8.7 GB of untouched memory")
    places = {(5, 1): 1.0, (2**31 // m + 7, 11): 2.0, (n - 1, m - 1): 4.0}
    for place, value in places.items():
        x[place] = value
    rows, cols = np.empty(n), np.empty(m)
    _kernels.marginals(x, rows, cols, _rows.ColumnSums(n, m), 2)
    for axis, sums in enumerate((rows, cols)):
        found = {k: sums[k] for k in np.flatnonzero(sums)}
        assert found == {place[axis]: value for place, value in places.items()}
    assert _kernels.dot(x, x, 2) == 21.0
    ones, out = _products.Panels(np.ones((m, 1), "f4")), np.empty((n, 1), dtype=np.float32)
    _products.matmul(x, ones, out, n_threads=2)
    np.testing.assert_array_equal(out[:, 0], rows)


@TYPES
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [(0, 0), (3, 90), (99, 5)])
def test_surveys_tell_what_is_not_finite_by_the_sum(dtype, bad, at):
    whole = np.random.default_rng(0).random((200, 130)).astype(dtype)
    x = whole[50:150, 20:120]  # columns of a matrix
    expected = reference.survey(x)
    np.testing.assert_allclose(_costs.survey(x), expected, rtol=1e-6)
    x[at] = bad
    low, high, total, _ = _costs.survey(x)
    assert not np.isfinite(total)
    if np.isnan(bad):
        assert (low, high) == (np.nanmin(x), np.nanmax(x))
    vector = np.float64(x[at[0]])
    assert not np.isfinite(_costs.extent(vector)[2])
    x[at] = np.finfo(dtype).max  # sums are of float64
    assert _costs.survey(x)[1] == np.finfo(dtype).max
    assert np.isfinite(_costs.survey(x)[2])


def test_surveys_of_nothing_are_empty():
    assert _costs.extent(np.empty(0)) == (np.inf, -np.inf, 0.0)
