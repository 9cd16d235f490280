"""Products of plans with two symmetric matrices near a plan whose product is known, by
thin products with the leading eigenvectors of both.

With ``left = L + A`` and ``right = R + B``, where L and R are of low rank,

    left T right = L T right + A T R + A T B

The first two terms are thin. The last is small, and linear in the plan: it is kept as
it is at a reference, and what it has changed by since is measured on some rows. Plans
that move slowly move along the leading eigenvectors: from one reference to the next
they may go as far as these lead them. Then the last term is made anew where the plan
has most of its mass, if that does (see sampled_rest.py), or all over.
"""

import enum
from typing import NamedTuple

import numpy as np

from ..kernels import _kernels, _products
from ..kernels._rows import Panels, aligned_empty
from ..problems.low_rank import MIN_POINTS, square_lengths, stored
from ..utils.blocks import row_blocks
from ..utils.deadline import NEVER
from ..utils.mechanisms import ALL
from . import matrix_products, sampled_rest
from .anderson import DEPTH
from .kept_product import KeptProduct
from .sampled_rest import SampledRest, least_kept

# Eigenvectors, at most one for so many points, but for the bounds: with many points
# they save more time than they take. Of 5000 words 16 products were whole with 80, 13
# with 112, 11 with 128 and 4 with 312, which took longer in all; and what is kept of
# each of the last plans takes as much room as these. Hops between 1985 and 1919 cells
# took as long with 64 as with 112, or less. Whole panels of them: a part of one takes
# as long to multiply by.
POINTS_PER_VECTOR, LEAST_RANK, MAX_RANK, PANEL = 32, 64, 96, 32
# Rows that are measured: so many evenly spread, and as many of those that the leading
# eigenvectors leave out most of.
MEASURED = 8
# Thin products from one whole one to the next that are worth looking for them, and
# products that are made whole without a look, at most, where there are fewer.
WORTH, MAX_PAUSE = 2, 16
# How many times less mass is left out of a product made on samples than that would be
# wrong by as much. Graphs of 1000 to 4700 words took longest with 2, as near such a
# product few thin ones were right enough, and with 16 more were whole.
SAFETY = 8
# Points a side from which on it pays; at epsilon .3 %, where plans slide for hundreds
# of iterations, solves of 700 words took up to a third longer with it.
SAMPLED_POINTS = 1000
# Bytes of left factors that are put together at a time.
FINISHED_BYTES = 1 << 24


class Made(enum.Enum):
    """How a product was made: of few eigenvectors; with what these leave out where the
    plan has most of its mass; or of the matrices.
    """

    THIN = "thin"
    SAMPLED = "sampled"
    WHOLE = "whole"


def suits(shape, symmetric, mechanisms=ALL):
    """Whether thin products are worth it for that many points."""
    allowed = mechanisms.low_rank_products and symmetric
    return allowed and min(shape) >= MIN_POINTS


def rank_for(shape):
    """Number of eigenvectors."""
    rank = min(shape) // POINTS_PER_VECTOR // PANEL * PANEL
    return int(np.clip(rank, LEAST_RANK, MAX_RANK))


class LeadingParts:
    """The leading eigenvectors of both matrices of a `BilinearTerm`, found when they
    are needed first; shared by all that take products with these, in any precision.
    """

    def __init__(self, n_threads):
        self._n_threads, self._pairs, self._made = n_threads, None, {}

    def of(self, bilinear):
        """The `ThinFactors` of the matrices, in their precision."""
        left, _ = bilinear.matrices
        if left.dtype in self._made:
            return self._made[left.dtype]
        if self._pairs is None:
            self._pairs = bilinear.leading_eigenpairs(rank_for(bilinear.shape))
        made = ThinFactors(bilinear, self._pairs, self._n_threads)
        self._made[left.dtype] = made
        if left.dtype == np.float32:
            self._pairs = None  # nothing comes after float32 but what it has made
        return made


