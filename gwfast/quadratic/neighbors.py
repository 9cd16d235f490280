"""Kernels of point clouds that keep few entries: the neighbors of each point, chosen anew as the
plan moves, or the entries that carry a plan which hardly moves.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import logsumexp, rel_entr

from ..kernels import _exponentials
from ..kernels._products import Product
from ..linear.support import Support
from ..utils.types import Float32Array, Float64Array

if TYPE_CHECKING:
    from ..linear.gibbs_kernel import Scalings, SparseKernel, StoredKernel
    from ..linear.log_domain import Potentials
    from .factored import Right
    from .linearize import Tier

# Root mean square by which differences of exponents within rows have moved since a choice of
# neighbors from which on it is made anew: while the plan moves, and before a solve ends. (Three
# noisy rotations of 6000 points take 9 choices; with 1 and .1 they take 16 to the same objectives.)
RENEW, SETTLED = 4.0, 0.5
# Relative change of the state below which stored kernels are truncated; the least entry of the plan
# that is kept, as a fraction of the mass of its row or column; and the largest fraction of all
# entries with which that is faster.
TRUNCATED_BELOW, LEAST_ENTRY, MAX_DENSITY = 0.02, 1e-8, 0.05
# Full rows that say what a plan on few entries lacks: at the end, and in between.
MEASURED, LOOKED_AT = 1 << 12, 1 << 9


@dataclasses.dataclass(frozen=True)
class NeighborTier:
    """The tier "neighbors" with its number of neighbors: of the kernel of two point clouds each row
    keeps the `k` columns, and each column the `k` rows, between which the plan has most mass.
    """

    k: int = 32

    def __str__(self) -> str:
        return "neighbors"

    @staticmethod
    def of(tier: Tier) -> NeighborTier | None:
        """Return the `NeighborTier` that a tier is, or None."""
        if isinstance(tier, NeighborTier):
            return tier
        return NeighborTier() if tier == "neighbors" else None


class Truncation(NamedTuple):
    """The entries that carry a plan, None for all; and the change below which they are sought."""

    entries: Support | None = None
    below: float = -1.0

    def after(
        self,
        kernel: StoredKernel,
        scalings: Scalings,
        masses: tuple[Float64Array, Float64Array],
        change: float,
    ) -> Truncation:
        """Return the truncation of the next kernels, if the last change was small."""
        if self.entries is not None or not change < self.below:
            return self
        entries = Support.of_plan(kernel, scalings, masses, LEAST_ENTRY, MAX_DENSITY)
        # An attempt takes as long as ten iterations.
        return Truncation(entries, change / 4.0)


class Neighborhood(NamedTuple):
    """Neighbors of points, None if they are to be chosen; the mass that a plan on them lacks; and
    pairs of entries of some rows, by whose exponents they were chosen.
    """

    entries: Support | None = None
    truncated_mass: float = 0.0
    probe: tuple[NDArray[np.integer[Any]], ...] = ()
    differences: Float64Array | None = None

    @classmethod
    def chosen(
        cls,
        left: Float32Array,
        right: Float32Array,
        potentials: Potentials,
        masses: tuple[Float64Array, Float64Array],
        k: int,
        n_threads: int,
    ) -> Neighborhood:
        """Choose neighbors in the kernel of a left factor and the features `right`."""
        entries = Support.nearest(left, right, potentials, masses, k, n_threads)
        rng = np.random.default_rng(0)
        # The exponents of 4096 pairs of kept entries show how far exponents have moved.
        some = rng.integers(len(entries.index), size=1 << 12)
        rows = np.searchsorted(entries.start, some, side="right") - 1
        counts = entries.start[rows + 1] - entries.start[rows]
        others = entries.start[rows] + (rng.random(len(some)) * counts).astype(np.int64)
        made = cls(entries, 0.0, (rows, entries.index[some], entries.index[others]))
        return made._replace(differences=made._now(left, right, potentials))

    def _now(self, left: Float32Array, right: Float32Array, potentials: Potentials) -> Float64Array:
        rows, cols, others = self.probe
        difference = right[cols] - right[others]
        gaps = potentials.g[cols] - potentials.g[others]
        return gaps - np.einsum("ij,ij->i", left[rows], difference)

    def is_old(
        self, left: Float32Array, right: Float32Array, potentials: Potentials, limit: float
    ) -> bool:
        """Return whether exponents times epsilon have moved by more than a limit since a choice."""
        if self.entries is None or self.differences is None:
            return True
        change = self._now(left, right, potentials) - self.differences
        # Potentials of points that have lost their mass differ by NaN.
        return not float(np.sqrt(np.mean(np.square(change)))) <= limit


def mass_outside(
    kernel: SparseKernel,
    potentials: Potentials,
    right: Right,
    masses: Float64Array,
    n_rows: int,
    n_threads: int,
) -> Float64Array:
    """Return the fraction (n_rows,) of the mass outside of the entries of a kernel of full rows
    with these potentials, which are chosen at random by their masses.
    """
    if not masses.sum() > 0:
        return np.zeros(1)
    rng, g, epsilon = np.random.default_rng(0), potentials.g, kernel.epsilon
    drawn = rng.choice(len(masses), n_rows, p=masses / masses.sum())
    rows, back = np.unique(drawn, return_inverse=True)
    left, start = np.ascontiguousarray(kernel.left[rows]), kernel.support.start
    totals, inside = np.empty(len(rows)), np.empty(len(rows))
    full = Product(left, right.panels), np.zeros(len(rows)), g, epsilon
    _exponentials.logsumexp_rows(*full, totals, n_threads)
    for k, (row, features) in enumerate(zip(rows, left, strict=True)):
        kept = kernel.support.index[start[row] : start[row + 1]]
        # OpenBLAS's product with five float32 columns may report an invalid value that is none.
        costs = np.einsum("ij,j->i", right.features[kept], features)
        inside[k] = logsumexp((g[kept] - costs) / epsilon)
    return np.maximum(-np.expm1(inside - totals), 0.0)[back]


def upper_mean(values: Float64Array, chance: float = 0.05) -> float:
    """Return a bound that the mean of a law on [0, 1] with these draws exceeds with at most that
    chance: the largest m with ``n KL(mean | m) <= log(1 / chance)`` (Hoeffding, JASA 1963, theorem
    1), which for small means is far below what their variance allows by other bounds.
    """
    mean, most = float(np.mean(values)), np.log(1.0 / chance) / len(values)

    def beyond(m: float) -> float:
        return float(rel_entr(mean, m) + rel_entr(1.0 - mean, 1.0 - m)) - most

    return brentq(beyond, mean, 1.0 - 1e-12) if mean < 1.0 - 1e-9 else 1.0
