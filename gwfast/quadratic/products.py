"""The product operator: ``left @ plan @ right`` of the plans of one descent, each to a
stated tolerance. It owns every approximation of these products, and the only memory of
earlier ones (product_memory.py).

- A *low-rank update* adds to the product of a reference plan what the leading
  eigenvectors make of the change since (low_rank_update.py). What that is wrong by is
  measured on some rows.
- An *increment* adds to a float64 product that of the change, in float32
  (mixed_precision.py).
- Otherwise the product is *whole*. The next updates refer to it.
"""

import numpy as np

from ..kernels import _kernels
from ..problems.low_rank import MIN_POINTS
from ..utils.deadline import NEVER
from ..utils.mechanisms import ALL
from .acceleration import DEPTH
from .low_rank_update import error_over, suits
from .mixed_precision import Increments
from .product_memory import Known, ProductMemory, Reference

# What updates may move the next plan by, as a fraction of the last change; more in
# float32 where steps are followed: the plan gets near where it would go if nothing but
# the low-rank part of the product moved, before a whole product corrects all else.
SLACK, SLACK_FOLLOWED = 0.2, 2.0
# The same as a fraction of the plan, at most, which says more while that moves far. Of
# four pairs of hops between cells, each with 64 to 160 eigenvectors, one ended in
# another optimum than POT's iterations do with a tenth, a second one, with half of
# these numbers, without a limit; none does with this.
MOST = 0.03
# By how many times both become less at a time where plans go round, and the least
# fraction that becomes of them.
TIGHTER, LEAST_FRACTION = 4, 2**-8
# What the first update of a reference may be wrong by in any case, in units of the last
# digit: what is measured, the reference and the update each round by up to a quarter
# (random costs of 600 points, .5 in all).
ROUNDED = 0.6
# Updates of one reference that are worth looking for them, and products that are made
# without a look, at most, where there are fewer.
WORTH, MAX_PAUSE = 2, 16


