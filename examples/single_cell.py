"""
Cells measured twice
====================

Some cells had their genes read, others the methylation of their DNA: two tables without
a column in common, and no cell in both. Which cells are alike? SCOT (Demetci et al.,
2022) compares the ways through each table's graph of neighbors by POT. This is its
procedure with the one import changed.

The tables are made here, of cells on one branching path from stem cells to two kinds
of grown ones, so that the truth is known. It prints (and
how long the tries took)::

    expression: 177 cells, 34 columns; methylation: 177 cells, 27 columns
    15 tries, lowest loss 0.0122 with 18 neighbors, epsilon 0.001
    nearer than the right cell: 8.3 % of cells; types found: 93 %
"""

import argparse
import time
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import shortest_path
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

import gwfast
from gwfast import pot

parser = argparse.ArgumentParser(description="Cells measured twice.")
parser.add_argument("--output", type=Path, default=Path("pictures"))
parser.add_argument("--cells", type=Path, help="folder of scGEM, instead of made cells")
parser.add_argument("--search", action="store_true", help="many starts for each try")
options = parser.parse_args()
options.output.mkdir(parents=True, exist_ok=True)

# %%
# Two tables
# ----------
# A cell is a point on a path in the plane that starts with stem cells, and forks. Every
# gene is a smooth function of that point, with noise; every site of the DNA is
# methylated or is not, with a chance that is another such function.
#
# SCOT's own example, scGEM, has 177 cells that really were measured in both ways. It
# comes with SCOT and Pamona, as text; `--cells` takes its folder.

N_CELLS, N_GENES, N_SITES = 177, 34, 27
TYPES = ["stem", "turning", "neuron", "muscle"]


def made_cells(rng):
    along = rng.random(N_CELLS)
    left = rng.random(N_CELLS) < 0.4
    past = np.maximum(along - 0.5, 0)
    # The left branch is shorter, or the branches could change places.
    x = np.where(left, -0.7, 1.3) * past
    y = along - 0.3 * past
    types = np.where(along < 0.25, 0, np.where(along < 0.55, 1, np.where(left, 2, 3)))
    places = np.stack([x, y], axis=1)

    def smooth(n_columns, steepness):
        directions = rng.standard_normal((2, n_columns))
        offsets = rng.uniform(-1, 1, n_columns)
        return np.tanh(steepness * (places @ directions) + offsets)

    genes = smooth(N_GENES, 3.0) + 0.15 * rng.standard_normal((N_CELLS, N_GENES))
    chances = 0.5 + 0.5 * smooth(N_SITES, 3.0)
    # The share of several copies of the DNA.
    sites = rng.binomial(8, chances) / 8
    return (genes, sites), (types, types)


def read_cells(folder):
    names = ("expression", "methylation"), ("expression_type", "methlation_type")
    return ([np.loadtxt(folder / f"{name}.txt") for name in some] for some in names)


if options.cells is None:
    tables, types = made_cells(np.random.default_rng(0))
else:
    tables, types = read_cells(options.cells)
    TYPES = [f"type {kind:g}" for kind in np.unique(types[0])]
print(
    "expression: {} cells, {} columns; methylation: {} cells, {} columns".format(
        *tables[0].shape, *tables[1].shape
    )
)

# %%
# Costs
# -----
# In each table every cell is linked with the k that correlate best with it. The cost of
# two cells is the number of links between them, the largest being one; cells that no
# way leads to are as far as the farthest.


def steps(table, k):
    rows = table - table.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    # Of rows of one length, those that correlate best are the nearest.
    rows = rows / np.where(lengths > 0, lengths, 1)
    _, neighbors = cKDTree(rows).query(rows, k)
    n = len(rows)
    entries = np.ones(n * k), (np.repeat(np.arange(n), k), neighbors.ravel())
    graph = csr_matrix(entries, shape=(n, n))
    paths = shortest_path(graph, directed=False, unweighted=True)
    paths[np.isinf(paths)] = paths[np.isfinite(paths)].max()
    return paths / paths.max()


