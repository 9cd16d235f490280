"""Problems without entropy in either module, from the product plan: both end at the
same local minimum where no two vertices tie; and what those lead to that do.
"""

import time
import warnings
from statistics import median

import numpy as np
from scipy.sparse import csgraph
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

import gwfast

from ..common import pairs
from ..common.markdown import show
from .calls import OURS
from .random_problems import difference
from .scot import standardized
from .timings import helix, in_turns, scaled

N_PLAIN, N_FUSED = (300, 1000, 2000), (500, 1000, 2000)
N_NEIGHBORS = 10
ALPHA = 0.5
# Problems of a pair, cells of each side, and fewest and most neighbors.
N_TIES, N_CELLS, K = 10, 300, (5, 50)
HEADS = (
    "points", "ms, POT, median [min]", f"ms, {OURS}, median [min]", "ratio", "turns",
    "steps, POT", f"steps, {OURS}", "loss, POT", f"loss, {OURS}", "plans differ by",
)  # fmt: skip


def exact_table(pot, ours):
    """Distances along graphs of neighbors; then fused, of uneven sizes and masses."""
    rows = [compared(pot, ours, *plain_problem(n)) for n in N_PLAIN]
    show("distances along graphs, uniform masses, no entropy", HEADS, rows)
    rows = [compared(pot, ours, *fused_problem(n)) for n in N_FUSED]
    show("fused, n != m, uneven masses, no entropy", HEADS, rows)


def ties_table(pot, ours):
    """Hop distances of cells, where many vertices tie: losses against POT's."""
    own = "gwfast.gromov_wasserstein"
    rows, totals = [], []
    for pair in ("RNA, ATAC", "RNA, RNA", "ATAC, ATAC"):
        found = [ties_losses(pot, ours, *costs) for costs in ties_problems(pair)]
        totals += found
        rows.append([pair, *ratios(found)])
    rows.append(["all", *ratios(totals)])
    heads = ["sides", "problems"]
    for name in (OURS, own):
        heads += [f"loss / POT's, {name}, mean", "worst", "over 1.1"]
    heads += ["ms, POT, median", f"ms, {OURS}", f"ms, {own}"]
    show(f"hop distances, {N_CELLS} cells a side, from the product plan", heads, rows)


def ties_problems(pair):
    """Costs of both sides, disjoint cells where these are of one modality."""
    names = pair.split(", ")
    files = dict(zip(("RNA", "ATAC"), pairs.cells("PBMC")[:2], strict=True))
    for seed, k in enumerate(np.geomspace(*K, N_TIES).round().astype(int)):
        rng = np.random.default_rng(seed)
        orders = {name: rng.permutation(len(files[name])) for name in ("RNA", "ATAC")}
        some = [orders[name][i * N_CELLS :][:N_CELLS] for i, name in enumerate(names)]
        yield [
            pairs.hops(standardized(files[name][rows]), k)
            for name, rows in zip(names, some, strict=True)
        ]


def ties_losses(pot, ours, *costs):
    """Losses of POT, of its twin, and of gwfast's own function, and seconds of each."""

    def own():
        return gwfast.gromov_wasserstein(*costs, epsilon=0, init="product").gw_cost

    calls = [lambda one=one: one.gromov_wasserstein2(*costs) for one in (pot, ours)]
    losses, seconds = [], []
    for call in (*calls, own):
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            losses.append(float(call()))
        seconds.append(time.perf_counter() - began)
    return losses, seconds


def ratios(found):
    """Cells of a row."""
    losses, seconds = (np.array(some) for some in zip(*found, strict=True))
    row = [str(len(losses))]
    for i in (1, 2):
        to_pot = losses[:, i] / losses[:, 0]
        row += [f"{to_pot.mean():.3f}", f"{to_pot.max():.3f}", str((to_pot > 1.1).sum())]
    return row + [f"{1e3 * one:.3g}" for one in np.median(seconds, axis=0)]


def plain_problem(n):
    """Name of a function and its arguments."""
    rng = np.random.default_rng(n)
    clouds = helix(rng, n, 0.3, 0.05), helix(rng, n, 0.4, 0.1)
    p = np.full(n, 1 / n)
    costs = [graph_distances(cloud) for cloud in clouds]
    return "gromov_wasserstein", (*costs, p, p), {}


def fused_problem(n):
    """Name of a function and its arguments."""
    rng, m = np.random.default_rng(n), n * 4 // 5
    clouds = helix(rng, n, 0.3, 0.05), helix(rng, m, 0.4, 0.1)
    masses = [rng.uniform(0.5, 1.5, size=size) for size in (n, m)]
    between = scaled(cdist(rng.normal(size=(n, 5)), rng.normal(size=(m, 5))))
    costs = [graph_distances(cloud) for cloud in clouds]
    masses = [some / some.sum() for some in masses]
    return (
        "fused_gromov_wasserstein", (between, *costs, *masses), {"alpha": ALPHA}
    )  # fmt: skip


def graph_distances(points):
    """Lengths of paths along the symmetric graph of the nearest neighbors, the most
    being one; what cannot be reached is as far as the farthest.
    """
    n = len(points)
    lengths, neighbors = cKDTree(points).query(points, N_NEIGHBORS + 1)
    graph = np.zeros((n, n))
    np.put_along_axis(graph, neighbors[:, 1:], lengths[:, 1:], axis=1)
    paths = csgraph.shortest_path(graph, directed=False)
    return scaled(np.minimum(paths, paths[np.isfinite(paths)].max()))


def compared(pot, ours, name, arrays, options):
    """A row of both modules' times and results."""

    def call(module):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(module, name)(*arrays, log=True, **options)

    seconds, results = in_turns([lambda module=module: call(module) for module in (pot, ours)])
    middle = [median(some) for some in seconds]
    times = [
        f"{1e3 * value:.3g} [{1e3 * min(some):.3g}]"
        for value, some in zip(middle, seconds, strict=True)
    ]
    (plan, log), (other, other_log) = results
    logs = log, other_log
    size = " x ".join(map(str, plan.shape))
    row = [size, *times, f"{middle[0] / middle[1]:.2f}", str(len(seconds[0]))]
    row += [str(len(one["loss"]) - 1) for one in logs]
    row += [f"{one['loss'][-1]:.8g}" for one in logs]
    return [*row, f"{difference(plan, other):.1e}"]
