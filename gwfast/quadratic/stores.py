"""Kernels of linearized costs of point clouds, one class for each tier of memory."""

import dataclasses
import functools

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp, rel_entr

from ..kernels import _exponentials
from ..kernels._rows import Panels, Product, aligned_empty
from ..linear.gibbs_kernel import Buffer, ProductKernel, SparseKernel, TiledKernel, padded
from ..linear.log_domain import Potentials
from ..linear.support import Support
from ..utils.validation import as_count

# Root mean square by which differences of exponents within rows have moved since a choice of
# neighbors from which on it is made anew: while the plan moves, and before a solve ends.
# Potentials of rows have no part in what is nearest. (Three noisy rotations of 6000 points take 9
# choices in all; with 1 and .1 they take 16, and end at the same objectives to 2e-4.)
RENEW, SETTLED = 4.0, 0.5
# Points of the smaller side from which on kernels in one buffer are truncated; relative
# change of the state below which they are; the least entry of the plan that is kept, as a
# fraction of the mass of its row or column; and the largest fraction of all entries with
# which truncated kernels are faster.
TRUNCATED_FROM, TRUNCATED_BELOW, LEAST_ENTRY, MAX_DENSITY = 1000, 0.02, 1e-8, 0.05
# Pairs of kept entries whose exponents say how far they have moved.
PROBED = 1 << 12
# Bytes that a choice takes for each neighbor of each point: its number in the products
# and in several forms of compressed rows.
CHOICE_BYTES = 40


@dataclasses.dataclass(frozen=True)
class NeighborTier:
    """The tier "neighbors" with another number of neighbors: of the kernel of two point
    clouds each row keeps the `k` columns, and each column the `k` rows, between which
    the plan has most mass.

    Parameters
    ----------
    k : int, default=32

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> x = np.random.default_rng(0).standard_normal((500, 4)) ** 3
    >>> spaces = gwfast.PointCloud(x), gwfast.PointCloud(x[::-1])
    >>> tier = gwfast.NeighborTier(k=100)
    >>> result = gwfast.gromov_wasserstein(*spaces, epsilon="1%", tier=tier)
    >>> result.coupling.form
    'sparse'
    """

    k: int = 32

    def __post_init__(self):
        as_count(self.k, "k")

    def __str__(self):
        return "neighbors"

    @staticmethod
    def of(tier):
        """The `NeighborTier` that a tier is, or None."""
        if isinstance(tier, NeighborTier):
            return tier
        return NeighborTier() if tier == "neighbors" else None


class Right:
    """The right factor of kernels in the forms that they read."""

    def __init__(self, features, n_threads):
        self.features, self.n_threads = features, n_threads
        self.panels = Panels(features, True, n_threads=n_threads)

    @functools.cached_property
    def rows(self):
        return padded(self.features)


class WholeStore:
    """Kernels with all entries, in a `Buffer` or made anew in each iteration; or, once the
    plan hardly moves, with the entries that carry it, until `use_all`.
    """

    # True if the last kernel of a solve may lack entries.
    is_partial = False
    _support, _truncates_below = None, -1.0

    def __init__(self, right, n, tier, truncates=False):
        self.right, self.buffer = right, None
        if truncates and min(n, right.panels.m) >= TRUNCATED_FROM:
            self._truncates_below = TRUNCATED_BELOW
        if tier == "dense":
            self.buffer = Buffer(aligned_empty((n, right.panels.m)))

    def kernel(self, left, epsilon=None, potentials=None):
        """The `Kernel` of the product of `left` and the right factor, which is precise
        near this epsilon and these potentials.
        """
        given, n_threads = (left, self.right.panels), self.right.n_threads
        if self._support is not None:
            return SparseKernel(left, self.right.rows, self._support, n_threads)
        if self.buffer is not None:
            return ProductKernel(*given, self.buffer, n_threads)
        return TiledKernel(*given, self.right.features, n_threads)

    def truncate(self, kernel, scalings, masses, change):
        """Keep the entries that carry this plan in the next kernels, if the last change
        was small and they are few.
        """
        if self._support is None and change < self._truncates_below:
            given = kernel, scalings, masses, LEAST_ENTRY, MAX_DENSITY
            self._support = Support.of_plan(*given)
            # An attempt takes as long as ten iterations.
            self._truncates_below = change / 4.0

    def use_all(self):
        """Keep all entries from now on; returns whether the last kernel lacked some."""
        had, self._support = self._support is not None, None
        self._truncates_below = -1.0 if had else self._truncates_below
        return had


