"""The linearized cost of matrices, of only a part of the plan where that is enough."""

import numpy as np

from ..kernels._rows import aligned_empty
from ..linear.gibbs_kernel import KeptKernel
from ..linear.truncation import MAX_BOUND, MAX_PEAK, Support
from ..utils.deadline import NEVER
from . import dense, low_rank_products
from .anderson import Lead
from .dense_terms import copies_costs
from .linearization import Update, not_negative
from .low_rank_products import Made
from .methods import PGD
from .truncated_plan import PARTS, SymmetricTerm, TruncatedPlan

# Relative change of the plan below which a part of it is looked for.
TRUNCATE_BELOW = 0.5
# What is kept, see `truncation.FRACTIONS`, with the fraction of the entries that it may
# be: the first that fits. The less is left out, the longer a choice lasts, for which
# few entries more are a small price; beside thin products, and of many points, for
# which room may be short, no more than that are kept.
FEW, MORE = 0.02, 0.06
CHOICES = ((1e-30, FEW), (1e-24, FEW), (1e-16, FEW), (1e-12, FEW), (1e-9, MORE))
# Bytes for each of them, those included that choosing and going on with them take.
BYTES_KEPT = 64
# Entries of a plan below which an iteration takes the time of choosing a part of it.
MIN_ENTRIES = 1 << 19
# Fraction of the change at a choice from a thin product down to which it serves: what
# that is wrong by may move the plan as much.
SERVES = 0.5
# Fraction of the change below which to go on where a part did not last for a step.
FAILED = 0.1
# Rows that are looked at first.
LOOKED_AT = 64
# What the plan has outside may move no exponent by more.
MAX_MOVED = 0.01


