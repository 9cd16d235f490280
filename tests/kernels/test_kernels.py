"""Every compiled kernel does what its float64 twin says, on every instruction set, at
awkward sizes, with any number of threads, on matrices of either type; and refuses what
it cannot take."""

from copy import deepcopy
from functools import lru_cache
from types import SimpleNamespace

import numpy as np
import pytest

from gwfast.kernels import (
    _exponentials,
    _kernels,
    _products,
    _rows,
    _sparse,
    reference,
)
from gwfast.kernels.threads import single_threaded_blas

COMPILED = SimpleNamespace(
    **{**vars(_rows), **vars(_exponentials), **vars(_kernels), **vars(_products)},
    **{f"sparse_{name}": kernel for name, kernel in vars(_sparse).items()},
)
EPSILON, WIDTH, TOP = 0.1, 5, 3

# Both sides of vector widths (4, 8, 16), of the rows a kernel takes at once (4), of the
# chunks (32, of a multiple of 8 rows), of the rows summed in float32 (64 of a chunk, so
# 2048), of the columns summed in float32 (256 to 1024), and of the rows of a product
# that are made at a time (128 of a chunk, so 4096).
SHAPES = [
    (1, 1), (1, 1000), (2, 3), (3, 2), (7, 9), (8, 8), (9, 7), (15, 17), (16, 16),
    (17, 15), (31, 33), (33, 31), (63, 65), (65, 63), (97, 129), (127, 97), (128, 32),
    (129, 257), (257, 1025), (1023, 5), (1000, 1024), (2048, 3), (2049, 65), (4100, 17),
]  # fmt: skip

# Largest relative and largest absolute error allowed. The exponents of the log domain
# reach 90 here, which float32 knows to 1e-5; sums are off by a few roundings.
TOLERANCES = {
    "exp": (1.3e-7, 1.2e-38),
    "log": (1.3e-7, 0),
    "logsumexp_rows": (0, 1e-5),
    "logsumexp_cols": (0, 1e-5),
    "gibbs_kernel": (1.5e-5, 1.2e-38),
    "proximal_cost": (2e-7, 2e-7),
    "sinkhorn_passes": (6e-7, 0),
    "sinkhorn_passes-capped": (6e-7, 1e-7),
    "sinkhorn_passes-relaxed": (5e-6, 0),
    "sinkhorn_passes-many": (6e-7, 1e-7),
    "rescale_columns": (6e-7, 0),
    "scale_to_plan": (6e-7, 0),
    "marginals": (6e-7, 0),
    "matmul": (5e-7, 0),
    "matmul-transposed": (5e-7, 0),
    "matmul-scaled": (5e-7, 0),
    "matmul-dots": (2e-6, 0),
    "gibbs_product": (1.5e-5, 1.2e-38),
    "gram": (1e-6, 0),
    "dot": (5e-7, 0),
    "distance": (5e-7, 0),
    "entropy": (5e-7, 0),
    "copy_rows-product": (5e-7, 0),
    "copy_rows-gibbs": (1.5e-5, 1.2e-38),
    "topk_rows": (0, 0),
    "sparse_count": (6e-7, 0),
    "sparse_select": (0, 0),
    "sparse_gibbs": (1.5e-5, 1.2e-38),
    "sparse_sinkhorn_passes": (1e-6, 0),
    "sparse_sinkhorn_passes-many": (1e-6, 4e-7),
    "sparse_product": (2e-6, 0),
}


# Of the kernels that take float64: sums of n terms are off by a few roundings of it
# (and BLAS's, in a twin, by more), exponents up to 90 are known to 1e-14.
WIDE_TOLERANCES = {
    "exp": (2.5e-16, 3e-308),
    "log": (2.5e-16, 0),
    "logsumexp_rows": (2e-15, 2e-15),
    "logsumexp_cols": (2e-15, 2e-15),
    "gibbs_kernel": (4e-14, 3e-308),
    "proximal_cost": (1e-15, 1e-15),
    "sinkhorn_passes": (4e-15, 0),
    "sinkhorn_passes-relaxed": (2e-14, 0),
    "sinkhorn_passes-many": (4e-15, 1e-15),
    "sinkhorn_passes-capped": (4e-15, 1e-15),
    "rescale_columns": (1e-15, 0),
    "scale_to_plan": (2e-15, 0),
    "marginals": (2e-15, 0),
    "matmul": (2e-15, 0),
    "matmul-transposed": (2e-15, 0),
    "matmul-scaled": (2e-15, 0),
    "matmul-dots": (4e-15, 0),
    "dot": (2e-15, 0),
    "distance": (2e-15, 0),
    "entropy": (2e-15, 0),
    "topk_rows": (0, 0),
}


