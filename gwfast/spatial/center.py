"""One slice that stands for several."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..utils.types import Float64Array
from ..utils.validation import as_count, as_positive, as_weights, one_of
from .matching import SliceAlignment, pairwise_align
from .slices import DISSIMILARITIES, Dissimilarity, Slice, filled, with_common_genes

# Updates of a factorization, which goes on from the one of the round before.
N_UPDATES = 200
# What divides by a sum that may be zero.
TINY = 1e-12


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class CenterAlignment:
    """A center slice, and the spots of several slices among its own.

    Attributes
    ----------
    spots : (n, d) float64 ndarray
        Coordinates of the center's spots, those of the slice that it began as.
    loadings : (n, k) float64 ndarray
        How much of each program the center's spots express.
    programs : (k, genes) float64 ndarray
        The center's expression is their product, `expression`; both are non-negative.
    alignments : tuple of SliceAlignment
        Of the center with each slice.
    objectives : tuple of float
        The weighted mean of the objectives of the alignments, after each round.

    Examples
    --------
    See `center_align`.

    >>> import numpy as np
    >>> from gwfast.spatial import center_align
    >>> rng = np.random.default_rng(0)
    >>> spots, counts = rng.uniform(0, 9, (30, 2)), rng.poisson(3.0, (30, 8))
    >>> found = center_align((spots, counts), [(spots, counts)], n_components=3)
    >>> found.expression.shape, len(found.alignments)
    ((30, 8), 1)
    """

    spots: Float64Array
    loadings: Float64Array
    programs: Float64Array
    alignments: tuple[SliceAlignment, ...]
    objectives: tuple[float, ...]

    @property
    def expression(self) -> Float64Array:
        """Of the center's spots (n, genes)."""
        return self.loadings @ self.programs

    def __repr__(self) -> str:
        return (
            f"CenterAlignment({len(self.spots)} spots, {len(self.alignments)} slices, "
            f"{len(self.objectives)} rounds, objective={self.objectives[-1]:.6g})"
        )


def center_align(
    center: Any,
    slices: Sequence[Any],
    *,
    weights: ArrayLike | None = None,
    alpha: float = 0.1,
    dissimilarity: Dissimilarity = "kl",
    layer: str | None = None,
    norm: bool = False,
    n_components: int = 15,
    max_rounds: int = 10,
    tol: float = 1e-3,
    n_threads: int | None = None,
    seed: int = 0,
) -> CenterAlignment:
    """The slice that several are nearest to, by mean.

    PASTE's center slice: it has the coordinates of one slice, and an expression of few
    programs. Plans between it and all slices, and the non-negative factorization of
    what these plans bring to its spots, are found in turn.

    Parameters
    ----------
    center : AnnData, or pair of arrays
        The slice that the center begins as, see `pairwise_align`.
    slices : sequence of AnnData or pairs of arrays
        Non-negative expression, such as counts, of the genes of the center.
    weights : array-like of shape (len(slices),) or None, default=None
        Of the slices; None is all alike.
    alpha, dissimilarity, layer, norm, n_threads, seed
        See `pairwise_align`; `dissimilarity` is also that of the factorization.
    n_components : int, default=15
        Number of programs.
    max_rounds : int, default=10
    tol : float, default=1e-3
        It ends when the objective changes by less, relatively.

    Returns
    -------
    CenterAlignment

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast.spatial import center_align
    >>> rng = np.random.default_rng(0)
    >>> spots = rng.uniform(0, 9, (40, 2))
    >>> programs = np.exp(2 * np.sin(spots @ rng.normal(size=(2, 3))))
    >>> genes = programs @ rng.uniform(size=(3, 12)) ** 3
    >>> slices = [(spots + 5 * k, rng.poisson(genes)) for k in range(3)]
    >>> found = center_align(slices[0], slices, n_components=3)
    >>> bool(np.corrcoef(found.expression.ravel(), genes.ravel())[0, 1] > 0.9)
    True
    """
    one_of(dissimilarity, "dissimilarity", DISSIMILARITIES)
    max_rounds, tol = as_count(max_rounds, "max_rounds"), as_positive(tol, "tol")
    if not len(slices):
        raise ValueError("slices must not be empty")
    if weights is None:
        weights = np.ones(len(slices))
    shares = as_weights(weights, "weights", len(slices))
    start, others = _with_common_genes(center, slices, layer)
    spots, table = start.spots, filled(start.table)
    rng = np.random.default_rng(seed)
    rank = min(as_count(n_components, "n_components"), *table.shape)
    loadings = rng.uniform(0.5, 1.5, (len(spots), rank))
    programs = rng.uniform(0.5, 1.5, (rank, table.shape[1])) * table.mean(axis=0) / rank
    loadings, programs = _factorized(table, loadings, programs, dissimilarity)
    objectives: list[float] = []
    while True:
        expression = loadings @ programs
        found = tuple(
            pairwise_align(
                (spots, expression), (one.spots, one.table), alpha=alpha, norm=norm,
                dissimilarity=dissimilarity, n_threads=n_threads, seed=seed,
            )
            for one in others
        )  # fmt: skip
        objectives.append(float(shares @ [one.objective for one in found]))
        moved = len(objectives) < 2 or abs(objectives[-2] - objectives[-1]) > tol * abs(
            objectives[-1]
        )
        brought = sum(
            share * align.transform(filled(one.table))
            for share, align, one in zip(shares, found, others, strict=True)
        )
        loadings, programs = _factorized(brought, loadings, programs, dissimilarity)
        if not moved or len(objectives) == max_rounds:
            return CenterAlignment(spots, loadings, programs, found, tuple(objectives))


def _with_common_genes(center, slices, layer):
    """The center and the slices, with the genes that all of them have."""
    start = Slice.of(center, None, layer, "center")
    others = [
        Slice.of(one, None, layer, f"slices[{k}]") for k, one in enumerate(slices)
    ]
    for one in others:
        start, _ = with_common_genes(start, one)
    others = [with_common_genes(start, one)[1] for one in others]
    for one in (start, *others):
        if one.table.min() < 0:
            raise ValueError(
                f"{one.name} must not be negative, got {one.table.min():.3g}"
            )
    return start, others


def _factorized(table, loadings, programs, kind):
    """Non-negative factors of a table, from these on: multiplicative updates for the
    Kullback-Leibler divergence or the squared error (Lee and Seung, NIPS 2000).
    """
    for _ in range(N_UPDATES):
        for side in (0, 1):
            if kind == "kl":
                ratio = table / np.maximum(loadings @ programs, TINY)
                total = programs.sum(axis=1), loadings.sum(axis=0)[:, None]
            else:
                ratio, made = table, (programs @ programs.T, loadings.T @ loadings)
                total = loadings @ made[0], made[1] @ programs
            if side:
                programs = programs * (loadings.T @ ratio) / np.maximum(total[1], TINY)
            else:
                loadings = loadings * (ratio @ programs.T) / np.maximum(total[0], TINY)
    return loadings, programs
