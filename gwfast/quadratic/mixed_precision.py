"""Float64 products of plans that hardly move any more, at the price of float32 ones.

The product is linear in the plan: from one that is known in float64, that of a plan
nearby differs by the product of the difference, which float32 makes to seven digits.
"""

import numpy as np

from ..kernels import _kernels
from ..kernels._rows import aligned_empty

# Relative rounding of a float32 product of matrices with entries of order one.
ROUNDING = 2e-7
# What it may move the next plan by, as a fraction of the last change.
SLACK = 0.01


class Increments:
    """Products near that of a reference plan, by float32 ones of the difference, the
    `ProductOperator` given, which are written to `made` (n, m).
    """

    def __init__(self, products, made, n_threads):
        self.products, self._made, self._n_threads = products, made, n_threads
        self._difference, self._scale = aligned_empty(made.shape), 0.0
        self._plan = self._product = None

    def refer(self, plan, product):
        """Take this product, made in float64, as the one to start from."""
        if self._plan is None:
            self._plan, self._product = plan.copy(), product.copy()
        else:
            np.copyto(self._plan, plan)
            np.copyto(self._product, product)
        self._scale = 0.0
        self.products.memory.reference = None

    def fill(self, plan, out, change, epsilon, is_whole=False):
        """Write the product of `plan` into `out`, if rounding moves the next plan, by
        that epsilon, by a fraction of the last `change` only; returns whether it was,
        and if not, has written nothing.
        """
        if self._plan is None:
            return False
        distance, _ = _kernels.distance(plan, self._plan, self._n_threads)
        if not ROUNDING * distance <= SLACK * change * epsilon:
            return False
        difference = np.subtract(
            plan, self._plan, out=self._difference, casting="same_kind"
        )
        # The same for all differences from a reference, as what is known of the
        # products of some is used for others.
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
