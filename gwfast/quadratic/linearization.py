"""The one hinge between quadratic problem and linear solver: the linearized cost

    lin_cost(T) = f1(C1) p 1' + 1 q' f2(C2)' - h1(C1) T h2(C2)'

of Peyre, Cuturi and Solomon (ICML 2016), Proposition 1. The first two terms are
separable, they depend on one index each: they move the potentials but no plan, so the
kernels only ever see the third, in units of `cost_scale`, where float32 suffices.
"""

import copy
import functools
from typing import NamedTuple

import numpy as np

from ..kernels._rows import aligned_empty
from ..utils.mechanisms import ALL
from ..utils.precision import SINGLE
from .acceleration import DEPTH, lead_of

# Relative rounding of the objective of the product plan.
PRODUCT_ROUNDING = 1e-7


class Update(NamedTuple):
    """What taking a plan as the state has shown.

    Attributes
    ----------
    gw_cost : float
        Objective of the plan.
    change : float
        Of the state, relatively; see `OuterStep`.
    rows, cols : (n,) and (m,) float64 ndarrays
        Marginals of the plan.
    moved : float
        Frobenius norm of the change of the plan; NaN where that is not known.
    truncation_bound : float
        Fraction of the mass of a row or column that the plan may lack, at most, because
        only a part of the kernel is kept.
    bilinear : float
        ``-<h1(C1) T h2(C2)', T>`` with the weight of the quadratic term; NaN where that
        is not known.
    """

    gw_cost: float
    change: float
    rows: np.ndarray
    cols: np.ndarray
    moved: float = np.nan
    truncation_bound: float = 0.0
    bilinear: float = np.nan


