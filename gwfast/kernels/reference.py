"""Float64 NumPy twins of the compiled kernels: same names, same arguments.

Slow, plain and overflow-free; they say what the kernels compute, and the tests hold
the kernels to them. `n_threads` is accepted and not used. A matrix that the kernels
take packed, or made strip by strip, is simply that matrix here. Where the kernels of
float64 are as exact as a plain sum of float64, sums are of long doubles.

The kernels flush subnormal numbers: input below the smallest normal number of its type
counts as zero, and output below it is zero. For a twin, `flushed` does that to the input.
"""

import itertools

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from scipy.special import logsumexp

# Entries of a plan below this are zero, by the bytes of a number.
LEAST_ENTRY = {4: 1e-30, 8: 1e-290}


def flushed(x):
    """Return a copy of a floating array in which subnormal numbers are zero."""
    return np.where(np.abs(x) < np.finfo(x.dtype).tiny, x.dtype.type(0), x)


class ColumnSums:
    def __init__(self, n, m, dtype=np.float32):
        self.n, self.m, self.values = n, m, np.zeros(m)


def Panels(matrix, transposed=False, scale=None, n_threads=1):
    matrix = (matrix.T if transposed else matrix).astype(np.float64)
    return matrix if scale is None else scale[:, None] * matrix


def Shifted(matrix, shift=0.0, factor=1.0):
    return (matrix.astype(np.float64) - shift) * factor


def Product(left, right):
    return left.astype(np.float64) @ right


def Gibbs(left, right, f, g, epsilon, logarithms=None):
    exponent = _exponent(Product(left, right), f, g, epsilon)
    if logarithms is not None:
        exponent = exponent + np.add.outer(*logarithms)
    with np.errstate(over="ignore", under="ignore"):
        return np.exp(exponent)


def exp(x, out, n_threads=1):
    with np.errstate(over="ignore", under="ignore"):
        np.copyto(out, np.exp(x.astype(np.float64)), casting="same_kind")


def log(x, out, n_threads=1):
    with np.errstate(divide="ignore", invalid="ignore"):
        np.copyto(out, np.log(flushed(x).astype(np.float64)), casting="same_kind")


def _exponent(cost, f, g, epsilon):
    return (f[:, None] + g[None, :] - cost) / epsilon


def absorb(f, u, epsilon, out):
    with np.errstate(divide="ignore"):
        out[:] = f + epsilon * np.log(u.astype(np.float64))


def logsumexp_rows(cost, f, g, epsilon, out, n_threads=1):
    out[:] = logsumexp(_exponent(cost, f, g, epsilon), axis=1)


def logsumexp_cols(cost, f, g, epsilon, out, n_threads=1):
    out[:] = logsumexp(_exponent(cost, f, g, epsilon), axis=0)


def gibbs_kernel(cost, f, g, epsilon, out, n_threads=1):
    exponent = _exponent(cost, f, g, epsilon)
    exp(exponent, out)
    return float(exponent.max())


def proximal_cost(cost, plan, weight, n_threads=1):
    least = LEAST_ENTRY[plan.dtype.itemsize]
    cost -= weight * np.log(np.maximum(plan, least).astype(np.float64))


def _rescale(scaling, mass, total, omega, most):
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        plain = np.divide(mass, total, out=np.zeros_like(total), where=total > 0)
        plain = np.minimum(plain, most)
        if omega == 1.0:
            return plain
        ratio = plain / scaling
        relaxed = scaling * ratio**omega
    return np.where((ratio > 0) & (relaxed < most), relaxed, plain)


def sinkhorn_passes(
    kernel, p, q, u, v, work, omega=1.0, most=1, tol=0.0, n_threads=1, *, cap=np.inf
):
    most_scaling = min(cap, np.finfo(kernel.dtype).max)
    kernel = kernel.astype(np.float64)
    error, done = np.inf, 0
    while done < most and not error <= tol:
        row_sums = kernel @ v.astype(np.float64)
        aim = p if cap == np.inf else np.minimum(p, cap * row_sums)
        error = float(np.abs(u * row_sums - aim).sum())
        scaling = _rescale(u.astype(np.float64), p, row_sums, omega, most_scaling)
        work.values[:] = kernel.T @ scaling
        u[:] = scaling
        v[:] = _rescale(v.astype(np.float64), q, work.values, omega, most_scaling)
        done += 1
    return error, done


