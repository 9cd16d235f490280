"""Any plan of a problem in float64 and plain NumPy: linearized cost, objective, residuals, bounds.

Nothing is rounded to float32, and no loop of a solver is used. `verify`, reported objectives,
the product plan and tests take their numbers from here.
"""

import numpy as np
from scipy.special import logsumexp

from ..kernels._transport import Transport
from ..problems.geometry import PointCloud
from ..problems.losses import LOSSES
from ..utils.blocks import SCRATCH_BYTES, row_blocks

# Relative error of a solver's objective from which on it is computed anew from the plan.
MAX_ERROR = 1e-4


class Costs:
    """The costs of a problem, made in float64 for some rows at a time.

    A common shift changes nothing but rounding, if the separable terms have the marginals of the
    plan: `shifts` says so.
    """

    def __init__(self, problem, shifts=True):
        self.problem, self.loss, self._shift = problem, LOSSES[problem.loss], 0.0
        self.sides, self.slices = (problem.x, problem.y), row_blocks(*problem.shape)
        self.is_factored = stays_factored(problem)
        if self.is_factored:
            self._features = [side.features.astype(np.float64) for side in self.sides]
            self.magnitude = self.scale = problem.x.scale * problem.y.scale
            return
        self.sides = problem.x.to_dense(), problem.y.to_dense()
        for side, name in zip(self.sides, ("cost_x", "cost_y"), strict=True):
            self.loss.check(side.matrix, name)
        if self.loss.shift_invariant and shifts:
            means = (s.mean_of(p) for s, p in zip(self.sides, (problem.p, problem.q), strict=True))
            self._shift = sum(means) / 2
        extremes = [np.subtract(side.extremes, self._shift) for side in self.sides]
        h_x, h_y = self.loss.h1(extremes[0]), self.loss.h2(extremes[1])
        # Size of the bilinear term of a plan of mass one, and of its part without potentials.
        self.magnitude = float(np.abs(h_x).max() * np.abs(h_y).max())
        is_fixed = problem.is_balanced and shifts
        self.scale = float(np.ptp(h_x) * np.ptp(h_y)) / 4 if is_fixed else self.magnitude

    def _part(self, matrix, rows, cols=slice(None)):
        return np.subtract(matrix[rows, cols], self._shift, dtype=np.float64)

    def separable(self, row_sums, column_sums):
        """The terms that depend on one index, of a plan with these marginals."""
        made = []
        functions = self.loss.f1, self.loss.f2
        for side, f, sums in zip(self.sides, functions, (row_sums, column_sums), strict=True):
            if self.is_factored:
                made.append(side.scale**2 * side.square_times(sums))
                continue
            term = np.zeros(side.n)
            for rows in row_blocks(side.n, side.n):
                losses = f(self._part(side.matrix, rows))
                term[rows] += losses @ sums / 2
                term += sums[rows] @ losses / 2
            made.append(term)
        return made

    def means(self, p, q):
        """``p' h1(C1) p`` and ``q' h2(C2) q``."""
        if self.is_factored:
            centers = [m @ phi for m, phi in zip((p, q), self._features, strict=True)]
            sizes = zip(self.sides, centers, strict=True)
            x, y = (float(side.scale * (c @ side.signature @ c)) for side, c in sizes)
            return x, 2 * y
        made = []
        for side, h, m in zip(self.sides, (self.loss.h1, self.loss.h2), (p, q), strict=True):
            blocks = row_blocks(side.n, side.n)
            made.append(sum(m[rows] @ h(self._part(side.matrix, rows)) @ m for rows in blocks))
        return made

    def moments(self, plan):
        """``X' T Y`` of two point clouds, and the matrix that it becomes in the third term."""
        x, y = self._features
        moments = sum(x[rows].T @ (plan(rows) @ y) for rows in self.slices)
        left, right = (side.signature for side in self.sides)
        return moments, -2.0 * self.scale * (left @ moments @ right.T)

    def bilinear(self, plan):
        """A function of `rows` that makes the third term at a plan, itself such a function."""
        if self.is_factored:
            x, y = self._features
            core = self.moments(plan)[1]
            return lambda rows: x[rows] @ core @ y.T
        x, y = (side.matrix for side in self.sides)
        if all(side.symmetric for side in self.sides):
            return lambda rows: -self._turned(x, y, plan, rows)
        return lambda rows: (
            -(self._turned(x, y, plan, rows) + self._turned(x.T, y.T, plan, rows)) / 2
        )

    def _turned(self, x, y, plan, rows):
        moved = sum(self.loss.h1(self._part(x, rows, s)) @ plan(s) for s in self.slices)
        blocks = row_blocks(len(y), len(y))
        return np.hstack([moved @ self.loss.h2(self._part(y, s)).T for s in blocks])

    def value(self, plan, row_sums, column_sums, bilinear=None):
        """The quadratic term of the objective: a mean of losses, so what is negative is zero."""
        f, g = self.separable(row_sums, column_sums)
        total = f @ row_sums + g @ column_sums
        if self.is_factored:
            return max(float(total + np.vdot(*self.moments(plan))), 0.0)
        bilinear = self.bilinear(plan) if bilinear is None else bilinear
        product = sum(np.vdot(plan(rows), bilinear(rows)) for rows in self.slices)
        if abs(total + product) < 1e-10 * (abs(total) + abs(product)) and self.loss.keeps_factors:
            # All but rounding has cancelled: of few entries all differences are added up.
            whole = np.vstack([plan(rows) for rows in self.slices])
            i, j = np.nonzero(whole)
            if len(i) <= 3000:
                x, y = (self._part(side.matrix, slice(None)) for side in self.sides)
                masses = whole[i, j].astype(np.float64)
                return float(masses @ np.square(x[np.ix_(i, i)] - y[np.ix_(j, j)]) @ masses)
        return max(float(total + product), 0.0)