class Made:
    """An argument of a type that the kernels and their twins each have their own of."""

    def __init__(self, kind, values=None, **given):
        self.kind, self.values, self.given = kind, values, given

    def build(self, module):
        made = getattr(module, self.kind)(**build(module, self.given))
        if self.kind == "ColumnSums" and module is COMPILED:
            # What it was used for before must not matter.
            sizes, dtype = (made.n, made.m), self.given.get("dtype", np.float32)
            outputs = map(np.empty, sizes)
            _kernels.marginals(np.ones(sizes, dtype=dtype), *outputs, made)
        if self.values is not None:
            made.values[:] = self.values
        return made


def build(module, given):
    return {
        name: x.build(module) if isinstance(x, Made) else x for name, x in given.items()
    }


def matrix(rng, n, m):
    return rng.random((n, m), dtype=np.float32)


def buffer(*shape, dtype=np.float32):
    return np.full(shape, 7, dtype=dtype)


def masses(rng, n):
    x = rng.random(n) + 0.1
    return x / x.sum()


def potentials(rng, n, m):
    return {"f": rng.normal(size=n), "g": rng.normal(size=m), "epsilon": EPSILON}


def scalings(rng, n, m):
    return {"u": matrix(rng, 1, n)[0], "v": matrix(rng, 1, m)[0]}


def factors(rng, n, m, left="left", right="right"):
    """Of a product around one."""
    return {
        left: matrix(rng, n, WIDTH),
        right: Made("Panels", matrix=matrix(rng, WIDTH, m)),
    }


def capped(rng, n, m):
    """Passes of which some scalings reach the cap, others not."""
    given = CASES["sinkhorn_passes"][0](n, m, rng)
    most = (2 / (n * m)) ** 0.5  # as large as they would be if all were equal
    given["v"] *= np.float32(2 * most)
    return given | {"cap": float(np.float32(most)), "most": 3, "tol": -1.0}


def sums(n, m):
    return {"row_sums": buffer(n, dtype=float), "col_sums": buffer(m, dtype=float)}


def work(n, m, values=None):
    return {"work": Made("ColumnSums", values, n=n, m=m)}


def steps(rng, *shape):
    """Numbers whose products float32 knows exactly."""
    return rng.integers(0, 64, shape).astype(np.float32) / 64


def kept(rng, n, m):
    """Entries in compressed sparse rows, in some rows none."""
    share = rng.choice([0.0, 0.02, 0.3, 1.0], (n, 1))
    rows, index = np.nonzero(rng.random((n, m)) < share)
    start = np.searchsorted(rows, np.arange(n + 1))
    return {"start": start.astype(np.int64), "index": index.astype(np.int32)}


def chosen(rng, n, m):
    return {
        "kernel": steps(rng, n, m),
        "u": steps(rng, n),
        "v": steps(rng, m),
        "row": matrix(rng, 1, n)[0] / 2,
        "col": matrix(rng, 1, m)[0] / 2,
    }


def selected(rng, n, m):
    given = chosen(rng, n, m)
    plan = given["u"][:, None] * given["kernel"] * given["v"]
    counts = (plan >= np.minimum(given["row"][:, None], given["col"])).sum(axis=1)
    start = np.concatenate([[0], counts.cumsum()]).astype(np.int64)
    return given | {"start": start, "index": buffer(start[-1], dtype=np.int32)}


def kept_kernel(rng, n, m):
    given = kept(rng, n, m)
    return given | {"kernel": matrix(rng, 1, len(given["index"]))[0]}


