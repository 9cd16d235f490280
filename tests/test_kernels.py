"""Every compiled kernel does what its float64 twin says, on every instruction set, at
awkward sizes, with any number of threads; and refuses what it cannot take."""

import numpy as np
import pytest

from gwfast.kernels import _kernels, reference

EPSILON, WIDTH, TOP = 0.1, 5, 3

# Both sides of vector widths (4, 8, 16), of the rows a kernel takes at once (4), of the
# chunks (32, of a multiple of 4 rows), of the rows summed in float32 (64 of a chunk, so
# 2048), of the columns summed in float32 (256 to 1024) and of one BLAS call (128 rows).
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
    "sinkhorn_pass": (6e-7, 0),
    "sinkhorn_pass-relaxed": (5e-6, 0),
    "scale_to_plan": (6e-7, 0),
    "marginals": (6e-7, 0),
    "matmul": (5e-7, 0),
    "matmul-transposed": (5e-7, 0),
    "contract": (1e-6, 0),
    "dot": (5e-7, 0),
    "entropy": (5e-7, 0),
    "topk_rows": (0, 0),
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


def sums(n, m):
    return {
        "row_sums": buffer(n, dtype=float),
        "col_sums": buffer(m, dtype=float),
        "work": _kernels.ColumnSums(n, m),
    }


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
    "sinkhorn_pass": (
        lambda n, m, rng: {
            "kernel": matrix(rng, n, m),
            "p": masses(rng, n),
            "q": masses(rng, m),
            **scalings(rng, n, m),
            "work": _kernels.ColumnSums(n, m),
        },
        ["u", "v"],
    ),
    "sinkhorn_pass-relaxed": (
        lambda n, m, rng: CASES["sinkhorn_pass"][0](n, m, rng) | {"omega": 1.7},
        ["u", "v"],
    ),
    "scale_to_plan": (
        lambda n, m, rng: {
            "kernel": matrix(rng, n, m),
            **scalings(rng, n, m),
            **sums(n, m),
        },
        ["kernel", "row_sums", "col_sums"],
    ),
    "marginals": (
        lambda n, m, rng: {"plan": matrix(rng, n, m), **sums(n, m)},
        ["row_sums", "col_sums"],
    ),
    "matmul": (
        lambda n, m, rng: {
            "a": matrix(rng, n, WIDTH),
            "b": matrix(rng, WIDTH, m),
            "out": buffer(n, m),
        },
        ["out"],
    ),
    "matmul-transposed": (
        lambda n, m, rng: {
            "a": matrix(rng, n, WIDTH),
            "b": matrix(rng, m, WIDTH),
            "out": buffer(n, m),
            "transposed": True,
        },
        ["out"],
    ),
    "contract": (
        lambda n, m, rng: {
            "x": matrix(rng, n, WIDTH),
            "plan": matrix(rng, n, m),
            "y": matrix(rng, m, 2),
            "out": buffer(WIDTH, 2, dtype=float),
        },
        ["out"],
    ),
    "dot": (
        lambda n, m, rng: {"plan": matrix(rng, n, m), "cost": matrix(rng, n, m)},
        [],
    ),
    "entropy": (
        lambda n, m, rng: {"plan": matrix(rng, n, m) * (rng.random((n, m)) < 0.8)},
        [],
    ),
    "topk_rows": (
        lambda n, m, rng: {
            "x": matrix(rng, n, m).round(1),
            "indices": buffer(n, min(TOP, m), dtype=np.intp),
            "values": buffer(n, min(TOP, m)),
        },
        ["indices", "values"],
    ),
}


@pytest.fixture(params=CASES)
def case(request):
    return request.param


def arguments(case, n, m, seed):
    return CASES[case][0](n, m, np.random.default_rng(seed))


def run(module, case, given, **more):
    """Outputs of a kernel, and what it returns, for copies of the arguments; its twin
    writes to float64 buffers."""
    given = {
        name: x.copy() if isinstance(x, np.ndarray) else x for name, x in given.items()
    }
    outputs = CASES[case][1]
    if module is reference:
        for name in outputs:
            if given[name].dtype == np.float32:
                given[name] = given[name].astype(np.float64)
    returned = getattr(module, case.split("-")[0])(**given, **more)
    return [given[name] for name in outputs] + ([] if returned is None else [returned])