def stays_factored(problem):
    """Return True if the third term needs no matrix of costs."""
    clouds = isinstance(problem.x, PointCloud) and isinstance(problem.y, PointCloud)
    return clouds and LOSSES[problem.loss].keeps_factors


def nbytes(problem, dense=False):
    """Bytes that a `Linearized` takes; if `dense`, with all entries of some matrices."""
    n, m = problem.shape
    factored = stays_factored(problem) and not dense
    return 6 * SCRATCH_BYTES + (0 if factored else 8 * (n * n + m * m + 7 * n * m))


def objective(problem, coupling, linear=0.0):
    """The objective of a `Coupling` with any marginals; ``<linear_cost, plan>`` is given."""
    costs = Costs(problem)
    is_sparse = costs.is_factored and coupling.form == "sparse"
    plan = coupling.csr.__getitem__ if is_sparse else coupling._rows
    value = costs.value(plan, *coupling.marginals)
    return problem.alpha * value + (1 - problem.alpha) * linear if problem.is_fused else value


def product_mean(problem):
    """The quadratic term of the objective at the product plan, without its weight."""
    costs, (p, q) = Costs(problem), problem.rule.product()
    f, g = costs.separable(p, q)
    own, (x, y) = f @ p + g @ q, costs.means(p, q)
    common = x * y / problem.mass**2
    # If all costs are equal, only rounding is left.
    return float(own - common) if abs(own - common) > 1e-13 * abs(common) else 0.0


class Linearized:
    """The linearized cost at a plan; the function ``plan(rows)`` gives rows in float64.

    It has the marginals `row_sums`, `column_sums` and `mass` of the plan, its `gw_cost` and
    `linear_cost`, and bounds: `cost_scale` of the part of the cost that no potential can hold,
    `magnitude` of the terms whose difference the objective is, `largest` of an entry.
    """

    def __init__(self, costs, plan, given_marginals=False):
        problem = self.problem = costs.problem
        self.slices = costs.slices
        self.plan = plan(self.slices[0]).__getitem__ if len(self.slices) == 1 else plan
        self.row_sums = np.concatenate([self.plan(s).sum(axis=1) for s in self.slices])
        self.column_sums = sum(self.plan(s).sum(axis=0) for s in self.slices)
        self.mass = float(np.abs(self.row_sums).sum())
        self._weight = problem.alpha if problem.is_fused else 1.0
        self._linear, rest = problem.linear_cost, 1.0 - self._weight
        given, own = (problem.p, problem.q), costs.separable(self.row_sums, self.column_sums)
        self._separable = costs.separable(*given) if given_marginals else own
        self._bilinear = costs.bilinear(self.plan)
        if not costs.is_factored:
            self._bilinear = np.vstack([self._bilinear(s) for s in self.slices]).__getitem__
        sizes = sum(np.abs(f) @ masses for f, masses in zip(own, given, strict=True))
        self.linear_cost, self.cost_scale = 0.0, self._weight * costs.scale
        self.magnitude = self._weight * (sizes + costs.magnitude * self.mass)
        self.largest = sum(np.abs(f).max() for f in own) + costs.magnitude
        if problem.is_fused:
            dots = (np.vdot(self.plan(s), self._linear[s]) for s in self.slices)
            self.linear_cost = float(sum(dots))
            self.cost_scale = max(self.cost_scale, rest * float(np.ptp(self._linear)) / 4)
            self.magnitude += rest * float(np.abs(self._linear).max())
        value = costs.value(self.plan, self.row_sums, self.column_sums, self._bilinear)
        self.gw_cost = self._weight * value + rest * self.linear_cost

    def cost(self, rows):
        """Some rows of the linearized cost."""
        f, g = self._separable
        made = self._weight * (f[rows, None] + g + self._bilinear(rows))
        if self._linear is not None:
            made += (1.0 - self._weight) / 2 * self._linear[rows]
        return made


