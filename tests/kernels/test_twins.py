"""Every compiled kernel does what its float64 twin says, on every instruction set, at awkward
sizes, for any number of threads, on matrices of either type. Kernels are tested directly."""

import inspect
import os
from copy import deepcopy

import numpy as np
import pytest
from helpers import kernel_cases
from helpers.kernel_cases import CASES, COMPILED, arguments, assert_same, buffer, leaves, run
from helpers.marks import ISAS, pairwise

from gwfast.kernels import _kernels, _products, _rows, reference

pytestmark = pytest.mark.usefixtures("one_blas_thread")
DTYPES = [np.float32, np.float64]


@pairwise(case=CASES, shape=kernel_cases.SHAPES, dtype=DTYPES, isa=ISAS)
def test_kernel_agrees_with_its_twin(case, shape, dtype, isa, seed):
    given = arguments(case, shape, seed, dtype)
    came, expected = (run(module, case, given) for module in (COMPILED, reference))
    kernel_cases.assert_close(case, came, expected, dtype)


# These take no threads.
ALONE = ("absorb", "max_log_scaling", "extent", "kept", "mass_entropy", "rescale_columns")
THREADED = [case for case in CASES if not case.startswith(ALONE)]


@pairwise(case=THREADED, shape=[(5, 3), (129, 65), (2049, 33), (4100, 7)], dtype=DTYPES, isa=ISAS)
def test_kernel_gives_the_same_bits_on_any_number_of_threads(case, shape, dtype, isa):
    given = arguments(case, shape, 1, dtype)
    alone = run(COMPILED, case, given, n_threads=1)
    for n_threads in (2, 3, 5):
        assert_same(run(COMPILED, case, given, n_threads=n_threads), alone)


def test_every_kernel_has_a_case_and_a_twin_with_the_same_arguments():
    kernels = {
        name: x
        for name, x in vars(COMPILED).items()
        if inspect.isroutine(x) and name.strip("_") == name
        if x.__module__.startswith("gwfast.") and x.__module__ != _rows.__name__
    }
    assert {*kernels} == {case.split("-")[0] for case in CASES}
    for name, kernel in kernels.items():
        theirs = inspect.signature(getattr(reference, name)).parameters.values()
        ours = inspect.signature(kernel).parameters.values()
        assert [(x.name, x.default) for x in theirs] == [(x.name, x.default) for x in ours]


@pairwise(dtype=DTYPES, isa=ISAS)
def test_kernels_are_compiled_for_the_instruction_set(dtype, isa):
    bytes_of_a_vector = {"baseline": 16, "neon": 16, "avx2": 32, "avx512": 64}
    assert _products.Panels(np.ones((1, 1), dtype)).nbytes == bytes_of_a_vector[isa]
    if os.environ.get("GWFAST_TEST_NOT_VECTORIZED", "0") in ("", "0"):  # else tolerances allow more
        assert kernel_cases.running_terms(dtype) <= kernel_cases.TERMS


@pairwise(omega=[1.0, 1.7], shape=[(5, 3), (129, 65), (2049, 33)], isa=ISAS)
def test_many_passes_are_that_many_single_ones(shape, omega, isa):
    given = arguments("sinkhorn_passes", shape, 11) | {"omega": omega}
    work = kernel_cases.build(COMPILED, deepcopy(given))
    assert _kernels.sinkhorn_passes(**work, most=0) == (np.inf, 0)
    assert_same([work["u"], work["v"]], [given["u"], given["v"]])
    errors = []
    for most in range(1, 7):
        error, done = _kernels.sinkhorn_passes(**work)
        assert done == 1
        errors.append(error)
        came = run(COMPILED, "sinkhorn_passes", given, most=most, tol=-1.0, n_threads=2)
        assert_same(came, [work["u"], work["v"], work["work"].values, (error, most)])
    for tol in errors:
        *_, (error, done) = run(COMPILED, "sinkhorn_passes", given, most=9, tol=tol)
        first = next(i for i, x in enumerate(errors) if x <= tol)
        assert (error, done) == (errors[first], first + 1)


@pytest.mark.parametrize(("of_team", "of_one"), [(1.0, 0.9), (0.9, 1.0)])
def test_small_passes_are_made_by_whoever_is_faster(of_team, of_one, isa):
    work, large, made = _rows.ColumnSums(300, 300), _rows.ColumnSums(1024, 1024), []
    for _ in range(300):
        made.append(work.prefers_one())
        work.took(made[-1], of_one if made[-1] else of_team)
        assert not large.prefers_one()
        large.took(False, 1.0)
    slower = of_one > of_team
    assert made.count(slower) < 0.05 * len(made)
    assert made[:4].count(slower) in (0, 4)  # compared at the beginning,
    assert slower in made[8:]  # and again later on
    # Nothing depends on who made them.
    given = arguments("sinkhorn_passes", (129, 65), 13) | {"most": 600, "tol": -1.0}
    assert_same(*(run(COMPILED, "sinkhorn_passes", given, n_threads=k) for k in (1, 2)))