# Arguments of a kernel for an (n, m) problem, in their order, and which it writes to.
CASES = {
    "exp": (
        lambda n, m, rng: {
            "x": rng.uniform(-95, 88, n * m).astype(np.float32),
            "out": buffer(n * m),
        },
        ["out"],
    ),
    "log": (
        lambda n, m, rng: {
            "x": np.exp(rng.uniform(-100, 88, n * m)).astype(np.float32),
            "out": buffer(n * m),
        },
        ["out"],
    ),
    "logsumexp_rows": (
        lambda n, m, rng: {
            "cost": matrix(rng, n, m),
            **potentials(rng, n, m),
            "out": buffer(n, dtype=float),
        },
        ["out"],
    ),
    "logsumexp_cols": (
        lambda n, m, rng: {
            "cost": matrix(rng, n, m),
            **potentials(rng, n, m),
            "out": buffer(m, dtype=float),
        },
        ["out"],
    ),
    "gibbs_kernel": (
        lambda n, m, rng: {
            "cost": matrix(rng, n, m),
            **potentials(rng, n, m),
            "out": buffer(n, m),
        },
        ["out"],
    ),
    "proximal_cost": (
        lambda n, m, rng: {
            "cost": matrix(rng, n, m),
            "plan": matrix(rng, n, m) * (rng.random((n, m)) < 0.8),
            "weight": 0.3,
        },
        ["cost"],
    ),
    "sinkhorn_passes": (
        lambda n, m, rng: {
            "kernel": matrix(rng, n, m),
            "p": masses(rng, n),
            "q": masses(rng, m),
            **scalings(rng, n, m),
            **work(n, m),
        },
        ["u", "v", "work"],
    ),
    "sinkhorn_passes-relaxed": (
        lambda n, m, rng: CASES["sinkhorn_passes"][0](n, m, rng) | {"omega": 1.7},
        ["u", "v", "work"],
    ),
    "sinkhorn_passes-capped": (lambda n, m, rng: capped(rng, n, m), ["u", "v", "work"]),
    "sinkhorn_passes-many": (
        lambda n, m, rng: (
            CASES["sinkhorn_passes"][0](n, m, rng) | {"most": 3, "tol": -1.0}
        ),
        ["u", "v", "work"],
    ),
    "rescale_columns": (
        lambda n, m, rng: {
            "v": matrix(rng, 1, m)[0],
            "q": masses(rng, m),
            **work(n, m, rng.random(m)),
        },
        ["v"],
    ),
    "scale_to_plan": (
        lambda n, m, rng: {
            "kernel": matrix(rng, n, m),
            **scalings(rng, n, m),
            **sums(n, m),
            **work(n, m),
        },
        ["kernel", "row_sums", "col_sums", "work"],
    ),
    "marginals": (
        lambda n, m, rng: {"plan": matrix(rng, n, m), **sums(n, m), **work(n, m)},
        ["row_sums", "col_sums", "work"],
    ),
    "matmul": (
        lambda n, m, rng: {**factors(rng, n, m, "a", "b"), "out": buffer(n, m)},
        ["out"],
    ),
    "matmul-transposed": (
        lambda n, m, rng: (
            CASES["matmul"][0](n, m, rng)
            | {"b": Made("Panels", matrix=matrix(rng, m, WIDTH), transposed=True)}
        ),
        ["out"],
    ),
    "matmul-scaled": (
        lambda n, m, rng: (
            CASES["matmul"][0](n, m, rng)
            | {
                "b": Made(
                    "Panels",
                    matrix=matrix(rng, WIDTH, m),
                    scale=matrix(rng, 1, WIDTH)[0],
                )
            }
        ),
        ["out"],
    ),
    "matmul-dots": (
        lambda n, m, rng: {
            "a": matrix(rng, n, m),
            "b": Made("Panels", matrix=matrix(rng, m, WIDTH)),
            "out": buffer(n, WIDTH),
            "x": matrix(rng, 1, m)[0],
            "dots": buffer(n, dtype=float),
        },
        ["out", "dots"],
    ),
    "gibbs_product": (
        lambda n, m, rng: {
            **factors(rng, n, m, "a", "b"),
            **potentials(rng, n, m),
            "out": buffer(n, m),
            **work(n, m),
        },
        ["out", "work"],
    ),
    "gram": (
        lambda n, m, rng: {
            "x": matrix(rng, n, m),
            "y": matrix(rng, n, WIDTH),
            "out": buffer(m, WIDTH, dtype=float),
        },
        ["out"],
    ),
    "dot": (
        lambda n, m, rng: {"plan": matrix(rng, n, m), "cost": matrix(rng, n, m)},
        [],
    ),
    "distance": (
        lambda n, m, rng: {"a": matrix(rng, n, m), "b": matrix(rng, n, m)},
        [],
    ),
    "entropy": (
        lambda n, m, rng: {"plan": matrix(rng, n, m) * (rng.random((n, m)) < 0.8)},
        [],
    ),
    "copy_rows-product": (
        lambda n, m, rng: {
            "rows": Made("Product", **factors(rng, n, m)),
            "out": buffer(n, m),
        },
        ["out"],
    ),
    "copy_rows-gibbs": (
        lambda n, m, rng: {
            "rows": Made("Gibbs", **factors(rng, n, m), **potentials(rng, n, m)),
            "out": buffer(n, m),
        },
        ["out"],
    ),
    "topk_rows": (
        lambda n, m, rng: {
            "x": matrix(rng, n, m).round(1),
            "indices": buffer(n, min(TOP, m), dtype=np.intp),
            "values": buffer(n, min(TOP, m)),
        },
        ["indices", "values"],
    ),
    "sparse_count": (
        lambda n, m, rng: {
            **chosen(rng, n, m),
            "row_lost": buffer(n, dtype=float),
            "col_lost": buffer(m, dtype=float),
            "kept": buffer(n, dtype=np.intp),
            **work(n, m),
        },
        ["row_lost", "col_lost", "kept", "work"],
    ),
    "sparse_select": (lambda n, m, rng: selected(rng, n, m), ["index"]),
    "sparse_gibbs": (
        lambda n, m, rng: (
            (given := kept(rng, n, m))
            | {"x": matrix(rng, n, 48) / 8, "y": matrix(rng, m, 48) / 8}
            | potentials(rng, n, m)
            | {"out": buffer(len(given["index"]))}
        ),
        ["out"],
    ),
    "sparse_sinkhorn_passes": (
        lambda n, m, rng: {
            **kept_kernel(rng, n, m),
            "p": masses(rng, n),
            "q": masses(rng, m),
            **scalings(rng, n, m),
            **work(n, m),
        },
        ["u", "v", "work"],
    ),
    "sparse_sinkhorn_passes-many": (
        lambda n, m, rng: (
            CASES["sparse_sinkhorn_passes"][0](n, m, rng) | {"most": 3, "tol": -1.0}
        ),
        ["u", "v", "work"],
    ),
    "sparse_product": (
        lambda n, m, rng: {
            **kept_kernel(rng, n, m),
            "v": matrix(rng, 1, m)[0],
            "y": matrix(rng, m, 48),
            "out": buffer(n, 48),
            "sums": buffer(n, dtype=float),
        },
        ["out", "sums"],
    ),
}