def assert_close(case, came, expected):
    rtol, atol = TOLERANCES[case]
    for left, right in zip(came, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=rtol, atol=atol)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_kernel_agrees_with_its_twin(case, shape, isa, seed):
    given = arguments(case, *shape, seed)
    assert_close(case, run(_kernels, case, given), run(reference, case, given))


@pytest.mark.parametrize("shape", [(5, 3), (129, 65), (2049, 33), (4100, 7)])
def test_kernel_gives_the_same_bits_on_any_number_of_threads(case, shape, isa):
    given = arguments(case, *shape, seed=1)
    alone = run(_kernels, case, given, n_threads=1)
    for n_threads in (2, 3, 5):
        together = run(_kernels, case, given, n_threads=n_threads)
        for left, right in zip(alone, together, strict=True):
            np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("name", ["exp", "log", "gibbs_kernel"])
def test_kernel_in_place_gives_the_same_bits(name, isa):
    given = arguments(name, 97, 129, seed=2)
    apart = run(_kernels, name, given)
    source = "cost" if "cost" in given else "x"
    shared = given[source].copy()
    given |= {source: shared, "out": shared}
    returned = getattr(_kernels, name)(**given, n_threads=2)
    np.testing.assert_array_equal(shared, apart[0])
    assert returned == (apart[1] if name == "gibbs_kernel" else None)


@pytest.mark.parametrize("name", ["exp", "log"])
def test_elementwise_kernel_does_not_care_where_an_entry_stands(name, isa):
    given = arguments(name, 1, 1000, seed=3)
    (whole,) = run(_kernels, name, given)
    for start in range(20):
        part = {"x": given["x"][start:], "out": given["out"][start:]}
        np.testing.assert_array_equal(run(_kernels, name, part)[0], whole[start:])


def test_kernel_takes_read_only_inputs(case):
    given = arguments(case, 9, 7, seed=4)
    expected = run(_kernels, case, given)
    outputs = CASES[case][1]
    frozen = {
        name: x.copy() if isinstance(x, np.ndarray) else x for name, x in given.items()
    }
    for name, x in frozen.items():
        if isinstance(x, np.ndarray) and name not in outputs:
            x.flags.writeable = False
    returned = getattr(_kernels, case.split("-")[0])(**frozen)
    came = [frozen[name] for name in outputs] + ([] if returned is None else [returned])
    for left, right in zip(came, expected, strict=True):
        np.testing.assert_array_equal(left, right)


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


# What can be told from nothing else: the only matrix of a kernel, or its free side.
FREE = {
    (row_missing, "entropy", "plan"),
    (column_missing, "entropy", "plan"),
    (column_missing, "topk_rows", "x"),
}
SPOILED = [
    pytest.param(spoil, case, name, id=f"{case}-{name}-{spoil.__name__}")
    for case, (make, outputs) in CASES.items()
    for name, x in make(6, 7, np.random.default_rng(0)).items()
    if isinstance(x, np.ndarray)
    for spoil in (
        other_dtype,
        other_order,
        row_missing,
        *([column_missing] if x.ndim == 2 else []),
        other_ndim,
        *([read_only] if name in outputs else []),
    )
    if (spoil, case, name) not in FREE
]


@pytest.mark.parametrize("spoil, case, name", SPOILED)
def test_kernel_refuses_what_it_cannot_take_and_writes_nothing(spoil, case, name):
    given = arguments(case, 6, 7, seed=5)
    given[name] = spoil(given[name])
    before = {output: given[output].copy() for output in CASES[case][1]}
    with pytest.raises((ValueError, TypeError)):
        getattr(_kernels, case.split("-")[0])(**given)
    for output, x in before.items():
        np.testing.assert_array_equal(given[output], x)


@pytest.mark.parametrize("name", ["sinkhorn_pass", "scale_to_plan", "marginals"])
@pytest.mark.parametrize("size", [None, (7, 6), (5, 7), (6, 8)])
def test_kernel_refuses_scratch_of_another_size(name, size):
    given = arguments(name, 6, 7, seed=6)
    given["work"] = None if size is None else _kernels.ColumnSums(*size)
    with pytest.raises((ValueError, TypeError), match="work"):
        getattr(_kernels, name)(**given)


def test_kernel_refusal_names_the_argument_and_both_shapes():
    given = arguments("gibbs_kernel", 6, 7, seed=7)
    given["out"] = buffer(6, 8)
    with pytest.raises(ValueError, match=r"out must .* \(6, 7\), got \(6, 8\)"):
        _kernels.gibbs_kernel(**given)
