"""The product ``left @ plan @ right`` of a plan that changes, by what is cheapest for
how well it has to be known: thin products, float32 ones of its change, or whole.
"""

import numpy as np

from ..kernels import _kernels
from ..utils.deadline import NEVER
from .low_rank_products import LeadingParts, LowRankProducts, suits
from .mixed_precision import Increments

# What thin products may move the next plan by, as a fraction of the last change; and
# what they may be wrong by in any case, in units of the last digit: a whole one is as
# much. The last but one is made whole.
THIN_SLACK, ROUNDED = 0.2, 0.5


class PlanProducts:
    """Products of plans near one another.

    Parameters
    ----------
    bilinear : BilinearTerm
    n_threads : int
    leading : LeadingParts or None, default=None
        Of the same matrices; by default found when they are needed.

    Attributes
    ----------
    is_thin : bool
        Whether the last product was.
    """

    def __init__(self, bilinear, n_threads, leading=None):
        self.bilinear, self._n_threads = bilinear, n_threads
        self._leading = leading
        if leading is None and suits(bilinear.shape, bilinear.symmetric):
            self._leading = LeadingParts(n_threads)
        self._increments = self._thin = None
        if self._leading is not None:
            self._thin = LowRankProducts(bilinear, self._leading, n_threads)
        self.is_thin, self._n_whole, self._outer = False, 0, None

    def astype(self, dtype):
        """Those of another precision."""
        return PlanProducts(self.bilinear.astype(dtype), self._n_threads, self._leading)

    def fork(self):
        """Others of the same matrices."""
        return PlanProducts(self.bilinear, self._n_threads, self._leading)

    def use_increments(self, products, made):
        """Make products near whole ones by those of a lower precision, which are taken,
        to an array that nothing else needs.
        """
        self._thin = None
        self._increments = Increments(products, made, self._n_threads)

    def fill(self, plan, out, allowed, deadline=NEVER, *, over=None):
        """Write the product of a plan to `out`. What it is wrong by may be a fraction
        of `allowed`, in the mean over the plan, or another one. OutOfTime after the
        deadline.
        """
        outer, self._outer = self._outer, None
        if outer is not None:
            self.is_thin = False
            self.bilinear.multiply_outer(*outer, out)
            return
        near, thin, is_whole = self._increments, self._thin, self._n_whole > 0
        self._n_whole = max(self._n_whole - 1, 0)
        least = 0.0 if is_whole else THIN_SLACK * allowed
        if thin is not None and thin.is_fresh and not is_whole:
            least = max(least, ROUNDED * float(np.finfo(out.dtype).eps))
        over = plan if over is None else over
        self.is_thin = thin is not None and thin.fill(plan, out, least, over)
        if self.is_thin:
            return
        if near is None:
            self.bilinear.multiply(plan, out, deadline)
        elif near.fill(plan, out, allowed, is_whole):
            self.is_thin = near.products.is_thin
        else:
            self.bilinear.multiply(plan, out, deadline)
            near.refer(plan, out)
        if thin is not None:
            thin.refer(plan, out)

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
        corrects = self.is_thin and self._thin is not None
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

    def export(self):
        """A tree from which `restore` takes what products are near to."""
        near, thin = self._increments, self._thin
        return dict(
            increments=near and near.export(),
            thin=thin and thin.export(),
            is_thin=self.is_thin,
            n_whole=self._n_whole,
        )

    def restore(self, saved, shape, dtype):
        """Go on from where others of this shape and dtype exported."""
        if self._increments is not None:
            self._increments.restore(saved["increments"], shape, dtype)
        if self._thin is not None:
            self._thin.restore(saved["thin"], shape, dtype)
        self.is_thin = bool(saved["is_thin"])
        self._n_whole = int(saved["n_whole"])