class ProductOperator:
    """Products of plans near one another, and a constant that is added to each.

    Parameters
    ----------
    bilinear : BilinearTerm
    n_threads : int
    constant : (n, m) ndarray or None, default=None
    mechanisms : Mechanisms, default=ALL
    memory : ProductMemory or None, default=None
    followed : bool, default=False
        Whether the last products are to be combined where steps lead.

    Attributes
    ----------
    memory : ProductMemory
        Of the reference, and the last products.
    is_whole : bool
        Whether the last product was made of the matrices.
    is_correction : bool
        Whether it was, after updates: steps between plans were those of another map.
    """

    def __init__(
        self,
        bilinear,
        n_threads,
        constant=None,
        mechanisms=ALL,
        memory=None,
        followed=False,
    ):
        self._followed = followed
        self.bilinear, self._n_threads, self._constant = bilinear, n_threads, constant
        self._mechanisms = mechanisms
        self._updates = suits(bilinear.shape, bilinear.symmetric, mechanisms)
        itemsize = bilinear.matrices[0].dtype.itemsize
        self._slack = SLACK_FOLLOWED if followed and itemsize <= 4 else SLACK
        most = n_rooms(bilinear.shape, itemsize, self._updates, followed)
        self.memory = memory or ProductMemory(most)
        self._increments, self._outer = None, None
        self.is_whole, self.is_correction = True, False
        # Products that have to be whole, and the share of all tolerances that is left.
        self._n_whole, self._fraction = 0, 1.0
        # Updates of the reference so far, products to be made without a look for one,
        # and how many these are the next time.
        self._n_updates, self._pause, self._next_pause = 0, 0, 1
        # Of the last product: how it is known if it is, and the value of its plan and
        # the part of the reference; and of the reference, what its part lacks.
        self._last, self._overlap, self._offset = None, 0.0, 0.0

    def fork(self):
        """Another one of the same matrices, in the same room."""
        given = self.bilinear, self._n_threads, self._constant, self._mechanisms
        return ProductOperator(*given, self.memory.fork(), self._followed)

    @property
    def is_plain(self):
        """Whether all products are made of the matrices themselves."""
        return not (self._updates or self._increments is not None)

    def use_increments(self, products, made):
        """Make products near whole ones by those of a lower precision, which are taken,
        to an array that nothing else needs.
        """
        self._updates, products._constant = False, None
        self._increments = Increments(products, made, self._n_threads)

    def apply(self, plan, out, change, epsilon, deadline=NEVER, *, over=None):
        """Write the product of a plan to `out`. Its error may move the next plan, by
        that epsilon, by a fraction of the last relative `change`, in the mean over the
        plan, or `over` another one. OutOfTime after the deadline.
        """
        outer, self._outer, was_whole = self._outer, None, self.is_whole
        exactly, self._n_whole = self._n_whole > 0, max(self._n_whole - 1, 0)
        self._last, self.is_whole = None, True
        if outer is not None:
            self.bilinear.multiply_outer(*outer, out)
            self._add_constant(out)
        else:
            tolerance = 0.0
            if not exactly:
                tolerance = self._fraction * min(self._slack * change, MOST) * epsilon
            found = self._look(plan) if self._updates else None
            over = plan if over is None else over
            if found is None or not self._update(found, out, tolerance, over, exactly):
                self._make(plan, out, change, epsilon, exactly, deadline)
                self._refer(found, out, exactly)
        self.is_correction = self.is_whole and not was_whole

    def _look(self, plan):
        """Part and `Projections` of a plan, or None where there is no look at them."""
        if self._pause:
            self._pause -= 1
            return None
        return self.bilinear.leading.of(plan)

    def _update(self, found, out, tolerance, over, exactly):
        """Write the product as an update of the reference, or of nothing, where that is
        right to the tolerance; returns whether it was written.
        """
        (part, projections), known = found, self.memory.reference
        base, rows = self._constant, part.factors.measured
        if known is not None:
            base, part = known.base, part.combined([part, known.part], [1.0, -1.0])
            if not self._n_updates and not exactly:
                tolerance = max(tolerance, ROUNDED * float(np.finfo(out.dtype).eps))
        if not tolerance > 0:
            return False
        wrong = projections.measured - part.rows(rows)
        if known is not None:
            wrong -= base[rows]
            if self._constant is not None:
                wrong += self._constant[rows]
        if not error_over(over[rows], wrong) <= tolerance:
            return False
        part.write(out, base)
        self._last, self.is_whole = Known(base, part), False
        self._n_updates += 1
        if known is not None:
            self._overlap = known.part.dot(projections)
        return True

    def _make(self, plan, out, change, epsilon, exactly, deadline):
        """Write the product of the matrices, or an increment."""
        near = self._increments
        if near is not None and near.fill(plan, out, change, epsilon, exactly):
            self.is_whole = near.products.is_whole
        else:
            self.bilinear.multiply(plan, out, deadline)
            if near is not None:
                near.refer(plan, out)
        self._add_constant(out)

    def _add_constant(self, out):
        if self._constant is not None:
            out += self._constant

    def _refer(self, found, product, exactly):
        """Have the next updates refer to a whole product, if there was a look at its
        plan; not for a while where too few did to the last one.
        """
        known, self.memory.reference = self.memory.reference, None
        if found is None:
            return
        if known is not None and not exactly:
            if self._n_updates < WORTH:
                self._pause = self._next_pause
                self._next_pause = min(2 * self._pause, MAX_PAUSE)
                return
            self._next_pause = 1
        part, projections = found
        self._last = Known(self.memory.copied(product))
        self.memory.reference, self._n_updates = Reference(self._last.base, part), 0
        self._overlap = part.dot(projections)

    def value(self, plan, product):
        """``<plan, product>`` of the last plan and product. What updates leave out is
        self-adjoint: it is added, up to the square of the distance from the reference.
        """
        value = _kernels.dot(plan, product, self._n_threads)
        reference = self.memory.reference
        if self._last is None or reference is None:
            return value
        rest = value
        if not self.is_whole:
            rest = _kernels.dot(plan, reference.base, self._n_threads)
        rest -= self._overlap
        if self._constant is not None:
            rest -= _kernels.dot(plan, self._constant, self._n_threads)
        if self.is_whole:
            self._offset = rest
        return value + (rest - self._offset)

    def keep(self, product):
        """Keep the last product, which is here, in the memory."""
        if self._last is None:
            self._last = Known(self.memory.copied(product))
        self.memory.keep(self._last)

    def tighten(self):
        """Have all that is not whole wrong by less from now on."""
        self._fraction = max(self._fraction / TIGHTER, LEAST_FRACTION)
        if self._increments is not None:
            self._increments.products.tighten()

    def want_whole(self):
        """Make the next product whole, and where the value is not corrected also the
        one after it, of the plan that the next leads to.
        """
        self._n_whole = 1 if self._increments is None else 2

    def expect_outer(self, rows, cols):
        """Take the next plan for ``rows cols'``, whose product takes no product of
        matrices.
        """
        self._outer = rows, cols


def n_rooms(shape, itemsize, updates, followed):
    """Products that are kept as matrices, at most: the reference where there are
    `updates`, and the last ones where these are `followed`; of many points in float32
    the reference does for both, or the last and the one before.
    """
    few = shape[0] * shape[1] < MIN_POINTS**2
    if followed and (few or itemsize > 4):
        return DEPTH + 1
    return 1 if updates else 2 * followed
