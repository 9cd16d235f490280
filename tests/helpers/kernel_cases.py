"""Arguments, outputs and tolerances of every compiled kernel, and runs of it and its float64 twin.
Imports from inside, since kernels are tested directly."""

from copy import deepcopy
from functools import partial
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

# Both sides of vector widths (4, 8, 16), of the rows a kernel takes at once (4), of the chunks (32,
# of a multiple of 8 rows), of the rows summed in float32 (64 of a chunk, so 2048), of the columns
# summed in float32 (256 to 1024), and of the rows of a product made at a time (128 of a chunk).
FEW = (1, 1), (1, 1000), (2, 3), (3, 2), (7, 9), (8, 8), (9, 7), (15, 17), (16, 16), (17, 15)
SOME = (31, 33), (33, 31), (63, 65), (65, 63), (97, 129), (127, 97), (128, 32), (129, 257)
SHAPES = [*FEW, *SOME, (257, 1025), (1023, 5), (1000, 1024), (2048, 3), (2049, 65), (4100, 17)]


class Made:
    """An argument of a type that the kernels and their twins each have their own of."""

    def __init__(self, kind, values=None, **given):
        self.kind, self.values, self.given = kind, values, given

    def build(self, module):
        made = getattr(module, self.kind)(**build(module, self.given))
        if self.kind == "ColumnSums" and module is COMPILED:
            # An earlier use must not matter.
            sizes, dtype = (made.n, made.m), self.given.get("dtype", np.float32)
            _kernels.marginals(np.ones(sizes, dtype=dtype), *map(np.empty, sizes), made)
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
    return {"left": matrix(rng, n, WIDTH), "right": Made("Panels", matrix=matrix(rng, WIDTH, m))}


# Makers of arguments, from a generator of random numbers and both sizes.
make = SimpleNamespace(
    column_vector=lambda rng, n, m: matrix(rng, 1, m)[0],
    left=lambda rng, n, m: matrix(rng, n, WIDTH),
    right=lambda rng, n, m: matrix(rng, WIDTH, m),
    scale=lambda rng, n, m: matrix(rng, 1, WIDTH)[0],
    for_gram=lambda rng, n, m: buffer(m, WIDTH, dtype=float),
    panels=lambda rng, n, m: Made("Panels", matrix=matrix(rng, WIDTH, m)),
    sparse_left=lambda rng, n, m: matrix(rng, n, 48) / 8,
    sparse_right=lambda rng, n, m: matrix(rng, m, 48) / 8,
    steps=lambda rng, *shape: rng.integers(0, 64, shape).astype(np.float32) / 64,
    with_zeros=lambda rng, n, m: matrix(rng, n, m) * (rng.random((n, m)) < 0.8),
    row_masses=lambda rng, n, m: masses(n, rng),
    column_masses=lambda rng, n, m: masses(m, rng),
    out=lambda rng, n, m: buffer(n, m),
    sums=lambda rng, n, m: Made("ColumnSums", rng.random(m), n=n, m=m),
    for_rows=lambda rng, n, m: buffer(n, dtype=float),
    for_columns=lambda rng, n, m: buffer(m, dtype=float),
)
# By name, unless a row of `CASES` has another argument.
ARGUMENTS = {
    **dict.fromkeys(("cost", "kernel", "plan", "a", "b"), matrix),
    "u": lambda rng, n, m: matrix(rng, 1, n)[0],
    **dict.fromkeys(("v", "x"), make.column_vector),
    **dict.fromkeys(("p", "weights", "sums", "masses"), make.row_masses),
    "q": make.column_masses,
    "f": lambda rng, n, m: rng.normal(size=n),
    "g": lambda rng, n, m: rng.normal(size=m),
    "epsilon": EPSILON,
    "out": make.out,
    "row_sums": make.for_rows,
    "col_sums": make.for_columns,
    "work": lambda rng, n, m: Made("ColumnSums", n=n, m=m),
}


