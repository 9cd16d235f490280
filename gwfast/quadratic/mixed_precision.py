"""Float64 products of plans that hardly move any more, at the price of float32 ones.

The product is linear in the plan: from one that is known in float64, that of a plan
nearby differs by the product of the difference, which float32 makes to seven digits.
"""

import numpy as np

from ..kernels import _kernels

# Relative rounding of a float32 product of matrices with entries of order one.
ROUNDING = 2e-7


class Increments:
    """Products near that of a reference plan.

    Parameters
    ----------
    coarse : Dense
        The problem in float32; it is used to multiply only.
    """

    def __init__(self, coarse):
        self.coarse, self._plan, self._product = coarse, None, None

    def refer(self, plan, product):
        """Take this product, made in float64, as the one to start from."""
        if self._plan is None:
            self._plan, self._product = plan.copy(), product.copy()
        else:
            np.copyto(self._plan, plan)
            np.copyto(self._product, product)

    def fill(self, plan, out, most):
        """Write the product of `plan` into `out`, if that is right up to `most`.

        Returns
        -------
        bool
            Whether it was; if not, nothing has been written.
        """
        if self._plan is None:
            return False
        coarse = self.coarse
        distance, _ = _kernels.distance(plan, self._plan, coarse.n_threads)
        if not ROUNDING * distance <= most:
            return False
        difference = np.subtract(
            plan, self._plan, out=coarse.state, casting="same_kind"
        )
        scale = float(max(difference.max(), -difference.min())) or 1.0
        difference /= scale
        made = coarse.multiply(coarse.buffer)
        np.multiply(made, scale, out=out)
        out += self._product
        return True
