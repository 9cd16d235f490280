"""What a call costs in either module: large dense costs, and small graphs."""

import time
import warnings
from statistics import median

import numpy as np
from scipy.spatial.distance import cdist

from ..common import pairs
from ..common.markdown import show
from ..common.processes import let_threads_sleep
from .calls import OURS, marginal_error, solved
from .random_problems import TOL, difference, shortest_paths

N_DENSE, N_SMALL = 1000, (30, 50, 100)
# POT's own default first, which blurs, then such as users come to.
DENSE_EPSILONS = (0.1, 0.02, 0.01)
# In units of the mean cost.
SMALL_EPSILONS = (1.0, 0.5, 0.2, 0.1, 0.05)
# Points, and epsilon in units of the largest cost, as most users of POT have it.
N_SCALED, SCALED_EPSILONS = (5, 20, 50, 100), (0.1, 0.05, 0.005)
# Points of problems whose calls are mostly overhead.
N_TINY = 5
MAX_ITER = 1000  # POT's default
# Seconds after which calls take no more turns, and turns that there are at least.
BUDGET, TURNS = 60, 5
# Seconds of a call that may have had threads of BLAS.
LONG = 0.02
# Functions with costs within the spaces alone and with some between them, whose calls
# are timed on next to no work.
TINY_CALLS = [
    f"{entropy}{rule}{fused}gromov_wasserstein{value}"
    for entropy in ("", "entropic_")
    for rule in ("", "semirelaxed_", "partial_")
    if entropy or rule != "partial_"  # whose linear problems POT cannot solve so small
    for fused in ("", "fused_")
    for value in ("", "2")
]
# Of the cells that `compared` makes.
HEADS = (
    "ms, POT, median [min]", f"ms, {OURS}, median [min]", "ratio", "turns",
    "outer, POT", f"outer, {OURS}", "loss, POT", "relative difference",
    "marginal error, POT", f"marginal error, {OURS}", "plans differ by",
)  # fmt: skip


def dense_table(pot, ours):
    """The calls as most scripts have them, with uniform weights."""
    rng = np.random.default_rng(0)
    clouds = helix(rng, N_DENSE, 0.3, 0.05), helix(rng, N_DENSE, 0.4, 0.1)
    problems = {
        "graph, 10 neighbors": [pairs.hops(cloud, 10) for cloud in clouds],
        "distances": [scaled(cdist(cloud, cloud)) for cloud in clouds],
    }
    rows = []
    for name, costs in problems.items():
        for epsilon in DENSE_EPSILONS:
            rows.append([name, f"{epsilon:g}", *compared(pot, ours, costs, epsilon)[0]])
    show(f"{N_DENSE} x {N_DENSE}, POT's defaults", ["costs", "epsilon", *HEADS], rows)


def small_table(pot, ours):
    """Shortest paths of random graphs, as for kernels between graphs; then what a call
    of every function costs beside next to no work.
    """
    rows, scaled_rows = [], []
    for n in N_SMALL:
        costs = two_graphs(n)
        mean = np.mean([cost.mean() for cost in costs])
        for share in SMALL_EPSILONS:
            row, _ = compared(pot, ours, costs, share * mean)
            rows.append([str(n), f"{share:g}", *row])
    for n in N_SCALED:
        for epsilon in SCALED_EPSILONS:
            row, _ = compared(pot, ours, two_graphs(n), epsilon)
            scaled_rows.append([str(n), f"{epsilon:g}", *row])
    title = "one call on small graphs"
    show(title, ["points", "epsilon / mean cost", *HEADS], rows)
    show(title, ["points", "epsilon / largest cost", *HEADS], scaled_rows)
    heads = "function", "microseconds, POT", f"microseconds, {OURS}", "ratio"
    rows = [tiny_row(pot, ours, name) for name in TINY_CALLS]
    show(f"one call on {N_TINY} points, of one step", heads, rows)


def two_graphs(n):
    rng = np.random.default_rng(n)
    return [shortest_paths(rng, n) for _ in range(2)]


def tiny_row(pot, ours, name):
    """A row of medians for a function, whose limit of iterations is one."""
    costs, p = two_graphs(N_TINY), np.full(N_TINY, 1 / N_TINY)
    between = [np.abs(np.subtract.outer(p, p))] if "fused" in name else []
    masses = [p] if "semirelaxed" in name else [p, p]
    limit = "numItermax" if "partial" in name else "max_iter"
    given, options = [*between, *costs, *masses], {limit: 1}

    def call(module):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(module, name)(*given, **options)

    seconds, _ = in_turns([lambda module=module: call(module) for module in (pot, ours)])
    theirs, own = (1e6 * median(some) for some in seconds)
    return [name, f"{theirs:.0f}", f"{own:.0f}", f"{theirs / own:.2f}"]


def compared(pot, ours, costs, epsilon):
    """A row of both modules' times and results, and their plans."""
    seconds, results = in_turns(
        [lambda module=module: solved(module, costs, epsilon) for module in (pot, ours)]
    )
    (plan, log), (other, other_log) = results
    losses = [float(one["gw_dist"]) for one in (log, other_log)]
    middle = [median(some) for some in seconds]
    times = [
        f"{1e3 * value:.3g} [{1e3 * min(some):.3g}]"
        for value, some in zip(middle, seconds, strict=True)
    ]
    row = [*times, f"{middle[0] / middle[1]:.2f}", str(len(seconds[0]))]
    row += [n_outer(pot, log), n_outer(ours, other_log), f"{losses[0]:.8g}"]
    row += [f"{abs(losses[1] / losses[0] - 1):.1e}"]
    row += [f"{marginal_error(one):.0e}" for one in (plan, other)]
    return [*row, f"{difference(plan, other):.1e}"], (plan, other)


def in_turns(functions, turns=TURNS, budget=BUDGET):
    """Seconds of each call and what the last ones returned; the first turn, which may
    have to load something, does not count where there is time for another."""
    seconds, spent = [[] for _ in functions], 0.0
    while not spent or (spent < budget and len(seconds[0]) <= turns) or spent < 0.5:
        results = []
        for function, some in zip(functions, seconds, strict=True):
            began = time.perf_counter()
            results.append(function())
            some.append(time.perf_counter() - began)
            spent += some[-1]
            if some[-1] > LONG:
                let_threads_sleep()
    if len(seconds[0]) > 1:
        seconds = [some[1:] for some in seconds]
    return seconds, results


def n_outer(module, log):
    """Outer iterations; POT logs the change in every tenth."""
    errors = log["err"]
    if not module.__name__.startswith("ot."):
        return str(len(errors))
    return str(10 * len(errors) - 9 if errors[-1] <= TOL else MAX_ITER)


def helix(rng, n, pitch, noise):
    """Points around two turns of a helix, with some more of them at its end."""
    angle = 4 * np.pi * np.sqrt(rng.random(n))
    points = np.stack([np.cos(angle), np.sin(angle), pitch * angle], axis=1)
    return points + noise * rng.standard_normal((n, 3))


def scaled(cost):
    return cost / cost.max()
