"""Many small exact problems at once: the plans from a barycenter to all spaces, and the descents
between templates and graphs.
"""

import math

import numpy as np

from ..kernels._exact_pairs import ExactPairs, Space
from ..kernels.threads import resolve_n_threads
from ..quadratic.frank_wolfe import ROUNDING, SLICE
from .exact import NOTHING, exact_limits


class ExactBatch:
    """Makes all plans of an update from structure and features of the barycenter and the plans to
    start from, or None: it returns plans side by side, and the sum of their losses.
    """

    @classmethod
    def of(cls, spaces):
        """Return the batch of spaces; None if costs are not symmetric, points have no mass, there
        is work for several threads, or tables are printed.
        """
        first = spaces.problem(
            int(np.argmax([cost.n for cost in spaces.costs])), spaces.C, spaces.Y
        )
        plain = all(cost.symmetric for cost in (first.x, *spaces.costs))
        plain = plain and bool((np.concatenate(spaces.qs) > 0).all())
        many = resolve_n_threads(None, work=math.prod(first.shape)) > 1
        return None if not plain or many or spaces._given["verbose"] else cls(spaces, first)

    def __init__(self, spaces, first):
        self._among, self._total, self._loss = spaces, first.total, first.loss
        self._alpha, self._shift = first.alpha, 0.0
        self._p = first.p.astype(np.float64) / self._total
        if first.loss.shift_invariant:
            means = [cost.mean for cost in spaces.costs]
            self._shift = (first.x.mean + sum(means) / len(means)) / 2
        weight = (1.0 - self._alpha) / (2.0 * self._total)
        given = spaces._given
        limits = exact_limits(first, given["max_iter"], given["tol_rel"], 0.0)
        self._descents = ExactDescents(limits, weight)
        features = spaces.features or [None] * len(spaces.qs)
        self._spaces = []
        for some, costs in spaces.runs():  # all spaces of one size at once
            costs = (costs + costs.transpose(0, 2, 1)) / 2 - self._shift
            q = np.array(spaces.qs[some], dtype=np.float64) / self._total
            constants = self._alpha * (self._loss.f2(costs) @ q[:, :, None])[:, :, 0]
            sides = zip(self._loss.h2(costs), q, constants, features[some], strict=True)
            self._spaces += [exact_space(*side) for side in sides]

    def __call__(self, C, Y, starts):
        costs = np.array(C, dtype=np.float64, order="C") - self._shift
        costs = (costs + costs.T) / 2
        constants = self._alpha * (self._loss.f1(costs) @ self._p)
        center = exact_space(-self._alpha * self._loss.h1(costs), self._p, constants, Y)
        if starts is None:
            ends = np.empty((len(self._p), self._among.n_points))
        else:
            ends = np.divide(starts, self._total, dtype=np.float64)
        losses = self._descents.solve(
            [center] * len(self._spaces), self._spaces, ends, self._among.parts, starts is not None
        )
        ends *= self._total
        loss = float(np.add.reduce(losses)) * self._total**2
        return ends.astype(self._among.dtype, copy=False), loss


class ExactDescents:
    """Exact problems of mass one between many pairs of spaces, each on one thread.

    Parameters
    ----------
    limits : ExactLimits
    weight : float
        Of the squared distances of features, in the linearized cost.
    """

    def __init__(self, limits, weight):
        self._pairs = []
        self._options = dict(
            max_outer=limits.max_outer,
            tol=limits.tol,
            rounding=ROUNDING,
            linear=weight,
            least_change=limits.min_change,
            least_relative=limits.min_relative,
        )

    def solve(self, firsts, seconds, ends, parts, from_plans, potentials=None):
        """Return the losses of pairs of `exact_space`; their plans go to parts of `ends`, and if
        asked begin at what is there. For `potentials` see `ExactPairs.begin`.
        """
        # A descent counts as four passes over a plan: updates below .5 ms are made by one thread.
        size, work = len(firsts), 4 * ends.size
        n_shares = min(resolve_n_threads(None, work=work), size)
        if len(self._pairs) != n_shares:
            self._pairs = [ExactPairs(**self._options) for _ in range(n_shares)]
        for k, pairs in enumerate(self._pairs):
            share = slice(size * k // n_shares, size * (k + 1) // n_shares)
            columns, some = slice(parts[share][0].start, parts[share][-1].stop), potentials
            if some is not None:
                some = some[share.start * len(ends) + columns.start :]
            pairs.begin(firsts[share], seconds[share], ends[:, columns], from_plans, some)
        while not ExactPairs.go_on(self._pairs, SLICE):
            pass
        ends[ends < NOTHING] = 0.0
        return np.concatenate([pairs.costs for pairs in self._pairs])


def exact_space(values, masses, constants, features, directions=None):
    """Return the `Space` of a side: what each of its points adds are its `constants`."""
    if features is not None:
        features = np.array(features, dtype=np.float64, order="C")
    return Space(
        values,
        values,
        masses,
        float(masses @ constants),
        float(abs(values).max()),
        float(abs(constants).max()),
        features,
        directions,
    )
