"""The same calls in POT and in `gwfast.pot`, in turn, and what came of them."""

import functools
import itertools
import time

import numpy as np
import ot
from scipy.sparse import csgraph
from scipy.spatial.distance import cdist

import gwfast
from gwfast import pot

from ..common import data, runner, simulated

OURS = "gwfast.pot"
HEADS = ("ms, POT, median [min]", f"ms, {OURS}", "ratio", "objective, POT", "relative difference")


def beside(options, call, objective):
    """Return cells: times of ``call(module)``, their ratio, and both objectives."""
    calls = [functools.partial(call, module) for module in (ot.gromov, pot)]
    seconds, results = runner.in_turns(calls, options.rounds)
    theirs, ours = map(objective, results)
    times = [runner.shown(taken, 1e3) for taken in seconds]
    return [*times, runner.ratio(*seconds), f"{theirs:.6g}", f"{ours / theirs - 1:+.1e}"]


# --- Problems -------------------------------------------------------------------------


def scaled(cost):
    return cost / (cost.max() or 1.0)


def distances(rng, n):
    """Return distances between points of a cloud, at most one."""
    points = rng.standard_normal((n, 3)) * rng.uniform(0.5, 2.0, 3)
    return scaled(cdist(points, points))


def paths(rng, n):
    """Return steps in a random graph; what cannot be reached is as far as the farthest."""
    edges = np.triu(rng.random((n, n)) < min(1.0, 6.0 / n), 1)
    steps = csgraph.shortest_path(edges.astype(float), directed=False, unweighted=True)
    steps[np.isinf(steps)] = steps[np.isfinite(steps)].max()
    return scaled(steps)


def two_graphs(n):
    rng = np.random.default_rng(n)
    return [paths(rng, n) for _ in range(2)]


def helix(rng, n, pitch, noise):
    """Return points around two turns of a helix, with some more of them at its end."""
    angle = 4 * np.pi * np.sqrt(rng.random(n))
    points = np.stack([np.cos(angle), np.sin(angle), pitch * angle], axis=1)
    return points + noise * rng.standard_normal((n, 3))


def two_helices(rng, n, m):
    return helix(rng, n, 0.3, 0.05), helix(rng, m, 0.4, 0.1)


# --- Tables ---------------------------------------------------------------------------


def entropic(options, costs, epsilon):
    """Return cells of the call that most scripts make."""

    def call(module):
        return module.entropic_gromov_wasserstein(*costs, epsilon=epsilon, log=True)

    return beside(options, call, lambda result: float(result[1]["gw_dist"]))


def small(options):
    """Print times on graphs, as for kernels between graphs, then of a step of each function."""
    rows = []
    for n in options.sizes or (30, 50, 100):
        costs = two_graphs(n)
        mean = np.mean([cost.mean() for cost in costs])
        for share in (1.0, 0.5, 0.2, 0.1, 0.05):
            rows.append([n, f"{share:g} of the mean", *entropic(options, costs, share * mean)])
    for n, epsilon in itertools.product(options.sizes or (5, 20, 50, 100), (0.1, 0.05, 0.005)):
        rows.append([n, f"{epsilon:g} of the largest", *entropic(options, two_graphs(n), epsilon)])
    runner.show("a call on small graphs", ("points", "epsilon", *HEADS), rows)
    rows = []
    for entropy, rule, fused, value in itertools.product(
        ("", "entropic_"), ("", "semirelaxed_", "partial_"), ("", "fused_"), ("", "2")
    ):
        if entropy or rule != "partial_":  # whose linear problems POT cannot solve so small
            name = f"{entropy}{rule}{fused}gromov_wasserstein{value}"
            rows.append([name, *tiny(options, name)])
    runner.show("a call on 5 points, of one step", ("function", *HEADS[:3]), rows)


def tiny(options, name, n=5):
    """Return times of a function whose limit of iterations is one."""
    p = np.full(n, 1 / n)
    between = [np.abs(np.subtract.outer(p, p))] if "fused" in name else []
    arguments = [*between, *two_graphs(n), *([p] if "semirelaxed" in name else [p, p])]
    limit = {"numItermax" if "partial" in name else "max_iter": 1}
    return beside(options, lambda module: getattr(module, name)(*arguments, **limit), lambda _: 1)[
        :3
    ]


def dense(options):
    """Print times of calls on graphs and distances of 1000 points."""
    rows = []
    for n in options.sizes or (1000,):
        points = two_helices(np.random.default_rng(0), n, n)
        problems = {
            "graph, 10 neighbors": [data.hops(side, 10) for side in points],
            "distances": [scaled(cdist(side, side)) for side in points],
        }
        for (name, costs), epsilon in itertools.product(problems.items(), (0.1, 0.02, 0.01)):
            rows.append([f"{name}, {n}", f"{epsilon:g}", *entropic(options, costs, epsilon)])
    runner.show("POT's defaults", ("costs", "epsilon", *HEADS), rows)


def exact(options):
    """Print times without entropy, of distances along graphs, plain and fused."""
    rows = []
    for n in options.sizes or (300, 1000, 2000):
        rng = np.random.default_rng(n)
        points = two_helices(rng, n, n)
        costs = [data.shortest_paths(side) for side in points]
        between = scaled(cdist(rng.normal(size=(n, 5)), rng.normal(size=(n, 5))))
        for name, arrays in ("", costs), ("fused_", [between, *costs]):

            def call(module, name=f"{name}gromov_wasserstein", arrays=arrays):
                return getattr(module, name)(*arrays, log=True)

            cells = beside(options, call, lambda result: result[1]["loss"][-1])
            rows.append([f"{name}gromov_wasserstein", n, *cells])
    runner.show("no entropy, product start", ("function", "points", *HEADS), rows)


