"""Refusals of the alignments of cells and of slices."""

from functools import partial

import numpy as np
from helpers.problems import anndata_of
from helpers.refusals import refused

from gwfast import SolverOptions
from gwfast.singlecell import align, foscttm
from gwfast.spatial import center_align, pairwise_align, stack_slices


def call(function, *data, **options):
    return lambda: function(*data, **options)


T = np.random.default_rng(0).standard_normal((12, 4))
S, X = T[:, :2], np.arange(60.0).reshape(12, 5) % 7  # spots and their counts
WITH_PCA = anndata_of(T)
WITH_PCA.obsm["X_pca"] = T
A, NAMED = (S, X), anndata_of(X, S, var_names="abcde")
OTHER_GENES, DOUBLED = (anndata_of(X, S, var_names=names) for names in ("ABCDE", "ababc"))


def cells(x=T, y=T, **options):
    return align(x, y, **options)


def slices(b=A, a=A, **options):
    return pairwise_align(a, b, **options)


ROWS = [
    (call(align, "cells.h5ad", T), "adata_x", "str", TypeError),
    (call(align, anndata_of(None), T), "adata_x.X", None),
    *refused(partial(cells, anndata_of(T)), use_rep={"X_umap": "X_umap"}),
    *refused(partial(cells, anndata_of(T)), use_rep={"adata_y is no AnnData": "X"}),
    *refused(cells, TypeError, use_rep=[["X"]], labels={"adata_y": "a"}),
    *refused(cells, n_neighbors={"12, the cells, got 13": 13, 1: 1, "empty": []}, metric=["l1"]),
    *refused(cells, n_components=["all"]),
    (call(align, T, WITH_PCA, n_components=3), "n_components", "adata_y.obsm['X_pca'] is taken"),
    (call(align, WITH_PCA, T, use_rep=("X", None), n_components=2), "n_components", 2),
    (call(align, T, anndata_of(T), labels="type"), "labels", "type"),
    (call(align, T, anndata_of(T), labels=["type"]), "labels", "list", TypeError),
    (call(align, T[:1], T), "adata_x", 1),
    (call(align, T, T * np.nan), "adata_y", "finite"),
    (call(foscttm, T, T[:9]), "y", "(12, 4), got (9, 4)"),
    (call(pairwise_align, anndata_of(X), A), "slice_a.obsm", "spatial"),
    (call(slices, OTHER_GENES, NAMED), "slice_b.X", "common"),
    (call(slices, DOUBLED, NAMED), "slice_b.X", "2 names"),
    (call(slices, S), "slice_b", "array", TypeError),
    (call(slices, (S[:9], X)), "slice_b[1]", "9 spots, got 12"),
    (call(slices, (S, X[:, 1:])), "slice_b[1]", "5, got 4"),
    (call(slices, (np.ones((12, 2)), X)), "slice_b[0]", "two places"),
    (call(slices, (S[:, :1], X)), "slice_b", "2, got 1"),
    (call(slices, (S, X - 5)), "dissimilarity", -5),
    *refused(slices, dissimilarity=["l1"], blur=["fast", -1], alpha=[1.5], overlap=[70]),
    *refused(slices, use_rep={"slice_a": "X_pca"}),
    *refused(partial(slices, blur=2), alpha=[0]),
    (call(slices, options=SolverOptions(method="ppa")), "options.method", "ppa"),
    (call(stack_slices, [S], []), "alignments", "0 and 1"),
    (call(stack_slices, [S, S], [np.eye(3)]), "alignments[0]", "(12, 12), got (3, 3)"),
    (call(stack_slices, [S, S], [np.zeros((12, 12))]), "plan", "mass"),
    (call(center_align, A, []), "slices", "empty"),
    (call(center_align, A, [A, (S, 0 * X)]), "slices[1][1]", "zeros"),
    (call(center_align, (S, 0 * X), [A]), "center[1]", "zeros"),
    (call(center_align, (S, X - 9), [A]), "center[1]", -9),
    (call(center_align, A, [A], time_limit=-1), "time_limit", -1),
]