def normal_product(kernel, weights, x, row_sums, work, n_threads=1):
    kernel = kernel.astype(np.float64)
    row_sums[:] = kernel @ x
    work.values[:] = kernel.T @ (weights * row_sums)


def rescale_columns(v, q, work, omega=1.0):
    most = np.finfo(v.dtype).max
    v[:] = _rescale(v.astype(np.float64), q, work.values, omega, most)


def drift(u, v, p, q):
    used = np.concatenate([u[p > 0], v[q > 0]]).astype(np.float64)
    if not ((used > 0) & (used < np.inf)).all():
        return np.inf
    return float(np.abs(np.log(used)).max(initial=0.0))


def scale_to_plan(kernel, u, v, row_sums, col_sums, work, n_threads=1):
    plan = u.astype(np.float64)[:, None] * kernel * v
    plan[plan < LEAST_ENTRY[u.dtype.itemsize]] = 0.0
    marginals(plan, row_sums, col_sums, work)
    kernel[:] = plan


def marginals(plan, row_sums, col_sums, work, n_threads=1):
    row_sums[:] = plan.sum(axis=1, dtype=np.longdouble)
    col_sums[:] = work.values[:] = plan.sum(axis=0, dtype=np.longdouble)


def dot(plan, cost, n_threads=1):
    return float((plan.astype(np.float64) * cost).sum(dtype=np.longdouble))


def distance(a, b, n_threads=1):
    difference = a.astype(np.longdouble) - b
    return float(np.abs(difference).sum()), float(np.sqrt((difference**2).sum()))


def moments(matrix, shift, p, first, second, out=None, factor=1.0, n_threads=1):
    rows = matrix.astype(np.float64) - shift
    first[:], second[:] = rows @ p, rows**2 @ p
    if out is not None:
        out[:] = rows * factor


def survey(a, b=None, n_threads=1):
    parts, mirrored = (a,) if b is None else (a, b), a.T if b is None else b.T
    low, high = min(one.min() for one in parts), max(one.max() for one in parts)
    total = sum(one.sum(dtype=np.longdouble) for one in parts)
    apart = np.abs(a.astype(np.float64) - mirrored).max()
    return float(low), float(high), float(total), float(apart)


def extent(x):
    return float(x.min()), float(x.max()), float(x.sum())


def deviation(sums, masses):
    return float(np.abs(sums.astype(np.longdouble) - masses).sum())


def mass_entropy(masses):
    return entropy(masses)


def kept(sums, masses):
    shares = sums[masses > 0] / masses[masses > 0]
    return shares.min(initial=np.inf), np.maximum(masses - sums, 0.0).sum()


def entropy(plan, n_threads=1):
    plan = plan.astype(np.float64)
    return float(-(plan * np.log(plan, out=np.zeros_like(plan), where=plan > 0)).sum())


def copy_rows(rows, out, n_threads=1):
    np.copyto(out, rows, casting="same_kind")


def topk_rows(x, indices, values, n_threads=1):
    k = indices.shape[1]
    indices[:] = np.argsort(-x, axis=1, kind="stable")[:, :k]
    values[:] = np.take_along_axis(x, indices, axis=1)


def matmul(a, b, out, x=None, dots=None, plus=None, n_threads=1):
    out[:] = a.astype(np.float64) @ b + (0.0 if plus is None else plus)
    if x is not None:
        dots[:] = a.astype(np.float64) @ x.astype(np.float64)


def matmul_few(a, b, out, transposed=False, n_threads=1):
    out[:] = a.astype(np.float64) @ (b.T if transposed else b).astype(np.float64)


def gibbs_product(a, b, f, g, epsilon, out, work, n_threads=1):
    peak = gibbs_kernel(Product(a, b), f, g, epsilon, out)
    work.values[:] = out.sum(axis=0, dtype=np.float64)
    return peak


def gram(x, y, out, n_threads=1):
    out[:] = x.T.astype(np.float64) @ y.astype(np.float64)


