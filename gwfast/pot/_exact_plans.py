"""Plans without entropy from one barycenter after another to the same spaces: what
depends on the spaces alone is made once.
"""

import itertools

import numpy as np

from ..kernels._frank_wolfe import FrankWolfe
from ..kernels.threads import resolve_n_threads, single_threaded_blas
from ..quadratic.conditional_gradient import ROUNDING, Side
from ._conditional_gradient import NOTHING, limits_of


def exact_plans(problems):
    """An `ExactPlans`, or None where problems have what it has not: costs that are not
    symmetric, points without mass, tables that are printed.
    """
    problems = list(problems)
    first = problems[0]
    plain = all(one.y.symmetric and (one.q > 0).all() for one in problems)
    if plain and first.x.symmetric and not first.take("verbose"):
        return ExactPlans(problems)
    return None


class ExactPlans:
    """What makes all plans of an update: called with the structure of the barycenter,
    the costs between features and the plans to start from, or None, it returns plans,
    and the sum of their losses. Of all spaces there is one array, side by side.

    Parameters
    ----------
    problems : list of Problem
        From any barycenter to each of the spaces.
        Their costs are symmetric, their masses positive.
    """

    def __init__(self, problems):
        first = problems[0]
        self._total, self._dtype = first.total, first.arrays.dtype
        self._loss, self._alpha = first.loss, first.alpha
        self._limits, self._fused = limits_of(first), first.M is not None
        self._p = first.p.astype(np.float64) / self._total
        self._shift = 0.0
        if first.loss.shift_invariant:
            means = [problem.y.mean for problem in problems]
            self._shift = (first.x.mean + sum(means) / len(means)) / 2
        self._left = np.empty(first.x.matrix.shape)
        self._sides = [self._side(problem) for problem in problems]
        self._linear = [
            np.empty((len(self._p), side.n)) if self._fused else None
            for side in self._sides
        ]
        self._steps = list(map(self._made, self._sides, self._linear))
        ends = np.cumsum([0] + [side.n for side in self._sides]).tolist()
        self._parts = [slice(*pair) for pair in itertools.pairwise(ends)]
        self._q, self._projected, constants = (
            np.concatenate([getattr(side, name) for side in self._sides])
            for name in ("masses", "projected", "constants")
        )
        self._constants = np.add.reduceat(self._q * constants, ends[:-1])
        self._peaks = np.maximum.reduceat(abs(constants), ends[:-1])
        self._largest = np.array([side.largest for side in self._sides])

    def _side(self, problem):
        q = problem.q.astype(np.float64) / self._total
        return Side(1, problem.y, q, self._loss, self._shift)

    def _made(self, side, linear):
        threads = resolve_n_threads(None, work=len(self._p) * side.n)
        given = self._left, side.transposed, self._p, side.masses
        return FrankWolfe(*given, linear=linear, n_threads=threads)

    def __call__(self, C, Ms, starts):
        with single_threaded_blas():
            return self._plans(C, Ms, starts)

    def _plans(self, C, Ms, starts):
        loss, p, alpha, total = self._loss, self._p, self._alpha, self._total
        C = C.astype(np.float64) - self._shift
        C += C.T.copy()
        C /= 2
        self._left[:] = -alpha * loss.h1(C)
        of_points = alpha * (loss.f1(C) @ p)
        plans, gradients = self._starts(starts)
        if self._fused:
            half = (0.5 - alpha / 2) * Ms
            gradients += half
            for linear, part in zip(self._linear, self._parts, strict=True):
                linear[:] = half[:, part]
        ends, values = np.empty_like(plans), np.empty(len(self._steps))
        peaks = abs(self._left).max() * self._largest + abs(of_points).max()
        FrankWolfe.descend(
            self._steps,
            plans,
            gradients,
            ends,
            constants=of_points @ p + alpha * self._constants,
            floors=ROUNDING * (peaks + alpha * self._peaks),
            values=values,
            most=self._limits.max_outer,
            least_change=self._limits.min_change,
            least_relative=self._limits.min_relative,
        )
        ends[ends < NOTHING] = 0.0
        if not self._fused:
            values = np.maximum(values, 0.0)
        ends *= total
        return ends.astype(self._dtype, copy=False), float(values.sum()) * total**2

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