SMALL_TIES = [f"{rule}gromov_wasserstein2" for rule in ("", "semirelaxed_", "partial_")]


def ties(options):
    """Print losses on hop distances, where many vertices tie, as fractions of POT's."""
    n = (options.sizes or [300])[0]
    tables = dict(zip(("RNA", "ATAC"), data.cells("PBMC")[:2], strict=True))
    calls = {
        "POT": ot.gromov.gromov_wasserstein2,
        OURS: pot.gromov_wasserstein2,
        "gwfast": lambda *costs: (
            gwfast.gromov_wasserstein(*costs, epsilon=0, init="product").gw_cost
        ),
    }
    rows, everything = [], []
    for sides in (("RNA", "ATAC"), ("RNA", "RNA"), ("ATAC", "ATAC")):
        losses = []
        for seed, k in enumerate(np.geomspace(5, 50, 10).round().astype(int)):
            rng = np.random.default_rng(seed)
            orders = {name: rng.permutation(len(table)) for name, table in tables.items()}
            costs = [
                data.hops(data.correlated(tables[side][orders[side][i * n :][:n]]), k)
                for i, side in enumerate(sides)
            ]
            losses.append([float(call(*costs)) for call in calls.values()])
        everything += losses
        rows.append([", ".join(sides), *_fractions(losses)])
    heads = [f"loss of {name}, {what}" for name in (OURS, "gwfast") for what in ("mean", "worst")]
    rows.append(["all", *_fractions(everything)])
    runner.show(
        f"hops of {n} cells, no entropy, product start", ("sides", "problems", *heads), rows
    )

    rows = []
    for name in SMALL_TIES:
        for n in (10, 20, 40):
            graphs = simulated.graphs(200, (n, n + 5), seed=n)
            losses = []
            for costs in zip(graphs[::2], graphs[1::2], strict=True):
                p, q = (np.full(len(cost), 1 / len(cost)) for cost in costs)
                given = {"semirelaxed": (p,), "partial": (p, q, 0.7)}.get(
                    name.split("_")[0], (p, q)
                )
                losses.append([float(getattr(m, name)(*costs, *given)) for m in (ot.gromov, pot)])
            theirs, ours = np.transpose(losses)
            above = np.mean(ours > 1.02 * theirs + 1e-12)
            rows.append(
                (name, n, len(losses), f"{ours.mean() / theirs.mean():.3f}", f"{above:.0%}")
            )
    heads = "function", "points", "pairs", f"mean loss of {OURS}, of POT's", "above by 2 %"
    runner.show("steps in random graphs, no entropy", heads, rows)


def _fractions(losses):
    losses = np.array(losses)
    parts = losses[:, 1:] / losses[:, :1]
    both = zip(parts.mean(axis=0), parts.max(axis=0), strict=True)
    return [len(losses), *(f"{value:.3f}" for pair in both for value in pair)]


# --- SCOT -----------------------------------------------------------------------------

MODULES = {"POT": ot.gromov, OURS: pot}


def scots_costs(sides, k):
    """Return SCOT's costs; it counts a cell among its own neighbors."""
    return [data.hops(data.correlated(side), k - 1) for side in sides]


def cells(options):
    """Print times of calls as SCOT makes them on PBMC, at its default of epsilon."""
    rows = []
    for n, k in itertools.product(options.sizes or (1000, 2000), (20, 110)):
        costs = scots_costs([side[:n] for side in data.cells("PBMC")[:2]], k)
        size = " x ".join(str(len(cost)) for cost in costs)
        rows.append([size, k, *entropic(options, costs, 1e-3)])
    runner.show("SCOT's call on PBMC, epsilon 0.001", ("cells", "neighbors", *HEADS), rows)


def scgem(options):
    """Print times of every number of neighbors and epsilon that SCOT's search tries on scGEM."""
    sides = data.cells("scGEM")[:2]
    n = min(map(len, sides))
    rows, totals = [], dict.fromkeys(MODULES, 0.0)
    best = dict.fromkeys(MODULES, (1.0, "nothing"))
    for k in np.linspace(n // 20, n // 6, 5).astype(int)[: (options.sizes or [5])[0]]:
        costs, worst = scots_costs(sides, k), 0.0
        seconds = dict.fromkeys(MODULES, 0.0)
        for epsilon in np.logspace(-1, -3, 12):
            losses = []
            for name, module in MODULES.items():
                began = time.perf_counter()
                plan, log = module.entropic_gromov_wasserstein(*costs, epsilon=epsilon, log=True)
                seconds[name] += time.perf_counter() - began
                # SCOT's rule.
                if plan.any(axis=1).all() and plan.any(axis=0).all() and plan.sum() > 0.95:
                    losses.append(float(log["gw_dist"]))
                    found = losses[-1], f"k = {k}, epsilon = {epsilon:.6f}, loss {losses[-1]:.8g}"
                    best[name] = min(best[name], found)
            if len(losses) == 2:
                worst = max(worst, abs(losses[0] - losses[1]))
        totals = {name: totals[name] + seconds[name] for name in MODULES}
        rows.append([k, *_times(seconds), f"{worst:.1e}"])
    heads = "neighbors", "s, POT", f"s, {OURS}", "ratio", "losses differ by up to"
    rows.append(["all", *_times(totals), ""])
    runner.show(f"SCOT's search on scGEM, {n} cells", heads, rows)
    print("; ".join(f"{name} selects {what}" for name, (_, what) in best.items()), end=".\n\n")


def _times(seconds):
    theirs, ours = seconds.values()
    return f"{theirs:.3g}", f"{ours:.3g}", f"{theirs / ours:.1f}"