def _rows_of(start):
    return np.repeat(np.arange(len(start) - 1), np.diff(start))


def _dense(start, index, kernel, m):
    out = np.zeros((len(start) - 1, m))
    out[_rows_of(start), index] = kernel
    return out


def sparse_sample(kernel, v, offset, index, times, step, n_threads=1):
    draws = index.shape[1]
    index[:], times[:] = 0, 0
    for i, row in enumerate(kernel.astype(np.float64) * v):
        step[i] = row.sum() / draws
        drawn = (np.arange(draws) + offset[i]) * step[i]
        found = np.searchsorted(row.cumsum(), drawn, side="right")
        found, counts = np.unique(found[found < len(row)], return_counts=True)
        index[i, : len(found)], times[i, : len(found)] = found, counts


def sparse_select(kernel, u, v, row, col, start, index=None, n_threads=1):
    plan = u[:, None].astype(np.float64) * kernel * v
    rows, cols = np.nonzero((plan >= np.minimum.outer(row, col)) & (plan > 0))
    if index is None:
        start[:] = np.searchsorted(rows, np.arange(len(start)))
    else:
        index[:] = cols


def sparse_cost(start, index, x, y, out, n_threads=1):
    out[:] = (x.astype(np.float64) @ y.T)[_rows_of(start), index]


def sparse_logsumexp_rows(start, index, cost, g, epsilon, lse, n_threads=1):
    _logsumexp_of(_rows_of(start), (g[index] - cost) / epsilon, lse)


def sparse_logsumexp_cols(start, index, cost, f, epsilon, lse, n_threads=1):
    _logsumexp_of(index, (f[_rows_of(start)] - cost) / epsilon, lse)


def _logsumexp_of(group, logs, out):
    """By group; 0 where there is nothing."""
    tops, sums = np.full(len(out), -np.inf), np.zeros(len(out))
    np.maximum.at(tops, group, logs)
    np.add.at(sums, group, np.exp(logs - tops[group]))
    known, out[:] = sums > 0, 0.0
    out[known] = tops[known] + np.log(sums[known])


def sparse_gibbs(start, index, x, y, f, g, epsilon, out, n_threads=1):
    kept = _rows_of(start), index
    exponent = _exponent(Product(x, Panels(y, transposed=True)), f, g, epsilon)[kept]
    exp(exponent, out)
    return float(exponent.max(initial=-np.inf))


def sparse_sinkhorn_passes(
    start, index, kernel, p, q, u, v, work, omega=1.0, most=1, tol=0.0, n_threads=1, *,
    cap=np.inf,
):  # fmt: skip
    kernel = _dense(start, index, kernel, len(q)).astype(np.float32)
    return sinkhorn_passes(kernel, p, q, u, v, work, omega, most, tol, cap=cap)


def sparse_normal_product(start, index, kernel, weights, x, row_sums, work, n_threads=1):
    kernel = _dense(start, index, kernel, len(x))
    normal_product(kernel, weights, x, row_sums, work)


def sparse_product(start, index, kernel, v, y, out, sums, n_threads=1):
    scaled = _dense(start, index, kernel, len(v)) * v
    out[:], sums[:] = scaled @ y.astype(np.float64), scaled.sum(axis=1)


class Transport:
    """By the linear program itself (HiGHS), whose tolerances are fractions of the
    largest cost and of all mass: not for masses of very different size.
    """

    def __init__(self, p, q):
        self.p, self.q, self.unit = p, q * (p.sum() / q.sum()), 0.0

    def solve(self, cost, tolerance=None, max_pivots=-1):
        n, m = cost.shape
        sums = sparse.vstack(
            [
                sparse.kron(sparse.eye_array(n), np.ones((1, m))),
                sparse.kron(np.ones((1, n)), sparse.eye_array(m)),
            ]
        )
        scale, mass = np.abs(cost).max() or 1.0, self.p.sum()
        masses = np.concatenate([self.p, self.q]) / mass
        found = linprog(
            cost.ravel() / scale,
            A_eq=sums,
            b_eq=masses,
            method="highs-ds",
            options=dict(primal_feasibility_tolerance=1e-10, dual_feasibility_tolerance=1e-10),
        )
        self._plan = mass * np.maximum(found.x.reshape(n, m), 0.0)
        self._potentials = np.split(scale * found.eqlin.marginals, [n])
        return found.nit

    def entries(self):
        rows, cols = np.nonzero(self._plan)
        return rows, cols, self._plan[rows, cols]

    def potentials(self):
        return tuple(self._potentials)


