"""The plans from one barycenter after another to the same spaces: what depends on the
spaces alone is made once, and an update takes one compiled descent a space.
"""

import math

import numpy as np

from ..kernels._descent import OTHERWISE, Descent
from ..kernels._exact_pairs import ExactPairs, Space
from ..kernels._rows import Panels
from ..kernels.threads import resolve_n_threads
from ..linear.sinkhorn_solver import MARGIN, in_units
from ..quadratic.factory import linearize
from ..quadratic.frank_wolfe import ROUNDING, SLICE
from ..quadratic.methods import METHODS
from ..quadratic.small_descent import ERROR, VALUE, descend_together, descent_limits
from ..utils.deadline import NEVER
from ..utils.precision import DOUBLE
from ._conditional_gradient import NOTHING, exact_limits
from ._solve import MAX_MARGINAL_ERROR, entropic_limits, marginal_tol, method_of, stated

# Passes over a plan that a descent without entropy counts as, so that updates that take
# less than half a millisecond are made by one thread: another sleeps between them.
PASSES = 4


class Together:
    """What makes all plans of an update: called with structure and features of the
    barycenter and the plans to start from, or None, it returns plans, and the sum of
    their losses. Of all spaces there is one array, side by side.

    Parameters
    ----------
    spaces : Spaces
    solve : callable
        ``solve(s, C, Y, starts)`` is the `Answer` to a single one.
    first : Problem
        From the first barycenter to the largest of the spaces.
    """

    suits = True

    @classmethod
    def of(cls, spaces, solve):
        """One of these, or None where problems have what it has not: costs that are not symmetric,
        points without mass, work for several threads, tables that are printed.
        """
        sizes = [cost.n for cost in spaces.costs]
        first = spaces.problem(int(np.argmax(sizes)), spaces.C, spaces.Y)
        plain = all(cost.symmetric for cost in (first.x, *spaces.costs))
        plain = plain and bool((np.concatenate(spaces.qs) > 0).all())
        many = resolve_n_threads(None, work=math.prod(first.shape)) > 1
        if not plain or many or first.take("verbose"):
            return None
        made = cls(spaces, solve, first)
        return made if made.suits else None

    def __init__(self, spaces, solve, first):
        self._among, self._solve, self._total = spaces, solve, first.total
        self._loss, self._alpha = first.loss, first.alpha
        # Of the costs between features, in the linearized cost of mass one.
        self._weight = (1.0 - self._alpha) / (2.0 * self._total)
        self._p = first.p.astype(np.float64) / self._total
        self._shift = 0.0
        if first.loss.shift_invariant:
            means = [cost.mean for cost in spaces.costs]
            self._shift = (first.x.mean + sum(means) / len(means)) / 2
        # As in `Side`, of all spaces of one size at once.
        self._sides = []
        for some, costs in spaces.runs():
            costs = (costs + costs.transpose(0, 2, 1)) / 2 - self._shift
            q = np.array(spaces.qs[some], dtype=np.float64) / self._total
            constants = self._alpha * (self._loss.f2(costs) @ q[:, :, None])[:, :, 0]
            self._sides += zip(self._loss.h2(costs), q, constants, strict=True)

    def __call__(self, C, Y, starts):
        costs = np.array(C, dtype=np.float64, order="C") - self._shift
        costs = (costs + costs.T) / 2
        left = -self._alpha * self._loss.h1(costs)
        of_points = self._alpha * (self._loss.f1(costs) @ self._p)
        ends, losses = self._ends(left, of_points, C, Y, starts)
        ends *= self._total
        loss = float(np.add.reduce(losses)) * self._total**2
        return ends.astype(self._among.dtype, copy=False), loss


