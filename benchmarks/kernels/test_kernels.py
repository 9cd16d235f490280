"""Every hot kernel against the limits of the machine, measured in the same run.

Each test says how many bytes or floating-point operations it counts per entry of the
n x n matrix. Bytes are what has to cross the memory bus if nothing stays in cache: a
read counts 4 bytes an entry, a write 4 more. Vectors and the partial column sums, a
few hundred kilobytes, are left out, and so is whatever a kernel reads twice.

A size is measured for speed and a small one for accuracy: ``error`` is the largest
difference to the float64 twin in `gwfast.kernels.reference`, over its largest value.
"""

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

from gwfast.kernels import _exponentials, _kernels, _products, _rows, _sparse, reference, threads

from ..common import machine, settings

# Up to the first size a matrix may stay in cache.
CACHED_SIZE, CHECKED_SIZE = 4000, 500
DIMENSIONS = (50, 200)
# Of the entries of a row, the sparse kernels keep one in so many: 2 %.
ONE_IN = 50
# The kernels by the names of their twins.
COMPILED = SimpleNamespace(
    **{**vars(_rows), **vars(_exponentials), **vars(_kernels), **vars(_products)},
    **{f"sparse_{name}": kernel for name, kernel in vars(_sparse).items()},
)
with_dimensions = pytest.mark.parametrize("d", DIMENSIONS, ids="d={}".format)


@pytest.fixture(params=settings.KERNELS, ids="n={}".format)
def measure(request, bench, limits, n_threads):
    """``measure(name, arguments, ...)`` times a kernel against its limit.

    ``arguments(n, module)`` makes the arguments, alike in every call, with the types of
    the compiled module or of the twins; `n_bytes` or `flops` is what counts per entry,
    of which there are ``n * n``, or ``entries(n)``; rates are of these, or with `each`
    nanoseconds an entry. With `restore` the first argument, which the kernel
    overwrites, gets sane values again before each round, untimed.

    The share of the limit is a median over rounds. On a matrix too large for caches each round of
    a kernel that is counted in bytes has a limit of its own, measured right before it on the same
    matrix: virtual machines change their bandwidth by a third within seconds.
    """
    n = request.param

    def run(
        name, arguments, label=None, *, n_bytes=None, flops=None,
        entries=lambda n: n * n, each=False, restore=False,
    ):  # fmt: skip
        limit = limits["read" if flops is None else "sgemm"]
        unit = "GB/s" if flops is None else "GFLOP/s"
        unit = "ns an entry" if each else unit
        bench.group = f"kernels, {n} x {n}, {unit}"
        bench.extra_info.update(kernel=label or name, n=n, unit=unit)
        paired = n_bytes is not None and not each and n > CACHED_SIZE
        limit_seconds = []
        with (
            ThreadPoolExecutor(n_threads) as pool,
            threads.single_threaded_blas(),  # as the solver calls them
        ):
            bench.extra_info["error"] = _error(name, arguments, n_threads)
            args = arguments(n, COMPILED)
            if restore:
                row = args[0][:1].copy()
            if paired:
                reads = machine.read_methods(args[0].reshape(n, n), pool, n_threads)

            def prepare():
                if restore:
                    args[0][:] = row
                if paired:
                    limit_seconds.append(min(map(machine.seconds, reads.values())))
                return args, {"n_threads": n_threads}

            rounds = 100 if n <= CACHED_SIZE else 15
            kernel = getattr(COMPILED, name)
            bench.pedantic(kernel, setup=prepare, rounds=rounds, warmup_rounds=1)
        if bench.stats is None:  # under --benchmark-disable
            return
        seconds, count = np.array(bench.stats.stats.data), entries(n)
        rates = (n_bytes or flops) * count / 1e9 / seconds
        if paired:
            limit = 4 * n * n / 1e9 / np.array(limit_seconds[-rounds:])
        shown = np.sort(1e9 * seconds / count) if each else np.sort(rates)[::-1]
        bench.extra_info.update(
            rate=float(shown[0]),
            rate_median=float(np.median(shown)),
            limit=float((n_bytes or flops) / limit if each else np.median(limit)),
            share=float(np.median(rates / limit)),
        )

    return run


