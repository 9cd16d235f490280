"""Float64 products of plans that hardly move, at the price of float32 products.

The product is linear in the plan: the products of two plans differ by the product of
their difference, which float32 gives to seven digits.
"""

import numpy as np

from ..kernels import _kernels
from ..kernels._rows import aligned_empty

# Relative rounding of a float32 product of matrices with entries of order one.
ROUNDING = 2e-7
# How far that rounding may move the next plan, as a fraction of the last change.
SLACK = 0.01
# Differences below this are zero: in float32 they are, or would become, subnormal.
LEAST = _kernels.LEAST_ENTRY[np.dtype(np.float32)]


class Increments:
    """Products of plans near a reference plan: the float32 `ProductOperator` given
    writes the product of the difference to `made` (n, m).
    """

    def __init__(self, products, made, n_threads):
        self.products, self._made, self._n_threads = products, made, n_threads
        self._difference, self._scale = aligned_empty(made.shape), 0.0
        self._plan = self._product = None

    def refer(self, plan, product):
        """Make this plan, and its product in float64, the reference."""
        if self._plan is None:
            self._plan, self._product = plan.copy(), product.copy()
        else:
            np.copyto(self._plan, plan)
            np.copyto(self._product, product)
        self._scale = 0.0
        self.products.memory.reference = None

    def fill(self, plan, out, change, epsilon, is_whole=False):
        """Write the product of `plan` to `out` if rounding, divided by epsilon, is a
        small fraction of the last `change`; returns whether it is written.
        """
        if self._plan is None:
            return False
        distance, _ = _kernels.distance(plan, self._plan, self._n_threads)
        if not ROUNDING * distance <= SLACK * change * epsilon:
            return False
        difference = np.subtract(plan, self._plan, out=self._difference, casting="same_kind")
        difference[np.abs(difference) < LEAST] = 0.0
        # One scale for all differences from a reference, as low-rank updates of their
        # products refer to one another.
        if not self._scale:
            self._scale = float(max(difference.max(), -difference.min())) or 1.0
        difference /= self._scale
        if is_whole:
            self.products.want_whole()
        near = epsilon / self._scale
        self.products.apply(difference, self._made, change, near, over=plan)
        np.multiply(self._made, self._scale, out=out)
        out += self._product
        return True
