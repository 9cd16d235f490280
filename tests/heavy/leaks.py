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
COSTS = tuple(
    np.sqrt(((x[:, None] - x[None]) ** 2).sum(axis=2)).astype(np.float32)
    for x in POINTS
)
LINEAR = rng.random((12, 10))


class Stop(Exception):
    """What a callback raises."""


def solve(*sides, **options):
    few = {"epsilon": 0.05, "init": "product", "max_outer": 8, "max_inner": 50}
    options = few | options
    return gwfast.gromov_wasserstein(*sides, **options)


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


def plans(sides, **options):
    coupling = solve(*sides, **options).coupling
    coupling.toarray(), coupling.topk(2), coupling.tocsr()


class BadStart:
    """A start whose plan is refused."""

    def plan(self, problem, n_threads):
        return np.full(problem.shape, -1.0)


# Of a race with its fifty starts.
SHORT = dict(epsilon=0.05, max_outer=2, max_inner=10)

KINDS = {
    "clouds": lambda: solve(*CLOUDS),
    "race": lambda: solve(*CLOUDS, init="auto", **SHORT),
    "race in float64": lambda: solve(*COSTS, init="auto", dtype="float64", **SHORT),
    "dense costs": lambda: solve(*COSTS),
    "two threads": lambda: solve(*COSTS, n_threads=2),
    "forms of plans": lambda: plans(CLOUDS),
    "sparse": lambda: plans(CLOUDS, tier="sparse", epsilon=0.005),
    "tiled": lambda: plans(CLOUDS, tier="tiled"),
    "float64": lambda: solve(*COSTS, dtype="float64", tol=1e-9),
    "asymmetric": lambda: solve(np.triu(COSTS[0]), COSTS[1]),
    "kl": lambda: solve(COSTS[0] + 1, COSTS[1] + 1, loss="kl"),
    "fused": lambda: solve(*COSTS, linear_cost=LINEAR),
    "semirelaxed": lambda: solve(*COSTS, marginals="semirelaxed"),
    "partial": lambda: solve(*COSTS, marginals="partial", mass=0.7),
    "ppa": lambda: solve(*COSTS, method="ppa"),
    "bapg": lambda: solve(*COSTS, method="bapg"),
    "profile": lambda: solve(*CLOUDS, init="profile"),
    "random": lambda: solve(*CLOUDS, init="random"),
    "seeds": lambda: solve(*CLOUDS, init=gwfast.Seeds([[0, 1], [2, 3]])),
    "a plan": lambda: solve(*CLOUDS, init=np.ones((12, 10))),
    "metrics": lambda: solve(
        *(gwfast.PointCloud(x, metric="sqeuclidean") for x in POINTS)
    ),
    "annealed": lambda: solve(*CLOUDS, epsilon=gwfast.Epsilon(0.02, anneal_from=3.0)),
    "progress": lambda: solve(*CLOUDS, progress=lambda text, done, total: None),
    "callback": lambda: solve(*CLOUDS, callback=keeps_plan),
    "batch": lambda: gwfast.gromov_wasserstein_batch(
        [COSTS, COSTS], n_threads=2, init="product", **SHORT
    ),
    "several starts": lambda: gwfast.multistart(
        gwfast.QuadraticProblem(*CLOUDS), starts=["product", "profile"], **SHORT
    ),
    "linear": lambda: gwfast.sinkhorn(LINEAR, epsilon=0.05),
    "align": lambda: gwfast.align(*POINTS, init="product", **SHORT),
    "pot": lambda: gwfast.pot.entropic_gromov_wasserstein(
        *COSTS, epsilon=0.05, max_iter=5
    ),
    # What ends early, or at once.
    "callback raises": lambda: fails(Stop, solve, *CLOUDS, callback=raising),
    "callback of dense costs raises": lambda: fails(
        Stop, solve, *COSTS, callback=raising
    ),
    "interrupted": lambda: fails(
        KeyboardInterrupt, solve, *CLOUDS, callback=interrupted
    ),
    "progress raises": lambda: fails(
        Stop, solve, *CLOUDS, progress=lambda *args: raising(None)
    ),
    "wrong shape": lambda: fails(ValueError, solve, LINEAR, COSTS[1]),
    "wrong masses": lambda: fails(ValueError, solve, *COSTS, p=-np.ones(12)),
    "not finite": lambda: fails(ValueError, solve, COSTS[0] * np.nan, COSTS[1]),
    "wrong type": lambda: fails(TypeError, solve, *COSTS, memory_limit=[1]),
    "bad start": lambda: fails(ValueError, solve, *CLOUDS, init=BadStart()),
    "epsilon too small": lambda: fails(ValueError, solve, *COSTS, epsilon=1e-12),
    "no memory": lambda: fails(MemoryError, solve, *CLOUDS, memory_limit=10),
    "batch fails": lambda: fails(
        ValueError, gwfast.gromov_wasserstein_batch, [COSTS, (LINEAR, COSTS[1])]
    ),
}


def resident():
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def run(n_solves):
    """Make that many, of each kind in turn."""
    turns = itertools.cycle(KINDS.values())
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
