"""Descents on samples of a large plan, which lead the outer loop on all its entries.

An outer iteration on some dozens of entries of each row costs next to nothing, and says nearly as
well as one on all how the plan answers to a change of the state: the sums over a row are estimated
by draws from it. After an iteration on all entries, from a state A to B, the state moves to the
fixed point of ``B + S(.) - S(A)``, with S the iteration on the sample: the full approximation
scheme of multigrid methods (Brandt, Math. Comp. 1977) with a sample in the place of the coarse
grid. The next iteration on all entries tells how far that is from its own fixed point, which is
the same as ever; with 128 draws of each row the change is a twentieth to a hundredth of the last
one, where Anderson's acceleration on 10,000 words halves it.
"""

import functools

import numpy as np

from ..kernels import _sparse
from ..linear.gibbs_kernel import Scalings, SparseKernel
from ..linear.log_domain import Potentials
from ..linear.rules import Balanced
from ..linear.support import Support
from ..problems.epsilon import Schedule
from ..utils.golden import golden
from .acceleration import Moved
from .factored import DRAWS, MOST_INNER, Factored, relative_change
from .linearization import Update
from .stopping import Limits

# A descent on a sample ends at a fraction of the change of the last iteration on all
# entries (ENOUGH; the noise of the sample leaves about as much) or of the tolerance
# (NEAR), whichever is larger, or after so many iterations.
ENOUGH, NEAR, MOST_OUTER = 0.01, 0.2, 30
# The change after a move as a fraction of that before: what is expected of the first
# move, and least and most of later ones, by what the last one was.
FIRST_RATE, LEAST_RATE, MOST_RATE = 0.05, 0.01, 0.2
# Iterations of the first pause after a move that failed; each is twice as long.
FIRST_PAUSE = 2
SMALLEST = np.finfo(np.float32).tiny


class Sample(Support):
    """Draws from each row of the plan of a kernel, each of the same share of its mass.

    Attributes
    ----------
    shape : (int, int)
    weights : (nnz,) float32 ndarray
        How many entries of the plan each entry stands for; ones before `weigh`.
    """

    def __init__(self, kernel, scalings, draws):
        n, _ = self.shape = kernel.shape
        index, times = (np.empty((n, draws), dtype=np.int32) for _ in range(2))
        given, step = (kernel.rows, scalings.v, golden(n)), np.empty(n)
        _sparse.sample(*given, index, times, step, kernel.n_threads)
        drawn, start = times > 0, np.zeros(n + 1, dtype=np.int64)
        np.cumsum(drawn.sum(axis=1), out=start[1:])
        super().__init__(start, index[drawn])
        self._mass = times[drawn].astype(np.float32)
        step *= scalings.u
        self._mass *= np.repeat(step.astype(np.float32), np.diff(start))
        self.weights = np.ones(len(self.index), dtype=np.float32)

    def weigh(self, plan):
        """Set the weights from the entries of the plan, and scale these by them."""
        self.weights = self._mass / np.maximum(plan, SMALLEST)
        plan *= self.weights
        del self._mass


class SampledKernel(SparseKernel):
    """A kernel on a `Sample`, its entries times their weights."""

    @functools.cached_property
    def _cost(self):
        cost = super()._cost
        cost.values -= np.float32(self.epsilon) * np.log(self.support.weights)
        return cost

    def _make(self, potentials, epsilon, scalings, q):
        peak = super()._make(potentials, epsilon, scalings, q)
        with np.errstate(over="ignore"):  # the peak tells
            self.rows *= self.support.weights
        return peak