class ThinFactors:
    """What thin products multiply by.

    Attributes
    ----------
    matrices : tuple
        ``left`` and ``right``.
    rank : int
        Eigenvectors of a side.
    measured : (k,) ndarray of int
        The rows of the product that are made whole.
    rows : (rank + k, n) ndarray
        Eigenvectors of `left`, and its measured rows.
    """

    def __init__(self, bilinear, pairs, n_threads):
        (vectors, values), (others, weights) = pairs
        self.matrices, self._n_threads = bilinear.matrices, n_threads
        left = self.matrices[0]
        (self._left, self._right), dtype = bilinear.factors, left.dtype
        missed = square_lengths(left, n_threads) - vectors**2 @ values**2
        spread = range(0, len(left), max(len(left) // MEASURED, 1))
        self.measured = np.union1d(spread, np.argsort(missed)[-MEASURED:])
        # These rows of the matrix come along with the eigenvectors.
        some = stored(left[self.measured], n_threads)
        self.rows = np.ascontiguousarray(np.concatenate([vectors.T, some]), dtype)
        self._vectors = np.ascontiguousarray(vectors * values, dtype)
        self._others = np.ascontiguousarray(others, dtype)
        self._weights, self.rank = weights.astype(dtype), len(weights)

    def begin(self, plan):
        """The `ThinPart` of the product of a plan, and its measured rows, whole."""
        rank = self.rank
        product = self._times(self._left, self._times(plan, self._others))
        made = self._times(self.rows, plan)
        product -= self._times(self._vectors, self._times(made[:rank], self._others))
        made = self._times(made, self._right)
        product *= self._weights
        return self.part(product, made[:rank]), made[rank:]

    def part(self, left, right):
        """The `ThinPart` with these columns (n, k) and rows (k, m)."""
        return ThinPart(left, right, self._vectors, self._others, self._n_threads)

    def rest(self, made):
        """The measured rows of ``A S B``, of ``rows @ S`` for a plan S."""
        rank = self.rank
        half = made[rank:] - self._vectors[self.measured] @ made[:rank]
        rest = self._times(half, self._right)
        rest -= ((half @ self._others) * self._weights) @ self._others.T
        return rest

    def subtract_leading(self, rows, made, half):
        """Take from some rows of ``left @ S`` what the eigenvectors make of them, of
        ``rows @ S``: what is left is ``A S``.
        """
        vectors = self._vectors[rows]
        packed = Panels(made[: self.rank], n_threads=self._n_threads)
        for some in row_blocks(*half.shape, FINISHED_BYTES):
            half[some] -= self._times(vectors[some], packed)

    def leading_of(self, half):
        """Two factors (n, rank) and (rank, m) of what the eigenvectors of `right` make
        of ``half @ right``.
        """
        inner = self._times(half, self._others)
        inner *= self._weights
        return inner, np.ascontiguousarray(self._others.T)

    def _times(self, a, b):
        columns = b.m if isinstance(b, Panels) else b.shape[1]
        made = aligned_empty((len(a), columns), self.rows.dtype)
        matrix_products.multiply(a, b, made, self._n_threads)
        return made


class ThinPart(NamedTuple):
    """The thin part ``[vectors, left] @ [right, others']`` of a product; the
    eigenvectors are the same for all plans.
    """

    left: np.ndarray
    right: np.ndarray
    vectors: np.ndarray
    others: np.ndarray
    n_threads: int

    @staticmethod
    def combined(parts, weights):
        """The sum of parts, multiplied by these: either side is linear in the plan."""
        left, right = (
            sum(one.dtype.type(w) * one for w, one in zip(weights, side, strict=True))
            for side in zip(*((p.left, p.right) for p in parts), strict=True)
        )
        return parts[-1]._replace(left=left, right=right)

    def writer(self):
        """A function that writes some rows, a slice, of it, and of a matrix (n, m) that
        it is added to, unless that is None.
        """
        right = np.concatenate([self.right, self.others.T])
        packed = Panels(right, n_threads=self.n_threads)

        def write(rows, out, plus=None):
            left = np.concatenate([self.vectors[rows], self.left[rows]], axis=1)
            given = dict(plus=None if plus is None else plus[rows])
            _products.matmul(left, packed, out, **given, n_threads=self.n_threads)

        return write

    def finish(self, out, plus=None):
        """Write all of it, and of a matrix (n, m) that it is added to."""
        write, width = self.writer(), 2 * self.left.shape[1]
        for rows in row_blocks(len(out), width, FINISHED_BYTES):
            write(rows, out[rows], plus)

    def rows(self, some):
        """A few of its rows."""
        return self.vectors[some] @ self.right + self.left[some] @ self.others.T


class LowRankProducts:
    """``left @ plan @ right`` for plans near a reference.

    Parameters
    ----------
    bilinear : BilinearTerm
    parts : LeadingParts
    n_threads : int
    kept : KeptProduct or None, default=None
        Whose `rest` is what thin products lack at the reference.
    mechanisms : Mechanisms, default=ALL
    """

    def __init__(self, bilinear, parts, n_threads, kept=None, mechanisms=ALL):
        many = min(bilinear.shape) >= SAMPLED_POINTS
        self._samples = mechanisms.sampled_products and many
        self._bilinear, self._parts, self._n_threads = bilinear, parts, n_threads
        self._kept, self._part = kept or KeptProduct(), None
        self._refers, self._offset = False, 0.0
        # How the last product was made, and the reference; what the value of one made
        # on samples lacks.
        self._made = self._reference = Made.WHOLE
        self._missing = 0.0
        # Products near the reference so far, those left to be made without a look, and
        # how many these are the next time.
        self._run, self._pause, self._next_pause = 0, 0, 1
        # Whether products were made without a look since the reference.
        self._stale = False

    @property
    def has_reference(self):
        """Whether there is a reference, and it is still kept."""
        return self._refers and self._kept.rest is not None

    @property
    def is_fresh(self):
        """Whether the reference is whole, and nothing has been made of it yet."""
        whole = self._reference == Made.WHOLE
        return whole and self.has_reference and self._run == 0

    def forget(self):
        """Take the product of nothing as the reference."""
        self._refers, self._offset = False, 0.0

    def fill(self, plan, out, max_error, over, deadline=NEVER):
        """Write the product of `plan` into `out`, if what it is wrong by is at most
        `max_error` in the mean over a plan, this or another; returns how, and nothing
        is written where it is to be made whole. OutOfTime after the deadline.
        """
        self._made = self._fill(plan, out, max_error, over, deadline)
        return self._made

    def _fill(self, plan, out, max_error, over, deadline):
        self._part, self._missing = None, 0.0
        if self._pause:
            self._pause, self._stale = self._pause - 1, True
            return Made.WHOLE
        factors = self._parts.of(self._bilinear)
        self._part, whole = factors.begin(plan)
        if not max_error > 0:
            return Made.WHOLE
        rest = self._kept.rest if self.has_reference else None
        whole -= self._part.rows(factors.measured)
        known = 0.0 if rest is None else rest[factors.measured]
        if self._error(over, whole - known) <= max_error:
            self._run += 1
            self._part.finish(out, rest)
            return Made.THIN
        given = plan, out, whole, rest, max_error, deadline
        if plan is over and self._may_sample(plan) and self._sample(*given):
            return Made.SAMPLED
        if self._stale or rest is None:
            return Made.WHOLE
        if self._run < WORTH:
            self._pause = self._next_pause
            self._next_pause, self._part = min(2 * self._pause, MAX_PAUSE), None
        else:
            self._next_pause = 1
        return Made.WHOLE

    def _may_sample(self, plan):
        """Whether to try. Not where nothing could be made near the reference: one such
        product after the other is no map of plans that could be extrapolated.
        """
        lasts = self._run > 0 or not self.has_reference
        return lasts and plan.dtype == np.float32 and self._samples

    def _sample(self, plan, out, whole, rest, max_error, deadline):
        """Write the product of a plan with what thin ones leave out, of which there are
        the measured rows, as the reference has it, but made where the plan has most of
        its mass; returns whether that does.
        """
        left_out = max_error / (SAFETY * self._error(plan, whole) or np.inf)
        least = least_kept(plan, left_out, self._n_threads)
        if least is None:
            return False
        factors = self._parts.of(self._bilinear)
        sampled = SampledRest(plan, least, factors, self._n_threads)
        known = np.zeros_like(whole) if rest is None else rest[factors.measured]
        if not self._error(plan, whole - sampled.measured(known)) <= max_error:
            return False
        self._missing = sampled.fill(self._part, rest, out, deadline)
        return True

    def take_part(self):
        """The thin part of the product of the plan last passed to `fill`, to be kept,
        or None if there was no look at it.
        """
        part, self._part = self._part, None
        return part

    def refer(self, plan, product):
        """Take as the reference the plan last passed to `fill`, of this product, if
        there was a look at it.
        """
        part = self.take_part()
        if part is not None:
            self._kept.take(product, part)
            self.referred(plan)

    def referred(self, plan):
        """Take as the reference a plan of which the rest is kept."""
        self._run, self._refers, self._stale = 0, True, False
        self._reference = self._made
        self._offset = _kernels.dot(plan, self._kept.rest, self._n_threads)
        self._offset -= self._missing

    def correction(self, plan):
        """What ``<plan, product>`` lacks with the product that `fill` has written for
        the plan, up to the square of its distance from the reference: what is left out
        is self-adjoint.
        """
        if self._made == Made.SAMPLED:
            return self._missing
        if not self.has_reference:
            return 0.0
        rest = self._kept.rest
        return _kernels.dot(plan, rest, self._n_threads) - self._offset

    def _error(self, plan, wrong):
        """Mean over measured rows of a plan of what the product is `wrong` by, beside
        what is the same all over a row.
        """
        weights = plan[self._parts.of(self._bilinear).measured]
        mass = weights.sum(axis=1, keepdims=True)
        weights = np.divide(weights, mass, where=mass > 0, out=np.zeros_like(weights))
        wrong = wrong - np.einsum("ij,ij->i", weights, wrong)[:, None]
        total = np.einsum("ij,ij->", weights, np.abs(wrong))
        return float(total) / max(np.count_nonzero(mass), 1)


def nbytes(shape, itemsize):
    """Bytes that thin products take beside the reference."""
    n, m = shape
    # Eigenvectors as they were found, as factors, and what they are multiplied to, of
    # the last plans too.
    size = itemsize * (8 + DEPTH) * (rank_for(shape) + 2 * MEASURED) * (n + m)
    return size + sampled_nbytes(shape)


def sampled_nbytes(shape):
    """Those that sampled ones take of them."""
    return sampled_rest.nbytes(shape) if min(shape) >= SAMPLED_POINTS else 0
