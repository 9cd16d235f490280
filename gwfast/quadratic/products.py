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
from ..utils.deadline import NEVER
from ..utils.mechanisms import ALL
from .acceleration import DEPTH
from .low_rank_update import error_over, suits
from .mixed_precision import Increments
from .product_memory import Known, ProductMemory, Reference

# How far the error of an update may move the next plan, as a fraction of the last change; more at
# first in float32 with acceleration: the plan converges for the low-rank part of the product, then
# a whole product corrects the rest. Each correction halves the fraction, as on plateaus updates
# and corrections would take turns, each with steps of its own; but not where there is room for one
# whole product only, so that acceleration needs updates.
SLACK, SLACK_FOLLOWED = 0.2, 2.0
# The same as a fraction of the plan, at most: the tighter bound while the plan moves far. Of four
# pairs of hops between cells, each with 64 to 160 eigenvectors, one ended in another optimum than
# POT's iterations with a tenth, two without a limit, none with this.
MOST = 0.03
# Entries of a float32 product up to which all products that acceleration combines are kept.
KEPT_ENTRIES = 1 << 19
# Factor by which `tighten` divides both where plans cycle, and the least fraction that
# is left of them.
TIGHTER, LEAST_FRACTION = 4, 2**-8
# Error that an update may always have, in units of the last digit: the rounding of
# measured rows, reference and update (.5 in all for random costs of 600 points). An
# update without more is as good as a whole product.
ROUNDED = 0.6