class NeighborStore:
    """Kernels on a `Support`, which is chosen anew when exponents have moved."""

    is_partial, buffer = True, None

    def truncate(self, kernel, scalings, masses, change):
        """Keep the choice."""

    def __init__(self, right, masses, k):
        self.right, self._masses, self._k = right, masses, k
        self._support = None

    def kernel(self, left, epsilon, potentials):
        if potentials is None:
            potentials = Potentials(*(np.zeros(len(one)) for one in self._masses))
        old = self._support is None
        if epsilon is not None and not old:
            old = self._moved(left, potentials) > RENEW * epsilon
        if old:
            given = left, self.right.features, potentials, self._masses, self._k
            self._support = Support.nearest(*given, self.right.n_threads)
            self._probe(left, potentials)
        return SparseKernel(left, self.right.rows, self._support, self.right.n_threads)

    def renew(self, left, epsilon, potentials):
        """Choose neighbors anew for the next kernel, unless they are those of this left
        factor and these potentials; returns whether they are not.
        """
        moved = self._moved(left, potentials) > SETTLED * epsilon
        if moved:
            self._support = None
        return moved

    def _probe(self, left, potentials):
        """Keep pairs of entries of some rows, and by how much their exponents differ,
        times epsilon.
        """
        support, rng = self._support, np.random.default_rng(0)
        some = rng.integers(len(support.index), size=PROBED)
        rows = np.searchsorted(support.start, some, side="right") - 1
        counts = support.start[rows + 1] - support.start[rows]
        others = support.start[rows] + (rng.random(PROBED) * counts).astype(np.int64)
        self._some = rows, support.index[some], support.index[others]
        self._differences = self._now(left, potentials)

    def _now(self, left, potentials):
        rows, cols, others = self._some
        features, g = self.right.features, potentials.g
        apart = features[cols] - features[others]
        return g[cols] - g[others] - np.einsum("ij,ij->i", left[rows], apart)

    def _moved(self, left, potentials):
        moved = self._now(left, potentials) - self._differences
        return float(np.sqrt(np.mean(np.square(moved))))

    def outside(self, kernel, potentials, masses, n_rows):
        """The fraction (n_rows,) of the mass outside of the support of whole rows with
        these potentials, which are chosen at random by their masses.
        """
        if not masses.sum() > 0:
            return np.zeros(1)
        rng, g, epsilon = np.random.default_rng(0), potentials.g, kernel.epsilon
        drawn = rng.choice(len(masses), n_rows, p=masses / masses.sum())
        rows, back = np.unique(drawn, return_inverse=True)
        left, start = np.ascontiguousarray(kernel.left[rows]), kernel.support.start
        totals, inside = np.empty(len(rows)), np.empty(len(rows))
        whole = Product(left, self.right.panels), np.zeros(len(rows)), g, epsilon
        _exponentials.logsumexp_rows(*whole, totals, self.right.n_threads)
        for k, (row, one) in enumerate(zip(rows, left, strict=True)):
            kept = kernel.support.index[start[row] : start[row + 1]]
            logs = (g[kept] - self.right.features[kept] @ one) / epsilon
            inside[k] = logsumexp(logs)
        return np.maximum(-np.expm1(inside - totals), 0.0)[back]


def upper_mean(values, chance):
    """What the mean is below, of which these are drawn at random from [0, 1], but for
    that chance: the largest m with ``n KL(mean | m) <= log(1 / chance)`` (Hoeffding,
    Journal of the American Statistical Association 1963, theorem 1), which for small
    means is far below what their variance allows by other bounds.
    """
    mean, most = float(np.mean(values)), np.log(1.0 / chance) / len(values)

    def beyond(m):
        return float(rel_entr(mean, m) + rel_entr(1.0 - mean, 1.0 - m)) - most

    return brentq(beyond, mean, 1.0 - 1e-12) if mean < 1.0 - 1e-9 else 1.0
