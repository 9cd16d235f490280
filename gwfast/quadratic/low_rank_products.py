"""Products of plans with two symmetric matrices near a plan whose product is known, by
thin products with the leading eigenvectors of both.

With ``left = L + A`` and ``right = R + B``, where L and R are of low rank,

    left T right = L T right + A T R + A T B

The first two terms are thin. The last is small, and linear in the plan: it is kept as
it is at a reference, and what it has changed by since is measured on some rows.
"""

import numpy as np

from ..kernels import _kernels, _products
from ..kernels._rows import Panels, aligned_empty
from ..problems.low_rank import MIN_POINTS, leading_eigenpairs
from ..utils.trees import as_saved

# Eigenvectors, at most one for so many points, but for the bounds.
POINTS_PER_VECTOR, LEAST_RANK, MAX_RANK = 32, 64, 256
# Rows that are measured: so many evenly spread, and as many of those that the leading
# eigenvectors leave out most of.
MEASURED = 8
# Thin products from one whole one to the next that are worth looking for them, and
# products that are made whole without a look, at most, where there are fewer.
WORTH, MAX_PAUSE = 2, 16


def suits(shape, symmetric):
    """Whether thin products are worth it for that many points."""
    return symmetric and min(shape) >= MIN_POINTS


def rank_for(shape):
    """Number of eigenvectors."""
    return int(np.clip(min(shape) // POINTS_PER_VECTOR, LEAST_RANK, MAX_RANK))


class LeadingParts:
    """The leading eigenvectors of both matrices of a `BilinearTerm`, found when they
    are needed first; shared by all that take products with these, in any precision.
    """

    def __init__(self, n_threads):
        self._n_threads, self._pairs, self._made = n_threads, None, {}

    def of(self, bilinear):
        """The `ThinFactors` of the matrices, in their precision."""
        left, right = bilinear.matrices
        if self._pairs is None:
            rank = rank_for(bilinear.shape)
            self._pairs = [
                leading_eigenpairs(one, rank, self._n_threads) for one in (left, right)
            ]
        if left.dtype not in self._made:
            made = ThinFactors(bilinear, self._pairs, self._n_threads)
            self._made[left.dtype] = made
        return self._made[left.dtype]


class ThinFactors:
    """What thin products multiply by.

    Attributes
    ----------
    measured : (k,) ndarray of int
        The rows of the product that are made whole.
    """

    def __init__(self, bilinear, pairs, n_threads):
        (vectors, values), (others, weights) = pairs
        left, self._n_threads = bilinear.matrices[0], n_threads
        self._left, self._right, dtype = left, bilinear.packed, left.dtype
        missed = np.einsum("ij,ij->i", left, left) - vectors**2 @ values**2
        spread = range(0, len(left), max(len(left) // MEASURED, 1))
        self.measured = np.union1d(spread, np.argsort(missed)[-MEASURED:])
        # These rows of the matrix come along with the eigenvectors.
        self._rows = np.ascontiguousarray(
            np.concatenate([vectors.T, left[self.measured]]), dtype
        )
        self._vectors = np.ascontiguousarray(vectors * values, dtype)
        self._others = np.ascontiguousarray(others, dtype)
        self._packed, self._weights = self._pack(self._others), weights.astype(dtype)

    def begin(self, plan):
        """Factors of the thin part of a product, (n, k) and (k, m), and its measured
        rows, whole.
        """
        rank = len(self._weights)
        made = self._times(self._rows, self._pack(plan))
        core = self._times(made[:rank], self._packed)
        made = self._times(made, self._right)
        product = self._times(self._left, self._pack(self._times(plan, self._packed)))
        product -= self._times(self._vectors, self._pack(core))
        product *= self._weights
        left = np.concatenate([self._vectors, product], axis=1)
        right = np.concatenate([made[:rank], self._others.T])
        return left, right, made[rank:]

    def finish(self, left, right, out):
        """Write the product of two such factors."""
        _products.matmul(left, self._pack(right), out, n_threads=self._n_threads)

    def _pack(self, matrix):
        return Panels(matrix, n_threads=self._n_threads)

    def _times(self, a, packed):
        made = aligned_empty((len(a), packed.m), a.dtype)
        _products.matmul(a, packed, made, n_threads=self._n_threads)
        return made


class LowRankProducts:
    """``left @ plan @ right`` for plans near a reference.

    Parameters
    ----------
    bilinear : BilinearTerm
    parts : LeadingParts
    n_threads : int
    """

    def __init__(self, bilinear, parts, n_threads):
        self._bilinear, self._parts, self._n_threads = bilinear, parts, n_threads
        self._thin = self._rest = None
        self._offset = 0.0
        # Products near the reference so far, those left to be made without a look, and
        # how many these are the next time.
        self._run, self._pause, self._next_pause = 0, 0, 1

    @property
    def is_fresh(self):
        """Whether nothing has been made of this reference yet."""
        return self._rest is not None and self._run == 0

    def export(self):
        """A tree from which `restore` takes the reference."""
        counts = self._run, self._pause, self._next_pause
        return dict(rest=self._rest, offset=self._offset, counts=counts)

    def restore(self, saved, shape, dtype):
        """Take the reference that another exported, of this shape and dtype."""
        self._offset, self._rest = float(saved["offset"]), None
        self._run, self._pause, self._next_pause = map(int, saved["counts"])
        if saved["rest"] is not None:
            self._rest = aligned_empty(shape, dtype)
            np.copyto(self._rest, as_saved(saved["rest"], shape, dtype))

    def forget(self):
        """Take the product of nothing as the reference."""
        self._rest, self._offset = None, 0.0

    def fill(self, plan, out, max_error, over):
        """Write the product of `plan` into `out`, if what it is wrong by is at most
        `max_error` in the mean over a plan, this or another; returns whether it was.
        """
        if self._pause:
            self._pause -= 1
            return False
        factors = self._parts.of(self._bilinear)
        *self._thin, whole = factors.begin(plan)
        if not max_error > 0:
            return False
        if not self._error(over, whole) <= max_error:
            if self._rest is not None and self._run < WORTH:
                self._pause = self._next_pause
                self._next_pause, self._thin = min(2 * self._pause, MAX_PAUSE), None
            else:
                self._next_pause = 1
            return False
        self._run += 1
        factors.finish(*self._thin, out)
        self._thin = None
        if self._rest is not None:
            out += self._rest
        return True

    def refer(self, plan, product):
        """Take as the reference the plan last passed to `fill`, of this product, if
        there was a look at it.
        """
        if self._thin is None:
            return
        if self._rest is None:
            self._rest = aligned_empty(product.shape, product.dtype)
        self._parts.of(self._bilinear).finish(*self._thin, self._rest)
        np.subtract(product, self._rest, out=self._rest)
        self._run, self._thin = 0, None
        self._offset = _kernels.dot(plan, self._rest, self._n_threads)

    def correction(self, plan):
        """What ``<plan, product>`` lacks with the product that `fill` has written for
        the plan, up to the square of its distance from the reference: what is left out
        is self-adjoint.
        """
        if self._rest is None:
            return 0.0
        return _kernels.dot(plan, self._rest, self._n_threads) - self._offset

    def _error(self, plan, whole):
        """Mean over measured rows of a plan of what the product is wrong by, beside
        what is the same all over a row.
        """
        some = self._parts.of(self._bilinear).measured
        left, right = self._thin
        wrong = whole - left[some] @ right
        if self._rest is not None:
            wrong -= self._rest[some]
        weights = plan[some]
        mass = weights.sum(axis=1, keepdims=True)
        weights = np.divide(weights, mass, where=mass > 0, out=np.zeros_like(weights))
        wrong -= np.einsum("ij,ij->i", weights, wrong)[:, None]
        total = np.einsum("ij,ij->", weights, np.abs(wrong))
        return float(total) / max(np.count_nonzero(mass), 1)


def nbytes(shape, itemsize, n_states):
    """Bytes that thin products take, with so many references at a time."""
    n, m = shape
    # Eigenvectors as they were found, as factors (one side packed too), and what they
    # are multiplied to, twice.
    vectors = (rank_for(shape) + 2 * MEASURED) * (n + m)
    return itemsize * (n_states * n * m + 8 * vectors)