class Case:
    """Arguments that are not in `ARGUMENTS`: one by one, or several made together by a function.
    Tolerances are the largest relative and the largest absolute error, `wide` of a kernel that
    takes float64; `summed` if sums over strips of a row."""

    def __init__(self, writes, narrow, wide=None, *, summed=False, together=None, **own):
        self.writes, self.narrow, self.wide = writes.split(), narrow, wide
        self.summed, self.together, self.own = summed, together, own

    def arguments(self, kernel, n, m, rng):
        parameters = signature(kernel).parameters
        together = self.together(rng, n, m) if self.together else {}
        given = {name: x for name, x in together.items() if name in parameters}
        makers = {
            name: ARGUMENTS[name]
            for name, parameter in parameters.items()
            if parameter.default is parameter.empty and name in ARGUMENTS and name not in given
        } | self.own
        made = {name: x(rng, n, m) if callable(x) else x for name, x in makers.items()}
        return given | made


def kept(rng, n, m):
    """Entries in compressed sparse rows, in some rows none."""
    share = rng.choice([0.0, 0.02, 0.3, 1.0], (n, 1))
    row, index = np.nonzero(rng.random((n, m)) < share)
    start, values = np.searchsorted(row, np.arange(n + 1)), matrix(rng, 1, len(index))[0]
    entries = {"start": start.astype(np.int64), "index": index.astype(np.int32)}
    return entries | {"kernel": values, "cost": values, "out": buffer(len(index))}


def sampled(rng, n, m):
    """Rows to draw from, some without mass, some of one entry, whose sums float32 knows exactly."""
    kernel = make.steps(rng, n, m) * (rng.random((n, m)) < rng.choice([0.0, 0.1, 1.0], n)[:, None])
    return {"kernel": kernel, "v": make.steps(rng, m), "offset": rng.random(n)}


def selected(rng, n, m):
    """Make plans, and bounds that select some entries of a row, all, or none."""
    given = {"kernel": make.steps(rng, n, m), "u": make.steps(rng, n), "v": make.steps(rng, m)}
    given["row"] = rng.choice([0.0, 0.5, 9e9], n).astype(np.float32)
    given["col"] = rng.choice([0.3, 9e9], m).astype(np.float32)
    return given | {"start": buffer(n + 1, dtype=np.int64)}


def counted(*sizes):
    """Count the selected entries, so that their columns can be asked for."""
    given = selected(*sizes)
    reference.sparse_select(**given)
    return given | {"index": buffer(given["start"][-1], dtype=np.int32)}


def ruled(rng, n, m, **kind):
    """Passes under a rule: caps that some scalings reach, or damped sides."""
    most = (2 / (n * m)) ** 0.5  # as large as scalings would be if all were equal
    v = make.column_vector(rng, n, m) * np.float32(2 * most)
    rows, columns = (np.full(size, float(np.float32(most))) for size in (n, m))
    return {"v": v, "scaling_map": Made("ScalingMap", rows=rows, columns=columns, **kind), **MANY}


def square(rng, n, m):
    """A matrix that is nearly symmetric."""
    made = matrix(rng, min(n, m), min(n, m))
    return made + made.T + matrix(rng, *made.shape) / 64


# Exponents of the log domain reach 90 here, which float32 knows to 1e-5 and float64 to 1e-14; sums
# of n terms are off by a few roundings (and BLAS's, in a twin, by more).
GIBBS, SURVEY = (1.5e-5, 1.2e-38), ((5e-7, 0), (2e-15, 0))
FACTORS = dict(x=make.sparse_left, y=make.sparse_right)
SPARSE_SUMS = dict(narrow=(0, 1e-5), together=kept, epsilon=0.05)
MANY = dict(most=3, tol=-1.0)
RELAXED = dict(narrow=(5e-6, 0), wide=(2e-14, 0), omega=1.7)
PASSES = dict(writes="u v work", narrow=(6e-7, 0), wide=(4e-15, 0))
LOOSE_PASSES = dict(narrow=(6e-7, 1e-7), wide=(4e-15, 1e-15))
SPARSE_PASSES = dict(writes="u v work", narrow=(1e-6, 0), summed=True, together=kept)
RESCALED = dict(writes="v", narrow=(6e-7, 0), wide=(1e-15, 0), work=make.sums)
MATMUL = dict(writes="out", narrow=(5e-7, 0), wide=(2e-15, 0), a=make.left, b=make.panels)
MOMENTS = dict(writes="first second out", narrow=(1e-7, 0), wide=(1e-14, 0), shift=-0.3, factor=1.7)
MOMENTS |= dict(matrix=matrix, p=make.column_masses, out=make.out)
MOMENTS |= dict.fromkeys(("first", "second"), make.for_rows)