# Kernels that take them, and the argument that may be such.
TAKERS = {
    **dict.fromkeys(("logsumexp_rows", "logsumexp_cols"), "cost"),
    **dict.fromkeys(("sinkhorn_passes", "sinkhorn_passes-many", "normal_product"), "kernel"),
    **dict.fromkeys(("matmul", "matmul-dots"), "a"),
    "entropy": "plan",
    "topk_rows": "x",
}


def made_rows(kind, shape, seed):
    rng = np.random.default_rng(seed)
    more = kernel_cases.potentials(rng, *shape) | {"epsilon": 1.0} if kind == "Gibbs" else {}
    return kernel_cases.Made(kind, **kernel_cases.factors(rng, *shape), **more)


def stored(rows, n_threads=1):
    out = buffer(rows.n, rows.m)
    _kernels.copy_rows(rows, out, n_threads)
    return out


@pairwise(
    case=TAKERS,
    shape=[(1, 1), (3, 2), (17, 15), (65, 63), (129, 257), (4100, 17), (9, 17001)],
    kind=["Product", "Gibbs"],
    isa=ISAS,
)
def test_made_rows_give_the_same_bits_as_stored_ones(case, shape, kind, isa):
    given = arguments(case, shape, 13)
    rows = made_rows(kind, given[TAKERS[case]].shape, seed=14)
    expected = run(COMPILED, case, given | {TAKERS[case]: stored(rows.build(COMPILED))})
    assert_same(run(COMPILED, case, given | {TAKERS[case]: rows}, n_threads=3), expected)


def test_rows_made_in_several_strips_give_what_stored_ones_give():
    """Strips do not depend on the instruction set."""
    n, m = 8443, 4001
    made, part = made_rows("Gibbs", (n, m), seed=16), slice(250, 290)
    rows, given = made.build(COMPILED), kernel_cases.build(COMPILED, made.given)
    assert rows.strip == 256, "a chunk has 264"
    few = given | {name: np.ascontiguousarray(given[name][part]) for name in ("left", "f")}
    results, whole = [], stored(rows, 2)
    np.testing.assert_array_equal(whole[part], stored(COMPILED.Gibbs(**few)))
    for read in (whole, rows):
        u, v, by_col, top = buffer(n), buffer(m), np.empty(m), np.empty((n, 2), np.intp)
        COMPILED.logsumexp_cols(read, np.zeros(n), np.zeros(m), 1.0, by_col, n_threads=2)
        _kernels.topk_rows(read, top, buffer(n, 2), n_threads=2)
        work = _rows.ColumnSums(n, m)
        error, _ = _kernels.sinkhorn_passes(read, np.ones(n), np.ones(m), u, v, work, n_threads=2)
        results.append(([u, by_col, top], [v, error, _kernels.entropy(read, n_threads=2)]))
    (same, near), (came_same, came_near) = results
    assert_same(came_same, same)  # for any strips
    for left, right in zip(came_near, near, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-6)


def test_scalings_leave_a_kernel_rounded_as_it_is(isa):
    """If epsilon is small, rounding moves each entry by hundreds of its digits."""
    rng, n, m, epsilon = np.random.default_rng(5), 37, 21, 1e-4
    left, right = rng.random((n, 3), np.float32), rng.random((m, 3), np.float32)
    u, v, g = np.exp(rng.normal(size=n)), np.exp(rng.normal(size=m)), rng.random(m)
    u[3] = v[5] = 0.0
    # Exponents of up to zero in each row.
    f = (left.astype(np.float64) @ right.T - g).min(axis=1)
    given = left, _products.Panels(right, True), f, g, epsilon
    with np.errstate(divide="ignore"):
        came = stored(_products.Gibbs(*given, (np.log(u), np.log(v))))
    expected = u[:, None] * stored(_products.Gibbs(*given)) * v
    np.testing.assert_allclose(came, expected, rtol=2e-5, atol=1e-37)
    assert (came > 1e-3).sum() >= n - 1


@pairwise(
    shape=[(1, 1), (3, 2), (17, 15), (129, 257), (4100, 17)],
    dtype=[np.float16, np.float32, np.float64],
    isa=ISAS,
)
def test_shifted_rows_are_what_their_twin_says(shape, dtype, isa, seed):
    rng, (n, k) = np.random.default_rng(seed), shape
    cost = (rng.random(shape) + 3).astype(dtype)
    cost.flags.writeable = False
    rows = _rows.Shifted(cost, 3.5, -2.0)
    whole, expected = stored(rows, 3), reference.Shifted(cost, 3.5, -2.0)
    np.testing.assert_allclose(whole, expected, rtol=1e-6, atol=1e-7)
    assert (rows.shape, len(rows), rows.dtype) == (shape, n, np.float32)
    for part in (rng.integers(0, n, 5), slice(n // 2, None)):
        np.testing.assert_array_equal(stored(rows[part]), whole[part])
    a, products = kernel_cases.matrix(rng, 9, k), buffer(2, 9, n)
    for right, out in zip((whole, rows), products, strict=True):
        _products.matmul(a, _products.Panels(right, True, n_threads=3), out, n_threads=2)
    assert_same(*products)


def test_every_finite_half_is_that_number(isa):
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)].reshape(-1, 2)
    np.testing.assert_array_equal(stored(_rows.Shifted(halves)), halves.astype(np.float32))


