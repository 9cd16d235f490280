"""The linearized cost of matrices at one plan: its product, in a buffer that forks fill
in turn, and its separable terms.
"""

import copy

import numpy as np

from ..kernels import _exponentials, _kernels
from ..kernels._rows import aligned_empty
from ..linear.gibbs_kernel import Buffer
from ..linear.log_domain import Potentials
from ..utils.deadline import NEVER


class PlanCost:
    """The linearized cost at the plan of the last `set`, or at a combination of the last plans
    after `move`: the cost is linear in the plan, except for the entropy, which is interpolated.

    Parameters
    ----------
    problem : QuadraticProblem
    terms : MatrixTerms
    products : ProductOperator
    n_threads : int

    Attributes
    ----------
    products : ProductOperator
    buffer : Buffer
        Holds the product.
    row_cost, col_cost : (n,) and (m,) float64 ndarrays
        The separable terms, in units of cost.
    has_moved : bool
        Whether `move` came after the last `set`.
    """

    def __init__(self, problem, terms, products, n_threads):
        self.products, self._terms, self._problem = products, terms, problem
        self._n_threads, self.has_moved = n_threads, False
        dtype = products.bilinear.matrices[0].dtype
        self.buffer = Buffer(aligned_empty(problem.shape, dtype))
        self._turn, self._plan, self._standing = None, None, None
        self._separate(problem.p, problem.q)

    def fork(self):
        """Another cost in the same buffer."""
        other = copy.copy(self)
        other.products = self.products.fork()
        return other

    def set(self, plan, sums, change, epsilon, deadline=NEVER, outer=None):
        """Set the plan, with its sums and its relative `change`, for linear problems
        with this epsilon; `outer` is as in `ProductOperator.apply`.
        """
        self._plan, self._standing = plan, (*sums, None)
        self.buffer.take()
        self.has_moved = False
        given = plan, self.buffer.array, change, epsilon, deadline
        self.products.apply(*given, outer=outer)
        self._turn = self.buffer.take()
        if not self._problem.is_balanced:
            self._separate(*sums)

    def objective(self):
        """The objective of the plan of the last `set`, and its bilinear part."""
        problem, terms, plan = self._problem, self._terms, self._plan
        rows, cols, _ = self._standing
        separable = float(rows.dot(self.row_cost)) + float(cols.dot(self.col_cost))
        bilinear = terms.cost_scale * self.products.value(plan, self.buffer.array)
        half = 0.0 if terms.fused is None else terms.fused.half(plan)
        total = terms.total(separable, bilinear, half, float(rows.sum()))
        return total + problem.rule.penalty(rows, cols), bilinear - half

    def fill(self, out, change, epsilon, step=None):
        """Write the product, less ``step * log(plan)`` for proximal steps."""
        if not self.is_there:
            self.has_moved = False
            self.products.apply(self._plan, out, change, epsilon)
        if step:
            _exponentials.proximal_cost(out, self._plan, step, self._n_threads)

    def ensure(self, epsilon):
        """Have the buffer hold the product, as linear problems of that epsilon need."""
        if not self.is_there:
            self.buffer.take()
            self.fill(self.buffer.array, 1.0, epsilon)
            self._turn = self.buffer.take()

    @property
    def is_there(self):
        """Whether the buffer still holds the product."""
        return self._turn == self.buffer.turn

    def drop(self):
        """Have the product computed again."""
        self._turn = None

    def take(self, descent):
        """Take the plan of a `Descent`, and its product where that is known."""
        self._plan = descent.plan
        self._standing = descent.rows.copy(), descent.cols.copy(), None
        self.has_moved, self._turn = False, self.buffer.take()
        np.copyto(self.buffer.array, descent.cost)
        if descent.is_away:
            self.drop()
        if not self._problem.is_balanced:
            self._separate(*self._standing[:2])

    def _separate(self, rows, cols):
        self.row_cost, self.col_cost = self._terms.separable(rows, cols)

    def separable_potentials(self, unit):
        """`Potentials` that cancel the separable terms, in this unit."""
        return Potentials(self.row_cost / -unit, self.col_cost / -unit)

    def standing(self):
        """Marginals and entropy of the plan of the cost."""
        *sums, entropy = self._standing
        if entropy is None:
            entropy = _kernels.entropy(self._plan, self._n_threads)
            self._standing = *sums, entropy
        return self._standing

    def beside(self):
        """Marginals and entropy as one vector, which acceleration combines like the product."""
        if self._problem.is_balanced:
            return np.empty(0)
        return np.concatenate([np.ravel(one) for one in self.standing()])

    def move(self, weights, beside):
        """Move to the weighted sum of the last products, and of these vectors."""
        self.products.memory.combine(weights, self.buffer.array)
        self._turn, self.has_moved = self.buffer.take(), True
        if beside.size:
            sums = np.split(np.maximum(beside[:-1], 0.0), self._problem.shape[:1])
            self._standing = *sums, float(beside[-1])
            self._separate(*sums)

    def value(self, plan):
        """``<plan, cost>`` of any plan, in units of cost."""
        separable = plan.sum(axis=1) @ self.row_cost + plan.sum(axis=0) @ self.col_cost
        product = _kernels.dot(plan, self.buffer.array, self._n_threads)
        return float(separable + self._terms.cost_scale * product)
