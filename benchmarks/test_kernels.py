"""Every hot kernel against the limits of the machine, measured in the same run.

Each test says how many bytes or floating-point operations it counts per entry of the
n x n matrix. Bytes are what has to cross the memory bus if nothing stays in cache: a
read counts 4 bytes an entry, a write 4 more. Vectors and the partial column sums, a
few hundred kilobytes, are left out, and so is whatever a kernel reads twice.

A size is measured for speed and a small one for accuracy: ``error`` is the largest
difference to the float64 twin in `gwfast.kernels.reference`, over its largest value.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import machine
import numpy as np
import pytest

from gwfast.kernels import _kernels, reference, threads

# 16 MB, which many processors keep in cache: how it goes inside a small solve. And
# 1 GB, which none does.
SIZES = (2000, int(os.environ.get("GWFAST_BENCH_SIZE", "16000")))
CACHED_SIZE, CHECKED_SIZE = 4000, 500
DIMENSIONS = (50, 200)


@pytest.fixture(params=SIZES, ids="n={}".format)
def measure(request, bench, limits, n_threads):
    """``measure(name, arguments, ...)`` times a kernel against its limit.

    ``arguments(n)`` makes the arguments, alike in every call; `n_bytes` or `flops` is
    what counts per entry; with `restore` the first argument, which the kernel
    overwrites, gets sane values again before each round, untimed.

    The share of the limit is a median over rounds. On a matrix too large for caches
    each round of a kernel that is counted in bytes has a limit of its own, measured
    right before it on the same matrix: virtual machines change their bandwidth by
    a third within seconds.
    """
    n = request.param

    def run(name, arguments, *, n_bytes=None, flops=None, restore=False):
        if flops is None:
            per_entry, limit, unit = n_bytes, limits["read"], "GB/s"
        else:
            per_entry, limit, unit = flops, limits["sgemm"], "GFLOP/s"
        bench.group = f"kernels, {n} x {n}, {unit}"
        bench.extra_info.update(kernel=name, n=n, unit=unit, per_entry=per_entry)
        paired = flops is None and n > CACHED_SIZE
        limit_seconds = []
        with (
            ThreadPoolExecutor(n_threads) as pool,
            threads.single_threaded_blas(),  # as the solver calls them
        ):
            bench.extra_info["error"] = _error(name, arguments, n_threads)
            args = arguments(n)
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
            kernel = getattr(_kernels, name)
            bench.pedantic(kernel, setup=prepare, rounds=rounds, warmup_rounds=1)
        if bench.stats is None:  # under --benchmark-disable
            return
        rates = per_entry * n * n / 1e9 / np.array(bench.stats.stats.data)
        if paired:
            limit = 4 * n * n / 1e9 / np.array(limit_seconds[-rounds:])
        bench.extra_info.update(
            rate=float(rates.max()),
            rate_median=float(np.median(rates)),
            limit=float(np.median(limit)),
            share=float(np.median(rates / limit)),
        )

    return run


def _error(name, arguments, n_threads):
    """Largest difference to the twin over all float arrays and scalars it makes."""
    ours, theirs = arguments(CHECKED_SIZE), arguments(CHECKED_SIZE)
    ours += (getattr(_kernels, name)(*ours, n_threads=n_threads),)
    theirs += (getattr(reference, name)(*theirs),)
    return max(
        float(np.abs(np.subtract(a, b, dtype=np.float64)).max() / np.abs(b).max())
        for a, b in zip(ours, theirs, strict=True)
        if np.asarray(a).dtype.kind == "f"
    )


def _matrix(n, m=None, seed=0):
    """Independent float32 entries in [0, 1), in a buffer like the solver's."""
    out = _kernels.aligned_empty((n, m or n))
    return np.random.default_rng(seed).random(out=out, dtype=np.float32)


def _vector(n, seed=1, dtype=np.float32):
    out = _kernels.aligned_empty(n, dtype)
    out[:] = np.random.default_rng(seed).random(n)
    return out


def test_sinkhorn_pass(measure):
    """4 bytes: the kernel is read once for both half-iterations."""

    def arguments(n):
        p, ones = np.full(n, 1 / n), np.ones(n, dtype=np.float32)
        work = _kernels.ColumnSums(n, n)
        return _matrix(n), p, p, ones.copy(), ones.copy(), work

    measure("sinkhorn_pass", arguments, n_bytes=4)


def test_gibbs_kernel(measure):
    """8 bytes: cost to kernel in place, read and written."""

    def arguments(n):
        cost = _matrix(n)
        f, g = _vector(n, 1, np.float64), _vector(n, 2, np.float64)
        return cost, f, g, 0.1, cost

    measure("gibbs_kernel", arguments, n_bytes=8, restore=True)


def test_scale_to_plan(measure):
    """8 bytes: kernel to plan in place, read and written, sums included."""

    def arguments(n):
        work, sums = _kernels.ColumnSums(n, n), np.empty((2, n))
        return _matrix(n), _vector(n, 1), _vector(n, 2), *sums, work

    measure("scale_to_plan", arguments, n_bytes=8, restore=True)


def test_logsumexp_rows(measure):
    """4 bytes: each row is read twice, the second time from cache."""
    measure("logsumexp_rows", _logsumexp_arguments, n_bytes=4)


def test_logsumexp_cols(measure):
    """4 bytes."""
    measure("logsumexp_cols", _logsumexp_arguments, n_bytes=4)


def _logsumexp_arguments(n):
    f, g = _vector(n, 1, np.float64), _vector(n, 2, np.float64)
    return _matrix(n), f, g, 0.1, np.empty(n)


def test_dot(measure):
    """8 bytes: two matrices, read."""
    measure("dot", lambda n: (_matrix(n), _matrix(n, seed=1)), n_bytes=8)


def test_topk_rows(measure):
    """4 bytes: the ten largest of each row of random numbers."""

    def arguments(n):
        return _matrix(n), np.empty((n, 10), np.intp), np.empty((n, 10), np.float32)

    measure("topk_rows", arguments, n_bytes=4)


@pytest.mark.parametrize("function", ["exp", "log"])
def test_elementwise(measure, function):
    """8 bytes: in place, read and written."""

    def arguments(n):
        x = _matrix(n).reshape(-1)
        return x, x

    measure(function, arguments, n_bytes=8, restore=True)


@pytest.mark.parametrize("d", DIMENSIONS, ids="d={}".format)
def test_matmul(measure, bench, d):
    """2 d operations: ``a @ b.T`` of n x d factors, as the pseudo-cost is made."""
    bench.extra_info["d"] = d

    def arguments(n):
        a, b = _matrix(n, d, seed=1), _matrix(n, d, seed=2)
        return a, b, np.empty((n, n), dtype=np.float32), True

    measure("matmul", arguments, flops=2 * d)


@pytest.mark.parametrize("d", DIMENSIONS, ids="d={}".format)
def test_contract(measure, bench, d):
    """2 d operations: ``x.T @ plan @ y``; the 2 n d^2 of the second product, d / n of
    the first, are left out."""
    bench.extra_info["d"] = d

    def arguments(n):
        x, y = _matrix(n, d, seed=1), _matrix(n, d, seed=2)
        return x, _matrix(n), y, np.empty((d, d))

    measure("contract", arguments, flops=2 * d)