class TruncatedDense(dense.Dense):
    """`Dense` of a problem that `suits`, and where the plan has few entries in every
    row, of these only.

    Then the state is a `TruncatedPlan`, and a matrix only where one is asked for.
    """

    # Problems that suit never are.
    is_small = False
    # The plan that was before a part was given up, until the next kernel.
    _part = _state = _behind = None
    # Whether the last kernel was of a part, the next one is to be whole, and another
    # part has to be chosen; and whether there was none to be chosen once.
    _was_part = _whole_next = _stale = _refused = False
    _truncate_below, _serves = TRUNCATE_BELOW, 0.0

    def _use(self, products):
        super()._use(products)
        self._term = None

    @property
    def state(self):
        if self._state is None and self._part is not None:
            self._state = self._part.toarray()
        return self._state

    @state.setter
    def state(self, plan):
        self._part, self._state = None, plan

    def fork(self):
        plan, other = self.state, super().fork()
        other.state = plan
        return other

    def kernel(self, solver=None, start=None, epsilon=None):
        self._behind, part = None, self._part
        whole = self._whole_next or self._stale or self._truncate_below < 0
        if part is not None and not whole and epsilon == part.support.epsilon:
            return part.kernel()
        kernel = super().kernel(solver, start, epsilon)
        if start is not None and self._may_truncate():
            self._truncate(kernel, solver, start, epsilon)
            if self._part is not part:
                return self._part.kernel()
        return kernel

    def _may_truncate(self):
        """Whether to look for a part of the plan."""
        return (
            self._change <= self._truncate_below
            and not self._whole_next
            and not self._history.is_extrapolated
            and self.precision.itemsize == 4
            and (self._part or concentrated(self.problem, self._state, self._most()))
        )

    def _most(self):
        """The largest fraction of the entries that may be kept."""
        most = most_kept(self.problem, self.problem.shape, self.method)
        return most if self.products.made == Made.WHOLE else min(most, FEW)

    def _truncate(self, kernel, solver, potentials, epsilon):
        """Go on with a part of the plan, if that pays: where the kernel of the
        potentials that there are is not small.
        """
        if self._term is None:
            self._term = SymmetricTerm(self.products.bilinear, self.n_threads)
        most = self._most()
        peak = kernel.make_ahead(potentials, epsilon, solver.q, solver.scalings)
        if peak < MAX_PEAK:
            for fraction, density in CHOICES:
                given = kernel, potentials, solver, self._term.lengths, fraction
                support = Support(*given)
                if support.pays(min(density, most)):
                    if self._take_part(support.choose(), kernel, potentials):
                        return
                    break
        # It takes looks at the whole kernel to know.
        self._truncate_below, self._refused = self._change / 4.0, True

    def _take_part(self, support, kernel, potentials):
        plan = self._state if self._part is None else self._part
        given = self._term, support, plan, kernel, potentials, self._buffer
        part = TruncatedPlan.chosen(*given)
        holds = self._holds(part.values, support.epsilon)
        if holds:
            if self._part is None:
                self.forget()
            self._part, self._state, self._stale, self._turn = part, None, False, None
            exact = self.products.made == Made.WHOLE
            self._serves = 0.0 if exact else SERVES * self._change
        return holds

    def _holds(self, values, epsilon):
        """Whether there is no more elsewhere than what hardly moves an exponent."""
        lost = abs(self.problem.mass - float(values.sum(dtype=np.float64)))
        return lost <= MAX_MOVED * epsilon

    def _fill(self, out, step=None, deadline=NEVER, *, settles=True):
        if self._part is None:
            super()._fill(out, step, deadline, settles=settles)
        else:
            self._state = None  # the product needs the room
            moves = self._change, self._epsilon
            self._part.fill(self.products, out, *moves, deadline)
            self.products.settle(out)

    def update(self, kernel, solution):
        part, scalings, bound, failed = self._part, solution.scalings, 0.0, False
        self._was_part = isinstance(kernel, KeptKernel)
        self._whole_next = False
        if part is None:
            return super().update(kernel, solution)
        values = part.sampled(kernel, scalings)
        if self._was_part:
            bound = part.bound(solution.potentials)
            self._state, self._stale = None, not bound <= MAX_BOUND
            failed = self._stale and part.is_new
        elif self._holds(values, kernel.epsilon):
            kernel.scale(scalings)
            self._state = kernel.rows
            self._buffer.array = aligned_empty(self.problem.shape)
        else:
            self.state, self._behind = self.state, part
            return super().update(kernel, solution)
        self._was_whole, taken = True, part.take(values)
        self._change, rows, cols = taken.change, taken.rows, taken.cols
        self._stale = self._stale or self._change < self._serves
        if failed:
            # By the potentials alone, within one solve: it is too early.
            self._truncate_below = FAILED * self._change
        self._standing = rows, cols, None
        separable = rows @ self.row_cost + cols @ self.col_cost
        bilinear = self.cost_scale * taken.value
        gw_cost = not_negative(separable, bilinear)
        gw_cost += self.problem.rule.penalty(rows, cols)
        given = gw_cost, taken.change, rows, cols, taken.moved
        return Update(*given, truncation_bound=bound, bilinear=bilinear)

    def drop_truncation(self):
        self._whole_next = self._stale = True

    def damp(self):
        # Parts are for plans that settle.
        self.state, self._turn, self._truncate_below = self.state, None, -1.0
        return super().damp()

    def use_full_kernel(self):
        if self._part is None:
            self._whole_next = super().use_full_kernel()
        else:
            self._whole_next = self._was_part and self._confirms
            if self._whole_next:
                self.products.want_whole()
                # Where that does not settle, rounding of the one is not the other's.
                self._truncate_below = -1.0
        return self._whole_next

    def entropy(self, kernel, solution, update):
        if self._part is None:
            return super().entropy(kernel, solution, update)
        return self._part.entropy()

    def extrapolate(self):
        if self._part is None:
            # A part is chosen at a plan, not at where the last ones lead.
            waits = not self._refused and self._may_truncate()
            return Lead.NOWHERE if waits else super().extrapolate()
        return self._part.extrapolate()

    def retract(self):
        if self._part is not None:
            self._state = None
            self._part.retract()
        elif self._behind is not None:
            self.state, self._turn = self._behind.toarray(), None
        else:
            super().retract()

    def forget(self):
        super().forget()
        if self._part is not None:
            self._part.forget()


def suits(problem, shape, method):
    """Whether plans of that many points may be truncated."""
    plain = problem.is_plain and method is PGD
    symmetric = problem.x.symmetric and problem.y.symmetric
    return plain and symmetric and shape[0] * shape[1] >= MIN_ENTRIES


def concentrated(problem, plan, density):
    """Whether no more of some rows of a plan is not small."""
    some = slice(None, None, max(len(plan) // LOOKED_AT, 1))
    least = CHOICES[-1][0] * np.minimum.outer(problem.p[some], problem.q)
    return np.count_nonzero(plan[some] > least) <= density * least.size


def most_kept(problem, shape, method):
    """The largest fraction of the entries of such a plan that may be kept."""
    copied = copies_costs(problem, method, np.dtype(np.float32).itemsize, shape)
    return CHOICES[-1][1] if copied else FEW


def nbytes(problem, shape, itemsize, method, n_states):
    """See that of `dense`."""
    size = dense.nbytes(problem, shape, itemsize, method, n_states)
    if suits(problem, shape, method):
        # And some rows of a product; sampled ones are made before or after.
        more = BYTES_KEPT * most_kept(problem, shape, method) * shape[0] * shape[1]
        more += 4 * shape[0] * shape[1] / PARTS
        size += max(more - low_rank_products.sampled_nbytes(shape), 0)
    return size
