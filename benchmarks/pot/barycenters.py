"""Barycenters of small graphs in either module, from the same start."""

import warnings
from statistics import mean, median

import numpy as np

from ..common.markdown import show
from .calls import OURS
from .random_problems import distances, shortest_paths
from .timings import in_turns

N_GRAPHS, N_FEATURES = 20, 3
# Nodes of every graph and of the barycenter.
SIZES = ((20, 20), (20, 10), (50, 20))
KINDS = (shortest_paths, distances)
# In either module barycenters of graphs whose paths have ties seldom stand still.
MAX_ITER = 100
CALLS = (
    ("gromov_barycenters", {}),
    ("fgw_barycenters", {}),
    ("entropic_gromov_barycenters", {"epsilon": 0.1}),
    ("entropic_gromov_barycenters", {"epsilon": 0.05}),
    # By the criterion "barycenter" POT's stops after one update.
    ("entropic_fused_gromov_barycenters", {"epsilon": 0.1, "stop_criterion": "loss"}),
)
# Where logs have an entry for every update.
ERRORS = ("err", "err_structure", "err_rel_loss")
HEADS = (
    "function", "graphs", "nodes", "ms, POT, median [min]",
    f"ms, {OURS}, median [min]", "ratio", "updates, POT", f"updates, {OURS}",
    "ratio, an update", "objective, POT", f"objective, {OURS}",
)  # fmt: skip


def barycenters_table(pot, ours):
    """The mean loss of the last plans is the objective, beside the cost matrices."""
    for kind in KINDS:
        rows = []
        for sizes in SIZES:
            rows += [compared(pot, ours, kind, sizes, *call) for call in CALLS]
        title = f"barycenters of {N_GRAPHS} graphs, {kind.__name__.replace('_', ' ')}"
        show(title, HEADS, rows)


def compared(pot, ours, kind, sizes, name, options):
    """A row of both modules' times and results."""
    nodes, size = sizes
    rng = np.random.default_rng(nodes)
    costs = [kind(rng, nodes) for _ in range(N_GRAPHS)]
    # Squared distances between features are at most one, as the costs are.
    features = rng.random((N_GRAPHS, nodes, N_FEATURES)) / np.sqrt(N_FEATURES)
    is_fused = "f" in name.partition("gromov")[0].replace("fused", "f")
    given = {"N": size, "Cs": costs, "max_iter": MAX_ITER, "random_state": 0}
    given |= options
    if is_fused:
        # POT's random costs for these are far above epsilon, and its first plans zeros.
        given |= {"Ys": list(features), "init_C": costs[0][:size, :size]}

    def call(module):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(module, name)(**given, log=True)

    seconds, results = in_turns([lambda module=module: call(module) for module in (pot, ours)])
    middle = [median(some) for some in seconds]
    times = [
        f"{1e3 * value:.3g} [{1e3 * min(some):.3g}]"
        for value, some in zip(middle, seconds, strict=True)
    ]
    updates = [len(next(log[x] for x in ERRORS if x in log)) for *_, log in results]
    each = [value / n for value, n in zip(middle, updates, strict=True)]
    label = name + "".join(f", {key} {x}" for key, x in options.items())
    row = [label, str(N_GRAPHS), f"{nodes} to {size}", *times]
    row += [f"{middle[0] / middle[1]:.2f}", *map(str, updates)]
    row += [f"{each[0] / each[1]:.2f}"]
    return row + [f"{objective(*result[-2:], costs):.6g}" for result in results]


def objective(C, log, costs):
    """The mean loss of the plans of a log, with POT's weight of features, a half."""
    losses = []
    for s, (T, D) in enumerate(zip(log["T"], costs, strict=True)):
        p, q = T.sum(axis=1), T.sum(axis=0)
        loss = p @ C**2 @ p + q @ D**2 @ q - 2 * np.vdot(C @ T, T @ D.T)
        if "Ms" in log:
            loss = (loss + np.vdot(log["Ms"][s], T)) / 2
        losses.append(loss)
    return mean(losses)