@pytest.fixture(scope="module", autouse=True)
def _one_thread_for_blas():
    """As the kernels are called."""
    with single_threaded_blas():
        yield


@pytest.fixture(params=CASES)
def case(request):
    return request.param


def arguments(case, n, m, seed):
    return CASES[case][0](n, m, np.random.default_rng(seed))


def widened(given):
    """The same arguments for float64."""
    given = {
        name: x.astype(np.float64) if getattr(x, "dtype", None) == np.float32 else x
        for name, x in given.items()
    }
    for x in given.values():
        if isinstance(x, Made):
            x.given = widened(x.given)
            if x.kind == "ColumnSums":
                x.given["dtype"] = np.float64
    return given


def call(module, case, given, **more):
    """Outputs of a kernel, and what it returns."""
    given = build(module, given)
    returned = getattr(module, case.split("-")[0])(**given, **more)
    outputs = [getattr(given[name], "values", given[name]) for name in CASES[case][1]]
    return outputs + ([] if returned is None else [returned])


def run(module, case, given, **more):
    """The same for copies of the arguments; a twin writes to float64 buffers."""
    given = deepcopy(given)
    if module is reference:
        for name in CASES[case][1]:
            if getattr(given[name], "dtype", None) == np.float32:
                given[name] = given[name].astype(np.float64)
    return call(module, case, given, **more)


@lru_cache(maxsize=4)
def run_twin(case, n, m, seed, wide=False):
    """The same on all instruction sets."""
    given = arguments(case, n, m, seed)
    return run(reference, case, widened(given) if wide else given)


def assert_close(case, came, expected, tolerances=TOLERANCES):
    rtol, atol = tolerances[case]
    for left, right in zip(came, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=rtol, atol=atol)