class FrankWolfe:
    """Everything is made anew in every step, of whole matrices."""

    def __init__(
        self,
        left,
        right,
        p,
        q,
        kind="balanced",
        mass=1.0,
        linear=None,
        losses=None,
        others=None,
        n_threads=1,
    ):
        self._pairs = [(left, right), *([others] if others else [])]
        self._linear = np.zeros((len(p), len(q))) if linear is None else linear
        self._losses = [
            np.zeros((len(x), len(x))) if one is None else one
            for one, x in zip(losses or (None, None), (p, q), strict=True)
        ]
        self._p, self._q, self._mass, self._kind = p, q, mass, kind
        self._transport = None
        if kind == "balanced":
            self._transport = Transport(p, q)
        elif kind == "partial":
            p, q = np.append(p, q.sum() - mass), np.append(q, p.sum() - mass)
            self._transport = Transport(p, q)

    def _quadratic(self, plan):
        """Q."""
        made = sum(left @ plan @ right for left, right in self._pairs)
        rows, cols = self._losses
        rows, cols = rows @ plan.sum(axis=1), cols @ plan.sum(axis=0)
        return made / len(self._pairs) + rows[:, None] + cols

    @property
    def gradient(self):
        return self._quadratic(self.plan) + self._linear

    @property
    def value(self):
        return float(np.vdot(self.gradient + self._linear, self.plan))

    def start(self, plan=None):
        if plan is None:
            plan = self._mass * np.multiply.outer(self._p, self._q)
        self.plan, self.n_steps = plan.copy(), 0
        self.gap = self.change = np.inf

    def start_at_random(self, seed):
        size = len(self._p), len(self._q)
        places = np.arange(np.prod(size), dtype=np.uint64)
        mixed = _mixed(_mixed(np.array([seed], np.uint64)) + places)
        plan = -np.log(((mixed >> np.uint64(12)) + 0.5) * 2.0**-52).reshape(size)
        plan *= self._mass / plan.sum()
        plan *= np.minimum(self._p / plan.sum(axis=1), 1.0)[:, None]
        plan *= np.minimum(self._q / plan.sum(axis=0), 1.0)
        lacking = self._p - plan.sum(axis=1), self._q - plan.sum(axis=0)
        rows, cols = (np.maximum(some, 0.0) for some in lacking)
        lacking = max(self._mass - plan.sum(), 0.0) / max(rows.sum() * cols.sum(), 1e-300)
        self.start(plan + lacking * np.multiply.outer(rows, cols))

    def advance(
        self,
        most,
        tol=0.0,
        floor=0.0,
        least_change=0.0,
        least_relative=0.0,
        constant=0.0,
        most_work=np.inf,
        trace=None,
    ):
        for made in range(most):
            vertex, gradient, before = self._vertex(), self.gradient, self.value
            way, size = vertex - self.plan, abs(before + constant)
            self.gap = -2 * np.vdot(gradient, way)
            still = self.change <= max(1e-9 * size, 0.01 * self.gap)
            settled = self.gap <= floor or (still and self.gap <= tol * size)
            curved, part = np.vdot(self._quadratic(way), way), 1.0
            if settled and self.gap - curved <= max(floor, tol * size):
                return 1
            if curved > 0:
                part = min(1.0, self.gap / (2 * curved))
            self.plan += part * way
            self.n_steps, self.step_size = self.n_steps + 1, part
            self.change = part * (self.gap - part * curved)
            if trace is not None:
                trace[made, :2] = self.value, part
            size = abs(self.value + constant)
            if self.change <= 0 or self.change < max(least_change, least_relative * size):
                return 2
        return 0

    def _vertex(self):
        """The plan that minimizes ``<gradient, plan>``."""
        n, m = self.plan.shape
        made, cost = np.zeros((n + 1, m + 1)), np.zeros((n + 1, m + 1))
        cost[:n, :m] = self.gradient
        # Of both ends of a partial plan.
        cost[n, m] = 4 * np.abs(cost).max()
        if self._transport is None:
            made[np.arange(n), cost[:n, :m].argmin(axis=1)] = self._p
            return made[:n, :m]
        shape = len(self._transport.p), len(self._transport.q)
        self._transport.solve(cost[: shape[0], : shape[1]])
        rows, cols, masses = self._transport.entries()
        made[rows, cols] = masses
        return made[:n, :m]

    def potentials(self):
        if self._transport is None:
            return self.gradient.min(axis=1), np.zeros(self.plan.shape[1])
        n, m = self.plan.shape
        rows, cols = self._transport.potentials()
        return rows[:n], cols[:m]


