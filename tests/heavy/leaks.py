"""Whether solves leave memory behind, those that fail included.

    python tests/heavy/leaks.py [--solves 10000] [--traced 2000]

with gwfast installed, makes that many tiny solves of all kinds in turn, and then some
whose allocations Python traces. It fails if, after the first fifth, the process has
grown by more than `MAX_GROWN` bytes; or, after half of the traced ones, Python's own
memory, which NumPy's arrays count to, by more than `MAX_TRACED` bytes, or its objects
by more than `MAX_OBJECTS`. It needs Linux.
"""

import argparse
import functools
import gc
import itertools
import statistics
import sys
import tracemalloc
import warnings
from pathlib import Path

import numpy as np

import gwfast

# Of the process, beside the noise of its allocator; and in 2000 traced solves, beside
# what Python keeps in free lists (32 kB). One small array in each would be twice that.
MAX_GROWN, MAX_TRACED, MAX_OBJECTS = 2 << 20, 128 << 10, 40
LOOKS = 12

rng = np.random.default_rng(0)
POINTS = rng.standard_normal((12, 3)), rng.standard_normal((10, 3))
CLOUDS = tuple(map(gwfast.PointCloud, POINTS))
COSTS = tuple(np.sqrt(((x[:, None] - x[None]) ** 2).sum(axis=2)).astype(np.float32) for x in POINTS)
LINEAR = rng.random((12, 10))


class Stop(Exception):
    """What a callback raises."""


def solve(*sides, **options):
    """And ask for every form of the plan."""
    few = {"epsilon": 0.05, "init": "product", "max_iter": 8}
    few["options"] = gwfast.SolverOptions(max_inner=50)
    coupling = gwfast.gromov_wasserstein(*sides, **few | options).coupling
    coupling.toarray(), coupling.topk(2), coupling.tocsr()


def fails(error, function, *args, **options):
    """Call what must raise that."""
    try:
        function(*args, **options)
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


def raising(step):
    raise Stop


def interrupted(step):
    raise KeyboardInterrupt


def keeps_plan(step):
    step.coupling.toarray()
    return step.iteration >= 3


# Of a race with its fifty starts.
SHORT = dict(epsilon=0.05, max_iter=2, options=gwfast.SolverOptions(max_inner=10))

SOLVES = [
    (CLOUDS, {}),
    (CLOUDS, dict(init="auto") | SHORT),
    (CLOUDS, dict(options=gwfast.SolverOptions(tier="neighbors"), epsilon=0.005)),
    (CLOUDS, dict(options=gwfast.SolverOptions(tier="tiled"))),
    (CLOUDS, dict(init="profile")),
    (CLOUDS, dict(init="random")),
    (CLOUDS, dict(init=gwfast.Seeds([[0, 1], [2, 3]]))),
    (CLOUDS, dict(init=np.ones((12, 10)))),
    (CLOUDS, dict(epsilon=gwfast.Epsilon(0.02, anneal_from=3.0))),
    (CLOUDS, dict(progress=lambda text, done, total: None)),
    (CLOUDS, dict(callback=keeps_plan)),
    ([gwfast.PointCloud(x, metric="sqeuclidean") for x in POINTS], {}),
    (COSTS, {}),
    (COSTS, dict(init="auto", dtype="float64") | SHORT),
    (COSTS, dict(n_threads=2)),
    (COSTS, dict(dtype="float64", tol=1e-9)),
    (COSTS, dict(linear_cost=LINEAR)),
    (COSTS, dict(marginals="semirelaxed")),
    (COSTS, dict(marginals=gwfast.Partial(0.7))),
    (COSTS, dict(options=gwfast.SolverOptions(method="ppa"))),
    (COSTS, dict(options=gwfast.SolverOptions(method="bapg"))),
    ((np.triu(COSTS[0]), COSTS[1]), {}),
    ((COSTS[0] + 1, COSTS[1] + 1), dict(loss="kl")),
]
# What ends early, or at once.
FAILURES = [
    (Stop, CLOUDS, dict(callback=raising)),
    (Stop, COSTS, dict(callback=raising)),
    (Stop, CLOUDS, dict(progress=lambda *args: raising(None))),
    (KeyboardInterrupt, CLOUDS, dict(callback=interrupted)),
    (ValueError, (LINEAR, COSTS[1]), {}),
    (ValueError, COSTS, dict(p=-np.ones(12))),
    (ValueError, (COSTS[0] * np.nan, COSTS[1]), {}),
    (TypeError, COSTS, dict(memory_limit=[1])),
    (ValueError, CLOUDS, dict(init=np.full((12, 10), -1.0))),
    (ValueError, COSTS, dict(epsilon=1e-12)),
    (MemoryError, CLOUDS, dict(memory_limit=10)),
]
BATCH, PRODUCT = gwfast.gromov_wasserstein_batch, dict(init="product", **SHORT)
KINDS = [
    *(functools.partial(solve, *sides, **how) for sides, how in SOLVES),
    *(functools.partial(fails, error, solve, *sides, **how) for error, sides, how in FAILURES),
    lambda: fails(ValueError, BATCH, [COSTS, (LINEAR, COSTS[1])]),
    lambda: BATCH([COSTS, COSTS], n_threads=2, **PRODUCT),
    lambda: gwfast.sinkhorn(LINEAR, epsilon=0.05),
    lambda: gwfast.align(*POINTS, epsilon=0.05, init="product"),
    lambda: gwfast.pot.entropic_gromov_wasserstein(*COSTS, epsilon=0.05, max_iter=5),
]


def resident():
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def run(n_solves):
    """Make that many, of each kind in turn."""
    turns = itertools.cycle(KINDS)
    for function in itertools.islice(turns, n_solves):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function()


def grown(n_solves):
    """Bytes that the process has grown by, after a fifth of them."""
    run(n_solves // 5)
    sizes = []
    for _ in range(LOOKS):
        run(n_solves * 4 // 5 // LOOKS)
        gc.collect()
        sizes.append(resident())
    return statistics.median(sizes[-3:]) - statistics.median(sizes[:3]), sizes


def traced(n_solves):
    """Bytes that Python has allocated since the first half and not freed, objects that
    it has more of, and where the most bytes come from.
    """
    n_solves = -(-n_solves // 2 // len(KINDS)) * len(KINDS)  # all kinds, in both halves
    run(n_solves)
    gc.collect()
    tracemalloc.start(8)
    n_objects = len(gc.get_objects())
    run(n_solves)
    gc.collect()
    size = tracemalloc.get_traced_memory()[0]
    n_objects = len(gc.get_objects()) - n_objects
    where = tracemalloc.take_snapshot().statistics("traceback")[:3]
    tracemalloc.stop()
    return size, n_objects, where


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--solves", type=int, default=10_000)
    parser.add_argument("--traced", type=int, default=2000)
    given = parser.parse_args()
    show = functools.partial(print, flush=True)
    size, sizes = grown(given.solves)
    show(f"{given.solves} solves of {len(KINDS)} kinds: grown by {size / 1e3:.0f} kB")
    show("MB after each twelfth:", *(f"{one / 1e6:.2f}" for one in sizes))
    kept, objects, where = traced(given.traced)
    show(f"{given.traced} traced: {kept} bytes and {objects} objects more")
    for one in where:
        show(one, *one.traceback.format(), sep="\n")
    return size > MAX_GROWN or kept > MAX_TRACED or objects > MAX_OBJECTS


if __name__ == "__main__":
    sys.exit(main())