def assert_same(came, expected):
    for left, right in zip(came, expected, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_kernel_agrees_with_its_twin(case, shape, isa, seed):
    given = arguments(case, *shape, seed)
    assert_close(case, run(COMPILED, case, given), run_twin(case, *shape, seed))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
@pytest.mark.parametrize("case", WIDE_TOLERANCES)
def test_kernel_of_float64_agrees_with_its_twin(case, shape, isa, seed):
    given = widened(arguments(case, *shape, seed))
    came, expected = run(COMPILED, case, given), run_twin(case, *shape, seed, wide=True)
    assert_close(case, came, expected, WIDE_TOLERANCES)


THREADED = [
    (case, wide)
    for wide, cases in ((False, CASES), (True, WIDE_TOLERANCES))
    for case in cases
    if case != "rescale_columns"
]


@pytest.mark.parametrize("shape", [(5, 3), (129, 65), (2049, 33), (4100, 7)])
@pytest.mark.parametrize("case, wide", THREADED)
def test_kernel_gives_the_same_bits_on_any_number_of_threads(case, wide, shape, isa):
    given = arguments(case, *shape, seed=1)
    given = widened(given) if wide else given
    alone = run(COMPILED, case, given, n_threads=1)
    for n_threads in (2, 3, 5):
        assert_same(run(COMPILED, case, given, n_threads=n_threads), alone)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", ["exp", "log", "gibbs_kernel"])
def test_kernel_in_place_gives_the_same_bits(name, wide, isa):
    given = arguments(name, 97, 129, seed=2)
    given = widened(given) if wide else given
    apart = run(COMPILED, name, given)
    source = "cost" if "cost" in given else "x"
    shared = given[source].copy()
    given |= {source: shared, "out": shared}
    returned = getattr(COMPILED, name)(**given, n_threads=2)
    np.testing.assert_array_equal(shared, apart[0])
    assert returned == (apart[1] if name == "gibbs_kernel" else None)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", ["exp", "log"])
def test_elementwise_kernel_does_not_care_where_an_entry_stands(name, wide, isa):
    given = arguments(name, 1, 1000, seed=3)
    given = widened(given) if wide else given
    (whole,) = run(COMPILED, name, given)
    for start in range(20):
        part = {"x": given["x"][start:], "out": given["out"][start:]}
        np.testing.assert_array_equal(run(COMPILED, name, part)[0], whole[start:])


# --- Products -------------------------------------------------------------------------


def guarded(n, m):
    """A matrix for results, and the buffer around it that nothing may be written to."""
    around = buffer(n * m + 64)
    return around[32:-32].reshape(n, m), around


# Both sides of a vector and of a panel (two vectors) on all instruction sets, and, for
# the inner side, of the rows of a panel that are summed at a time (192).
@pytest.mark.parametrize("m", [1, 3, 5, 8, 9, 15, 16, 17, 31, 32, 33, 48, 63, 65])
@pytest.mark.parametrize("k", [1, 7, 191, 192, 193, 400])
def test_products_of_any_inner_side_and_width(k, m, isa, seed):
    rng = np.random.default_rng(seed)
    b = rng.normal(size=(k, m)).astype(np.float32)
    scale = np.full(k, 1 / k, dtype=np.float32)
    panels = _rows.Panels(b, scale=scale)
    twin = reference.Panels(b, scale=scale)
    for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 137):
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


@pytest.mark.parametrize("n_threads", [2, 3, 5])
@pytest.mark.parametrize("transposed", [False, True])
def test_panels_are_the_same_on_any_number_of_threads(transposed, n_threads, isa):
    rng = np.random.default_rng(10)
    a, b = matrix(rng, 19, 31), matrix(rng, *((203, 31) if transposed else (31, 203)))
    scale = matrix(rng, 1, 31)[0]
    alone, together = buffer(19, 203), buffer(19, 203)
    _products.matmul(a, _rows.Panels(b, transposed, scale), alone)
    _products.matmul(a, _rows.Panels(b, transposed, scale, n_threads), together)
    np.testing.assert_array_equal(together, alone)


