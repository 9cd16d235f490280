"""
Cells in AnnData
================

Some cells had their genes read, others the openness of their DNA: two AnnData objects
without a column in common and with no cell in both. The types of the latter are known;
`gwfast.singlecell.align` gives them to the former, and puts both into one space.

The counts are simulated, of cells on a path that forks into two kinds of grown ones, so
that the truth is known. It prints::

    genes: 240 cells x 400; openness: 200 cells x 600
    CellAlignment(240 x 200 cells, 21 neighbors, uncertain, gw_cost=0.0238165)
    types found: 90 % of cells; of the surest half: 99 %
"""

import argparse
import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse

import gwfast
import gwfast.singlecell

try:
    import anndata
    import pandas as pd
except ImportError:
    sys.exit('cells_in_anndata.py needs anndata: pip install "gwfast-ot[singlecell]"')

parser = argparse.ArgumentParser(description="Cells in AnnData.")
parser.add_argument("--output", type=Path, default=Path("pictures"))
output = parser.parse_args().output
output.mkdir(parents=True, exist_ok=True)

# %%
# Two data sets
# -------------
# A cell is a point on a path in the plane that forks, one way longer than the other.
# How much of a gene is read, and how often a piece of DNA is found open, are smooth
# functions of that point with the noise of counting. Counts are kept sparse, brought to
# one total a cell, and put on a log scale, as is usual.

TYPES = np.array(["stem", "turning", "neuron", "muscle"])
rng = np.random.default_rng(0)


def counts(places, n_columns, depth):
    directions = rng.standard_normal((2, n_columns))
    offsets = rng.uniform(-1, 1, n_columns)
    rates = np.exp(2 * np.tanh(2 * (places @ directions) + offsets))
    return rng.poisson(depth * rates)


def made_cells(n_cells, n_columns, depth, prefix):
    along, left = rng.random(n_cells), rng.random(n_cells) < 0.4
    past = np.maximum(along - 0.5, 0)
    places = np.stack([np.where(left, -0.7, 1.3) * past, along - 0.3 * past], axis=1)
    grown = np.where(left, 2, 3)
    types = np.where(along < 0.25, 0, np.where(along < 0.55, 1, grown))
    table = counts(places, n_columns, depth)
    table = np.log1p(1e4 * table / table.sum(axis=1, keepdims=True))
    names = [f"{prefix}{k}" for k in range(n_cells)]
    cells = anndata.AnnData(
        sparse.csr_matrix(table),
        obs=pd.DataFrame({"type": TYPES[types]}, index=names),
        var=pd.DataFrame(index=[f"{prefix}-{k}" for k in range(n_columns)]),
    )
    return cells


genes = made_cells(240, 400, 0.5, "gene")
dna = made_cells(200, 600, 0.2, "dna")
print(f"genes: {genes.n_obs} cells x {genes.n_vars}; openness: {dna.n_obs} cells x {dna.n_vars}")

# %%
# Align
# -----
# Principal components, graphs of nearest neighbors, steps in these as costs, and the
# plan: one call. Of several numbers of neighbors it takes the one with the lowest
# objective, for which no type is needed. The types of the genes' cells are not looked
# at; those of the other data set are carried over. The result is "uncertain", as another plan
# with little in common is nearly as good: `found.gw.advice` says so.

truth = genes.obs.pop("type")
with warnings.catch_warnings():
    warnings.simplefilter("ignore", gwfast.ConvergenceWarning)
    found = gwfast.singlecell.align(genes, dna, labels="type")
print(found)

# %%
# What came back
# --------------
# The label of each cell, how much of its mass agrees on it, and coordinates that both
# data sets have: from here on tools that take one AnnData object can go on, with
# `anndata.concat` and its "X_gwfast".

right = (genes.obs["gwfast_type"] == truth).to_numpy()
share = genes.obs["gwfast_type_share"].to_numpy()
sure = share >= np.median(share)
print(
    f"types found: {100 * right.mean():.0f} % of cells; "
    f"of the surest half: {100 * right[sure].mean():.0f} %"
)
both = anndata.concat({"genes": genes, "openness": dna}, label="from", join="inner")

# %%
# A picture
# ---------
# Both data sets in the first two components of the second. Colors are the types that
# were given and the types that were carried over; crosses on the right are cells whose
# type is wrong, most of them where one type ends and the next begins.

COLORS = dict(zip(TYPES, ("#0072b2", "#e69f00", "#009e73", "#cc79a7"), strict=True))
places = both.obsm["X_gwfast"][:, :2]
is_gene = (both.obs["from"] == "genes").to_numpy()

figure, panels = plt.subplots(
    1, 3, figsize=(7.4, 2.9), layout="constrained", sharex=True, sharey=True
)
panels[0].scatter(*places[~is_gene].T, s=12, c=dna.obs["type"].map(COLORS))
panels[0].set_title("Openness, types known", loc="left", fontsize="medium")
given = genes.obs["gwfast_type"].map(COLORS)
panels[1].scatter(*places[is_gene].T, s=12, c=given)
panels[1].set_title("Genes, types carried over", loc="left", fontsize="medium")
panels[2].scatter(*places[is_gene][right].T, s=12, c=truth[right].map(COLORS))
panels[2].scatter(*places[is_gene][~right].T, s=24, c="black", marker="x", linewidth=1)
panels[2].set_title("Genes, true types", loc="left", fontsize="medium")
for axes in panels:
    axes.set_xticks([])
    axes.set_yticks([])
handles = [
    plt.Line2D([], [], marker="o", linestyle="", color=color, label=name)
    for name, color in COLORS.items()
]
figure.legend(handles=handles, loc="outside lower center", ncols=4)
figure.savefig(output / "cells_in_anndata.png", dpi=150)
