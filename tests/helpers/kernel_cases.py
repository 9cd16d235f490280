"""Arguments of every compiled kernel, and runs of it and of its float64 twin."""

from copy import deepcopy
from types import SimpleNamespace

import numpy as np
from helpers.problems import masses

from gwfast.kernels import (
    _exponentials,
    _kernels,
    _products,
    _rows,
    _sparse,
    reference,
)

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
    "absorb": (
        lambda n, m, rng: {
            "f": rng.normal(size=n),
            "u": scalings(rng, n, m)["u"],
            "epsilon": EPSILON,
            "out": buffer(n, dtype=float),
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
            "p": masses(n, rng),
            "q": masses(m, rng),
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
    "normal_product": (
        lambda n, m, rng: {
            "kernel": matrix(rng, n, m),
            "weights": masses(n, rng),
            "x": matrix(rng, 1, m)[0],
            "row_sums": buffer(n, dtype=float),
            **work(n, m),
        },
        ["row_sums", "work"],
    ),
    "rescale_columns": (
        lambda n, m, rng: {
            "v": matrix(rng, 1, m)[0],
            "q": masses(m, rng),
            **work(n, m, rng.random(m)),
        },
        ["v"],
    ),
    "rescale_columns-relaxed": (
        lambda n, m, rng: CASES["rescale_columns"][0](n, m, rng) | {"omega": 1.7},
        ["v"],
    ),
    "drift": (
        lambda n, m, rng: {
            **scalings(rng, n, m),
            "p": masses(n, rng),
            "q": masses(m, rng),
        },
        [],
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
    "matmul-plus": (
        lambda n, m, rng: CASES["matmul"][0](n, m, rng) | {"plus": matrix(rng, n, m)},
        ["out"],
    ),
    "matmul_few": (
        lambda n, m, rng: {
            "a": matrix(rng, n, WIDTH),
            "b": matrix(rng, WIDTH, m),
            "out": buffer(n, m),
        },
        ["out"],
    ),
    "matmul_few-transposed": (
        lambda n, m, rng: (
            CASES["matmul_few"][0](n, m, rng)
            | {"b": matrix(rng, m, WIDTH), "transposed": True}
        ),
        ["out"],
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
    "deviation": (
        lambda n, m, rng: {"sums": masses(n, rng), "masses": masses(n, rng)},
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
            "p": masses(n, rng),
            "q": masses(m, rng),
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
    "sparse_normal_product": (
        lambda n, m, rng: {
            **kept_kernel(rng, n, m),
            "weights": masses(n, rng),
            "x": matrix(rng, 1, m)[0],
            "row_sums": buffer(n, dtype=float),
            **work(n, m),
        },
        ["row_sums", "work"],
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


def assert_same(came, expected):
    for left, right in zip(came, expected, strict=True):
        np.testing.assert_array_equal(left, right)
