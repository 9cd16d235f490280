"""Float64 NumPy twins of the compiled kernels: same names, same arguments.

Slow, plain and overflow-free; they say what the kernels compute, and the tests hold
the kernels to them. `n_threads` is accepted and not used. A matrix that the kernels
take packed, or made strip by strip, is simply that matrix here. Where the kernels of
float64 are as exact as a plain sum of float64, sums are of long doubles.

The kernels flush subnormal numbers: input below the smallest normal number of its type
counts as zero, and output below it is zero. For a twin, `flushed` does that to the input.
"""

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from scipy.special import logsumexp

from ._kernels import LEAST_ENTRY


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
    with np.errstate(over="ignore", under="ignore"):
        np.copyto(out, np.exp(exponent), casting="same_kind")
    return float(exponent.max())


def proximal_cost(cost, plan, weight, n_threads=1):
    least = LEAST_ENTRY[plan.dtype]
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
    kernel, p, q, u, v, work, omega=1.0, most=1, tol=0.0, n_threads=1, scaling_map=None
):
    most_scaling = np.finfo(kernel.dtype).max
    kernel = kernel.astype(np.float64)
    error, done = np.inf, 0
    while done < most and not error <= tol:
        row_sums = kernel @ v.astype(np.float64)
        if scaling_map is None:
            error = float(np.abs(u * row_sums - p).sum())
            scaling = _rescale(u.astype(np.float64), p, row_sums, omega, most_scaling)
        else:
            scaling = _mapped(p, row_sums, scaling_map.rows, scaling_map.row_power)
            error = float(np.abs((u - scaling) * row_sums).sum())
        work.values[:] = kernel.T @ scaling
        u[:] = scaling
        if scaling_map is None:
            v[:] = _rescale(v.astype(np.float64), q, work.values, omega, most_scaling)
        else:
            error += _settle(scaling_map, u, v, q, work.values)
        done += 1
    return error, done


class ScalingMap:
    def __init__(
        self, rows=None, columns=None, row_power=1.0, column_power=1.0, mass=0.0, rate=0.0
    ):
        self.rows = None if rows is None else rows.copy()
        self.columns, self.row_power, self.column_power = columns, row_power, column_power
        self.mass, self.rate = mass, rate


def _mapped(mass, sums, anchor, power):
    with np.errstate(divide="ignore"):
        fitting = mass / sums
    if anchor is None:
        return np.where(sums > 0, fitting, 0.0)
    if power == 1.0:
        return np.where(mass > 0, np.minimum(fitting, anchor), 0.0)
    return anchor * np.where(sums > 0, fitting, 0.0) ** power


def _settle(scaling_map, u, v, q, sums):
    before, factor, error = v @ sums, 1.0, 0.0
    v[:] = _mapped(q, sums, scaling_map.columns, scaling_map.column_power)
    after = v @ sums
    if scaling_map.mass > 0.0:
        factor, error = (
            scaling_map.mass / after if after > 0.0 else 1.0,
            abs(scaling_map.mass - after),
        )
        if scaling_map.rows is not None:
            scaling_map.rows *= factor
    elif scaling_map.rate > 0.0 and before > 0.0 and after > 0.0:
        factor = (before / after) ** (1.0 / scaling_map.rate)
        v /= factor
    u *= factor
    sums *= factor
    return error


def normal_product(kernel, weights, x, row_sums, work, n_threads=1):
    kernel = kernel.astype(np.float64)
    row_sums[:] = kernel @ x
    work.values[:] = kernel.T @ (weights * row_sums)


def rescale_columns(v, q, work, omega=1.0):
    most = np.finfo(v.dtype).max
    v[:] = _rescale(v.astype(np.float64), q, work.values, omega, most)


def max_log_scaling(u, v, p, q):
    used = np.concatenate([u[p > 0], v[q > 0]]).astype(np.float64)
    if not ((used > 0) & (used < np.inf)).all():
        return np.inf
    return float(np.abs(np.log(used)).max(initial=0.0))


def scale_to_plan(kernel, u, v, row_sums, col_sums, work, n_threads=1):
    plan = u.astype(np.float64)[:, None] * kernel * v
    plan[plan < LEAST_ENTRY[u.dtype]] = 0.0
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
    np.copyto(out, np.exp(exponent), casting="same_kind")
    return float(exponent.max(initial=-np.inf))


def sparse_sinkhorn_passes(
    start,
    index,
    kernel,
    p,
    q,
    u,
    v,
    work,
    omega=1.0,
    most=1,
    tol=0.0,
    n_threads=1,
    scaling_map=None,
):
    kernel = _dense(start, index, kernel, len(q)).astype(np.float32)
    return sinkhorn_passes(kernel, p, q, u, v, work, omega, most, tol, scaling_map=scaling_map)


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

    def solve(self, cost):
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
