"""The plans from one barycenter after another to the same spaces: what depends on the
spaces alone is made once, and an update takes one compiled descent a space.
"""

import itertools
import math

import numpy as np

from ..kernels._descent import FIELDS, MORE, OTHERWISE, Descent
from ..kernels._frank_wolfe import FrankWolfe
from ..kernels._rows import Panels
from ..kernels.threads import resolve_n_threads, single_threaded_blas
from ..linear.sinkhorn_solver import MARGIN, in_units
from ..quadratic.conditional_gradient import ROUNDING, Side
from ..quadratic.factory import linearize
from ..quadratic.methods import METHODS
from ..quadratic.small_descent import at_once_for, descent_limits
from ..utils.precision import DOUBLE
from ._conditional_gradient import NOTHING, exact_limits
from ._solve import (
    MAX_MARGINAL_ERROR,
    entropic_limits,
    marginal_tol,
    method_of,
    stated,
)

# What is read of the steps of a descent.
VALUE, ERROR = map(FIELDS.index, ("value", "error"))


class Together:
    """What makes all plans of an update: called with the structure of the barycenter,
    the costs between features and the plans to start from, or None, it returns plans,
    and the sum of their losses. Of all spaces there is one array, side by side.

    Parameters
    ----------
    problems : list of Problem
        From any barycenter to each of the spaces.
    solve : callable
        ``solve(s, C, Ms, starts)`` is the `Answer` to a single one.
    """

    @classmethod
    def of(cls, problems, solve):
        """One of these, or None where problems have what it has not: costs that are not
        symmetric, points without mass, tables that are printed.
        """
        first = problems[0]
        plain = all(one.y.symmetric and (one.q > 0).all() for one in problems)
        if not (plain and first.x.symmetric) or first.take("verbose"):
            return None
        made = cls(problems, solve)
        return made if made.suits else None

    def __init__(self, problems, solve):
        first = problems[0]
        self._solve, self._total, self._dtype = solve, first.total, first.arrays.dtype
        self._loss, self._alpha, self._fused = (
            first.loss,
            first.alpha,
            first.M is not None,
        )
        self._p = first.p.astype(np.float64) / self._total
        self._shift = 0.0
        if first.loss.shift_invariant:
            means = [problem.y.mean for problem in problems]
            self._shift = (first.x.mean + sum(means) / len(means)) / 2
        self._sides = [self._side(problem) for problem in problems]
        ends = np.cumsum([0] + [side.n for side in self._sides]).tolist()
        self._parts = [slice(*pair) for pair in itertools.pairwise(ends)]
        self._q, self._projected = (
            np.concatenate([getattr(side, name) for side in self._sides])
            for name in ("masses", "projected")
        )
        self._left = np.empty(first.x.matrix.shape)
        self.suits = True

    def _side(self, problem):
        q = problem.q.astype(np.float64) / self._total
        return Side(1, problem.y, q, self._loss, self._shift)

    def __call__(self, C, Ms, starts):
        costs = C - self._shift
        costs = (costs + costs.T) / 2
        self._left[:] = -self._alpha * self._loss.h1(costs)
        of_points = self._alpha * (self._loss.f1(costs) @ self._p)
        with single_threaded_blas():
            plans, gradients = self._starts(starts)
            half = None
            if self._fused:
                half = (1.0 - self._alpha) / (2.0 * self._total) * Ms
                gradients += half
            # Those that need another solver than this are made from what came.
            given = C, Ms, starts
            ends, losses = self._ends(plans, gradients, half, of_points, given)
        if not self._fused:
            losses = np.maximum(losses, 0.0)
        ends *= self._total
        loss = float(np.sum(losses)) * self._total**2
        return ends.astype(self._dtype, copy=False), loss

    def _starts(self, starts):
        """The plans to start from and half the gradients there, without the costs
        between features.
        """
        if starts is None:
            plans = np.multiply.outer(self._p, self._q)
            return plans, np.multiply.outer(self._left @ self._p, self._projected)
        plans = starts.astype(np.float64) / self._total
        halves = self._left @ plans
        for side, part in zip(self._sides, self._parts, strict=True):
            halves[:, part] = halves[:, part] @ side.values
        return plans, halves


