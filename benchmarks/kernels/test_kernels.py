"""Every hot kernel against the limits of the machine, measured in the same run.

A kernel is counted by bytes or floating-point operations per entry of the n x n matrix. Bytes have
to cross the memory bus if nothing stays in cache: a read counts 4 bytes an entry, a write 4 more.
Vectors, partial column sums (a few hundred kilobytes) and second reads do not count.

A size is measured for speed and a small size for accuracy: ``error`` is the largest difference to
the float64 twin in `gwfast.kernels.reference`, over its largest value.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from gwfast.kernels import _exponentials, _kernels, _products, _rows, _sparse, reference, threads

from ..common import machine, runner

# Up to the first size a matrix may stay in cache.
CACHED_SIZE, CHECKED_SIZE = 4000, 500
# The sparse kernels keep one entry in 50 of a row, 2 %.
ONE_IN = 50
# The kernels by the names of their twins.
COMPILED = SimpleNamespace(
    **{**vars(_rows), **vars(_exponentials), **vars(_kernels), **vars(_products)},
    **{f"sparse_{name}": kernel for name, kernel in vars(_sparse).items()},
)


class Kernel(NamedTuple):
    """A kernel: ``arguments(n, d, module)`` makes the arguments, alike in every call, with the
    types of the compiled module or of the twins; `n_bytes`, or `flops` per column of points, count
    for each of ``count(n, d)`` entries. With `restore` the first argument, which the kernel
    overwrites, gets sane values again before each round. `name` is the name in the modules.
    """

    arguments: Callable
    n_bytes: float | None = None
    flops: float | None = None
    count: Callable = lambda n, d: n * n
    restore: bool = False
    name: str = ""


def _matrix(n, m=None, seed=0):
    """Return independent float32 entries in [0, 1), in a buffer like the solver's."""
    out = _rows.aligned_empty((n, m or n))
    return np.random.default_rng(seed).random(out=out, dtype=np.float32)


def _vector(n, seed=1, dtype=np.float32):
    out = _rows.aligned_empty(n, dtype)
    out[:] = np.random.default_rng(seed).random(n)
    return out


def _potentials(n):
    return _vector(n, 1, np.float64), _vector(n, 2, np.float64)


def _masses(n):
    """Return uniform marginals, and scalings to begin with."""
    p, ones = np.full(n, 1 / n), np.ones(n, dtype=np.float32)
    return p, p, ones.copy(), ones.copy()


