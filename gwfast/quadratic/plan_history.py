"""What extrapolation knows of the last plans where these are the state: some of their
rows, and all of their products.
"""

import numpy as np

from .anderson import DEPTH, Anderson, Lead

# Entries of plans that are looked at, at most, but for so many rows.
SAMPLE_ENTRIES, SAMPLE_ROWS = 1 << 18, 32
# Entries of matrices that are combined at a time.
COMBINED = 1 << 16


class PlanHistory:
    """The last steps from plan to plan, and the products of the plans they led to, with
    vectors `beside` that are taken to be linear in the plan as well.

    The linearized cost is linear in the plan: to extrapolate, the products are
    combined, and the plan that they would belong to, (n, m), is never made but for
    about `max_rows` of its rows, or fewer where these are long. For `depth` see
    `Anderson`; with 0 nothing is kept. The products are by default kept here, or by
    `products`.

    Attributes
    ----------
    lead : Lead
        Of the last extrapolation.
    """

    lead = Lead.NOWHERE

    def __init__(self, n, m, depth, max_rows, products=None, *, goes_ahead=True):
        max_rows = min(max_rows, max(SAMPLE_ENTRIES // m, SAMPLE_ROWS))
        self.rows = slice(None, None, max(n // max_rows, 1))
        self._depth, self._elsewhere = depth, products
        self._goes_ahead = goes_ahead
        self.clear()

    def clear(self):
        """Forget all plans."""
        self._anderson = Anderson(self._depth, self._goes_ahead)
        self._products = self._elsewhere or _Matrices(self._depth + 1)
        self._beside = []
        self.drop_extrapolated()
        # Whether the product of the last plan has not been kept.
        self._unkept = False

    def drop_extrapolated(self):
        """Forget where extrapolation has led: the product of that is no more."""
        self._extrapolated = None

    @property
    def is_extrapolated(self):
        """Whether the next step starts from where the last plans led."""
        return self._extrapolated is not None

    @property
    def depth(self):
        """That of the next extrapolation, the one given at most."""
        return self._anderson.depth

    @depth.setter
    def depth(self, depth):
        self._anderson.depth = depth
        if not self._elsewhere:
            self._products.most = depth + 1

    def begin(self, plan):
        """The rows that a step from `plan` starts from, and whether they are those of
        an extrapolated plan instead.
        """
        if not self._depth:
            return None, False
        if self._unkept:
            self.clear()
        self._unkept = True
        start, self._extrapolated = self._extrapolated, None
        if start is not None:
            return start, True
        known = self._anderson.has_steps
        return (self.last[1] if known else plan[self.rows].copy()), False

    @property
    def last(self):
        """The rows that the last step came from, and those it led to."""
        return self._anderson.last

    def add(self, start, plan):
        """A step from rows to a plan."""
        if self._depth:
            self._anderson.add(start, plan[self.rows].copy())

    def extrapolate(self, product, beside, n_alike=DEPTH):
        """Overwrite the product of the last plan by that of where it and `n_alike`
        plans before it lead, at most; returns what is beside that, or None if they do
        not say.
        """
        self._unkept = False
        self._beside = [*self._beside[-self._depth :], beside]
        known = min(self._products.n_known, n_alike)
        coefficients = self._anderson.coefficients(known + 1) if known else ()
        self._products.settle(product, coefficients)
        self.lead = self._anderson.lead if coefficients else Lead.NOWHERE
        if not coefficients:
            return None
        rows = self._anderson.combined(coefficients)
        self._extrapolated = rows.astype(product.dtype)
        return np.dot(coefficients, self._beside[-len(coefficients) :])

    def last_product(self, out):
        """Copy the last product that was kept to `out`; returns what was beside it."""
        self._products.write_last(out)
        return self._beside[-1]

    @property
    def is_kept(self):
        """Whether the product of the last plan is."""
        return not self._unkept


class _Matrices:
    """The last matrices of a row of them, copied, `most` at most."""

    def __init__(self, most):
        self.most, self._kept = most, []

    @property
    def n_known(self):
        return min(len(self._kept), self.most - 1)

    def settle(self, matrix, coefficients):
        """Add a matrix, and overwrite it by the sum of the last ones, it too,
        multiplied by these, oldest first; it stays as it is where there are none.
        """
        room = None
        while len(self._kept) >= self.most:
            room = self._kept.pop(0)
        flat = matrix.reshape(-1)
        room = np.empty_like(flat) if room is None else room
        np.copyto(room, flat)
        self._kept.append(room)
        if coefficients:
            self._combine(coefficients, flat)

    def write_last(self, out):
        np.copyto(out, self._kept[-1].reshape(out.shape))

    def _combine(self, coefficients, out):
        weights = np.array(coefficients, out.dtype)
        last = self._kept[-len(weights) :]
        for some in range(0, out.size, COMBINED):
            part = slice(some, some + COMBINED)
            np.dot(weights, [one[part] for one in last], out=out[part])