class GibbsPlan:
    """The solution of the linear problem that a `Linearized` has at a plan, with the marginals of
    that plan: Sinkhorn iterations in the log domain, potentials in units of epsilon.

    `distance`: the smallest L1 distance from the other plan that was seen, as a fraction of its
    mass; `left_out`: the fraction of the mass that this plan has where the other is zero;
    `complementarity`: masses that a partial plan does not use, times multipliers over epsilon.
    """

    def __init__(self, at, epsilon, least=None):
        # Proximal steps have a `least` entry of the plan whose distance epsilon weighs.
        self._at, self._epsilon, self._least = at, epsilon, least
        # Points of a partial plan that do not use up their masses have one potential.
        rule, sides = at.problem.rule, ((at.row_sums, at.problem.p), (at.column_sums, at.problem.q))
        self._slack = [rule.takes_mass & (masses - used > 1e-4 * masses) for used, masses in sides]
        self.distance = self.left_out = self.complementarity = np.inf

    def search(self, potentials, max_iter, enough):
        """Iterate from `potentials` (or None), then from a regression, until it is near enough."""
        if not self._at.problem.rule.takes_q:
            free = np.zeros(len(self._at.column_sums))
            self._look(self._fit_rows(free), free)
            return
        if potentials is not None:
            self._iterate(*(np.nan_to_num(x / self._epsilon) for x in potentials), max_iter, enough)
        if not self._is_near(enough):
            self._iterate(*self._regressed(), max_iter, enough)

    def _is_near(self, enough):
        return max(self.distance, self.complementarity) <= enough

    def _exponent(self, rows):
        made = self._at.cost(rows) / -self._epsilon
        if self._least is not None:
            made += np.log(np.maximum(self._at.plan(rows), self._least))
        return made

    def _fit_rows(self, g):
        sums = np.concatenate([logsumexp(self._exponent(s) + g, 1) for s in self._at.slices])
        return fitted(self._at.row_sums, sums, self._slack[0])

    def _fit_columns(self, f):
        sums = np.full(len(self._at.column_sums), -np.inf)
        for rows in self._at.slices:
            block = self._exponent(rows) + f[rows, None]
            sums = np.logaddexp(sums, logsumexp(block, 0))
        return fitted(self._at.column_sums, sums, self._slack[1])

    def _iterate(self, f, g, max_iter, enough):
        self._look(f, g)
        for k in range(max_iter):
            if self._is_near(enough):
                return
            before, f = f, self._fit_rows(g)
            g = self._fit_columns(f)
            with np.errstate(invalid="ignore"):
                moved = np.nan_to_num(np.abs(f - before), nan=0.0).max()
            # Potentials that move by some hundred roundings have converged.
            settled = moved <= 1e-13 * (1.0 + np.abs(f[np.isfinite(f)]).max(initial=0.0))
            if settled or (k + 1) % 10 == 0 or k + 1 == max_iter:
                self._look(f, g)
            if settled:
                return

    def _look(self, f, g):
        """Compare the plan of two potentials with the other plan."""
        at, total, missed, left_out = self._at, 0.0, 0.0, 0.0
        for rows in at.slices:
            plan = at.plan(rows)
            made = np.exp(self._exponent(rows) + f[rows, None] + g)
            total += float(np.abs(made - plan).sum())
            left_out += float(made[plan <= 0].sum())
        total /= at.mass or 1.0
        if at.problem.rule.takes_mass:
            sides = (f, at.row_sums, at.problem.p), (g, at.column_sums, at.problem.q)
            missed = sum(
                float(np.maximum(masses - used, 0.0) @ np.minimum(x.max() - x, 1.0))
                for x, used, masses in sides
            )
        if max(total, missed) < max(self.distance, self.complementarity):
            self.distance, self.complementarity = total, missed
            self.left_out = left_out / (at.mass or 1.0)

    def _regressed(self):
        """Potentials by least squares: the logarithms of the other plan are sums of two potentials
        but for the cost, where these logarithms can be trusted; by mass if steps are proximal.
        """
        at, (f, g) = self._at, (np.zeros(size) for size in self._at.problem.shape)
        for _ in range(200):
            total, weights = np.zeros(len(g)), np.full(len(g), 1e-30)
            for rows in at.slices:
                plan = at.plan(rows)
                known = plan > 1e-30
                weight = known * (1.0 if self._least is None else plan)
                logs = np.log(np.where(known, plan, 1.0))
                rest = np.where(known, logs - self._exponent(rows), 0.0)
                f[rows] = (weight * (rest - g)).sum(axis=1) / (weight.sum(axis=1) + 1e-30)
                total += (weight * (rest - f[rows, None])).sum(axis=0)
                weights += weight.sum(axis=0)
            before, g = g, total / weights
            if np.abs(g - before).max() <= 1e-12 * (1.0 + np.abs(g).max()):
                break
        return f, g