class ExactTogether(Together):
    """Without entropy, by conditional gradient."""

    def __init__(self, problems, solve):
        super().__init__(problems, solve)
        self._limits, n = exact_limits(problems[0]), len(self._p)
        self._linear = [
            np.empty((n, x.n)) if self._fused else None for x in self._sides
        ]
        self._steps = list(map(self._made, self._sides, self._linear))
        sides = self._sides
        self._constants = np.array([x.masses @ x.constants for x in sides])
        self._peaks = np.array([abs(x.constants).max() for x in sides])
        self._largest = np.array([x.largest for x in sides])

    def _made(self, side, linear):
        threads = resolve_n_threads(None, work=len(self._p) * side.n)
        given = self._left, side.transposed, self._p, side.masses
        return FrankWolfe(*given, linear=linear, n_threads=threads)

    def _ends(self, plans, gradients, half, of_points, given):
        if half is not None:
            for linear, part in zip(self._linear, self._parts, strict=True):
                linear[:] = half[:, part]
        ends, values = np.empty_like(plans), np.empty(len(self._steps))
        peaks = abs(self._left).max() * self._largest + abs(of_points).max()
        FrankWolfe.descend(
            self._steps,
            plans,
            gradients,
            ends,
            constants=of_points @ self._p + self._alpha * self._constants,
            floors=ROUNDING * (peaks + self._alpha * self._peaks),
            values=values,
            most=self._limits.max_outer,
            least_change=self._limits.min_change,
            least_relative=self._limits.min_relative,
        )
        ends[ends < NOTHING] = 0.0
        return ends, values


class EntropicTogether(Together):
    """With entropy, by the compiled descents of small problems."""

    def __init__(self, problems, solve):
        super().__init__(problems, solve)
        # What descents go by is that of the largest problem, but for the marginals.
        first = max(problems, key=lambda problem: problem.shape[1])
        limits, work = entropic_limits(first), math.prod(first.shape)
        at = linearize(
            stated(first, DOUBLE.dtype, None),
            resolve_n_threads(None, work=work),
            method=METHODS[method_of(first)],
            precision=DOUBLE,
        )
        at.start()
        self._unit = at.cost_scale
        epsilon = first.number("epsilon") / (2.0 * self._total)
        epsilon = in_units(epsilon, self._unit, DOUBLE)
        judged = limits.rule.in_kernel(limits, at, epsilon)
        self.suits = at.is_small and judged is not None and self._dtype == DOUBLE.dtype
        if not self.suits:
            return
        shared = descent_limits(at, epsilon, limits, judged, 0)
        self._limits = [
            shared | {"marginal": marginal_tol(problem)} for problem in problems
        ]
        self._how = {"stride": at.sample_stride, "fraction": MARGIN * at.inner_fraction}
        self._panels = [Panels(side.values, True) for side in self._sides]
        weight = self._alpha / self._unit
        self._of_spaces = [weight * side.constants for side in self._sides]

    def _ends(self, plans, gradients, half, of_points, given):
        left, rows = self._left / self._unit, of_points / self._unit
        gradients /= self._unit
        if half is not None:
            half /= self._unit
        ends, losses = np.empty_like(plans), []
        for s, part in enumerate(self._parts):
            descent = Descent(
                (left, self._panels[s]),
                None,
                None if half is None else half[:, part].copy(),
                plans[:, part].copy(),
                gradients[:, part].copy(),
                self._p,
                self._sides[s].masses,
                rows,
                self._of_spaces[s],
                limits=self._limits[s],
                **self._how,
            )
            if _ended(descent, self._limits[s]):
                ends[:, part] = descent.plan
                losses.append(self._unit * descent.steps[-1, VALUE])
            else:
                answer = self._solve(s, *given)
                ends[:, part] = answer.plan / self._total
                losses.append(answer.value / self._total**2)
        return ends, losses


def _ended(descent, limits):
    """Whether a descent ends where another solver would, with the marginals."""
    most, status = limits["max_outer"], MORE
    at_once = at_once_for(*descent.plan.shape)
    while status == MORE and descent.done < most:
        status = descent.descend(min(descent.done + at_once, most), limits)
    if status == OTHERWISE:
        return False
    return descent.steps[-1, ERROR] <= MAX_MARGINAL_ERROR