CASES = {
    "absorb": Case("out", (0, 1e-14), (4e-16, 1e-16), out=make.for_rows),
    "logsumexp_rows": Case("out", (0, 1e-5), (2e-15, 2e-15), summed=True, out=make.for_rows),
    "logsumexp_cols": Case("out", (0, 1e-5), (2e-15, 2e-15), out=make.for_columns),
    "gibbs_kernel": Case("out", GIBBS, (4e-14, 3e-308)),
    "proximal_cost": Case("cost", (2e-7, 2e-7), (1e-15, 1e-15), plan=make.with_zeros, weight=0.3),
    "sinkhorn_passes": Case(**PASSES),
    "sinkhorn_passes-relaxed": Case(**PASSES | RELAXED),
    "sinkhorn_passes-capped": Case(**PASSES | LOOSE_PASSES, together=partial(ruled, mass=0.5)),
    "sinkhorn_passes-damped": Case(
        "u v work", (2e-6, 5e-7), (4e-14, 1e-14),
        together=partial(ruled, row_power=0.75, column_power=0.5, rate=2.0),
    ),
    "sinkhorn_passes-many": Case(**PASSES | LOOSE_PASSES | MANY),
    "normal_product": Case("row_sums work", (6e-7, 0), (4e-15, 0)),
    "rescale_columns": Case(**RESCALED),
    "rescale_columns-relaxed": Case(**RESCALED | RELAXED),
    "max_log_scaling": Case("", (1e-15, 0), (1e-15, 0)),
    "scale_to_plan": Case("kernel row_sums col_sums work", (6e-7, 0), (2e-15, 0), summed=True),
    "marginals": Case("row_sums col_sums work", (6e-7, 0), (2e-15, 0), summed=True),
    "matmul": Case(**MATMUL),
    "matmul-scaled": Case(
        **MATMUL | dict(b=lambda *of: Made("Panels", matrix=make.right(*of), scale=make.scale(*of)))
    ),
    "matmul-dots": Case(
        "out dots", (2e-6, 0), (4e-15, 0), x=make.column_vector, dots=make.for_rows,
        b=lambda rng, n, m: Made("Panels", matrix=matrix(rng, m, WIDTH)),
        out=lambda rng, n, m: buffer(n, WIDTH),
    ),
    "matmul-plus": Case(**MATMUL, plus=matrix),
    "matmul_few": Case(**MATMUL | dict(b=make.right)),
    "gibbs_product": Case("out work", GIBBS, a=make.left, b=make.panels),
    "gram": Case("out", (1e-6, 0), x=matrix, y=make.left, out=make.for_gram),
    "dot": Case("", *SURVEY, summed=True),
    "distance": Case("", *SURVEY, summed=True),
    "moments": Case(**MOMENTS),
    "moments-halves": Case(**MOMENTS | dict(matrix=lambda *of: matrix(*of).astype("f2"))),
    "moments-alone": Case(**MOMENTS | dict(writes="first second", narrow=(1e-14, 0), out=None)),
    "survey": Case("", *SURVEY, b=lambda rng, n, m: matrix(rng, m, n)),
    "survey-square": Case("", *SURVEY, a=square),
    "extent": Case("", (1e-14, 0), (1e-14, 0), x=make.row_masses),
    "mass_entropy": Case("", (1e-13, 0), (1e-13, 0)),
    "kept": Case("", (1e-13, 1e-16), (1e-13, 1e-16)),
    "entropy": Case("", *SURVEY, summed=True, plan=make.with_zeros),
    "copy_rows-product": Case("out", (5e-7, 0), rows=lambda *of: Made("Product", **factors(*of))),
    "copy_rows-gibbs": Case(
        "out", GIBBS, rows=lambda *of: Made("Gibbs", **factors(*of), **potentials(*of))
    ),
    "topk_rows": Case(
        "indices values", (0, 0), (0, 0), x=lambda *of: matrix(*of).round(1),
        indices=lambda rng, n, m: buffer(n, min(TOP, m), dtype=np.intp),
        values=lambda rng, n, m: buffer(n, min(TOP, m)),
    ),
    "sparse_sample": Case(
        "index times step", (0, 0), together=sampled, step=make.for_rows,
        **dict.fromkeys(("index", "times"), lambda rng, n, m: buffer(n, 9, dtype=np.int32)),
    ),
    "sparse_select": Case("start", (0, 0), together=selected),
    "sparse_select-columns": Case("start index", (0, 0), together=counted),
    "sparse_cost": Case("out", (0, 1e-6), together=kept, **FACTORS),
    "sparse_gibbs": Case("out", GIBBS, together=kept, **FACTORS),
    "sparse_logsumexp_rows": Case("lse", **SPARSE_SUMS, lse=make.for_rows),
    "sparse_logsumexp_cols": Case("lse", **SPARSE_SUMS, lse=make.for_columns),
    "sparse_sinkhorn_passes": Case(**SPARSE_PASSES),
    "sparse_sinkhorn_passes-many": Case(**SPARSE_PASSES | MANY | dict(narrow=(1e-6, 4e-7))),
    "sparse_sinkhorn_passes-capped": Case(
        "u v work", (1e-6, 4e-7), summed=True,
        together=lambda *of: kept(*of) | ruled(*of, mass=0.5),
    ),
    "sparse_normal_product": Case("row_sums work", (1e-6, 0), together=kept),
    "sparse_product": Case(
        "out sums", (2e-6, 0), together=kept, sums=make.for_rows,
        y=make.sparse_right, out=lambda rng, n, m: buffer(n, 48),
    ),
}  # fmt: skip


