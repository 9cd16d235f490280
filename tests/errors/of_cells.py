"""Refusals of the alignments of cells and of slices."""

import numpy as np
from helpers.problems import anndata_of

from gwfast import SolverOptions
from gwfast.singlecell import align, foscttm
from gwfast.spatial import center_align, pairwise_align, stack_slices


def call(function, *data, **options):
    return lambda: function(*data, **options)


T = np.random.default_rng(0).standard_normal((12, 4))
S, X = T[:, :2], np.arange(60.0).reshape(12, 5) % 7  # spots and their counts
WITH_PCA = anndata_of(T)
WITH_PCA.obsm["X_pca"] = T
A, WHOLE, NAMED = (S, X), anndata_of(X, S), anndata_of(X, S, var_names="abcde")
ROWS = [
    (call(align, "cells.h5ad", T), "adata_x", "str", TypeError),
    (call(align, anndata_of(None), T), "adata_x.X", None),
    (call(align, anndata_of(T), T, use_rep="X_umap"), "use_rep", "X_umap"),
    (call(align, T, T, use_rep=["X"]), "use_rep", "list", TypeError),
    (call(align, anndata_of(T), T, use_rep="X"), "use_rep", "adata_y is no AnnData"),
    (call(align, T, WITH_PCA, n_components=3), "n_components", "adata_y.obsm['X_pca'] is taken"),
    (call(align, WITH_PCA, T, use_rep=("X", None), n_components=2), "n_components", 2),
    (call(center_align, A, [A, (S, 0 * X)]), "slices[1][1]", "zeros"),
    (call(center_align, (S, 0 * X), [A]), "center[1]", "zeros"),
    (call(align, T, anndata_of(T), labels="type"), "labels", "type"),
    (call(align, T, anndata_of(T), labels=["type"]), "labels", "list", TypeError),
    (call(align, T, T, labels="a"), "labels", "adata_y", TypeError),
    (call(align, T[:1], T), "adata_x", 1),
    (call(align, T, T * np.nan), "adata_y", "finite"),
    (call(align, T, T, n_neighbors=13), "n_neighbors", "12, the cells, got 13"),
    (call(align, T, T, n_neighbors=1), "n_neighbors", 1),
    (call(align, T, T, n_neighbors=[]), "n_neighbors", "empty"),
    (call(align, T, T, metric="l1"), "metric", "l1"),
    (call(align, T, T, n_components="all"), "n_components", "all"),
    (call(foscttm, T, T[:9]), "y", "(12, 4), got (9, 4)"),
    (call(pairwise_align, anndata_of(X), A), "slice_a.obsm", "spatial"),
    (call(pairwise_align, A, A, use_rep="X_pca"), "use_rep", "slice_a"),
    (call(pairwise_align, NAMED, anndata_of(X, S, var_names="ABCDE")), "slice_b.X", "common"),
    (call(pairwise_align, NAMED, anndata_of(X, S, var_names="ababc")), "slice_b.X", "2 names"),
    (call(pairwise_align, A, S), "slice_b", "array", TypeError),
    (call(pairwise_align, A, (S[:9], X)), "slice_b[1]", "9 spots, got 12"),
    (call(pairwise_align, A, (S, X[:, 1:])), "slice_b[1]", "5, got 4"),
    (call(pairwise_align, A, (np.ones((12, 2)), X)), "slice_b[0]", "two places"),
    (call(pairwise_align, A, (S[:, :1], X)), "slice_b", "2, got 1"),
    (call(pairwise_align, A, (S, X - 5)), "dissimilarity", -5),
    (call(pairwise_align, A, A, dissimilarity="l1"), "dissimilarity", "l1"),
    (call(pairwise_align, A, A, blur="fast"), "blur", "fast"),
    (call(pairwise_align, A, A, blur=-1), "blur", -1),
    (call(pairwise_align, A, A, alpha=1.5), "alpha", 1.5),
    (call(pairwise_align, A, A, alpha=0, blur=2), "alpha", 0),
    (call(pairwise_align, A, A, options=SolverOptions(method="ppa")), "options.method", "ppa"),
    (call(pairwise_align, A, A, overlap=70), "overlap", 70),
    (call(stack_slices, [S], []), "alignments", "0 and 1"),
    (call(stack_slices, [S, S], [np.eye(3)]), "alignments[0]", "(12, 12), got (3, 3)"),
    (call(stack_slices, [S, S], [np.zeros((12, 12))]), "plan", "mass"),
    (call(center_align, A, []), "slices", "empty"),
    (call(center_align, (S, X - 9), [A]), "center[1]", -9),
    (call(center_align, A, [A], time_limit=-1), "time_limit", -1),
]