def _mixed(x):
    """SplitMix64."""
    x = (x + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


class Space:
    def __init__(
        self, values, transposed, masses, constant, largest, most, features=None, directions=None
    ):
        self.values, self.transposed, self.masses = values, transposed, masses
        self.constant, self.largest, self.most = constant, largest, most
        self.features, self.directions = features, directions


class ExactPairs:
    """Pairs are solved as they are taken."""

    def __init__(
        self,
        n_starts=0,
        seed=0,
        max_outer=1000,
        tol=1e-5,
        rounding=0.0,
        linear=0.0,
        least_change=0.0,
        least_relative=0.0,
        resumes=False,
    ):
        # Linear programs have one solution here, wherever they begin.
        self._starts = [seed + k for k in range(n_starts)]
        self._options, self._linear = (max_outer, tol, rounding), linear
        self._least = least_change, least_relative

    def begin(self, xs, ys, plans=None, from_plans=False, column=0, potentials=None):
        *ends, columns = np.cumsum([y.values.shape[0] for y in ys])
        plans = None if plans is None else plans[:, column : column + columns]
        parts = [None] * len(ys) if plans is None else np.split(plans, ends, axis=1)
        firsts = parts if from_plans else [None] * len(ys)
        found = [self._best(*pair) for pair in zip(xs, ys, firsts, strict=True)]
        if plans is not None:
            np.concatenate([plan for _, _, plan, _ in found], axis=1, out=plans)
        if potentials is not None:
            made = np.concatenate([of_pair for *_, of_pair in found])
            potentials[: len(made)] = made
        self._found, self.n_done = found, 0
        self.costs = np.array([cost for cost, *_ in found])
        self.converged = np.array([converged for _, converged, *_ in found], bool)

    def _best(self, x, y, first):
        max_outer, tol, rounding = self._options
        linear, found = None, []
        if x.features is not None:
            apart = x.features[:, None] - y.features
            linear = self._linear * (apart**2).sum(axis=2)
        others, constant = (x.transposed, y.values), x.constant + y.constant
        given = x.values, y.transposed, x.masses, y.masses
        steps = FrankWolfe(*given, linear=linear, others=others)
        floor = rounding * (x.largest * y.largest + x.most + y.most)
        turned = []
        if x.directions is not None:
            k = min(len(x.directions), len(y.directions))
            for signs in itertools.product((1, -1), repeat=k):
                turn = 1 + np.einsum("k,ki,kj", signs, x.directions[:k], y.directions[:k])
                turned.append(np.outer(x.masses, y.masses) * np.maximum(turn, 0))
        for start in (first, *turned, *self._starts):
            plan = start is None or isinstance(start, np.ndarray)
            steps.start(start) if plan else steps.start_at_random(start)
            ended = steps.advance(max_outer, tol, floor, *self._least, constant) != 0
            made = steps.plan.copy(), np.concatenate(steps.potentials())
            found.append((max(steps.value + constant, 0.0), ended, *made))
        return min(found, key=lambda one: one[0])

    def go_on(self, most_work=np.inf, one=False):
        last = len(self._found)
        self.n_done = min(self.n_done + 1, last) if one else last
        return self.n_done == last

    def settle(self):
        pass

    @property
    def plan(self):
        return self._found[self.n_done - 1][2]
