"""The product ``left @ plan @ right`` of a plan that changes, by what is cheapest for
how well it has to be known: thin products, sampled ones, float32 ones of its change, or
whole ones.
"""

import numpy as np

from ..kernels import _kernels
from ..utils.deadline import NEVER
from ..utils.mechanisms import ALL
from .kept_product import KeptProduct
from .low_rank_products import LeadingParts, LowRankProducts, Made, suits
from .mixed_precision import Increments

# What thin products may move the next plan by, as a fraction of the last change; more
# where products are kept: the plan then gets near where it would go if nothing but thin
# parts of the product moved, before a whole one corrects all else.
THIN_SLACK, NEAR_SLACK = 0.2, 2.0
# The same as a fraction of the plan, at most, which says more while that moves far. Of
# four pairs of hops between cells, each with 64 to 160 eigenvectors, one ended in
# another optimum than POT's iterations do with a tenth, a second one, with half of
# these numbers, without a limit; none does with this.
MOST = 0.03
# By how many times all of these become less at a time where plans go round, and the
# least that becomes of them.
TIGHTER, LEAST_FRACTION = 4, 2**-8
# What thin products may be wrong by in any case, in units of the last digit, as it is
# measured: what is measured, the reference and the thin product each round by up to a
# quarter (random costs of 600 points, .5 in all). The last but one is made whole.
ROUNDED = 0.6