# %%
# Search
# ------
# How many neighbors, and which epsilon? Nobody knows the truth, so SCOT tries several of both and
# takes what ends with the lowest loss. It has to look out for plans that lost their mass, whose
# loss is low, as POT returns some where epsilon is small; here every plan has its marginals.
#
# A low loss is no proof. Every try begins at the plan that knows nothing, as POT's do.
# On scGEM, with 8 and 18 neighbors, that leads to mirror images, of which one has the
# lowest loss of all: 66 % of the cells are nearer than the right one, worse than by
# chance, and the types of 8 % are found. `--search` makes each try with the native
# call, which begins at several plans and keeps the best; its epsilon is half of POT's.
# The lowest loss is then .0151 in place of .0162, and it is right: 22 % and 54 %. On
# the cells made here it finds a lower loss as well, .0118, but there the two branches
# have changed places: 36 % and 55 %. Types of some cells, where known, choose better.


def solve(costs, epsilon):
    """Loss and plan."""
    if options.search:
        result = gwfast.gromov_wasserstein(*costs, epsilon=epsilon / 2)
        return result.gw_cost, result.plan
    plan, log = pot.entropic_gromov_wasserstein(
        *costs, loss_fun="square_loss", epsilon=epsilon, log=True
    )
    return log["gw_dist"], plan


if options.search:  # far too large epsilons are among those that are tried
    warnings.simplefilter("ignore", gwfast.ConvergenceWarning)
n_least = min(map(len, tables))
loss, n_tries, began = np.inf, 0, time.perf_counter()
for k in np.linspace(n_least // 20, n_least // 6, 3).astype(int):
    costs = [steps(table, k) for table in tables]
    for epsilon in np.logspace(-1, -3, 5):
        tried = solve(costs, epsilon)
        n_tries += 1
        if tried[0] < loss:
            (loss, plan), best = tried, (k, epsilon)
k, epsilon = best
print(f"{n_tries} tries, lowest loss {loss:.4f} with {k} neighbors, epsilon {epsilon:.3g}")
print(f"in {time.perf_counter() - began:.2f} s")

# %%
# Into one space
# --------------
# Every cell of the first table goes to the mean of the cells that its mass went to. Rows of both
# tables belong together here, which only the scores know: the share of cells that are nearer than
# the right one, and how often the type of the nearest five is that of the cell.

genes, sites = tables
projected = plan @ sites / plan.sum(axis=1, keepdims=True)
apart = cdist(projected, sites)
right = np.diag(apart)
nearer = [(apart < right[:, None]).mean(), (apart < right).mean()]
nearest = np.argsort(apart, axis=1, kind="stable")[:, :5]
kinds = np.unique(types[1])
votes = (types[1][nearest][:, :, None] == kinds).sum(axis=1)
transferred = kinds[votes.argmax(axis=1)]
print(
    f"nearer than the right cell: {100 * np.mean(nearer):.1f} % of cells; "
    f"types found: {100 * (transferred == types[0]).mean():.0f} %"
)

# %%
# A picture
# ---------
# On the left what was given: two clouds that nothing connects, by their own first
# principal components. On the right the cells of the first among those of the second,
# each linked with itself.

COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00")


def components(table):
    centered = table - table.mean(axis=0)
    _, _, axes = np.linalg.svd(centered, full_matrices=False)
    # Signs are arbitrary; these are the same everywhere.
    axes = axes[:2]
    axes *= np.sign(axes[np.arange(2), np.abs(axes).argmax(axis=1)])[:, None]
    return table.mean(axis=0), axes.T


def draw(axes, points, kinds_of, title, marker="o"):
    for kind, name, color in zip(kinds, TYPES, COLORS, strict=False):
        some = points[kinds_of == kind]
        axes.scatter(*some.T, s=16, c=color, marker=marker, linewidth=0.8, zorder=2, label=name)
    axes.set_title(title, fontsize="medium", loc="left")
    axes.set_xticks([])
    axes.set_yticks([])


figure, panels = plt.subplots(1, 3, figsize=(7.4, 2.9), layout="constrained")
mean, axes = components(genes)
draw(panels[0], (genes - mean) @ axes, types[0], "Expression", "+")
mean, axes = components(sites)
targets, moved = (sites - mean) @ axes, (projected - mean) @ axes
draw(panels[1], targets, types[1], "Methylation")
links = LineCollection([*np.stack([moved, targets], axis=1)], color="0.8", linewidth=0.6, zorder=1)
panels[2].add_collection(links)
draw(panels[2], targets, types[1], "Both")
draw(panels[2], moved, types[0], "Both", "+")
figure.legend(*panels[1].get_legend_handles_labels(), loc="outside lower center", ncols=5)
figure.savefig(options.output / "single_cell.png", dpi=150)