def test_gram_of_many_columns_agrees_with_its_twin(seed):
    """Where its partial products are so large that there are but four of them."""
    rng = np.random.default_rng(seed)
    given = {"x": matrix(rng, 101, 2100), "y": matrix(rng, 101, 2200)}
    given["out"] = buffer(2100, 2200, dtype=float)
    came = run(COMPILED, "gram", given, n_threads=2)
    assert_close("gram", came, run(reference, "gram", given))


def test_rescaled_columns_have_their_masses(isa, seed):
    rng = np.random.default_rng(seed)
    n, m = 129, 65
    given = arguments("gibbs_product", n, m, seed)
    kernel, _, _ = run(COMPILED, "gibbs_product", given)
    work, v, q = _rows.ColumnSums(n, m), buffer(m), masses(rng, m)
    given = build(COMPILED, given) | {"work": work}
    _products.gibbs_product(**given)
    _kernels.rescale_columns(v, q, work)
    np.testing.assert_allclose(kernel.sum(axis=0, dtype=float) * v, q, rtol=6e-7)


# --- Many passes ----------------------------------------------------------------------


@pytest.mark.parametrize("omega", [1.0, 1.7])
@pytest.mark.parametrize("shape", [(5, 3), (129, 65), (2049, 33)])
def test_many_passes_are_that_many_single_ones(shape, omega, isa):
    given = arguments("sinkhorn_passes", *shape, seed=11) | {"omega": omega}
    one = build(COMPILED, deepcopy(given))
    errors = []
    for most in range(1, 7):
        error, done = _kernels.sinkhorn_passes(**one)
        assert done == 1
        errors.append(error)
        came = run(COMPILED, "sinkhorn_passes", given, most=most, tol=-1.0, n_threads=2)
        assert_same(came, [one["u"], one["v"], one["work"].values, (error, most)])
    for tol in errors:
        *_, (error, done) = run(COMPILED, "sinkhorn_passes", given, most=9, tol=tol)
        first = next(i for i, x in enumerate(errors) if x <= tol)
        assert (error, done) == (errors[first], first + 1)


def test_no_pass_changes_nothing(isa):
    given = build(COMPILED, arguments("sinkhorn_passes", 9, 7, seed=12))
    u, v = given["u"].copy(), given["v"].copy()
    assert _kernels.sinkhorn_passes(**given, most=0) == (np.inf, 0)
    assert_same([given["u"], given["v"]], [u, v])


# --- Rows made when asked for ---------------------------------------------------------

