"""Co-optimal transport as POT states it: solved by turns for either plan, and answered
in POT's words.
"""

import math

import numpy as np

from ..kernels import _kernels
from ..kernels._rows import aligned_empty
from ..kernels.threads import resolve_n_threads, single_threaded_blas
from ..linear.gibbs_kernel import StoredKernel
from ..linear.log_domain import Potentials
from ..linear.rules import Balanced
from ..linear.sinkhorn_solver import SinkhornSolver, in_units
from ..problems.geometry import within_range
from ..quadratic.certificate import LinearProgram
from ..results.status import Ending
from ..utils.precision import DOUBLE
from ..utils.validation import as_matrix, as_vector
from ._solve import EXPECTED, MAX_MARGINAL_ERROR, rounded, warn_of
from .arrays import Arrays, NoGradients, as_limit, as_number, pots_choice
from .call import balanced, checked_masses
from .exact import NOTHING
from .gradients import centered
from .unbalanced import MIN_INNER_TOL

# What the value has gradients in.
ENVELOPED = "X", "Y", "wx_samp", "wx_feat", "wy_samp", "wy_feat", "M_samp", "M_feat"
# What a warm start has.
STARTS = "pi_sample", "pi_feature", "duals_sample", "duals_feature"
# What names of arguments, and of starts, end in for either plan.
KINDS = ("samp", "sample"), ("feat", "feature")


class CoOptimal:
    """One call: its data, both plans, and the objectives on the way to them."""

    def __init__(self, given, smooth=()):
        self._given = given
        pots_choice(given["method_sinkhorn"], "method_sinkhorn", ("sinkhorn", "sinkhorn_log"))
        named = {name: given[name] for name in ENVELOPED} | _starts(given["warmstart"])
        self.arrays = Arrays(named, traces=True)
        self.asking = self.arrays.asking
        for name in self.asking:
            if name not in smooth:
                raise NoGradients(name)
        self._X, self._Y = X, Y = self.matrix("X"), self.matrix("Y")
        pairs = (_pair(given[name], name) for name in ("epsilon", "alpha"))
        shapes = zip(X.shape, Y.shape, strict=True)
        each = zip(KINDS, shapes, *pairs, strict=True)
        self.sides = [Side(self, *one) for one in each]
        self.distances, self._ending = [], Ending.MAX_OUTER
        self._solve()

    def number(self, name):
        """An argument that is a number."""
        return as_number(self._given[name], name, zero=True)

    def limit(self, name):
        """An argument that is a count."""
        return as_limit(self._given[name], name)

    def matrix(self, name, shape=None):
        """The matrix of that name in float64, or None."""
        x = self.arrays[name]
        if x is None:
            return None
        return within_range(as_matrix(x, name, shape=shape).astype(np.float64), name)

    def start(self, name, shape, epsilon):
        """The `Potentials` of a warm start, or None."""
        names = [f"duals_{name}[{k}]" for k in (0, 1)]
        found = [self.arrays[one] for one in names]
        if self._given["warmstart"] is None:
            return None
        # Points without mass have none.
        found = [epsilon * np.where(np.isfinite(x), x, 0.0) for x in found]
        f, g = map(as_vector, found, names, shape)
        # The solver takes columns to fit where rows do, which they need not where they
        # are of other masses; so no row does.
        return Potentials(f + epsilon, g)

    def _solve(self):
        (samp, feat), X, Y = self.sides, self._X, self._Y
        of_samp = (X**2 @ feat.p)[:, None] + Y**2 @ feat.q + samp.linear
        of_feat = (X.T**2 @ samp.p)[:, None] + Y.T**2 @ samp.q
        limit, every = self.limit("nits_bcd"), self.limit("eval_bcd")
        tol, least = self.number("tol_bcd"), self.number("early_stopping_tol")
        value = np.inf
        for k in range(limit):
            former, before = value, samp.plan
            if k or self._given["warmstart"] is not None:
                between = X @ feat.plan @ Y.T
            else:  # the product plan
                between = np.outer(X @ feat.p, Y @ feat.q / feat.total)
            samp.solve(of_samp - 2 * between)
            cost = of_feat - 2 * (X.T @ samp.plan @ Y)
            feat.solve(cost + feat.linear)
            if k % every and k + 1 < limit:
                continue
            value = max(float(np.vdot(cost, feat.plan)), 0.0)  # but for rounding
            value += float(samp.penalty() + feat.penalty())
            self.distances.append(value)
            if abs(samp.plan - before).sum() < tol or abs(value - former) < least:
                self._ending = Ending.CONVERGED
                break
            if self._given["verbose"]:
                print(f"CO-Optimal Transport cost at iteration {k + 1}: {value}")
        if samp.missed or feat.missed:
            self._ending = Ending.MAX_INNER
        if self._ending not in EXPECTED:
            warn_of(self._ending, "", "Co-optimal transport")

    def log(self):
        """POT's log, and the status."""
        back = self.arrays.back
        duals = (tuple(map(back, side.duals())) for side in self.sides)
        return dict(zip(STARTS[2:], duals, strict=True)) | {
            "distances": list(map(back, self.distances)),
            "status": self._ending.status,
        }

    def gradient(self, upstream):
        """That of the last objective, times a number, by names."""
        (samp, feat), X, Y = self.sides, self._X, self._Y
        P, Q = samp.plan, feat.plan
        made = {
            "X": 2 * (np.outer(samp.p, feat.p) * X - P @ Y @ Q.T),
            "Y": 2 * (np.outer(samp.q, feat.q) * Y - P.T @ X @ Q),
        }
        for (kind, _), side in zip(KINDS, self.sides, strict=True):
            made[f"M_{kind}"] = side.alpha * side.plan
            made[f"wx_{kind}"], made[f"wy_{kind}"] = side.slopes()
        return {name: upstream * x for name, x in made.items()}


