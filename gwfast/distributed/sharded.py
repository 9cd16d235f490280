"""The linearized cost between point clouds whose kernels are on the workers of a `Team`, by rows of
the first space: a Sinkhorn iteration sends and gets the scalings, n + m numbers, a linearization
sends the matrix ``A = X' T Y`` and the potentials.
"""

import itertools

import numpy as np

from ..kernels import _kernels
from ..linear.gibbs_kernel import Kernel
from ..quadratic.factored import FactoredLinearization
from ..quadratic.neighbors import Truncation
from .coupling import ShardedCoupling
from .shard import KernelSpec


class Sharded(FactoredLinearization):
    """A `FactoredLinearization` on a team."""

    is_elsewhere = True

    def __init__(self, problem, n_threads, team):
        self.team = team
        super().__init__(problem, n_threads, team.tier)
        self.samples = False

    def _moments_of(self, coupling):
        plans = [(coupling._rows(rows),) for rows in self.team.rows]
        return sum(self.team.ask("contract_plan", plans))

    def left_factor(self, moments):
        """Return the matrix that, times the features of a worker, is its left factor."""
        return self.core(moments).astype(np.float32)

    def kernel(self, state, epsilon, buffer=None):
        return ShardedKernel(self.team, self.left_factor(state.moments), self.n_threads)

    def contract(self, kernel, scalings):
        states, sums = zip(*kernel.ask_scaled("contract", scalings), strict=True)
        return sum(states), np.concatenate(sums)

    def _costs_between(self, core, rows, cols):
        few = np.ascontiguousarray(self.problem.x.take(rows).features @ core)
        return ShardedCost(self.team, core, cols), CostOfFew(self.team, few)

    def snapshot(self, kernel, solution, *others):
        return self.coupling(kernel, None, *others)

    def coupling(self, kernel, solution, before, state, epsilon):
        if kernel is None:
            kernel = self.kernel(before, epsilon)
        scalings = solution and (solution.scalings.u.copy(), solution.scalings.v.copy())
        spec = kernel.spec(state.potentials, epsilon)
        return ShardedCoupling(self.team, spec, scalings, self.n_threads)


class ShardedKernel(Kernel):
    """A kernel whose rows are on the workers; `core` times the features is its cost."""

    def __init__(self, team, core, n_threads):
        super().__init__(team.shape, n_threads, selection=Truncation())
        self.team, self.core = team, core
        self._number = self._potentials = None

    def spec(self, potentials, epsilon):
        """Return the `KernelSpec` of all rows."""
        return KernelSpec(self._number, self.core, potentials.f, potentials.g, epsilon)

    def cost(self):
        return ShardedCost(self.team, self.core)

    def spread(self):
        # Twice the range of sampled rows.
        low, high = zip(*self.team.ask("sampled", (self.core,)), strict=True)
        return 2 * (max(high) - min(low))

    def _make(self, potentials, epsilon, scalings, q):
        team = self.team
        team.balance()
        self._number, self._potentials = next(team.numbers), potentials
        specs = [told[-1][1] for told in map(self._told, range(len(team.rows)))]
        peaks, sums = zip(*team.ask("make", specs, told=self._told), strict=True)
        if all(part is not None for part in sums):
            scalings.sums.values[:] = sum(sums)
            _kernels.rescale_columns(scalings.v, q, scalings.sums)
        return max(peaks)

    def iterate(self, p, q, scalings, omega, max_iter, tol, scaling_map=None):
        error, done = np.inf, 0
        while done < max_iter and not error <= tol:
            sums, rows, errors = zip(*self.ask_scaled("iterate", scalings, omega), strict=True)
            scalings.u[:] = np.concatenate(rows)
            scalings.sums.values[:] = sum(sums)
            _kernels.rescale_columns(scalings.v, q, scalings.sums, omega)
            error, done = sum(errors), done + 1
        return error, done

    def normal_product(self, weights, x, row_sums, scalings):
        x = x.astype(scalings.v.dtype, copy=False)
        parts = [(self._number, weights[rows], x) for rows in self.team.rows]
        sums, rows = zip(*self._ask("normal_product", parts), strict=True)
        row_sums[:] = np.concatenate(rows)
        scalings.sums.values[:] = sum(sums)

    def ask_scaled(self, method, scalings, *args):
        """Ask all shards something about the kernel as it was made, with scalings."""
        u, v = scalings.u, scalings.v
        return self._ask(method, [(self._number, u[rows], v, *args) for rows in self.team.rows])

    def _ask(self, method, each):
        return self.team.ask(method, each, told=self._told)

    def _told(self, k):
        """Return the calls by which shard k gets the kernel."""
        spec = self.spec(self._potentials, self.epsilon)
        return [("make", (spec.of(self.team.rows[k]),))]


class ShardedCost:
    """The cost of a kernel, on the workers; with `cols` for sums over these columns only."""

    def __init__(self, team, core, cols=None):
        self._team, self._core, self._cols = team, core, cols

    def logsumexp_rows(self, g, epsilon, out):
        arguments = self._core, g, epsilon, self._cols
        out[:] = np.concatenate(self._team.ask("logsumexp_rows", arguments))

    def logsumexp_cols(self, f, epsilon, out):
        parts = [(self._core, f[rows], epsilon) for rows in self._team.rows]
        out[:] = np.logaddexp.reduce(self._team.ask("logsumexp_cols", parts))


class CostOfFew:
    """The cost of the rows with a left factor and all columns; each shard computes some columns."""

    def __init__(self, team, left):
        self._team, self._left = team, left

    def logsumexp_cols(self, f, epsilon, out):
        bounds = np.linspace(0, len(out), len(self._team.rows) + 1).astype(int)
        parts = [(self._left, f, epsilon, slice(*pair)) for pair in itertools.pairwise(bounds)]
        out[:] = np.concatenate(self._team.ask("logsumexp_of_few", parts))