def _error(name, arguments, n_threads):
    """Largest difference to the twin over all float arrays and scalars it makes."""
    ours, theirs = (arguments(CHECKED_SIZE, lib) for lib in (COMPILED, reference))
    ours += (getattr(COMPILED, name)(*ours, n_threads=n_threads),)
    theirs += (getattr(reference, name)(*theirs),)
    return max(map(_difference, ours, theirs))


def _difference(a, b):
    if isinstance(a, tuple):
        return max(map(_difference, a, b))
    if not isinstance(a, float | np.ndarray) or np.asarray(a).dtype.kind != "f":
        return 0.0
    return float(np.abs(np.subtract(a, b, dtype=np.float64)).max() / np.abs(b).max())


def _matrix(n, m=None, seed=0):
    """Independent float32 entries in [0, 1), in a buffer like the solver's."""
    out = _rows.aligned_empty((n, m or n))
    return np.random.default_rng(seed).random(out=out, dtype=np.float32)


def _vector(n, seed=1, dtype=np.float32):
    out = _rows.aligned_empty(n, dtype)
    out[:] = np.random.default_rng(seed).random(n)
    return out


def _potentials(n):
    return _vector(n, 1, np.float64), _vector(n, 2, np.float64)


def _masses(n):
    """Uniform marginals, and scalings to begin with."""
    p, ones = np.full(n, 1 / n), np.ones(n, dtype=np.float32)
    return p, p, ones.copy(), ones.copy()


# --- Passes over a matrix -------------------------------------------------------------


def test_sinkhorn_passes(measure):
    """4 bytes: the kernel is read once for both half-iterations."""

    def arguments(n, lib):
        return _matrix(n), *_masses(n), lib.ColumnSums(n, n)

    measure("sinkhorn_passes", arguments, n_bytes=4)


def test_gibbs_kernel(measure):
    """8 bytes: cost to kernel in place, read and written."""

    def arguments(n, lib):
        cost = _matrix(n)
        return cost, *_potentials(n), 0.1, cost

    measure("gibbs_kernel", arguments, n_bytes=8, restore=True)


def test_scale_to_plan(measure):
    """8 bytes: kernel to plan in place, read and written, sums included."""

    def arguments(n, lib):
        sums = np.empty((2, n))
        return _matrix(n), _vector(n, 1), _vector(n, 2), *sums, lib.ColumnSums(n, n)

    measure("scale_to_plan", arguments, n_bytes=8, restore=True)


@pytest.mark.parametrize("name", ["logsumexp_rows", "logsumexp_cols"])
def test_logsumexp(measure, name):
    """4 bytes: each row is read twice, the second time from cache."""

    def arguments(n, lib):
        return _matrix(n), *_potentials(n), 0.1, np.empty(n)

    measure(name, arguments, n_bytes=4)


@pytest.mark.parametrize("name", ["dot", "distance"])
def test_two_matrices(measure, name):
    """8 bytes: two matrices, read."""
    measure(name, lambda n, lib: (_matrix(n), _matrix(n, seed=1)), n_bytes=8)


def test_entropy(measure):
    """4 bytes, and a logarithm."""
    measure("entropy", lambda n, lib: (_matrix(n),), n_bytes=4)


def test_topk_rows(measure):
    """4 bytes: the ten largest of each row of random numbers."""

    def arguments(n, lib):
        return _matrix(n), np.empty((n, 10), np.intp), np.empty((n, 10), np.float32)

    measure("topk_rows", arguments, n_bytes=4)


# --- Products -------------------------------------------------------------------------


@with_dimensions
def test_matmul(measure, d):
    """2 d operations: of n x d factors, as a linearized cost is made."""

    def arguments(n, lib):
        right = lib.Panels(_matrix(n, d, seed=2), True)
        return _matrix(n, d, seed=1), right, _rows.aligned_empty((n, n))

    measure("matmul", arguments, f"matmul d={d}", flops=2 * d)