class ExactTogether(Together):
    """Without entropy, by conditional gradient."""

    def __init__(self, spaces, solve, first):
        super().__init__(spaces, solve, first)
        self._descents = ExactDescents(exact_limits(first), self._weight)
        features = spaces.features or [None] * len(self._sides)
        self._spaces = [
            exact_space(*side, some) for side, some in zip(self._sides, features, strict=True)
        ]

    def _ends(self, left, of_points, C, Y, starts):
        center = exact_space(left, self._p, of_points, Y)
        if starts is None:
            ends = np.empty((len(self._p), self._among.n_points))
        else:
            ends = np.divide(starts, self._total, dtype=np.float64)
        centers = [center] * len(self._spaces)
        given = centers, self._spaces, ends, self._among.parts, starts is not None
        return ends, self._descents.solve(*given)


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
        """The losses of pairs of `exact_space`; their plans go to parts of `ends`, and
        if asked begin at what is there. For `potentials` see `ExactPairs.begin`.
        """
        size, work = len(firsts), PASSES * ends.size
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


class EntropicTogether(Together):
    """With entropy, by the compiled descents of small problems."""

    def __init__(self, spaces, solve, first):
        super().__init__(spaces, solve, first)
        # What descents go by is that of the largest problem, but for the marginals.
        limits, problem = entropic_limits(first), stated(first, DOUBLE.dtype, None)
        kind = dict(method=METHODS[method_of(first)], precision=DOUBLE)
        at = linearize(problem, 1, **kind)
        at.start()
        self._unit = at.cost_scale
        epsilon = first.number("epsilon") / (2.0 * self._total)
        epsilon = in_units(epsilon, self._unit, DOUBLE)
        judged = limits.rule.in_kernel(limits, at, epsilon)
        self.suits = at.is_small and judged is not None and spaces.dtype == DOUBLE.dtype
        if not self.suits:
            return
        shared = descent_limits(at, epsilon, limits, judged, 0)
        shapes = [(len(self._p), len(q)) for q in spaces.qs]
        self._limits = [shared | {"marginal": marginal_tol(first, x)} for x in shapes]
        self._how = {"stride": at.sample_stride, "fraction": MARGIN * at.inner_fraction}
        self._panels = [Panels(values, True) for values, *_ in self._sides]
        self._q = np.concatenate([q for _, q, _ in self._sides])
        self._projected = np.concatenate([values @ q for values, q, _ in self._sides])
        self._of_spaces = [constants / self._unit for *_, constants in self._sides]

    def _ends(self, left, of_points, C, Y, starts):
        left, rows = left / self._unit, of_points / self._unit
        linear, between = [None] * len(self._sides), self._among.feature_costs(Y)
        plans, costs = self._starts(left, starts)
        if between is not None:
            between = self._weight / self._unit * between
            costs += between
            linear = self._among.cut(between)
        pairs = zip(self._among.cut(plans), self._among.cut(costs), strict=True)
        descents = [
            Descent(
                (left, self._panels[s]),
                None,
                linear[s],
                plan,
                cost,
                self._p,
                self._sides[s][1],
                rows,
                self._of_spaces[s],
                limits=self._limits[s],
                **self._how,
            )
            for s, (plan, cost) in enumerate(pairs)
        ]
        given = self._limits[0]["max_outer"], NEVER, resolve_n_threads()
        ended, ends, losses = (descend_together(descents, *given), np.empty_like(plans), [])
        for s, (descent, why) in enumerate(zip(descents, ended, strict=True)):
            if why != OTHERWISE and descent.steps[-1, ERROR] <= MAX_MARGINAL_ERROR:
                plan, loss = descent.plan, self._unit * descent.steps[-1, VALUE]
                losses.append(loss if between is not None else max(loss, 0.0))
            else:
                answer = self._solve(s, C, Y, starts)
                plan = answer.plan / self._total
                losses.append(answer.value / self._total**2)
            ends[:, self._among.parts[s]] = plan
        return ends, losses

    def _starts(self, left, starts):
        """The plans to start from and their costs, without those between features."""
        if starts is None:
            plans = np.multiply.outer(self._p, self._q)
            return plans, np.multiply.outer(left @ self._p, self._projected)
        plans = starts / self._total
        costs = left @ plans
        for (values, *_), part in zip(self._sides, self._among.parts, strict=True):
            costs[:, part] = costs[:, part] @ values
        return plans, costs
