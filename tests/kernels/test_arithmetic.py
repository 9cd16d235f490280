"""Exponentials, logarithms, products and sums: their stated errors, and where float32 and 32-bit
indices end. Kernels are tested directly."""

import math

import numpy as np
import pytest
from helpers.kernel_cases import buffer, matrix, potentials, rounding_of_sums
from helpers.marks import ISAS, pairwise

from gwfast.kernels import _exponentials, _kernels, _products, _rows, reference

pytestmark = pytest.mark.usefixtures("one_blas_thread")
F4_MAX = np.finfo(np.float32).max
DTYPES = [np.float32, np.float64]


def exp(x):
    """Return a Gibbs kernel without potentials."""
    out = np.full_like(x, 7)[None]
    _exponentials.gibbs_kernel(-x[None], np.zeros(1), np.zeros(len(x)), 1.0, out, 2)
    return out[0]


def log(x):
    """Return the proximal part of a cost, for entries that plans may have."""
    out = np.zeros_like(x)
    _exponentials.proximal_cost(out[None], x[None], -1.0, 2)
    return out


# Errors in units in the last place of the exact value. Every float32 was tried once on each
# instruction set: 1.0193 (0.9889 without fused multiply-add) and 0.8661 were the worst. Of 10^7
# arguments of float64: 1.043 (1.009) and 0.836.
MOST_ULP = {(exp, "f4"): 1.02, (log, "f4"): 0.87, (exp, "f8"): 1.05, (log, "f8"): 0.85}
# Where exp begins and ends.
LEAST = {np.float32: np.float32(-87.3365402), np.float64: -708.3964185322641}
MOST = {np.float32: np.float32(88.7228317), np.float64: 709.782712893384}


def around(centers, width, dtype):
    """Return runs of adjacent floats around some, in order, one run a row."""
    of_bits = np.dtype(dtype.replace("f", "i"))
    bits = np.asarray(centers, dtype=dtype).view(of_bits)
    runs = (bits[:, None] + np.arange(-width, width + 1, dtype=of_bits)).view(dtype)
    return np.sort(runs, axis=1)


def arguments_of(function, dtype):
    """Yield the worst arguments, where a piece of the algorithm ends, and of all sizes."""
    rng, narrow = np.random.default_rng(42), dtype == "f4"
    if function is exp:
        worst = [37.77864, -27.377993, 59.266754, -27.378984]
        if not narrow:
            worst = [151.46383890867034, -324.7303485293683, -333.04355774300166]
        # Where the integer part of x / ln 2 changes, and in the middle between.
        halves = np.arange(-251, 256) if narrow else np.arange(-2040, 2046)
        seams = halves[halves != 0] * np.log(2) / 2
        ends = LEAST[np.dtype(dtype).type], MOST[np.dtype(dtype).type]
        seams = seams[(seams > ends[0] + 1) & (seams < ends[1] - 1)]
        drawn = rng.uniform(*ends, 300_000)
        for end in ends:  # the last floats of the range
            yield np.sort(end * (1 - np.finfo(dtype).eps * np.arange(5000, dtype=dtype)))[None]
    else:
        worst = [1.4009095, 1.0] if narrow else [1.402968670377405, 1.5614559474462124, 1.0]
        # The exponents that log takes out change here.
        seams = np.ldexp(np.sqrt(0.5), np.arange(-95, 127) if narrow else np.arange(-960, 1000))
        drawn = np.exp(rng.uniform(*((-66, 88) if narrow else (-667, 709)), 300_000))
        yield np.sort(rng.uniform(0.5, 2.1, (1, 300_000))).astype(dtype)
    yield from (around(worst, 20_000, dtype), around(seams, 50, dtype))
    yield np.sort(drawn.astype(dtype))[None]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("function, exact", [(exp, np.exp), (log, np.log)])
