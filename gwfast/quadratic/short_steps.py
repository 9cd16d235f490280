"""Outer iterations of small problems, all of them in one call of a kernel
(kernels/_outer_steps.pyx): calls from Python for each would take longer than all that
an iteration does. What the kernel cannot solve, the outer loop does.
"""

import numpy as np

from ..kernels import _outer_steps
from ..kernels._outer_steps import OTHERWISE, SETTLED
from ..linear.log_domain import Potentials
from ..linear.sinkhorn_solver import MARGIN, LinearSolution
from ..results.status import Status
from .inner_schedule import MAX_TIGHTENING
from .linearization import Update
from .methods import Stepped

# Entries that the Sinkhorn iterations of one linear problem read, and bounds of their
# number: more of them are over-relaxed, by the loop. A solve of 12 to 29 points took
# 7.5 ms with 200 iterations, 4.3 with these, 5.0 with a tenth of these, and 4.5 with
# 2.5 times as many (the mean of 200 problems).
MOST_READ, MOST_INNER = 4 * 10**6, (200, 5000)
# Iterations of one call, at most: only in between are deadlines looked at.
AT_ONCE = 100


class ShortSteps:
    """The first iterations of an outer loop, up to the first one that needs more than
    the kernel can do.

    Parameters
    ----------
    linearization : Linearization
        With its state set; only a small `Dense` one has such steps.

    Attributes
    ----------
    pays : bool
        Whether the next iteration may be one of these.
    """

    def __init__(self, linearization):
        self._linearization, self.pays = linearization, linearization.is_small
        # A row of the kernel's for each iteration, whether the last has settled but for
        # its marginals, and how exactly linear problems are solved.
        self._rows, self._done = np.empty((0, len(_outer_steps.FIELDS))), 0
        self._settled, self._fraction = False, MARGIN * linearization.inner_fraction

    def take(self, n_before, limits, epsilon, potentials, single):
        """Iterate as far as the kernel can and the limits allow.

        Parameters
        ----------
        n_before : int
            Iterations of the loop so far.
        limits : Limits
        epsilon : float
            Of all these iterations, divided by `cost_scale`.
        potentials : Potentials or None
        single : bool
            Whether to make one iteration only.

        Returns
        -------
        list of tuple
            Of each iteration ``gw_cost, change, moved, error, n_inner``.
        Stepped or None
            The last one.
        Status or None
            Why the loop ends with it.
        """
        judged = limits.rule.in_kernel(limits, self._linearization, epsilon)
        begins = n_before == self._done
        if not (begins and judged) or n_before >= limits.max_outer:
            self.pays = False
            return [], None, None
        done = self._done
        most = min(1 if single else AT_ONCE, limits.max_outer - done)
        self._make_room(done + most)
        made = self._advance(done + most, epsilon, potentials, limits, judged)
        stepped, self._done, status, self._settled, self._fraction = made
        self.pays = status != OTHERWISE
        if self._done == done:
            return [], None, None
        ended = Status.CONVERGED if status == SETTLED else None
        if ended is None and self._done >= limits.max_outer:
            ended = Status.MAX_OUTER
        terms, rows = self._linearization.terms, self._rows[done : self._done].tolist()
        steps = [(_objective(terms, row), *row[3:6], int(row[6])) for row in rows]
        return steps, stepped, ended

    def _make_room(self, most):
        if len(self._rows) < most:
            rows = np.empty((2 * most, len(_outer_steps.FIELDS)))
            rows[: self._done] = self._rows[: self._done]
            self._rows = rows

    def _advance(self, most, epsilon, potentials, limits, judged):
        at = self._linearization
        n, m = at.problem.shape
        most_inner = np.clip(MOST_READ // (n * m), *MOST_INNER)
        options = dict(
            last=most >= limits.max_outer,
            settled=self._settled,
            fraction=self._fraction,
            least_fraction=MARGIN * at.inner_fraction / MAX_TIGHTENING,
            rough=MARGIN * at.precision.rough,
            marginal=limits.marginal_tol,
            most_inner=min(limits.max_inner, int(most_inner)),
            **judged,
        )
        return outer_steps(
            at, self._rows[:most], self._done, epsilon, potentials, options
        )


def outer_steps(at, rows, done, epsilon, potentials, options):
    """The kernel's iterations from the state of a `Dense` linearization, whose state
    becomes the last plan: the last `Stepped`, and what the kernel returns.
    """
    state, terms, problem, cost = at.state, at.terms, at.problem, at.cost
    unit, fused, product = terms.cost_scale, terms.fused, cost.buffer.array
    cost.ensure(epsilon)
    plan, separable = state.copy(), (cost.row_cost / unit, cost.col_cost / unit)
    if potentials is None:
        # No exponent is above zero, and in each row one is zero.
        f, g = product.min(axis=1).astype(np.float64), np.zeros(len(problem.q))
    else:
        f, g = potentials.f.copy(), potentials.g.copy()
    sums, constant = (np.empty(len(f)), np.empty(len(g))), 0.0
    if fused is not None:
        constant = fused.separable / unit
    n_done, status, settled, fraction = _outer_steps.outer_steps(
        *terms.bilinear.orientations,
        fused and fused.matrix,
        *(plan, product, f, g, problem.p, problem.q, *separable, *sums, rows, done),
        epsilon,
        peak=at.precision.peak,
        drift=at.precision.drift,
        value=sum(rows[done - 1, :3].tolist()) + constant if done else np.inf,
        constant=constant,
        proximal=at.method.proximal,
        **options,
    )
    if n_done == done:
        return None, n_done, status, settled, fraction
    row = rows[n_done - 1].tolist()
    change, moved, error, n_inner = row[3:]
    cost.take(plan, sums)
    at.take(plan, change)
    bilinear = unit * (row[1] - row[2])
    update = Update(_objective(terms, row), change, *sums, moved, bilinear=bilinear)
    solution = LinearSolution(Potentials(f, g), None, int(n_inner))
    stepped = Stepped(None, solution, update, int(n_inner), error, error, 0.0)
    return stepped, n_done, status, settled, fraction


def _objective(terms, row):
    """The objective of the plan of a row. Where marginals are fixed the mass is one."""
    return terms.total(*(terms.cost_scale * one for one in row[:3]), 1.0)