def _kept(n):
    """Return starts of rows, and one column of every `ONE_IN`."""
    steps = np.arange(0, n // ONE_IN * ONE_IN, ONE_IN, dtype=np.int32)
    shape = n, len(steps)
    columns = steps + np.random.default_rng(0).integers(ONE_IN, size=shape, dtype="i4")
    return np.arange(n + 1, dtype=np.int64) * len(steps), columns.ravel()


def _count(n, d=None):
    return n * (n // ONE_IN)


def _padded(n, d, seed):
    """Return a matrix with zero columns up to whole vectors, as the sparse kernels read it."""
    out = _rows.aligned_empty((n, -(-d // _sparse.LANES) * _sparse.LANES))
    out[:, :d], out[:, d:] = _matrix(n, d, seed), 0.0
    return out


def gibbs_kernel(n, d, module):
    cost = _matrix(n)
    return cost, *_potentials(n), 0.1, cost


def gibbs_product(n, d, module):
    # The product is around one half, as the potentials are.
    left, right = _matrix(n, d, seed=3) / d, module.Panels(_matrix(n, d, seed=2), True)
    out = np.empty((n, n), dtype=np.float32)
    return left, right, *_potentials(n), 0.1, out, module.ColumnSums(n, n)


def contraction(n, d, module):
    v, out = _vector(n), _rows.aligned_empty((n, d))
    return _matrix(n), module.Panels(_matrix(n, d, seed=2), False, v), out, v, np.empty(n)


def logsumexp(n, d, module):
    return _matrix(n), *_potentials(n), 0.1, np.empty(n)


def two_matrices(n, d, module):
    return _matrix(n), _matrix(n, seed=1)


def sparse_gibbs(n, d, module):
    x, y = _padded(n, d, seed=3), _padded(n, d, seed=2)
    x /= d
    return *_kept(n), x, y, *_potentials(n), 0.1, np.empty(_count(n), dtype=np.float32)


def sparse_product(n, d, module):
    y = _padded(n, d, seed=2)
    out = _rows.aligned_empty(y.shape)
    return *_kept(n), _vector(_count(n)), _vector(n), y, out, np.empty(n)


# A kernel is read once for both half-iterations; a log-sum-exp reads each row twice, the second
# time from cache; a kernel that works in place is read and written. The exponentials and column
# sums of `gibbs_product` and the row sums of the contraction do not count.
KERNELS = {
    "sinkhorn_passes": Kernel(
        lambda n, d, module: (_matrix(n), *_masses(n), module.ColumnSums(n, n)), n_bytes=4
    ),
    "gibbs_kernel": Kernel(gibbs_kernel, n_bytes=8, restore=True),
    "scale_to_plan": Kernel(
        lambda n, d, module: (
            _matrix(n),
            _vector(n, 1),
            _vector(n, 2),
            *np.empty((2, n)),
            module.ColumnSums(n, n),
        ),
        n_bytes=8,
        restore=True,
    ),
    "logsumexp_rows": Kernel(logsumexp, n_bytes=4),
    "logsumexp_cols": Kernel(logsumexp, n_bytes=4),
    "dot": Kernel(two_matrices, n_bytes=8),
    "distance": Kernel(two_matrices, n_bytes=8),
    "entropy": Kernel(lambda n, d, module: (_matrix(n),), n_bytes=4),
    "topk_rows": Kernel(
        lambda n, d, module: (
            _matrix(n),
            np.empty((n, 10), np.intp),
            np.empty((n, 10), np.float32),
        ),
        n_bytes=4,
    ),
    "matmul": Kernel(
        lambda n, d, module: (
            _matrix(n, d, seed=1),
            module.Panels(_matrix(n, d, seed=2), True),
            _rows.aligned_empty((n, n)),
        ),
        flops=2,
    ),
    "matmul_few": Kernel(
        lambda n, d, module: (_matrix(d, n, seed=1), _matrix(n), _rows.aligned_empty((d, n))),
        flops=2,
    ),
    "gibbs_product": Kernel(gibbs_product, flops=2),
    "contraction": Kernel(contraction, flops=2, name="matmul"),
    "gram": Kernel(
        lambda n, d, module: (_matrix(n, d, seed=1), _matrix(n, d, seed=2), np.empty((d, d))),
        flops=2,
        count=lambda n, d: n * d,
    ),
    "sparse_sinkhorn_passes": Kernel(
        lambda n, d, module: (*_kept(n), _vector(_count(n)), *_masses(n), module.ColumnSums(n, n)),
        n_bytes=8,
        count=_count,
    ),
    "sparse_gibbs": Kernel(sparse_gibbs, flops=2, count=_count),
    "sparse_product": Kernel(sparse_product, flops=2, count=_count),
}
CASES = [
    pytest.param(name, d, id=f"{name}-{d}" if d else name)
    for name, kernel in KERNELS.items()
    for d in ((50, 200) if kernel.flops else (0,))
]


@pytest.mark.parametrize("name, d", CASES)
def test_kernel(n, bench, limits, name, d):
    """Time a kernel against its limit.

    The share of the limit is a median over rounds. On a matrix too large for caches each round of
    a kernel that is counted in bytes has a limit of its own, measured right before it on the same
    matrix: virtual machines change their bandwidth by a third within seconds.
    """
    kernel, is_sparse = KERNELS[name], name.startswith("sparse")
    compiled = getattr(COMPILED, kernel.name or name)
    amount = kernel.n_bytes or kernel.flops * d
    unit = "ns an entry" if is_sparse else "GB/s" if kernel.n_bytes else "GFLOP/s"
    bench.group = f"kernels, {n} x {n}, {unit}"
    bench.extra_info.update(kernel=f"{name} d={d}" if d else name, unit=unit)
    paired = kernel.n_bytes is not None and not is_sparse and n > CACHED_SIZE
    rounds, limit_seconds = 100 if n <= CACHED_SIZE else 15, []
    with (
        ThreadPoolExecutor(runner.THREADS) as pool,
        threads.single_threaded_blas(),  # as the solver calls kernels
    ):
        bench.extra_info["error"] = error_of(kernel.name or name, kernel, d)
        arguments = kernel.arguments(n, d, COMPILED)
        row = arguments[0][:1].copy()
        if paired:
            readers = machine.readers(arguments[0].reshape(n, n), pool, runner.THREADS)

        def prepare():
            if kernel.restore:
                arguments[0][:] = row
            if paired:
                limit_seconds.append(min(map(machine.seconds, readers)))
            return arguments, {"n_threads": runner.THREADS}

        bench.pedantic(compiled, setup=prepare, rounds=rounds, warmup_rounds=1)
    if bench.stats is None:  # under --benchmark-disable
        return
    seconds, count = np.array(bench.stats.stats.data), kernel.count(n, d)
    rates, limit = amount * count / 1e9 / seconds, limits["read" if kernel.n_bytes else "sgemm"]
    if paired:
        limit = 4 * n * n / 1e9 / np.array(limit_seconds[-rounds:])
    shown = np.sort(1e9 * seconds / count) if is_sparse else np.sort(rates)[::-1]
    bench.extra_info.update(
        rate=float(shown[0]),
        rate_median=float(np.median(shown)),
        limit=float(amount / limit if is_sparse else np.median(limit)),
        share=float(np.median(rates / limit)),
    )


def error_of(name, kernel, d):
    """Return the largest difference to the twin over all float arrays and scalars it makes."""
    ours, theirs = (kernel.arguments(CHECKED_SIZE, d, module) for module in (COMPILED, reference))
    ours += (getattr(COMPILED, name)(*ours, n_threads=runner.THREADS),)
    theirs += (getattr(reference, name)(*theirs),)
    return max(map(_difference, ours, theirs))


def _difference(a, b):
    if isinstance(a, tuple):
        return max(map(_difference, a, b))
    if not isinstance(a, float | np.ndarray) or np.asarray(a).dtype.kind != "f":
        return 0.0
    return float(np.abs(np.subtract(a, b, dtype=np.float64)).max() / np.abs(b).max())