class Side:
    """The plan of samples or of features, and what finds it for other costs."""

    def __init__(self, call, kinds, shape, epsilon, alpha):
        (kind, name), self.epsilon, self.alpha = kinds, epsilon, alpha
        names = f"wx_{kind}", f"wy_{kind}"
        p, q = (
            checked_masses(call.arrays[one], one, size)
            for one, size in zip(names, shape, strict=True)
        )
        self.p, self.q, self.total = p, balanced(p, q, *names), float(p.sum())
        M = call.matrix(f"M_{kind}", shape)
        self.linear = np.zeros(shape) if M is None else alpha * M
        start = call.matrix(f"pi_{name}", shape)
        self.plan = np.outer(p, self.q / self.total) if start is None else start
        rule = Balanced(p / self.total, self.q / self.total)
        self._plans = EntropicPlans(call, rule, self, name) if epsilon else LeastPlans(rule)

    def solve(self, cost):
        """Find the plan for these costs."""
        plan, self._potentials = self._plans.solve(cost)
        if not self.epsilon:
            plan[plan < NOTHING] = 0.0
        self.plan = self.total * plan

    @property
    def missed(self):
        """Whether the plan has not converged."""
        return bool(self.epsilon) and self._plans.missed

    def penalty(self):
        """What the plan adds to the objective."""
        made = float(np.vdot(self.linear, self.plan))
        if self.epsilon:
            # Relative to the product of the masses, which are those of the plan.
            of_masses = _kernels.mass_entropy(self.p) + _kernels.mass_entropy(self.q)
            made += self.epsilon * (of_masses - _kernels.entropy(self.plan))
        return made

    def duals(self):
        """Return potentials (logarithms of scalings) with one mean, by mass, on both sides."""
        f, g = self._potentials
        if self.epsilon:
            f, g = f / self.epsilon + np.log(self.total), g / self.epsilon
        rows, cols = self.p > 0, self.q > 0
        shift = g[cols] @ self.q[cols] - f[rows] @ self.p[rows]
        shift /= 2 * self.total
        return f + shift, g - shift

    def slopes(self):
        """The gradients of the objective in the masses, but for constants."""
        for x, masses in zip(self._potentials, (self.p, self.q), strict=True):
            with np.errstate(divide="ignore", invalid="ignore"):
                x = x - self.epsilon * np.log(masses)
            yield centered(x)


