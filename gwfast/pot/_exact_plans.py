"""Plans without entropy from one barycenter after another to the same spaces: what
depends on the spaces alone is made once.
"""

import numpy as np

from ..kernels._frank_wolfe import MORE, FrankWolfe
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
        n = len(self._p)
        self._left, self._spaces, end = np.empty((n, n)), [], 0
        for problem in problems:
            q = problem.q.astype(np.float64) / self._total
            side = Side(1, problem.y, q, self._loss, self._shift)
            linear = None if first.M is None else np.empty((n, side.n))
            self._spaces.append((side, slice(end, end + side.n), linear))
            end += side.n
        self._steps = [self._made(side, linear) for side, _, linear in self._spaces]
        self._q = np.concatenate([side.masses for side, *_ in self._spaces])
        self._projected = np.concatenate([side.projected for side, *_ in self._spaces])

    def _made(self, side, linear):
        threads = resolve_n_threads(None, work=len(self._p) * side.n)
        return FrankWolfe(
            self._left,
            side.transposed,
            self._p,
            side.masses,
            linear=linear,
            n_threads=threads,
        )

    def __call__(self, C, Ms, starts):
        with single_threaded_blas():
            return self._plans(C, Ms, starts)

    def _plans(self, C, Ms, starts):
        loss, p, alpha, total = self._loss, self._p, self._alpha, self._total
        C = C.astype(np.float64) - self._shift
        C = (C + C.T) / 2
        self._left[:] = -alpha * loss.h1(C)
        of_points = alpha * (loss.f1(C) @ p)
        peak, top = abs(self._left).max(), abs(of_points).max()
        own = float(of_points @ p)
        plans, gradients = self._starts(starts)
        if Ms is not None:
            half = (0.5 - alpha / 2) * Ms
            gradients += half
        made, value = np.empty(plans.shape, dtype=self._dtype), 0.0
        for steps, (side, part, linear) in zip(self._steps, self._spaces, strict=True):
            if linear is not None:
                linear[:] = half[:, part]
            constant = own + alpha * float(side.masses @ side.constants)
            magnitude = peak * side.largest + top + alpha * abs(side.constants).max()
            steps.start(plans[:, part], gradients[:, part])
            value += self._descend(steps, ROUNDING * magnitude, constant)
            np.multiply(steps.plan, total, out=made[:, part], casting="same_kind")
        made[made < NOTHING * total] = 0.0
        return made, value * total**2

    def _descend(self, steps, floor, constant):
        """Go from where steps begin to the end, and return the loss."""
        limits, moves = self._limits, MORE
        while moves == MORE and steps.n_steps < limits.max_outer:
            more = limits.max_outer - steps.n_steps
            rules = limits.tol, floor, limits.min_change, limits.min_relative
            moves = steps.advance(more, *rules, constant)
        loss = steps.value + constant
        return loss if self._fused else max(loss, 0.0)

    def _starts(self, starts):
        """The plans to start from and half the gradients there, without the costs
        between features.
        """
        if starts is None:
            plans = np.multiply.outer(self._p, self._q)
            return plans, np.multiply.outer(self._left @ self._p, self._projected)
        plans = starts.astype(np.float64) / self._total
        halves = self._left @ plans
        for side, part, _ in self._spaces:
            halves[:, part] = halves[:, part] @ side.values
        return plans, halves
