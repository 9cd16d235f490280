"""Every compiled kernel: its arguments, what it writes to, how far it may be from its
float64 twin, and runs of both."""

from copy import copy, deepcopy
from inspect import signature
from types import SimpleNamespace

import numpy as np
from helpers.problems import masses

from gwfast.kernels import _costs, _exponentials, _kernels, _products, _rows, _sparse, reference

COMPILED = SimpleNamespace(
    **{
        name: kernel
        for module in (_rows, _costs, _exponentials, _kernels, _products)
        for name, kernel in vars(module).items()
    },
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
    return {name: x.build(module) if isinstance(x, Made) else x for name, x in given.items()}


def matrix(rng, n, m):
    return rng.random((n, m), dtype=np.float32)


def buffer(*shape, dtype=np.float32):
    return np.full(shape, 7, dtype=dtype)


def potentials(rng, n, m):
    return {"f": rng.normal(size=n), "g": rng.normal(size=m), "epsilon": EPSILON}


def factors(rng, n, m):
    """Of rows that are products."""
    return {"left": matrix(rng, n, WIDTH), "right": Made("Panels", matrix=matrix(rng, WIDTH, m))}


# --- Makers of arguments, given a generator of random numbers and both sides ----------


make = SimpleNamespace(
    with_zeros=lambda rng, n, m: matrix(rng, n, m) * (rng.random((n, m)) < 0.8),
    rows=lambda rng, n, m: matrix(rng, 1, n)[0],
    columns=lambda rng, n, m: matrix(rng, 1, m)[0],
    left=lambda rng, n, m: matrix(rng, n, WIDTH),
    right=lambda rng, n, m: matrix(rng, WIDTH, m),
    transposed=lambda rng, n, m: matrix(rng, m, WIDTH),
    panels=lambda rng, n, m: Made("Panels", matrix=matrix(rng, WIDTH, m)),
    masses=lambda rng, n, m: masses(n, rng),
    out=lambda rng, n, m: buffer(n, m),
    for_rows=lambda rng, n, m: buffer(n, dtype=float),
    for_columns=lambda rng, n, m: buffer(m, dtype=float),
    column_sums=lambda rng, n, m: Made("ColumnSums", n=n, m=m),
)
# By name; kernels of which an argument is something else say so in `CASES`.
ARGUMENTS = {
    **dict.fromkeys(("cost", "kernel", "plan", "a", "b"), matrix),
    "u": make.rows,
    **dict.fromkeys(("v", "x"), make.columns),
    **dict.fromkeys(("p", "weights", "sums", "masses"), make.masses),
    "q": lambda rng, n, m: masses(m, rng),
    "f": lambda rng, n, m: rng.normal(size=n),
    "g": lambda rng, n, m: rng.normal(size=m),
    "epsilon": EPSILON,
    "out": make.out,
    **dict.fromkeys(("row_sums", "row_lost"), make.for_rows),
    **dict.fromkeys(("col_sums", "col_lost"), make.for_columns),
    "work": make.column_sums,
}


class Case:
    """Arguments that are not those of `ARGUMENTS`: one by one, or several made together
    by a function. Tolerances are the largest relative and the largest absolute error,
    `wide` of a kernel that takes float64; `summed`: of sums over strips of a row."""

    def __init__(self, writes, narrow, wide=None, *, summed=False, together=None, **own):
        self.writes, self.narrow, self.wide = writes.split(), narrow, wide
        self.summed, self.together, self.own = summed, together, own

    def but(self, narrow=None, wide=None, **own):
        """A case that differs from this one in a few arguments or tolerances."""
        made = copy(self)
        made.narrow, made.wide = narrow or self.narrow, wide or self.wide
        made.own = self.own | own
        return made

    def arguments(self, kernel, n, m, rng):
        given = self.together(rng, n, m) if self.together else {}
        makers = {
            name: ARGUMENTS[name]
            for name, argument in signature(kernel).parameters.items()
            if argument.default is argument.empty and name in ARGUMENTS
        } | self.own
        for name, one in makers.items():
            if name not in given:
                given[name] = one(rng, n, m) if callable(one) else one
        return given


def steps(rng, *shape):
    """Numbers whose products float32 knows exactly."""
    return rng.integers(0, 64, shape).astype(np.float32) / 64


def kept(rng, n, m):
    """Entries in compressed sparse rows, in some rows none."""
    share = rng.choice([0.0, 0.02, 0.3, 1.0], (n, 1))
    row, index = np.nonzero(rng.random((n, m)) < share)
    start = np.searchsorted(row, np.arange(n + 1))
    return {"start": start.astype(np.int64), "index": index.astype(np.int32)}


def sampled(rng, n, m):
    """Rows to draw from, some of them without mass, some of one entry."""
    kernel = steps(rng, n, m) * (rng.random((n, m)) < rng.choice([0.0, 0.1, 1.0], n)[:, None])
    return {"kernel": kernel, "v": steps(rng, m), "offset": rng.random(n)}


def selected(rng, n, m):
    """Make plans, and bounds that select some entries of a row, all, or none."""
    given = {"kernel": steps(rng, n, m), "u": steps(rng, n), "v": steps(rng, m)}
    row = rng.choice([0.0, 0.5, 9e9], n).astype(np.float32)
    sides = {"row": row, "col": rng.choice([0.3, 9e9], m).astype(np.float32)}
    return given | sides | {"start": buffer(n + 1, dtype=np.int64)}


def counted(given):
    """Count the entries, so that their columns can be asked for."""
    reference.sparse_select(**given)
    return given | {"index": buffer(given["start"][-1], dtype=np.int32)}


def kept_kernel(rng, n, m):
    given = kept(rng, n, m)
    return given | {"kernel": matrix(rng, 1, len(given["index"]))[0]}


def kept_gibbs(rng, n, m):
    given = kept(rng, n, m)
    sides = {"x": matrix(rng, n, 48) / 8, "y": matrix(rng, m, 48) / 8}
    return given | sides | {"out": buffer(len(given["index"]))}


def kept_cost(rng, n, m):
    given = kept(rng, n, m)
    return given | {"cost": matrix(rng, 1, len(given["index"]))[0], "epsilon": 0.05}


def ruled(name):
    """Passes under a marginal rule: caps that some scalings reach, or damped sides."""

    def arguments(rng, n, m):
        most = (2 / (n * m)) ** 0.5  # as large as scalings would be if all were equal
        v = make.columns(rng, n, m) * np.float32(2 * most)
        rows, columns = (np.full(size, float(np.float32(most))) for size in (n, m))
        kind = dict(mass=0.5) if name == "capped" else DAMPED
        rule = Made("Rule", rows=rows, columns=columns, **kind)
        return {"v": v, "rule": rule, "most": 3, "tol": -1.0}

    return arguments


DAMPED = dict(row_power=0.75, column_power=0.5, rate=2.0)


def square(rng, n, m):
    """A matrix that is nearly symmetric."""
    made = matrix(rng, min(n, m), min(n, m))
    return made + made.T + matrix(rng, *made.shape) / 64


# Exponents of the log domain reach 90 here, which float32 knows to 1e-5 and float64 to
# 1e-14; sums of n terms are off by a few roundings (and BLAS's, in a twin, by more).
GIBBS = (1.5e-5, 1.2e-38)
PASSES = Case("u v work", (6e-7, 0), (4e-15, 0))
RESCALED = Case(
    "v", (6e-7, 0), (1e-15, 0), work=lambda rng, n, m: Made("ColumnSums", rng.random(m), n=n, m=m)
)
MATMUL = Case("out", (5e-7, 0), (2e-15, 0), a=make.left, b=make.panels)
FEW = MATMUL.but(b=make.right)
MOMENTS = Case(
    "first second out",
    (1e-7, 0),
    (1e-14, 0),
    matrix=matrix,
    shift=-0.3,
    factor=1.7,
    p=lambda rng, n, m: masses(m, rng),
    first=make.for_rows,
    second=make.for_rows,
    out=make.out,
)
SPARSE_PASSES = Case("u v work", (1e-6, 0), summed=True, together=kept_kernel)
MANY = dict(most=3, tol=-1.0)
RELAXED = dict(narrow=(5e-6, 0), wide=(2e-14, 0), omega=1.7)

CASES = {
    "absorb": Case("out", (0, 1e-14), (4e-16, 1e-16), out=make.for_rows),
    "logsumexp_rows": Case("out", (0, 1e-5), (2e-15, 2e-15), summed=True, out=make.for_rows),
    "logsumexp_cols": Case("out", (0, 1e-5), (2e-15, 2e-15), out=make.for_columns),
    "gibbs_kernel": Case("out", GIBBS, (4e-14, 3e-308)),
    "proximal_cost": Case("cost", (2e-7, 2e-7), (1e-15, 1e-15), plan=make.with_zeros, weight=0.3),
    "sinkhorn_passes": PASSES,
    "sinkhorn_passes-relaxed": PASSES.but(**RELAXED),
    "sinkhorn_passes-capped": Case(
        "u v work", (6e-7, 1e-7), (4e-15, 1e-15), together=ruled("capped")
    ),
    "sinkhorn_passes-damped": Case(
        "u v work", (2e-6, 5e-7), (4e-14, 1e-14), together=ruled("damped")
    ),
    "sinkhorn_passes-many": PASSES.but((6e-7, 1e-7), (4e-15, 1e-15), **MANY),
    "normal_product": Case("row_sums work", (6e-7, 0), (4e-15, 0)),
    "rescale_columns": RESCALED,
    "rescale_columns-relaxed": RESCALED.but(**RELAXED),
    "drift": Case("", (1e-15, 0), (1e-15, 0)),
    "scale_to_plan": Case("kernel row_sums col_sums work", (6e-7, 0), (2e-15, 0), summed=True),
    "marginals": Case("row_sums col_sums work", (6e-7, 0), (2e-15, 0), summed=True),
    "matmul": MATMUL,
    "matmul-transposed": MATMUL.but(
        b=lambda *of: Made("Panels", matrix=make.transposed(*of), transposed=True)
    ),
    "matmul-scaled": MATMUL.but(
        b=lambda rng, n, m: Made(
            "Panels", matrix=make.right(rng, n, m), scale=matrix(rng, 1, WIDTH)[0]
        )
    ),
    "matmul-dots": Case(
        "out dots",
        (2e-6, 0),
        (4e-15, 0),
        b=lambda *of: Made("Panels", matrix=make.transposed(*of)),
        out=lambda rng, n, m: buffer(n, WIDTH),
        x=make.columns,
        dots=make.for_rows,
    ),
    "matmul-plus": MATMUL.but(plus=matrix),
    "matmul_few": FEW,
    "matmul_few-transposed": FEW.but(b=make.transposed, transposed=True),
    "gibbs_product": Case("out work", GIBBS, a=make.left, b=make.panels),
    "gram": Case(
        "out", (1e-6, 0), x=matrix, y=make.left, out=lambda rng, n, m: buffer(m, WIDTH, dtype=float)
    ),
    "dot": Case("", (5e-7, 0), (2e-15, 0), summed=True),
    "distance": Case("", (5e-7, 0), (2e-15, 0), summed=True),
    "moments": MOMENTS,
    "moments-halves": MOMENTS.but(matrix=lambda *of: matrix(*of).astype(np.float16)),
    "moments-alone": Case("first second", (1e-14, 0), (1e-14, 0), **{**MOMENTS.own, "out": None}),
    "survey": Case("", (5e-7, 0), (2e-15, 0), b=lambda rng, n, m: matrix(rng, m, n)),
    "survey-square": Case("", (5e-7, 0), (2e-15, 0), a=square),
    "extent": Case("", (1e-14, 0), (1e-14, 0), x=make.masses),
    "mass_entropy": Case("", (1e-13, 0), (1e-13, 0)),
    "kept": Case("", (1e-13, 1e-16), (1e-13, 1e-16)),
    "entropy": Case("", (5e-7, 0), (2e-15, 0), summed=True, plan=make.with_zeros),
    "copy_rows-product": Case("out", (5e-7, 0), rows=lambda *of: Made("Product", **factors(*of))),
    "copy_rows-gibbs": Case(
        "out", GIBBS, rows=lambda *of: Made("Gibbs", **factors(*of), **potentials(*of))
    ),
    "topk_rows": Case(
        "indices values",
        (0, 0),
        (0, 0),
        x=lambda *of: matrix(*of).round(1),
        indices=lambda rng, n, m: buffer(n, min(TOP, m), dtype=np.intp),
        values=lambda rng, n, m: buffer(n, min(TOP, m)),
    ),
    "sparse_sample": Case(
        "index times step",
        (0, 0),
        together=sampled,
        index=lambda rng, n, m: buffer(n, 9, dtype=np.int32),
        times=lambda rng, n, m: buffer(n, 9, dtype=np.int32),
        step=lambda rng, n, m: buffer(n, dtype=np.float64),
    ),
    "sparse_select": Case("start", (0, 0), together=selected),
    "sparse_select-columns": Case(
        "start index", (0, 0), together=lambda *of: counted(selected(*of))
    ),
    "sparse_cost": Case("out", (0, 1e-6), together=kept_gibbs),
    "sparse_gibbs": Case("out", GIBBS, together=kept_gibbs),
    "sparse_logsumexp_rows": Case("lse", (0, 1e-5), together=kept_cost, lse=make.for_rows),
    "sparse_logsumexp_cols": Case("lse", (0, 1e-5), together=kept_cost, lse=make.for_columns),
    "sparse_sinkhorn_passes": SPARSE_PASSES,
    "sparse_sinkhorn_passes-many": SPARSE_PASSES.but((1e-6, 4e-7), **MANY),
    "sparse_sinkhorn_passes-capped": Case(
        "u v work",
        (1e-6, 4e-7),
        summed=True,
        together=lambda *of: kept_kernel(*of) | ruled("capped")(*of),
    ),
    "sparse_normal_product": Case("row_sums work", (1e-6, 0), together=kept_kernel),
    "sparse_product": Case(
        "out sums",
        (2e-6, 0),
        together=kept_kernel,
        y=lambda rng, n, m: matrix(rng, m, 48),
        out=lambda rng, n, m: buffer(n, 48),
        sums=make.for_rows,
    ),
}


def kernel_of(module, case):
    return getattr(module, case.split("-")[0])


def arguments(case, n, m, seed):
    rng = np.random.default_rng(seed)
    return CASES[case].arguments(kernel_of(reference, case), n, m, rng)


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
    returned = kernel_of(module, case)(**given, **more)
    outputs = [getattr(given[name], "values", given[name]) for name in CASES[case].writes]
    return outputs + ([] if returned is None else [returned])


def run(module, case, given, **more):
    """The same for copies of the arguments; a twin writes to float64 buffers."""
    given = deepcopy(given)
    if module is reference:
        for name in CASES[case].writes:
            if getattr(given[name], "dtype", None) == np.float32:
                given[name] = given[name].astype(np.float64)
    return call(module, case, given, **more)


def assert_same(came, expected):
    for one, other in zip(came, expected, strict=True):
        np.testing.assert_array_equal(one, other)


# --- How near -------------------------------------------------------------------------

# Terms of a running sum that tolerances are for, see GWF_STRIP in csrc/row_kernels.inc.
TERMS = 64


def running_terms(dtype=np.float32):
    """Terms that the kernels in use add up one after the other before a sum goes on in float64:
    `TERMS` where the compiler has shared strips of them out over the lanes of vectors, else more.
    """
    # Numbers that are lost beside the one, and kept where they are by themselves.
    m, small = 1 << 13, np.finfo(dtype).epsneg / 2
    x = np.full((1, m), small, dtype=dtype)
    x[0, 0] = 1.0
    sums = np.empty(1), np.empty(m)
    _kernels.marginals(x, *sums, _rows.ColumnSums(1, m, dtype))
    return 1 + round((1.0 - sums[0][0]) / small) + m - 1


def rounding_of_sums(dtype=np.float32):
    """What the tolerance of a sum grows by where the compiler has left loops as they
    are: as the bound on the rounding of a running sum, with its terms. It is as it was
    where they are fewer (Clang's, which takes several vectors at once).
    """
    return max(1.0, running_terms(dtype) / TERMS)


def assert_close(case, came, expected, dtype=np.float32):
    rtol, atol = CASES[case].wide if dtype is np.float64 else CASES[case].narrow
    if CASES[case].summed:
        rtol *= rounding_of_sums(dtype)
    for one, other in zip(came, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)