class LeastPlans:
    """The plans (n, m) of a rule's marginals that cost least, each from where the last one was."""

    def __init__(self, rule):
        self._rule = rule
        if rule.takes_q:
            self._program = LinearProgram(rule)

    def solve(self, cost):
        """The plan, and its potentials, which of points without mass are minus infinity."""
        plan = np.zeros(cost.shape)
        if not self._rule.takes_q:
            plan[np.arange(len(cost)), cost.argmin(axis=1)] = self._rule.p
            return plan, (cost.min(axis=1), np.zeros(cost.shape[1]))
        program = self._program
        rows, columns = program.rows, program.columns
        of_rows, of_columns = program.solve(cost)
        i, j, masses = program.transport.entries()
        inside = (i < len(rows)) & (j < len(columns))
        plan[rows[i[inside]], columns[j[inside]]] = masses[inside]
        f, g = (np.full(size, -np.inf) for size in cost.shape)
        f[rows], g[columns] = of_rows[: len(rows)], of_columns[: len(columns)]
        return plan, (f, g)


class EntropicPlans:
    """`LeastPlans` with entropy; `missed` says whether the last plan has not converged."""

    def __init__(self, call, rule, side, name):
        shape = self._shape = side.plan.shape
        self._rule, self._epsilon = rule, side.epsilon
        self._limit = call.limit("nits_ot")
        # Ours is the sum of absolute errors; evenly spread it is that much larger.
        spread = math.sqrt(min(shape)) / 2 / side.total
        self._tol = max(call.number("tol_sinkhorn") * spread, MIN_INNER_TOL)
        self._start = call.start(name, shape, side.epsilon)
        self._n_threads = resolve_n_threads(None, work=math.prod(shape))
        self._solver = SinkhornSolver(rule, self._n_threads, DOUBLE)
        self._plan = aligned_empty(shape, np.float64)

    def solve(self, cost):
        """The plan (n, m), in memory that the next one takes, and its potentials."""
        # An error if the costs cannot be told apart.
        in_units(self._epsilon, float(abs(cost).max()) or 1.0, DOUBLE)
        kernel = StoredKernel(self._plan, None, self._n_threads, cost=cost)
        limits = dict(tol=self._tol, max_iter=self._limit)
        with single_threaded_blas(max(self._shape)):
            found = self._solver.solve(kernel, self._epsilon, self._start, **limits)
            error = self._rule.error(*kernel.scale(found.scalings))
        self._start, plan = found.potentials, self._plan
        self.missed = not error <= self._tol
        if not error <= MAX_MARGINAL_ERROR:
            plan = rounded(plan, self._rule.p, self._rule.q)
        return plan, (self._start.f, self._start.g)


def _starts(warmstart):
    """Arrays of a warm start by names."""
    if warmstart is None:
        return {}
    lacking = [name for name in STARTS if name not in warmstart]
    if lacking:
        raise ValueError(f"warmstart must have {', '.join(STARTS)}, lacks {lacking}")
    named = {name: warmstart[name] for name in STARTS[:2]}
    for name in STARTS[2:]:
        pair = _two(warmstart[name], name)
        named |= {f"{name}[{k}]": x for k, x in enumerate(pair)}
    return named


def _pair(x, name):
    """Two numbers, from one or a pair."""
    alone = not hasattr(x, "__len__") or getattr(x, "ndim", 1) == 0
    pair = (x, x) if alone else _two(x, name)
    return [as_number(one, name, zero=True) for one in pair]


def _two(x, name):
    if len(x) != 2:
        raise ValueError(f"{name} must be a pair, got {len(x)}")
    return x