# Kernels that take them, and the argument that may be such.
TAKERS = {
    "logsumexp_rows": "cost",
    "logsumexp_cols": "cost",
    "sinkhorn_passes": "kernel",
    "sinkhorn_passes-many": "kernel",
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


@pytest.mark.parametrize("kind", ["Product", "Gibbs"])
@pytest.mark.parametrize("case", TAKERS)
def test_made_rows_give_the_same_bits_as_stored_ones(case, kind, isa):
    for n, m in [
        (1, 1),
        (3, 2),
        (17, 15),
        (65, 63),
        (129, 257),
        (4100, 17),
        (9, 17001),
    ]:
        given = arguments(case, n, m, seed=13)
        made = made_rows(kind, *given[TAKERS[case]].shape, seed=14)
        given[TAKERS[case]] = stored(made.build(COMPILED))
        expected = run(COMPILED, case, given)
        given[TAKERS[case]] = made
        assert_same(run(COMPILED, case, given, n_threads=3), expected)


def keep(rows, n_threads=1):
    """Which entries of a kernel are kept, as they are counted and then selected."""
    n, m = rows.shape if isinstance(rows, np.ndarray) else (rows.n, rows.m)
    rng = np.random.default_rng(17)
    sides = [matrix(rng, 1, size)[0] for size in (n, m, n, m)]
    lost, counts = (np.empty(n), np.empty(m)), np.empty(n, dtype=np.intp)
    work = _rows.ColumnSums(n, m)
    _sparse.count(rows, *sides, *lost, counts, work, n_threads)
    start = np.concatenate([[0], counts.cumsum()]).astype(np.int64)
    index = np.full(start[-1], -1, dtype=np.int32)
    _sparse.select(rows, *sides, start, index, n_threads)
    return [lost[0], start, index], lost[1]


@pytest.mark.parametrize("kind", ["Product", "Gibbs"])
@pytest.mark.parametrize("n, m", [(1, 1), (17, 15), (129, 257), (4100, 17), (9, 17001)])
def test_made_rows_keep_the_entries_of_stored_ones(n, m, kind, isa):
    rows = made_rows(kind, n, m, seed=18).build(COMPILED)
    came, col_lost = keep(rows, n_threads=3)
    expected, expected_col_lost = keep(stored(rows))
    assert_same(came, expected)
    np.testing.assert_allclose(col_lost, expected_col_lost, rtol=1e-6)
    start, index = came[1:]
    assert m == 1 or 0 < len(index) < n * m
    within = np.ones(len(index), dtype=bool)  # a column above the one before, in a row
    within[start[:-1][np.diff(start) > 0]] = False
    assert (np.diff(index, prepend=0)[within] > 0).all()


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
    panels = _rows.Panels(b, transposed=True)
    _products.matmul(rows, panels, out, b[0], dots, n_threads)
    top = np.empty((n, 2), dtype=np.intp), buffer(n, 2)
    _kernels.topk_rows(rows, *top, n_threads)
    p, q, u, v = masses(rng, n), masses(rng, m), buffer(n), buffer(m)
    work = _rows.ColumnSums(n, m)
    error, _ = _kernels.sinkhorn_passes(rows, p, q, u, v, work, n_threads=n_threads)
    kept, col_lost = keep(rows, n_threads)
    same = [by_row, by_col, out, dots, *top, u, *kept]
    return same, [v, error, col_lost, _kernels.entropy(rows, n_threads)]


@pytest.mark.parametrize("kind", ["Product", "Gibbs"])
def test_rows_made_in_several_strips_give_what_stored_ones_give(kind, isa):
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


# --- Refusals -------------------------------------------------------------------------


def leaves(given, *path):
    """Arrays among arguments, and among those of what is made, each by its path."""
    for name, x in given.items():
        if isinstance(x, np.ndarray):
            yield (*path, name), x
        elif isinstance(x, Made):
            yield from leaves(x.given, *path, name)


def replace(given, path, change):
    for name in path[:-1]:
        given = given[name].given
    given[path[-1]] = change(given[path[-1]])


def test_kernel_takes_read_only_inputs(case):
    given = arguments(case, 9, 7, seed=4)
    expected = run(COMPILED, case, given)
    for path, x in leaves(given):
        if path[0] not in CASES[case][1]:
            x.flags.writeable = False
    assert_same(call(COMPILED, case, given), expected)


def other_dtype(x):
    return x.astype({"f4": "f8", "f8": "f4", "i8": "f8", "i4": "f8"}[x.dtype.str[1:]])


def other_order(x):
    return np.asfortranarray(x) if x.ndim == 2 else np.repeat(x, 2)[::2]


def row_missing(x):
    return x[:-1].copy()


def column_missing(x):
    return np.ascontiguousarray(x[:, :-1])


def other_ndim(x):
    return x[None]


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


# What can be told from nothing else: the only matrix of a kernel, its type or its free
# side.
FREE = {
    (other_dtype, "entropy", ("plan",)),
    (other_dtype, "logsumexp_rows", ("cost",)),
    (other_dtype, "logsumexp_cols", ("cost",)),
    (other_dtype, "rescale_columns", ("v",)),
    (row_missing, "entropy", ("plan",)),
    (column_missing, "entropy", ("plan",)),
    (column_missing, "topk_rows", ("x",)),
}
SPOILED = [
    pytest.param(spoil, case, path, id="-".join([case, *path, spoil.__name__]))
    for case, (make, outputs) in CASES.items()
    for path, x in leaves(make(6, 7, np.random.default_rng(0)))
    for spoil in (
        other_dtype,
        other_order,
        row_missing,
        *([column_missing] if x.ndim == 2 else []),
        other_ndim,
        *([read_only] if path[0] in outputs else []),
    )
    if (spoil, case, path) not in FREE
]


@pytest.mark.parametrize("spoil, case, path", SPOILED)
def test_kernel_refuses_what_it_cannot_take_and_writes_nothing(spoil, case, path):
    given = arguments(case, 6, 7, seed=5)
    replace(given, path, spoil)
    outputs = [given[x] for x in CASES[case][1] if isinstance(given[x], np.ndarray)]
    before = deepcopy(outputs)
    with pytest.raises((ValueError, TypeError)):
        call(COMPILED, case, given)
    assert_same(outputs, before)


@pytest.mark.parametrize("case", [x for x in CASES if "work" in arguments(x, 6, 7, 0)])
@pytest.mark.parametrize("size", [None, (7, 6), (5, 7), (6, 8)])
def test_kernel_refuses_scratch_of_another_size(case, size):
    if case == "rescale_columns" and size == (5, 7):
        size = (5, 6)  # it does not care for rows
    given = arguments(case, 6, 7, seed=6)
    given["work"] = None if size is None else _rows.ColumnSums(*size)
    with pytest.raises((ValueError, TypeError), match=r"work|^[vq] must"):
        call(COMPILED, case, given)


@pytest.mark.parametrize("case, name", [("matmul", "b"), ("copy_rows-product", "rows")])
def test_kernel_refuses_an_array_for_what_must_be_made(case, name):
    given = arguments(case, 6, 7, seed=7)
    given[name] = matrix(np.random.default_rng(0), WIDTH if name == "b" else 6, 7)
    with pytest.raises(TypeError):
        call(COMPILED, case, given)


@pytest.mark.parametrize(
    "case", [x for x in WIDE_TOLERANCES if "work" in arguments(x, 6, 7, 0)]
)
@pytest.mark.parametrize("wide", [False, True])
def test_kernel_refuses_scratch_for_the_other_type(case, wide):
    if case == "rescale_columns":
        pytest.skip("it needs the sums alone, which are float64")
    given = arguments(case, 6, 7, seed=9)
    given = widened(given) if wide else given
    given["work"] = _rows.ColumnSums(6, 7, np.float32 if wide else np.float64)
    expected, other = ("float64", "float32") if wide else ("float32", "float64")
    with pytest.raises(ValueError, match=f"work must be for {expected}, got {other}"):
        call(COMPILED, case, given)


@pytest.mark.parametrize("wide", [False, True])
def test_products_refuse_factors_of_two_types(wide):
    types = (np.float32, np.float64)[:: -1 if wide else 1]
    a, b = np.ones((6, 5), dtype=types[0]), np.ones((5, 7), dtype=types[1])
    with pytest.raises(ValueError, match=r"panels must be of float\d\d, got float\d\d"):
        _products.matmul(a, _rows.Panels(b), np.empty((6, 7), dtype=types[1]))
    with pytest.raises(ValueError, match="float"):
        _products.matmul(a, _rows.Panels(b), np.empty((6, 7), dtype=types[0]))


def test_rows_made_when_asked_for_refuse_float64():
    panels = _rows.Panels(np.ones((5, 7)))
    with pytest.raises(ValueError, match="panels must be of float32, got float64"):
        _rows.Product(np.ones((6, 5), dtype=np.float32), panels)
    given = arguments("sparse_count", 6, 7, seed=9)
    given["kernel"] = given["kernel"].astype(np.float64)
    with pytest.raises(ValueError, match="must be of float32"):
        call(COMPILED, "sparse_count", given)


@pytest.mark.parametrize("dtype", [np.float16, np.int64, np.longdouble, ">f8"])
def test_scratch_is_for_float32_or_float64(dtype):
    with pytest.raises(ValueError, match="dtype must be float32 or float64"):
        _rows.ColumnSums(3, 4, dtype)


@pytest.mark.parametrize("dtype", [np.float16, np.int64, np.longdouble, ">f8", ">f4"])
def test_kernel_refuses_other_types_of_numbers(dtype):
    x = np.ones((3, 4), dtype=dtype)
    with pytest.raises(ValueError):
        _kernels.entropy(x)
    with pytest.raises(ValueError):
        _kernels.dot(x, x)
    with pytest.raises(ValueError):
        _rows.Panels(x)


def test_over_relaxation_and_a_cap_are_not_taken_together():
    given = arguments("sinkhorn_passes-capped", 6, 7, seed=9) | {"omega": 1.5}
    with pytest.raises(ValueError, match=r"omega must be 1 with a cap, got 1\.5"):
        call(COMPILED, "sinkhorn_passes", given)


def test_kernel_refusal_names_the_argument_and_both_shapes():
    given = arguments("gibbs_kernel", 6, 7, seed=8)
    given["out"] = buffer(6, 8)
    with pytest.raises(ValueError, match=r"out must .* \(6, 7\), got \(6, 8\)"):
        call(COMPILED, "gibbs_kernel", given)
