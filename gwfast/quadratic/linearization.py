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
# Relative, of a mean of losses, which is a difference of larger terms.
LOSS_ROUNDING = 1e-5


class Update(NamedTuple):
    """The plan of a linear problem, once it is the state.

    Attributes
    ----------
    gw_cost : float
        Objective of the plan.
    change : float
        Relative change of the state; see `OuterStep`.
    rows, cols : (n,) and (m,) float64 ndarrays
        Marginals of the plan.
    moved : float
        Frobenius norm of the change of the plan; NaN where the plan is not stored.
    bilinear : float
        ``-<h1(C1) T h2(C2)', T>`` with the weight of the quadratic term; NaN for factored costs.
    """

    gw_cost: float
    change: float
    rows: np.ndarray
    cols: np.ndarray
    moved: float = np.nan
    bilinear: float = np.nan


class Linearization:
    """The linearized cost at a state: a plan, or what the cost needs of a plan.

    `kernel` makes the Gibbs kernel of the linearized cost at the state, a solver finds
    the scalings of a plan, and `update` makes this plan the state. A `fork` has a state
    of its own and shares everything else; forks take turns.

    Attributes
    ----------
    cost_scale : float
        Unit of a kernel's cost.
    row_cost, col_cost : float64 ndarrays of shape (n,) and (m,)
        The separable terms, in units of cost.
    inner_fraction : float
        Tolerance of the inner iterations, as a fraction of the last relative change.
    inner_limit : int
        Limit of inner iterations while the plan still moves fast.
    change_is_rounded : bool
        Whether rounding of single entries of the plan shows in the change.
    accelerates : bool
        Whether the state is linear in the plan, and may `follow` its steps.
    samples : bool
        Whether descents on samples of the plan lead it.
    is_small : bool
        Whether `SmallDescent` can make its iterations.
    can_damp : bool
        Whether a mean of two states is a state.
    is_elsewhere : bool
        Whether points and plan are on other machines.
    least_error : float
        Error of the marginals, as a fraction of the mass, that is no error: so much
        mass a plan lacks because its kernel keeps few entries.
    precision : FloatPrecision
    method : Method
    mechanisms : Mechanisms
    """

    accelerates, is_small, can_damp, samples = False, False, False, False
    is_elsewhere = False
    least_error = 0.0
    # Weight of the former state in each new one.
    _damping, _is_fork = 0.0, False
    # The `row_cost` of the last `magnitude`, and its value: separable terms change
    # between iterations only where a marginal is free.
    _magnitude = None, 0.0
    # Objective of the product plan with its penalty, if it is known.
    _started_at = None

    def __init__(self, problem, n_threads, precision=SINGLE, mechanisms=ALL):
        self.problem, self.n_threads = problem, n_threads
        self.precision, self.mechanisms = precision, mechanisms
        # The last steps, oldest first: arrays of the state before and after, and
        # perhaps more; and the step of the last update, which `follow` appends.
        self._steps, self._step = [], None

    def start(self, plan=None, *, takes=False, epsilon=0.0):
        """Set the state, by default to the product plan; returns the objective. With
        `takes` the array of the plan may become that of the state. With the `epsilon`
        of the first linear problem, in units of its costs, objective and costs may be
        approximate to what that problem can tell apart.
        """

    def scratch(self):
        """A float32 matrix (n, m) in which a plan for `start` can be made; the next
        product overwrites it.
        """
        buffer = self._buffer
        if buffer is None or buffer.array.dtype != np.float32:
            return aligned_empty(self.problem.shape)
        buffer.take()
        return buffer.array

    def start_from(self, coarse, rows, cols):
        """Set the state from that of the same problem on `rows` and `cols` only."""

    def export(self):
        """A tree for `restore`: the state of the last plan, without acceleration."""

    def restore(self, saved, change, epsilon):
        """Set the state from a tree of `export` for the same costs, after an iteration
        with this relative `change`; for `epsilon` see `start`.
        """

    def extend_potentials(self, coarse, rows, cols, epsilon):
        """`Potentials` of all points for the cost at the state from those of the same
        problem on `rows` and `cols` only, or None.
        """
        return None

    def kernel(self, epsilon=None, start=None):
        """The `Kernel` of the linearized cost at the state, as precise as a problem
        with this epsilon can tell; `start` are potentials near its solution, or None.
        """

    def update(self, kernel, solution):
        """Make the plan of a `LinearSolution` of this kernel the state; returns an `Update`."""

    def coupling(self, kernel, solution):
        """The plan of the last update as a `Coupling`, perhaps in the kernel's buffer;
        the kernel cannot be used afterwards.
        """

    def snapshot(self, kernel, solution):
        """The plan of the last update as a `Coupling` for a callback, which leaves all
        that the next iteration needs as it is.
        """

    def left_out(self, kernel, solution):
        """An upper confidence bound on the fraction of the mass that the plan of the
        last update lacks because its kernel keeps few entries; see `GWResult`.
        """
        return 0.0

    def linear_value(self, update):
        """``<linear_cost, T>`` of the plan of the last update; 0.0 without these."""
        return 0.0

    def use_full_kernel(self):
        """Approximate no product from now on; returns whether the last one was."""
        return False

    def tighten(self):
        """Approximate products to a tighter tolerance from now on."""

    def damp(self):
        """Halve all steps from now on, which keeps their fixed points and breaks
        cycles. Returns whether they are: not where the state cannot be damped, and not
        for forks, the candidates of a race. A race compares the lowest plans of their
        cycles, above which damped steps may end.
        """
        damps = self.can_damp and self.mechanisms.damping and not self._is_fork
        if damps:
            self._damping = (1.0 + self._damping) / 2.0
            self.forget()
        return damps

    def follow(self, reach):
        """Append the last step to the steps, and move the state to where these lead if
        `lead_of` finds a point within `reach`; returns the `Lead`, or None.
        """
        self._steps, self._step = [*self._steps[-DEPTH:], self._step], None
        n_kept = self._keep()
        steps = self._steps[len(self._steps) - n_kept :]
        lead = lead_of([step[:2] for step in steps], reach)
        if lead is not None:
            weights = lead.weights
            self._move(weights, steps[len(steps) - len(weights) :])
        return lead

    def _keep(self):
        """Keep the product of the last plan; returns the number of the last steps whose
        products are kept.
        """
        return len(self._steps)

    def _move(self, weights, steps):
        """Move the state to the weighted sum of the states after these steps."""

    def retract(self):
        """Return to the state before the last move, unless a whole product since then
        has taken the room of that state's; returns whether it has not.
        """

    def forget(self):
        """Forget all steps."""
        self._steps = []

    @functools.cached_property
    def product_cost(self):
        """Objective of the product plan, the mean linearized cost there; 0.0 where the
        objective is rounding alone.
        """
        rule, known = self.problem.rule, self._started_at
        cost = self.fork().start() if known is None else known
        cost -= rule.penalty(*rule.product())
        return cost if cost > PRODUCT_ROUNDING * self.magnitude else 0.0

    def fork(self):
        """Another linearization with the same costs and buffers, and the same state
        until one of the two changes.
        """
        other = copy.copy(self)
        other._damping, other._is_fork = 0.0, True
        other._steps, other._step = [], None
        return other

    def deviation(self):
        """Difference of the state from that of the product plan, relative to the
        largest possible one.
        """
        return (self.state - np.outer(self.problem.p, self.problem.q)) / self._largest

    def apart(self, other):
        """Frobenius norm of the difference of two states, in the same units."""
        return np.linalg.norm(self.deviation() - other.deviation())

    @functools.cached_property
    def _largest(self):
        return np.sqrt(self.problem.p.max() * self.problem.q.max())

    @property
    def magnitude(self):
        """Size of the terms that cancel in the objective, in units of cost."""
        known, made = self._magnitude
        if known is not self.row_cost:
            p, q = self.problem.p, self.problem.q
            made = float(p.dot(np.abs(self.row_cost)) + q.dot(np.abs(self.col_cost)))
            self._magnitude = self.row_cost, made
        return made


def not_negative(separable, bilinear):
    """The sum of both terms, a mean of losses: negative values are rounding."""
    total = float(separable + bilinear)
    rounding = LOSS_ROUNDING * (abs(separable) + abs(bilinear))
    return max(total, 0.0) if total > -rounding else total