class Sampled(Factored):
    """The iteration of a `Factored` on a sample of its last plan, moved so that it goes
    from the state before that plan to the state after it.

    Parameters
    ----------
    whole : Factored
        After an iteration.
    stepped : Stepped
        The iteration.
    draws : int
        Of each row.

    Attributes
    ----------
    potentials : Potentials
        Those of the sampled plan.
    """

    samples = False

    def __init__(self, whole, stepped, draws):
        kernel, solution, update = stepped[:3]
        self.__dict__.update(whole.fork().__dict__, samples=False)
        self.inner_fraction, self.inner_limit = Factored.inner_fraction, MOST_INNER
        self._sample = sample = Sample(kernel, solution.scalings, draws)
        scalings = Scalings(*sample.shape, np.float32)
        self.state, self._moved = whole.before, 0.0
        few, (f, g) = self.kernel(), (solution.potentials.f, solution.potentials.g)
        few.make(solution.potentials, kernel.epsilon, scalings)
        sample.weigh(few.rows)
        state, rows = self._contract(few, scalings)
        cols = np.bincount(sample.index, few.rows, minlength=sample.shape[1])
        # The marginals of the sampled plan, but for what those of the plan lack.
        mass, rule = rows.sum(), self.problem.rule
        rows *= _ratio(rule.p, update.rows)
        cols *= _ratio(rule.q, update.cols)
        rule = Balanced(rows / rows.sum(), cols / cols.sum())
        self.problem = self.problem.replace(rule=rule)
        self.potentials = Potentials(f - kernel.epsilon * np.log(mass), g)
        self.state, self._moved = whole.state, whole.state - state / mass

    def kernel(self, solver=None, start=None, epsilon=None):
        given = self._left(), self._store.right.rows, self._sample, self.n_threads
        return SampledKernel(*given)

    def update(self, kernel, solution):
        before = self.state
        state, rows = self._contract(kernel, solution.scalings)
        self.state = state + self._moved
        self._step = before, self.state
        change, cols = relative_change(before, self.state), solution.scalings.cols
        return Update(self._objective(rows, cols), change, rows, cols)


def _ratio(masses, sums):
    """How many times the sums the masses are; one where there is neither."""
    return np.divide(masses, sums, out=np.ones(len(sums)), where=sums > 0)


class SampleAccelerator:
    """Moves the state of a `Factored` to the fixed point on a sample of the last plan,
    as an `Accelerator` does to where the last steps lead.

    Parameters
    ----------
    linearization : Factored
    loop : type
        `OuterLoop`, which makes the descents.
    epsilon : float

    Attributes
    ----------
    expected : float
        See `Accelerator`.
    """

    # The change after a move is that of an iteration on all entries.
    may_hide = False

    def __init__(self, linearization, loop, epsilon):
        self._linearization, self._loop = linearization, loop
        self._epsilons = Schedule(epsilon, epsilon)
        # The state before the last move, and what the loop would go on from there.
        self._before, self.expected = None, FIRST_RATE
        self._pause, self._next_pause = 0, FIRST_PAUSE

    def advance(self, stepped, change, gw_before, limits, further):
        """Judge the last move, and make another, as `Accelerator.advance`."""
        at, before, rate = self._linearization, self._before, FIRST_RATE
        self.reset()
        if before is not None:
            state, last = before
            if change > last.change:
                self._pause, self._next_pause = self._next_pause, 2 * self._next_pause
                at.state = state
                return last._replace(gw_cost=gw_before)
            rate = min(max(change / last.change, LEAST_RATE), MOST_RATE)
        if self._pause or not further:
            self._pause = max(self._pause - 1, 0)
            return None
        sampled = Sampled(at, stepped, DRAWS)
        tol = max(ENOUGH * change, NEAR * limits.tol)
        kind = dict(tol=tol, marginal_tol=tol, deadline=limits.deadline)
        few = Limits(MOST_OUTER, MOST_INNER, **kind)
        given, known = (sampled, self._epsilons, np.nan), sampled.potentials
        loop = self._loop(*given, potentials=known)
        loop.run(few)
        self._before = at.state, Moved(change, np.nan, stepped.solution.potentials)
        self.expected, at.state = rate, sampled.state
        return Moved(change, np.nan, loop.potentials)

    def reset(self):
        """Forget the last move."""
        self._before, self.expected = None, 1.0