class PlanProducts:
    """Products of plans near one another.

    Parameters
    ----------
    bilinear : BilinearTerm
    n_threads : int
    leading : LeadingParts or None, default=None
        Of the same matrices; by default found when they are needed.
    keeps_last : bool, default=False
        Whether the last products are kept, when that is asked for, for extrapolation.
    kept : KeptProduct or None, default=None
        Where these are, and what thin products lack.
    mechanisms : Mechanisms, default=ALL

    Attributes
    ----------
    made : Made
        How the last product was.
    keeps_last : bool
    """

    def __init__(
        self,
        bilinear,
        n_threads,
        leading=None,
        keeps_last=False,
        kept=None,
        mechanisms=ALL,
    ):
        self.keeps_last, self._pending, self._mechanisms = keeps_last, None, mechanisms
        self._kept = kept or KeptProduct()
        self.bilinear, self._n_threads, self._leading = bilinear, n_threads, leading
        if leading is None and suits(bilinear.shape, bilinear.symmetric, mechanisms):
            self._leading = LeadingParts(n_threads)
        self._increments = self._thin = None
        if self._leading is not None:
            given = bilinear, self._leading, n_threads, self._kept
            self._thin = LowRankProducts(*given, mechanisms)
        self.made, self._n_whole, self._outer, self._fraction = Made.WHOLE, 0, None, 1.0
        # Products from the last whole one after a thin one on.
        self._n_alike = 0

    def astype(self, dtype, *, keeps_last=False):
        """Those of another precision."""
        given = self.bilinear.astype(dtype), self._n_threads, self._leading
        return PlanProducts(*given, keeps_last, mechanisms=self._mechanisms)

    def fork(self):
        """Others of the same matrices."""
        given = self.bilinear, self._n_threads, self._leading
        given += self.keeps_last, self._kept.fork(), self._mechanisms
        return PlanProducts(*given)

    @property
    def is_plain(self):
        """Whether all are made of symmetric matrices themselves."""
        thin = self._thin is not None or self._increments is not None
        return self.bilinear.symmetric and not thin

    def use_increments(self, products, made):
        """Make products near whole ones by those of a lower precision, which are taken,
        to an array that nothing else needs.
        """
        self._thin, products.keeps_last = None, False
        self._increments = Increments(products, made, self._n_threads)

    def fill(
        self, plan, out, change, epsilon, deadline=NEVER, *, over=None, multiply=None
    ):
        """Write the product of a plan to `out`. What it is wrong by may move the next
        plan, by that epsilon, by a fraction of the last relative `change`, in the mean
        over the plan, or another one. What is to be whole is made by `multiply`, by
        default that of the matrices. OutOfTime after the deadline.
        """
        outer, self._outer = self._outer, None
        self._pending, before = None, self.made
        if outer is None:
            multiply = multiply or self.bilinear.multiply
            self._fill(plan, out, change, epsilon, deadline, over, multiply)
        else:
            self.made = Made.WHOLE
            self.bilinear.multiply_outer(*outer, out)
        corrects = self.made != Made.THIN and {before, self.made} != {Made.WHOLE}
        self._n_alike = 0 if corrects else self._n_alike + 1

    def _fill(self, plan, out, change, epsilon, deadline, over, multiply):
        thin, is_whole = self._thin, self._n_whole > 0
        self._n_whole = max(self._n_whole - 1, 0)
        least = 0.0 if is_whole else self._slack(change) * epsilon
        if thin is not None and thin.is_fresh and not is_whole:
            least = max(least, ROUNDED * float(np.finfo(out.dtype).eps))
        over = plan if over is None else over
        self.made = Made.WHOLE
        if thin is not None:
            self.made = thin.fill(plan, out, least, over, deadline)
        is_thin = self.made == Made.THIN
        if self.keeps_last:
            self._pending = plan, is_thin, is_thin and thin.has_reference
        if is_thin:
            return
        if self.made == Made.WHOLE:
            self._make_whole(plan, out, change, epsilon, is_whole, deadline, multiply)
        if thin is not None and not self.keeps_last:
            thin.refer(plan, out)

    def _make_whole(self, plan, out, change, epsilon, is_whole, deadline, multiply):
        """Write the product of the matrices, or that of what the plan has changed by in
        a lower precision.
        """
        near = self._increments
        if near is None:
            multiply(plan, out, deadline)
        elif near.fill(plan, out, change, epsilon, is_whole):
            self.made = near.products.made
        else:
            multiply(plan, out, deadline)
            near.refer(plan, out)

    def _slack(self, change):
        """What thin products may move the next plan by."""
        slack = NEAR_SLACK if self.keeps_last else THIN_SLACK
        return self._fraction * min(slack * change, MOST)

    def tighten(self):
        """Have what is not whole wrong by less from now on."""
        self._fraction = max(self._fraction / TIGHTER, LEAST_FRACTION)
        if self._increments is not None:
            self._increments.products.tighten()

    @property
    def n_known(self):
        """How many of the last products are kept."""
        return self._kept.n_known

    @property
    def n_alike(self):
        """How many of the plans before this one a step of the same map led to: thin
        products near another reference are another map.
        """
        return max(self._n_alike - 1, 0)

    def settle(self, product, coefficients=None):
        """Take what is needed later of the product of the last `fill`, and overwrite it
        by its combination with the last ones that were kept, if there are
        `coefficients` (of these, and of this one); it is kept unless these are None.
        """
        pending, self._pending = self._pending, None
        if pending is None:
            return
        (plan, is_thin, is_near), thin = pending, self._thin
        part = None if thin is None else thin.take_part()
        if coefficients is None and (is_thin or part is None):
            self._kept.forget()
            return
        self._kept.advance(product, part, coefficients, is_near=is_near)
        if thin is not None and not is_near:
            # Without a part the rest is all of the product.
            thin.forget() if part is None else thin.referred(plan)

    def write_last(self, out):
        """Write the last one that was kept; that of the last `fill` is forgotten."""
        self._pending = None
        self._kept.write(out)

    def unsettle(self):
        """Forget the product of the last `fill`."""
        self._pending = None

    def expect_outer(self, rows, cols):
        """Take the next plan for ``rows cols'``, whose product takes no product of
        matrices.
        """
        self._outer = rows, cols

    def value(self, plan, product):
        """``<plan, product>`` of the plan and product of the last `fill`, not counting
        what was added to that since.
        """
        value = _kernels.dot(plan, product, self._n_threads)
        corrects = self._thin is not None and self.made != Made.WHOLE
        return value + self._thin.correction(plan) if corrects else value

    def want_whole(self):
        """Make the next product whole, and where the value is not corrected also the
        one after it, of the plan that the next leads to.
        """
        self._n_whole = 1 if self._increments is None else 2

    def forget(self):
        """Forget which products are known."""
        if self._thin is not None:
            self._thin.forget()