class Linearization:
    """The linearized cost at a plan that changes, the state.

    `kernel` makes a Gibbs kernel of the linearized cost at the state, a solver finds
    the scalings of a plan, `update` makes that plan the state. A `fork` has a state of
    its own and shares all else; any number of them can take turns.

    Attributes
    ----------
    cost_scale : float
        What one in a kernel's cost is worth in units of cost.
    row_cost, col_cost : float64 ndarrays of shape (n,) and (m,)
        The separable terms, in units of cost.
    inner_fraction : float
        Tolerance of the inner iterations, as a fraction of the last relative change.
    inner_limit : int
        Limit of inner iterations while the plan still moves fast.
    change_is_rounded : bool
        Whether the change shows the rounding of single entries of the plan.
    accelerates : bool
        Whether the state moves linearly with the plan, and may `follow` its steps.
    is_small : bool
        Whether it may `advance` by more than one iteration at a time.
    can_damp : bool
        Whether states between that of a plan and that before it can be taken.
    precision : FloatPrecision
    method : Method
    mechanisms : Mechanisms
    """

    accelerates, is_small, can_damp = False, False, False
    # Share of the state before in each that is taken.
    _damping, _is_fork = 0.0, False
    # The `row_cost` that `magnitude` was last asked for, and what it was: only where a
    # marginal is free are there others in the next iteration.
    _magnitude = None, 0.0
    # Objective of the product plan with its penalty, once that was the state.
    _started_at = None

    def __init__(self, problem, n_threads, precision=SINGLE, mechanisms=ALL):
        self.problem, self.n_threads = problem, n_threads
        self.precision, self.mechanisms = precision, mechanisms
        # The last steps of the state, oldest first, what it was before and after,
        # in arrays, and perhaps more; and the one that may be the next of these.
        self._steps, self._step = [], None

    def start(self, plan=None, *, takes=False, epsilon=0.0):
        """Set the state, by default to the product plan; returns the objective. It
        `takes` a plan that nobody else needs, whose array may become the state's. With
        an `epsilon`, that of the first linear problem in units of its costs, the
        objective and these may be known as well as that problem needs them only.
        """

    def scratch(self):
        """A float32 matrix (n, m) in which to make a plan for `start`; what it holds is
        lost with the next product.
        """
        buffer = self._buffer
        if buffer is None or buffer.array.dtype != np.float32:
            return aligned_empty(self.problem.shape)
        buffer.take()
        return buffer.array

    def start_from(self, coarse, rows, cols):
        """Set the state from that of the same problem on `rows` and `cols` only."""

    def export(self):
        """A tree from which `restore` takes the state: that of the last plan, not of
        where its steps lead.
        """

    def restore(self, saved, change, epsilon):
        """Set the state as another of the same costs exported it, after an iteration
        with this relative `change`; for `epsilon` see `start`.
        """

    def extend_potentials(self, coarse, rows, cols, epsilon):
        """`Potentials` of all points for the cost at the state from those of the same
        problem on `rows` and `cols` only, or None.
        """
        return None

    def kernel(self, solver=None, start=None, epsilon=None):
        """A `Kernel` of the linearized cost at the state; perhaps only a part of it
        that is enough for `solver` from the potentials `start`, which are close to the
        solution, and `epsilon`.
        """

    def update(self, kernel, solution):
        """Take the plan of a `LinearSolution` for `kernel` as the state; returns an
        `Update`.
        """

    def coupling(self, kernel, solution):
        """The plan that was last taken, as a `Coupling`; it may use the kernel's
        buffer, and the kernel is spent.
        """

    def snapshot(self, kernel, solution):
        """The plan that was last taken, as a `Coupling` made from what the next
        iteration needs anyway, and that leaves all of it as it is.
        """

    def linear_value(self, update):
        """``<linear_cost, T>`` of the plan that was last taken; 0.0 without."""
        return 0.0

    def advance(self, rows, done, epsilon, potentials, options):
        """Iterate by the kernel of `ShortSteps`, where the linearization `is_small`."""

    def drop_truncation(self):
        """Do without the part of the kernel that turned out to be too small."""

    def use_full_kernel(self):
        """Make kernels whole from now on; returns whether they were not."""
        return False

    def tighten(self):
        """Make what is made to a tolerance to a tighter one from now on."""

    def damp(self):
        """Take half as much of each plan from now on, and the rest of the state as it
        was: steps have the same fixed points, and those that go round do not any more.
        Returns whether it does: not unless it `can_damp`, and not for contestants of a
        race, which are forks. These are compared by low plans of their rounds, above
        which damped steps may end, so they end where they go round.
        """
        damps = self.can_damp and self.mechanisms.damping and not self._is_fork
        if damps:
            self._damping = (1.0 + self._damping) / 2.0
            self.forget()
        return damps

    def follow(self):
        """Keep the last step, and move the state from the last plan to where the last
        steps lead, if they say where; returns the `Lead`, or None.
        """
        self._steps, self._step = [*self._steps[-DEPTH:], self._step], None
        n_kept = self._keep()
        steps = self._steps[len(self._steps) - n_kept :]
        lead = lead_of([step[:2] for step in steps])
        if lead is not None:
            weights = lead.weights
            self._move(weights, steps[len(steps) - len(weights) :])
        return lead

    def _keep(self):
        """Keep what the last plan is to be followed by; returns of how many of the last
        plans that is there.
        """
        return len(self._steps)

    def _move(self, weights, steps):
        """Move the state to the sum of what steps led to, multiplied by weights."""

    def retract(self):
        """Take back the last plan, and go on from that before it."""

    def forget(self):
        """Follow nothing that was before."""
        self._steps = []

    @functools.cached_property
    def product_cost(self):
        """Objective of the product plan, which is the mean linearized cost there; 0.0
        where it is nothing but rounding.
        """
        rule, known = self.problem.rule, self._started_at
        cost = self.fork().start() if known is None else known
        cost -= rule.penalty(*rule.product())
        return cost if cost > PRODUCT_ROUNDING * self.magnitude else 0.0

    def fork(self):
        """Another with the same costs, buffers and, until it changes, state."""
        other = copy.copy(self)
        other._damping, other._is_fork = 0.0, True
        other._steps, other._step = [], None
        return other

    def deviation(self):
        """How the state differs from that of the product plan, in units of what it
        could be.
        """
        p, q = self.problem.p, self.problem.q
        return (self.state - np.outer(p, q)) / np.sqrt(p.max() * q.max())

    @property
    def magnitude(self):
        """Size of the terms whose difference the objective is, in units of cost."""
        known, made = self._magnitude
        if known is not self.row_cost:
            p, q = self.problem.p, self.problem.q
            made = float(p @ np.abs(self.row_cost) + q @ np.abs(self.col_cost))
            self._magnitude = self.row_cost, made
        return made


def not_negative(separable, bilinear):
    """Their sum, a mean of losses, and so negative by rounding only."""
    total = float(separable + bilinear)
    rounding = 1e-5 * (abs(separable) + abs(bilinear))
    return max(total, 0.0) if total > -rounding else total