@with_dimensions
def test_few_rows(measure, d):
    """2 d operations: of d rows and a matrix, as low-rank updates make them."""

    def arguments(n, lib):
        return _matrix(d, n, seed=1), _matrix(n), _rows.aligned_empty((d, n))

    measure("matmul_few", arguments, f"matmul_few d={d}", flops=2 * d)


@with_dimensions
def test_gibbs_product(measure, d):
    """2 d operations: the linearized cost and the kernel of it in one, of which the
    exponential and the column sums are not counted.
    """

    def arguments(n, lib):
        # The product is around one half, as the potentials are.
        left = _matrix(n, d, seed=3) / d
        right = lib.Panels(_matrix(n, d, seed=2), True)
        out = np.empty((n, n), dtype=np.float32)
        return left, right, *_potentials(n), 0.1, out, lib.ColumnSums(n, n)

    measure("gibbs_product", arguments, f"gibbs_product d={d}", flops=2 * d)


@with_dimensions
def test_contraction(measure, d):
    """2 d operations: ``kernel @ (v * y)``, and the row sums in the same read."""

    def arguments(n, lib):
        v, out = _vector(n), _rows.aligned_empty((n, d))
        right = lib.Panels(_matrix(n, d, seed=2), False, v)
        return _matrix(n), right, out, v, np.empty(n)

    measure("matmul", arguments, f"contraction d={d}", flops=2 * d)


@with_dimensions
def test_gram(measure, d):
    """2 d operations for each of n d entries: ``x.T @ y``."""

    def arguments(n, lib):
        x, y = _matrix(n, d, seed=1), _matrix(n, d, seed=2)
        return x, y, np.empty((d, d))

    label = f"gram d={d}"
    measure("gram", arguments, label, flops=2 * d, entries=lambda n: n * d)


# --- Of which some entries are kept ---------------------------------------------------


def _kept(n):
    """Starts of rows, and one column of every `ONE_IN`."""
    steps = np.arange(0, n // ONE_IN * ONE_IN, ONE_IN, dtype=np.int32)
    shape = n, len(steps)
    columns = steps + np.random.default_rng(0).integers(ONE_IN, size=shape, dtype="i4")
    return np.arange(n + 1, dtype=np.int64) * len(steps), columns.ravel()


def _count(n):
    return n * (n // ONE_IN)


def test_sparse_sinkhorn_passes(measure):
    """8 bytes an entry that is kept: its column and its value."""

    def arguments(n, lib):
        values = _vector(_count(n))
        return *_kept(n), values, *_masses(n), lib.ColumnSums(n, n)

    options = {"n_bytes": 8, "entries": _count, "each": True}
    measure("sparse_sinkhorn_passes", arguments, **options)


@with_dimensions
def test_sparse_gibbs(measure, d):
    """2 d operations an entry that is kept."""

    def arguments(n, lib):
        x, y = _padded(n, d, seed=3), _padded(n, d, seed=2)
        x /= d
        out = np.empty(_count(n), dtype=np.float32)
        return *_kept(n), x, y, *_potentials(n), 0.1, out

    options = {"flops": 2 * d, "entries": _count, "each": True}
    measure("sparse_gibbs", arguments, f"sparse_gibbs d={d}", **options)


@with_dimensions
def test_sparse_product(measure, d):
    """2 d operations an entry that is kept: the contraction."""

    def arguments(n, lib):
        y = _padded(n, d, seed=2)
        out = _rows.aligned_empty(y.shape)
        return *_kept(n), _vector(_count(n)), _vector(n), y, out, np.empty(n)

    options = {"flops": 2 * d, "entries": _count, "each": True}
    measure("sparse_product", arguments, f"sparse_product d={d}", **options)


def _padded(n, d, seed):
    """With zero columns up to whole vectors, as the sparse kernels read it."""
    out = _rows.aligned_empty((n, -(-d // _sparse.LANES) * _sparse.LANES))
    out[:, :d], out[:, d:] = _matrix(n, d, seed), 0.0
    return out