class ProductOperator:
    """Products of successive plans, each plus a constant.

    Parameters
    ----------
    bilinear : BilinearTerm
    n_threads : int
    constant : (n, m) ndarray or None, default=None
    mechanisms : Mechanisms, default=ALL
    memory : ProductMemory or None, default=None
    followed : bool, default=False
        Whether acceleration combines the last products.

    Attributes
    ----------
    memory : ProductMemory
        The reference, and the last products.
    is_whole : bool
        Whether the last product was whole.
    is_exact : bool
        Whether it was whole, or an update that is wrong by rounding only.
    is_correction : bool
        Whether the last product was whole after an update: earlier steps between plans
        were those of another map.
    """

    def __init__(
        self, bilinear, n_threads, constant=None, mechanisms=ALL, memory=None, followed=False
    ):
        self._followed = followed
        self.bilinear, self._n_threads, self._constant = bilinear, n_threads, constant
        self._mechanisms = mechanisms
        self._updates = suits(bilinear.shape, bilinear.symmetric, mechanisms)
        itemsize = bilinear.matrices[0].dtype.itemsize
        self._slack = SLACK_FOLLOWED if followed and itemsize <= 4 else SLACK
        most = n_rooms(bilinear.shape, itemsize, self._updates, followed)
        self.memory = memory or ProductMemory(most)
        self._increments = None
        self.is_whole = self.is_exact = True
        self.is_correction = False
        # Number of next products that have to be whole; factor of all tolerances.
        self._n_whole, self._fraction = 0, 1.0
        # For `value`: the last product as a `Known`; the low-rank part of the reference times the
        # last plan; and the rest of the product of the reference, times the plan of the reference.
        self._last, self._overlap, self._offset = None, 0.0, 0.0

    def fork(self):
        """An operator with the same matrices, whose memory is in the same room."""
        given = self.bilinear, self._n_threads, self._constant, self._mechanisms
        return ProductOperator(*given, self.memory.fork(), self._followed)

    @property
    def is_plain(self):
        """Whether all products are made of the matrices themselves."""
        return not (self._updates or self._increments is not None)

    def use_increments(self, products, made):
        """Make products near whole ones by increments: by an operator of a lower
        precision, which writes to the array `made`.
        """
        self._updates, products._constant = False, None
        self._increments = Increments(products, made, self._n_threads)

    def apply(self, plan, out, change, epsilon, deadline=NEVER, *, over=None, outer=None):
        """Write the product of a plan to `out`. Its error, divided by epsilon and
        averaged over the plan (or `over` another one), is at most a fraction of the
        last relative `change`. Vectors `outer` are those that the plan is the outer
        product of. OutOfTime after the deadline.
        """
        was_whole = self.is_whole
        exactly, self._n_whole = self._n_whole > 0, max(self._n_whole - 1, 0)
        self._last, self.is_whole, self.is_exact = None, True, True
        if outer is not None:
            self.bilinear.multiply_outer(*outer, out)
            self._add_constant(out)
        else:
            tolerance = 0.0
            if not exactly:
                tolerance = self._fraction * min(self._slack * change, MOST) * epsilon
            found = self.bilinear.leading.of(plan) if self._updates else None
            over = plan if over is None else over
            if found is None or not self._update(found, out, tolerance, over, exactly):
                near = self._increments
                if near is not None and near.fill(plan, out, change, epsilon, exactly):
                    self.is_whole = self.is_exact = near.products.is_whole
                else:
                    self.bilinear.multiply(plan, out, deadline)
                    if near is not None:
                        near.refer(plan, out)
                self._add_constant(out)
                self._refer(found, out)
        self.is_correction = self.is_whole and not was_whole
        if self.is_correction and self.memory.most > 1:
            self._slack = max(self._slack / 2, SLACK)

    def _update(self, found, out, tolerance, over, exactly):
        """Write the product as a low-rank update of the reference, or of zero without
        one, if its error is within the tolerance; returns whether it was written. What
        was `found` of the plan are its low-rank part and its `Projections`.
        """
        (part, projections), known = found, self.memory.reference
        base, rows = self._constant, part.factors.measured
        rounded = 0.0 if exactly else ROUNDED * float(np.finfo(out.dtype).eps)
        tolerance = max(tolerance, rounded)
        if not tolerance > 0:
            return False
        if known is not None:
            base, part = known.base, part.combined([part, known.part], [1.0, -1.0])
        wrong = projections.measured - part.rows(rows)
        if known is not None:
            wrong -= base[rows]
            if self._constant is not None:
                wrong += self._constant[rows]
        error = error_over(over[rows], wrong)
        if not error <= tolerance:
            return False
        part.write(out, base)
        self._last, self.is_whole = Known(base, part), False
        self.is_exact = error <= rounded
        if known is not None:
            self._overlap = known.part.dot(projections)
        return True

    def _add_constant(self, out):
        if self._constant is not None:
            out += self._constant

    def _refer(self, found, product):
        """Make a whole product the reference of the next updates, if its plan was projected."""
        self.memory.reference = None
        if found is not None:
            part, projections = found
            self._last = Known(self.memory.copied(product))
            self.memory.reference = Reference(self._last.base, part)
            self._overlap = part.dot(projections)

    def value(self, plan, product):
        """``<plan, product>`` of the last plan and product. Of the residual operator E that
        updates leave out, ``<T, E T>`` is replaced by ``2 <T, E T0> - <T0, E T0>`` with the plan
        T0 of the reference: E is self-adjoint, so the error is of second order in ``T - T0``.
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
        """Keep the last product, given as an array, in the memory."""
        if self._last is None:
            self._last = Known(self.memory.copied(product))
        self.memory.keep(self._last)

    def tighten(self):
        """Make updates to a tighter tolerance from now on."""
        self._fraction = max(self._fraction / TIGHTER, LEAST_FRACTION)
        if self._increments is not None:
            self._increments.products.tighten()

    def want_whole(self):
        """Make the next product whole; of increments, whose `value` has no correction,
        also the one after it.
        """
        self._n_whole = 1 if self._increments is None else 2


def n_rooms(shape, itemsize, updates, followed):
    """Largest number of products that are kept as matrices: the reference of `updates`, and the
    last ones if acceleration combines them (`followed`). In float32 and with very many points the
    reference serves for both; if there are no updates, the last two are kept.
    """
    if followed and (shape[0] * shape[1] <= KEPT_ENTRIES or itemsize > 4):
        return DEPTH + 1
    return 1 if updates else 2 * followed