def test_functions_are_as_exact_as_stated_and_never_decrease(function, exact, dtype, isa):
    wider = np.float64 if dtype == "f4" else np.longdouble
    if np.finfo(wider).nmant < np.finfo(dtype).nmant + 8:
        pytest.skip("long doubles have no more bits here")
    limits = np.finfo(dtype)
    for x in arguments_of(function, dtype):
        came = function(x.ravel()).reshape(x.shape)
        expected = exact(x.astype(wider))
        # Units of the exact value: what rounds up to a power of two has not twice that.
        exponent = np.maximum(np.frexp(expected)[1], limits.minexp + 1)
        error = np.abs(came - expected) / np.ldexp(wider(1.0), exponent - limits.nmant - 1)
        at = np.unravel_index(error.argmax(), error.shape)
        assert error[at] <= MOST_ULP[function, dtype], f"at {x[at]!r}"
        assert (np.diff(came, axis=1) >= 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_exp_leaves_its_range_as_stated_and_keeps_nan(dtype, isa):
    limits, least, most = np.finfo(dtype), LEAST[dtype], MOST[dtype]
    smallest, far = limits.smallest_subnormal, limits.max / 10
    assert (exp(np.array([0.0, -0.0, smallest, -smallest, 1e-20], dtype)) == 1).all()
    low, high = exp(np.array([least, most], dtype))
    assert low >= limits.tiny and np.isfinite(high)
    below, above = np.nextafter(least, -far), np.nextafter(most, far)
    assert (exp(np.array([below, least - 1, 1.2 * least, -1e4, -far, -np.inf], dtype)) == 0).all()
    assert (exp(np.array([above, most + 1, 1e4, far, np.inf], dtype)) == np.inf).all()
    # NaN of any bits: both signs, quiet and signaling.
    of_bits = np.uint64 if dtype is np.float64 else np.uint32
    quiet, every = 1 << (limits.nmant - 1), (1 << limits.nmant) - 1
    payloads = np.r_[1:600, quiet : quiet + 600, every].astype(of_bits)
    infinities = np.array([[np.inf], [-np.inf]], dtype).view(of_bits)
    assert np.isnan(exp((infinities + payloads).view(dtype).ravel())).all()


def test_log_of_special_values(isa):
    limits = np.finfo(float)
    small = [limits.smallest_subnormal, limits.tiny / 8, np.nextafter(limits.tiny, 0)]
    x = np.array([1.0, 0.0, -0.0, *small, np.inf, limits.tiny, limits.max, -1.0, -np.inf, np.nan])
    ends = math.log(limits.tiny), math.log(limits.max)
    came = np.empty(len(x))
    _exponentials.absorb(np.zeros(len(x)), x, 1.0, came)
    np.testing.assert_array_equal(came, [0.0, *[-np.inf] * 5, np.inf, *ends, *[np.nan] * 3])


# Both sides of a vector and of a panel (two vectors) on all instruction sets, and, for the inner
# side, of the rows of a panel that are summed at a time (224 at most).
@pairwise(m=[1, 3, 8, 9, 15, 16, 17, 31, 33, 48, 63, 65], k=[1, 7, 223, 224, 225, 400], isa=ISAS)
def test_products_of_any_inner_side_and_width(k, m, isa, seed):
    rng = np.random.default_rng(seed)
    b = rng.normal(size=(k, m)).astype(np.float32)
    scale = np.full(k, 1 / k, dtype=np.float32)
    panels, twin = _products.Panels(b, scale=scale), reference.Panels(b, scale=scale)
    for n in (1, 2, 3, 4, 5, 7, 9, 137):
        a, around = rng.normal(size=(n, k)).astype(np.float32), buffer(2, n * m + 64)
        cost, kernel = (row[32:-32].reshape(n, m) for row in around)
        _products.matmul(a, panels, cost)
        error = np.abs(cost - reference.Product(a, twin))
        assert (error <= 6e-8 * (2 + k**0.5) * (np.abs(a) @ np.abs(twin))).all()
        given, work, expected = potentials(rng, n, m), _rows.ColumnSums(n, m), np.empty_like(cost)
        peak = _products.gibbs_product(a, panels, **given, out=kernel, work=work)
        # Up to rounding of the potentials, which only the product keeps.
        stored = _exponentials.gibbs_kernel(cost, **given, out=expected)
        assert peak == pytest.approx(stored, abs=1e-5)
        np.testing.assert_allclose(kernel, expected, rtol=2e-5, atol=1e-37)
        np.testing.assert_allclose(work.values, kernel.sum(axis=0, dtype=float), rtol=6e-7)
        assert (around[:, :32] == 7).all() and (around[:, -32:] == 7).all()


# Products of these sizes are made in parts: of rows, of columns that stay in cache (256 of
# float32), of few columns for each thread, and of the inner side (224).
@pairwise(
    shape=[(3, 450, 1100), (64, 895, 70), (137, 225, 290), (300, 40, 1100)], dtype=DTYPES, isa=ISAS
)
def test_products_depend_neither_on_their_parts_nor_on_what_is_beside(shape, dtype, isa, seed):
    """Matrices are columns of larger ones."""
    n, k, m = shape
    rng = np.random.default_rng(seed)
    a, beside, plus = (rng.normal(size=s).astype(dtype) for s in ((n, k), (k, m + 9), (n, m)))
    b, around = beside[:, 3:-6], np.full((n, m + 9), 7, dtype)
    out, (alone, added), turned = around[:, 4:-5], np.empty((2, n, m), dtype), b.T.copy()
    size, few = np.abs(a) @ np.abs(b), 4 * np.finfo(dtype).eps * k**0.5
    _products.matmul(a, _products.Panels(b), alone)
    _products.matmul(a, _products.Panels(b), added, plus=plus)
    assert (np.abs(alone - a.astype(float) @ b.astype(float)) <= few * size).all()
    assert (np.abs(added - alone - plus) <= few * (size + np.abs(plus))).all()
    for n_threads in (1, 2, 3, 16):
        for panels in (
            _products.Panels(b, n_threads=n_threads),
            _products.Panels(turned, True, n_threads=n_threads),
        ):
            _products.matmul(a, panels, out, n_threads=n_threads)
            np.testing.assert_array_equal(out, alone)
        _products.matmul(a, panels, out, plus=plus, n_threads=n_threads)
        np.testing.assert_array_equal(out, added)
        for right, transposed in ((b.copy(), False), (turned, True)):
            _products.matmul_few(a, right, out, transposed, n_threads=n_threads)
            np.testing.assert_array_equal(out, alone)
    if dtype == np.float32:
        rows = _rows.Shifted(turned, 0.25, 3.0)
        _products.matmul(a, _products.Panels(rows, True), alone)
        _products.matmul_few(a, rows, out, True, n_threads=2)
        np.testing.assert_array_equal(out, alone)
    assert (around[:, :4] == 7).all() and (around[:, -5:] == 7).all()


def test_gram_of_many_columns_has_large_partial_products(seed):
    rng, gram = np.random.default_rng(seed), np.empty((2100, 2200))
    x, y = matrix(rng, 101, 2100), matrix(rng, 101, 2200)
    _products.gram(x, y, gram, 2)
    np.testing.assert_allclose(gram, x.T @ y, rtol=1e-5)
    np.testing.assert_allclose(gram[::50], x[:, ::50].T @ y.astype(float), rtol=1e-6)


def sinkhorn_pass(kernel, u, v, omega=1.0, rtol=5e-6, masses=None):
    """Return scalings and the error, compared with the twin."""
    made, (p, q) = [], masses or [np.full(size, 1 / size) for size in kernel.shape]
    for module, sums in ((_kernels, _rows), (reference, reference)):
        x, y = (np.full(len(mass), start, np.float32) for mass, start in ((p, u), (q, v)))
        work = sums.ColumnSums(*kernel.shape)
        error, _ = module.sinkhorn_passes(kernel, p, q, x, y, work, omega)
        made.append((x, y, error))
    for came, expected in zip(*made, strict=True):
        np.testing.assert_allclose(came, expected, rtol=rtol)
    return made[0]


def gibbs(cost, f, g, epsilon):
    """Return the kernel, the same in all ways to make it, and its peak."""
    n, m = cost.shape
    out = np.full((3, n, m), np.nan, dtype=np.float32)
    panels, work = _products.Panels(np.eye(m, dtype=np.float32)), _rows.ColumnSums(n, m)
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
    """Compare with the twins, whose potentials may be shifted against one another."""
    for name, size in (("logsumexp_rows", len(f)), ("logsumexp_cols", len(g))):
        came, expected = np.empty((2, size))
        getattr(_exponentials, name)(cost, f, g, epsilon, came)
        getattr(reference, name)(cost, f + shift, g - shift, epsilon, expected)
        np.testing.assert_array_equal(np.isneginf(came), np.isneginf(expected))
        largest = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
        np.testing.assert_allclose(came, expected, rtol=0, atol=atol + rtol * largest)


@pytest.mark.parametrize("dead_rows", [1, 4, 5, 40])
def test_potentials_of_minus_infinity_are_taken(dead_rows, isa, seed):
    rng, n, m = np.random.default_rng(seed), 130, 19
    f, g, alive = rng.normal(size=n), rng.normal(size=m), np.ones((n, m), dtype=bool)
    f[:dead_rows], g[[0, 7]] = -np.inf, -np.inf
    alive[:dead_rows], alive[:, [0, 7]] = False, False
    cost = rng.normal(size=(n, m)).astype(np.float32)
    compare_logsumexp(cost, f, g, 0.1, atol=1e-5)
    kernel, peak = gibbs(cost, f, g, 0.5)
    assert (kernel[~alive] == 0).all() and (kernel[alive] > 0).all()
    exponents = (f[:, None] + g - cost)[alive] / 0.5
    assert peak == pytest.approx(exponents.max(), rel=1e-6)


@pairwise(omega=[1.0, 1.9], shape=[(5, 3), (9, 7), (33, 17), (200, 65)], isa=ISAS)
def test_points_without_mass_and_points_that_died_get_no_scaling(shape, omega, isa, seed):
    n, m = shape
    kernel = np.random.default_rng(seed).random(shape, dtype=np.float32)
    p, q = np.ones(n), np.ones(m)
    p[: n // 2], q[-1] = 0.0, 0.0
    u, v, _ = sinkhorn_pass(kernel, 1.0, 1.0, omega, masses=(p, q))
    assert (u[: n // 2] == 0).all() and v[-1] == 0
    row, column = n // 3, m - 1
    kernel[:] = 1.0
    kernel[row], kernel[:, column] = 0.0, 0.0
    u, v, _ = sinkhorn_pass(kernel, 1.0, 1.0)
    assert np.flatnonzero(u == 0).tolist() == [row]
    assert np.flatnonzero(v == 0).tolist() == [column]
    # The columns that live share all mass of the rows that live: the dead column's too.
    p, q = np.full(n, 1 / n), np.full(m, 1 / m)
    again, _ = _kernels.sinkhorn_passes(kernel, p, q, u, v, _rows.ColumnSums(n, m))
    assert again == pytest.approx(1 / n + abs((m - 1) / m - (n - 1) / n), abs=1e-6)


@pytest.mark.parametrize("omega", [1.0, 1.9])
def test_scalings_never_overflow_and_come_back_from_zero(omega, isa):
    """Infinity times a zero of the kernel would be NaN, and a power of zero stays zero."""
    kernel = np.full((9, 7), 1.2e-38, dtype=np.float32)
    kernel[:, 0] = 0.0
    u, v, error = sinkhorn_pass(kernel, 1.0, 1e-3, omega)
    assert u.max() == F4_MAX and np.isfinite(v).all() and np.isfinite(error)
    for x in sinkhorn_pass(kernel.T.copy(), 1.0, 1e-3, omega):
        assert np.isfinite(x).all()
    u, v, error = sinkhorn_pass(np.ones((9, 7), np.float32), 0.0, 1.0, omega)
    np.testing.assert_allclose(u, 1 / 63, rtol=1e-6)
    assert np.isfinite(v).all() and v.min() > 0 and error == pytest.approx(1.0)
    work, v = _rows.ColumnSums(9, 5), np.ones(5, dtype=np.float32)
    work.values[:] = 0.0, 1e-300, 2.0, np.inf, 0.0
    _kernels.rescale_columns(v, np.array([1.0, 1.0, 0.0, 1.0, 0.0]), work)
    np.testing.assert_array_equal(v, np.float32([0.0, F4_MAX, 0.0, 0.0, 0.0]))


def test_overflow_shows_and_large_potentials_that_cancel_do_no_harm(isa, seed):
    rng = np.random.default_rng(seed)
    cost = rng.uniform(-1, 1, (65, 33)).astype(np.float32)
    f, g = rng.normal(size=65), rng.normal(size=33)
    for epsilon in (1e-30, 1e-5, 1.0, 1e5, 1e30):
        # The exponent is known as well as float32 knows potentials and costs.
        compare_logsumexp(cost, f, g, epsilon, rtol=1e-6)
    compare_logsumexp(cost, f, g, 0.5, atol=2e-6, shift=1e6)
    near, far = gibbs(cost, f, g, 0.5)[0], gibbs(cost, f + 1e6, g - 1e6, 0.5)[0]
    np.testing.assert_allclose(far, near, rtol=2e-6)
    cost[40, 20] = -99.0
    kernel, peak = gibbs(cost, 0 * f, 0 * g, 1.0)
    assert peak == 99.0 and np.argwhere(np.isinf(kernel)).tolist() == [[40, 20]]
    kernel, peak = gibbs(cost, 0 * f, 0 * g, 2.0)
    assert peak == 49.5 and kernel[40, 20] == pytest.approx(np.exp(49.5), rel=1e-5)


@pairwise(value=[None, 0.1, 0.7, 1 / 3], shape=[(100_000, 3), (3, 100_000)], isa=ISAS)
def test_long_sums_keep_2e7_or_of_equal_entries_1e6(shape, value, isa, seed):
    """Roundings of equal entries all go the same way."""
    n, m = shape
    x = np.random.default_rng(seed).random(shape, dtype=np.float32)
    if value is not None:
        x[:] = value
    exact = x.astype(np.float64)
    rtol = (2e-7 if value is None else 1e-6) * rounding_of_sums()
    rows, cols, total = np.empty(n), np.empty(m), _kernels.dot(x, np.ones_like(x), 2)
    _kernels.marginals(x, rows, cols, _rows.ColumnSums(n, m), 2)
    u, v, _ = sinkhorn_pass(x, 1.0, 1.0, rtol=5e-6 * rounding_of_sums())
    assert total == pytest.approx(exact.sum(), rel=rtol)
    by_row = exact.sum(axis=1)
    scaled = (exact / by_row[:, None]).sum(axis=0) / n
    few = 1e-6 * rounding_of_sums()  # of three rounded terms
    for came, expected, terms in (
        (rows, by_row, m),
        (cols, exact.sum(axis=0), n),
        (1 / n / u.astype(np.float64), by_row, m),
        (1 / m / v.astype(np.float64), scaled, n),
    ):
        np.testing.assert_allclose(came, expected, rtol=rtol if terms > 3 else few)
    logs, work, out = -np.log(x[:, :1]), _rows.ColumnSums(n, m), np.empty((n, m), np.float32)
    panels = _products.Panels(np.ones((1, m), "f4"))
    _products.gibbs_product(logs, panels, np.zeros(n), np.zeros(m), 1.0, out, work, 2)
    np.testing.assert_allclose(work.values, out.sum(axis=0, dtype=float), rtol=rtol)


@pytest.mark.parametrize("k", [1_000, 100_000])
@pytest.mark.parametrize("value, rtol", [(None, 3e-6), (0.1, 1e-5), (1 / 3, 1e-5)])
def test_products_of_a_long_inner_side(value, rtol, k, isa, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.random((9, k), dtype=np.float32), rng.random((k, 35), dtype=np.float32)
    if value is not None:
        a[:], b[:] = value, 1.0
    out, dots, gram = np.empty((9, 35), dtype=np.float32), np.empty(9), np.empty((9, 35))
    _products.matmul(a, _products.Panels(b), out, np.ascontiguousarray(b[:, 0]), dots)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(out, exact, rtol=rtol)
    np.testing.assert_allclose(dots, exact[:, 0], rtol=2e-7 if value is None else 1e-6)
    _products.gram(np.ascontiguousarray(a.T), b, gram)
    # BLAS, whose sums of equal numbers run as long as a chunk.
    np.testing.assert_allclose(gram, exact, rtol=rtol if value is None else 1e-4)


ROWS = {
    "ties": lambda m, rng: rng.choice([-np.inf, -1.0, -0.0, 0.0, 1.0, np.inf], (3, m)),
    "largest anywhere": lambda m, rng: 2 * np.eye(m) - np.eye(m)[::-1],
    "different": lambda m, rng: rng.normal(size=(3, m)),
    "infinite": lambda m, rng: np.full((2, m), -np.inf),
}


@pairwise(kind=ROWS, m=[1, 2, 63, 64, 65, 129, 1000], k=[1, 5, 150, "all"], isa=ISAS)
def test_the_largest_entries_are_found_and_ties_go_by_column(kind, m, k, isa, seed):
    x = ROWS[kind](m, np.random.default_rng(seed)).astype(np.float32)
    k = m if k == "all" else min(k, m)
    indices, values = np.full((len(x), k), -1, dtype=np.intp), buffer(len(x), k)
    _kernels.topk_rows(x, indices, values)
    np.testing.assert_array_equal(indices, np.argsort(-x, axis=1, kind="stable")[:, :k])
    np.testing.assert_array_equal(values, np.take_along_axis(x, indices, axis=1))


@pytest.mark.slow
def test_entries_beyond_two_to_the_31_are_found():
    """Few of the 8.7 GB of pages are ever written to and in memory."""
    n, m, at = 2**22, 520, ([5, 2**31 // 520 + 7, 2**22 - 1], [1, 11, 519])
    x, rows, cols = np.zeros((n, m), np.float32), np.empty(n), np.empty(m)
    x[at] = 1.0, 2.0, 4.0
    _kernels.marginals(x, rows, cols, _rows.ColumnSums(n, m), 2)
    for sums, places in zip((rows, cols), at, strict=True):
        assert np.flatnonzero(sums).tolist() == places and sums[places].tolist() == [1, 2, 4]
    assert _kernels.dot(x, x, 2) == 21.0