def changed(given, change):
    """Return arguments with a change of each array of float32 or float64."""
    given = deepcopy(given)
    for path, x in [*leaves(given)]:
        if x.dtype.kind == "f" and x.dtype.itemsize > 2:
            replace(given, path, change)
    return given


def replace(given, path, change):
    for name in path[:-1]:
        given = given[name].given
    given[path[-1]] = change(given[path[-1]])


def with_subnormals(x):
    x = np.array(x)
    x[::3] *= x.dtype.type(np.finfo(x.dtype).tiny) / 8
    return x


# One moves entries as they are, the other tells whether masses have a positive sum.
COMPUTED = [case for case in CASES if case not in ("topk_rows", "extent")]


@pairwise(case=COMPUTED, shape=[(1, 1), (5, 3), (129, 65), (1030, 17)], dtype=DTYPES, isa=ISAS)
def test_subnormal_input_counts_as_zero_and_none_comes_out(case, shape, dtype, isa, seed):
    given = changed(arguments(case, shape, seed, dtype), with_subnormals)
    with np.errstate(all="ignore"):
        came = run(COMPILED, case, given)
        expected = run(COMPILED, case, changed(given, reference.flushed))
    assert_same(came, expected)
    for x in map(np.asarray, came):
        assert x.dtype.kind != "f" or (x == reference.flushed(x))[~np.isnan(x)].all()


def settings():
    """Return the control registers of three threads without the flags of operations."""
    return [control & ~_rows.FLAGS for control in _rows.float_controls(3)]


@pytest.mark.skipif(not _rows.FLUSH_BITS, reason="nothing to set here")
@pairwise(case=CASES, isa=ISAS, flushes=[False, True])
def test_kernels_restore_the_control_register_of_each_thread(case, isa, flushes):
    given = changed(arguments(case, (129, 65), 1), with_subnormals)
    before = settings()
    if flushes:
        _rows.set_float_control(before[0] | _rows.FLUSH_BITS)
    try:
        expected = settings()
        with np.errstate(all="ignore"):
            run(COMPILED, case, given)
        with pytest.raises(ValueError, match="cost"):
            COMPILED.dot(np.ones((3, 3)), np.ones((3, 4)))
        assert settings() == expected
    finally:
        _rows.set_float_control(before[0])


OTHER_TYPE = {"f4": "f8", "f8": "f4", "i8": "f8", "i4": "f8"}
SPOILS = {
    "dtype": lambda x: x.astype(OTHER_TYPE[x.dtype.str[1:]]),
    "order": lambda x: np.asfortranarray(x) if x.ndim == 2 else np.repeat(x, 2)[::2],
    "rows": lambda x: x[:-1].copy(),
    "columns": lambda x: np.ascontiguousarray(x[:, :-1]),
    "ndim": lambda x: x[None],
    "read only": lambda x: np.broadcast_to(x, x.shape),
}
# Types and sides that no other argument tells: a kernel's only matrix, its type or free side.
FREE = {
    "dtype": "absorb.u entropy.plan logsumexp_rows.cost logsumexp_cols.cost moments.matrix "
    "moments.out rescale_columns.v survey-square.a",
    "rows": "entropy.plan extent.x mass_entropy.masses",
    "columns": "entropy.plan topk_rows.x",
}


def spoiled(case, dtype):
    """Yield the arguments of a kernel with one of them spoiled, and its name."""
    given = arguments(case, (6, 7), 5, dtype)
    base = case if case.startswith("survey") else case.split("-")[0]
    for path, x in leaves(given):
        can = {spoil for spoil in SPOILS if f"{base}.{path[-1]}" not in FREE.get(spoil, "").split()}
        can -= {"columns"} if x.ndim < 2 else set()
        can -= {"read only"} if path[0] not in CASES[case].writes else set()
        for spoil in can:
            bad = deepcopy(given)
            replace(bad, path, SPOILS[spoil])
            yield bad, f"{spoil} {path}"
    if "work" in given:
        scratch = [None, *(_rows.ColumnSums(*size, dtype) for size in ((7, 6), (6, 8), (5, 7)))]
        if base == "rescale_columns":  # it needs the sums alone: of columns, in float64
            scratch.pop()
        elif CASES[case].wide:
            scratch.append(_rows.ColumnSums(6, 7, DTYPES[dtype is np.float32]))
        yield from ((given | {"work": work}, work) for work in scratch)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES)
def test_kernel_refuses_what_it_cannot_take_and_writes_nothing(case, dtype):
    for given, text in spoiled(case, dtype):
        outputs = [given[x] for x in CASES[case].writes if isinstance(given[x], np.ndarray)]
        before = deepcopy(outputs)
        with pytest.raises((ValueError, TypeError)):
            kernel_cases.call(COMPILED, case, given)
            pytest.fail(f"{text}")
        assert_same(outputs, before)