def alternation_distance(at, costs, epsilon, least):
    """L1 distance of a plan from the plan after an iteration of alternating projections:
    linearize and fit the rows, linearize and fit the columns.
    """
    problem, everything, now = costs.problem, slice(None), at
    for axis, masses in ((1, problem.p), (0, problem.q)):
        exponent = np.log(np.maximum(now.plan(everything), least)) - now.cost(everything) / epsilon
        exponent[problem.p == 0] = exponent[:, problem.q == 0] = -np.inf
        potential = fitted(masses, logsumexp(exponent, axis))
        made = np.exp(exponent + np.expand_dims(potential, axis))
        if axis == 1:
            now = Linearized(costs, made.__getitem__, given_marginals=True)
    return float(np.abs(made - at.plan(everything)).sum()) / (at.mass or 1.0)


def fitted(masses, log_sums, tied=()):
    """Potentials with which sums have masses, -inf where a mass or a sum is zero; `tied` points
    have one potential.
    """
    alive = (masses > 0) & np.isfinite(log_sums)
    logs = np.log(np.where(alive, masses, 1.0))
    made = np.where(alive, logs - np.where(alive, log_sums, 0.0), -np.inf)
    if np.any(tied):
        made[tied] = np.log(np.maximum(masses[tied].sum(), 0.0)) - logsumexp(log_sums[tied], 0)
    return made


def frank_wolfe_gap(at):
    """How far the linearized objective of a plan is above the least of all plans of these
    marginals, at most (Frank and Wolfe, 1956; Jaggi, ICML 2013, equation 2).

    By weak duality, any potentials below the cost bound the least cost of a plan from below; the
    optimal potentials of the linear program make the gap exact.
    """
    cost, plan, rule = at.cost(slice(None)), at.plan(slice(None)), at.problem.rule
    if not rule.takes_q:
        return 2 * float(np.vdot(plan, cost - cost.min(axis=1)[:, None]))
    program = LinearProgram(rule)
    f, _ = program.solve(cost)
    part = program.part(cost)
    g = (part - f[:, None]).min(axis=0)
    f = (part - g).min(axis=1)
    plan = program.part(plan)
    if rule.takes_mass:
        plan[:-1, -1] = np.maximum(rule.p - at.row_sums, 0.0)[program.rows]
        plan[-1, :-1] = np.maximum(rule.q - at.column_sums, 0.0)[program.columns]
        plan[-1, -1] = 0.0
    return 2 * float(np.vdot(plan, part - f[:, None] - g))


class LinearProgram:
    """The linear program between the points with mass, which are these `rows` and `columns`. Of
    a partial plan what is left of either side goes to an end of the other, for nothing.
    """

    def __init__(self, rule):
        self._has_ends = rule.takes_mass
        self.rows, self.columns = np.flatnonzero(rule.p), np.flatnonzero(rule.q)
        p, q = rule.p[self.rows], rule.q[self.columns]
        if self._has_ends:
            least = np.finfo(np.float64).eps * rule.mass
            ends = (max(masses.sum() - rule.mass, least) for masses in (q, p))
            p, q = map(np.append, (p, q), ends)
        self.transport = Transport(p, q)

    def part(self, cost):
        """The entries (n, m) between points with mass, and the ends."""
        part = cost[np.ix_(self.rows, self.columns)]
        if self._has_ends:
            part = np.pad(part, ((0, 1), (0, 1)))
            part[-1, -1] = 4 * np.abs(cost).max()
        return part

    def solve(self, cost):
        """Go on to the optimum for these costs (n, m); returns its potentials."""
        self.transport.solve(self.part(cost))
        return self.transport.potentials()
