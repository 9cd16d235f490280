"""Dictionaries of graphs in either module, as in POT's example: random graphs of one,
two or three clusters, by their links, and with labels of the clusters as features.
"""

import functools
import warnings
from statistics import median

import numpy as np

from ..common.markdown import show
from .calls import OURS
from .timings import in_turns

N_GRAPHS, NODES, CLUSTERS = 60, (30, 50), (1, 2, 3)
WITHIN, BETWEEN = 0.9, 0.1
N_ATOMS, ATOM_NODES, ALPHA = 3, 6, 0.5
LEARNING = dict(epochs=10, batch_size=16)
# What is learned depends on the first atoms and the order of graphs by several percent.
SEEDS = range(5)
HEADS = (
    "function", "s, POT, median [min]", f"s, {OURS}, median [min]", "ratio",
    "mean loss, POT", f"mean loss, {OURS}",
)  # fmt: skip


def dictionary_table(pot, ours):
    """Both are judged by what POT's unmixing leaves of all graphs."""
    graphs, rows = _graphs(), []
    for fused in (False, True):
        learn = functools.partial(_learned, graphs, fused)
        seconds, results = in_turns([functools.partial(learn, one) for one in (pot, ours)])
        name = _name(fused, "dictionary_learning")
        middle = [median(times) for times in seconds]
        times = [
            f"{value:.2f} [{min(some):.2f}]" for value, some in zip(middle, seconds, strict=True)
        ]
        losses = [
            f"{np.mean([_loss(pot, graphs, fused, one) for one in made]):.4g}" for made in results
        ]
        rows.append((name, *times, f"{middle[0] / middle[1]:.1f}", *losses))
    show(f"{N_ATOMS} atoms of {N_GRAPHS} graphs, {len(SEEDS)} times", HEADS, rows)


def _name(fused, kind):
    return f"{'fused_' if fused else ''}gromov_wasserstein_{kind}"


def _graphs():
    """Links, features and masses of each graph."""
    rng = np.random.default_rng(0)
    made = []
    for n_clusters in np.repeat(CLUSTERS, N_GRAPHS // len(CLUSTERS)):
        n = rng.integers(*NODES)
        cluster = np.sort(rng.integers(n_clusters, size=n))
        chance = np.where(cluster[:, None] == cluster, WITHIN, BETWEEN)
        links = np.triu(rng.random((n, n)) < chance, 1)
        features = np.eye(len(CLUSTERS))[cluster]
        made.append(((links | links.T).astype(float), features, np.full(n, 1 / n)))
    return list(zip(*made, strict=True))


def _learned(graphs, fused, module):
    """Structures, and features, of the atoms, from each seed."""
    Cs, Ys, ps = graphs
    given = dict(Cs=Cs, D=N_ATOMS, nt=ATOM_NODES, ps=ps) | LEARNING
    given |= dict(Ys=Ys, alpha=ALPHA) if fused else {}
    given |= dict(projection="nonnegative_symmetric", use_adam_optimizer=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learn = getattr(module, _name(fused, "dictionary_learning"))
        return [learn(**given, random_state=seed)[:-1] for seed in SEEDS]


def _loss(pot, graphs, fused, atoms):
    """The sum of what is left of all graphs."""
    unmix, left = getattr(pot, _name(fused, "linear_unmixing")), 0.0
    for C, Y, p in zip(*graphs, strict=True):
        given = dict(C=C, Cdict=atoms[0], p=p)
        given |= dict(Y=Y, Ydict=atoms[1], alpha=ALPHA) if fused else {}
        left += float(unmix(**given)[-1])
    return left