def kernel_of(module, case):
    return getattr(module, case.split("-")[0])


def arguments(case, shape, seed=0, dtype=np.float32):
    """Return arguments of a kernel, of float64 if it takes them."""
    given = CASES[case].arguments(kernel_of(reference, case), *shape, np.random.default_rng(seed))
    return widened(given) if dtype is np.float64 and CASES[case].wide else given


def widened(given):
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
    """Return the outputs of a kernel, and what it returns."""
    given = build(module, given)
    returned = kernel_of(module, case)(**given, **more)
    outputs = [getattr(given[name], "values", given[name]) for name in CASES[case].writes]
    return outputs + ([] if returned is None else [returned])


def leaves(given, *path):
    """Yield arrays among arguments and among their own arguments, each with its path."""
    for name, x in given.items():
        if isinstance(x, np.ndarray):
            yield (*path, name), x
        elif isinstance(x, Made):
            yield from leaves(x.given, *path, name)


def run(module, case, given, **more):
    """Call a kernel on copies of the arguments, read-only unless it writes to them; a twin writes
    to float64 buffers."""
    given, writes = deepcopy(given), CASES[case].writes
    for path, x in leaves(given):
        x.flags.writeable = path[0] in writes
    for name in writes:
        if module is reference and getattr(given[name], "dtype", None) == np.float32:
            given[name] = given[name].astype(np.float64)
    return call(module, case, given, **more)


def assert_same(came, expected):
    for left, right in zip(came, expected, strict=True):
        np.testing.assert_array_equal(left, right)


# Terms of a running sum that tolerances are for, see GWF_STRIP in csrc/row_kernels.inc.
TERMS = 64


def running_terms(dtype=np.float32):
    """Return how many terms the kernels in use add up one after the other before a sum goes on in
    float64: `TERMS` where strips of them are shared out over the lanes of vectors, else more.
    """
    # Numbers that are lost beside the one, and kept where they are by themselves.
    m, small = 1 << 13, np.finfo(dtype).epsneg / 2
    x, sums = np.full((1, m), small, dtype=dtype), np.empty(1)
    x[0, 0] = 1.0
    _kernels.marginals(x, sums, np.empty(m), _rows.ColumnSums(1, m, dtype))
    return m + round((1.0 - sums[0]) / small)


def rounding_of_sums(dtype=np.float32):
    """Return the factor of the tolerance of a sum if the compiler has left loops as they are."""
    return max(1.0, running_terms(dtype) / TERMS)


def assert_close(case, came, expected, dtype=np.float32):
    dtype = dtype if CASES[case].wide else np.float32
    rtol, atol = CASES[case].wide if dtype is np.float64 else CASES[case].narrow
    rtol *= rounding_of_sums(dtype) if CASES[case].summed else 1.0
    for left, right in zip(came, expected, strict=True):
        np.testing.assert_allclose(left, right, rtol=rtol, atol=atol)
