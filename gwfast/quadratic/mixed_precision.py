"""Float64 products of plans that hardly move any more, at the price of float32 ones.

The product is linear in the plan: from one that is known in float64, that of a plan
nearby differs by the product of the difference, which float32 makes to seven digits.
"""

import numpy as np

from ..kernels import _kernels
from ..kernels._rows import aligned_empty
from ..utils.trees import as_saved

# Relative rounding of a float32 product of matrices with entries of order one.
ROUNDING = 2e-7


class Increments:
    """Products near that of a reference plan: ``multiply(plan, made)`` writes the
    product of a float32 plan to `made` (n, m), and returns it.
    """

    def __init__(self, multiply, made, n_threads):
        self._multiply, self._made, self._n_threads = multiply, made, n_threads
        self._difference = aligned_empty(made.shape)
        self._plan = self._product = None

    def export(self):
        """A tree from which `restore` takes the reference."""
        return dict(plan=self._plan, product=self._product)

    def restore(self, saved, shape, dtype):
        """Take the reference that another exported, of this shape and dtype."""
        if saved["plan"] is not None:
            pair = saved["plan"], saved["product"]
            self.refer(*(as_saved(one, shape, dtype) for one in pair))

    def refer(self, plan, product):
        """Take this product, made in float64, as the one to start from."""
        if self._plan is None:
            self._plan, self._product = plan.copy(), product.copy()
        else:
            np.copyto(self._plan, plan)
            np.copyto(self._product, product)

    def fill(self, plan, out, max_error):
        """Write the product of `plan` into `out`, if that is right up to `max_error`;
        returns whether it was, and if not, has written nothing.
        """
        if self._plan is None:
            return False
        distance, _ = _kernels.distance(plan, self._plan, self._n_threads)
        if not ROUNDING * distance <= max_error:
            return False
        difference = np.subtract(
            plan, self._plan, out=self._difference, casting="same_kind"
        )
        scale = float(max(difference.max(), -difference.min())) or 1.0
        difference /= scale
        np.multiply(self._multiply(difference, self._made), scale, out=out)
        out += self._product
        return True
