"""Float64 NumPy twins of the compiled kernels: same names, same arguments.

Slow, plain and overflow-free; they say what the kernels compute, and the tests hold
the kernels to them. `n_threads` is accepted and not used. A matrix that the kernels
take packed, or made strip by strip, is simply that matrix here. Where the kernels of
float64 are as exact as a plain sum of float64, sums are of long doubles.
"""

import numpy as np
from scipy.special import logsumexp


class ColumnSums:
    def __init__(self, n, m, dtype=np.float32):
        self.n, self.m, self.values = n, m, np.zeros(m)


def Panels(matrix, transposed=False, scale=None, n_threads=1):
    matrix = (matrix.T if transposed else matrix).astype(np.float64)
    return matrix if scale is None else scale[:, None] * matrix


def Product(left, right):
    return left.astype(np.float64) @ right


def Gibbs(left, right, f, g, epsilon):
    with np.errstate(over="ignore", under="ignore"):
        return np.exp(_exponent(Product(left, right), f, g, epsilon))


def exp(x, out, n_threads=1):
    with np.errstate(over="ignore", under="ignore"):
        np.copyto(out, np.exp(x.astype(np.float64)), casting="same_kind")


def log(x, out, n_threads=1):
    with np.errstate(divide="ignore", invalid="ignore"):
        np.copyto(out, np.log(x.astype(np.float64)), casting="same_kind")


def _exponent(cost, f, g, epsilon):
    return (f[:, None] + g[None, :] - cost) / epsilon


def logsumexp_rows(cost, f, g, epsilon, out, n_threads=1):
    out[:] = logsumexp(_exponent(cost, f, g, epsilon), axis=1)


def logsumexp_cols(cost, f, g, epsilon, out, n_threads=1):
    out[:] = logsumexp(_exponent(cost, f, g, epsilon), axis=0)


def gibbs_kernel(cost, f, g, epsilon, out, n_threads=1):
    exponent = _exponent(cost, f, g, epsilon)
    exp(exponent, out)
    return float(exponent.max())


def proximal_cost(cost, plan, weight, n_threads=1):
    least = np.finfo(plan.dtype).tiny
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


def rescale_columns(v, q, work):
    most = np.finfo(v.dtype).max
    v[:] = _rescale(v.astype(np.float64), q, work.values, 1.0, most)


def scale_to_plan(kernel, u, v, row_sums, col_sums, work, n_threads=1):
    plan = u.astype(np.float64)[:, None] * kernel * v
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


def entropy(plan, n_threads=1):
    plan = plan.astype(np.float64)
    return float(-(plan * np.log(plan, out=np.zeros_like(plan), where=plan > 0)).sum())


def copy_rows(rows, out, n_threads=1):
    np.copyto(out, rows, casting="same_kind")


def topk_rows(x, indices, values, n_threads=1):
    k = indices.shape[1]
    indices[:] = np.argsort(-x, axis=1, kind="stable")[:, :k]
    values[:] = np.take_along_axis(x, indices, axis=1)


def matmul(a, b, out, x=None, dots=None, n_threads=1):
    out[:] = a.astype(np.float64) @ b
    if x is not None:
        dots[:] = a.astype(np.float64) @ x.astype(np.float64)


def gibbs_product(a, b, f, g, epsilon, out, work, n_threads=1):
    peak = gibbs_kernel(Product(a, b), f, g, epsilon, out)
    work.values[:] = out.sum(axis=0, dtype=np.float64)
    return peak


def gram(x, y, out, n_threads=1):
    out[:] = x.T.astype(np.float64) @ y.astype(np.float64)


def _plan_and_kept(kernel, u, v, row, col):
    plan = u.astype(np.float64)[:, None] * kernel * v
    return plan, plan >= np.minimum(row[:, None], col)


def sparse_count(kernel, u, v, row, col, row_lost, col_lost, kept, work, n_threads=1):
    plan, keep = _plan_and_kept(kernel, u, v, row, col)
    kept[:] = keep.sum(axis=1)
    marginals(np.where(keep, 0.0, plan), row_lost, col_lost, work)


def sparse_select(kernel, u, v, row, col, start, index, n_threads=1):
    index[:] = np.nonzero(_plan_and_kept(kernel, u, v, row, col)[1])[1]


def _rows_of(start):
    return np.repeat(np.arange(len(start) - 1), np.diff(start))


def _dense(start, index, kernel, m):
    out = np.zeros((len(start) - 1, m))
    out[_rows_of(start), index] = kernel
    return out


def sparse_gibbs(start, index, x, y, f, g, epsilon, out, n_threads=1):
    kept = _rows_of(start), index
    exponent = _exponent(Product(x, Panels(y, transposed=True)), f, g, epsilon)[kept]
    exp(exponent, out)
    return float(exponent.max(initial=-np.inf))


def sparse_sinkhorn_passes(
    start, index, kernel, p, q, u, v, work, omega=1.0, most=1, tol=0.0, n_threads=1
):
    kernel = _dense(start, index, kernel, len(q)).astype(np.float32)
    return sinkhorn_passes(kernel, p, q, u, v, work, omega, most, tol)


def sparse_product(start, index, kernel, v, y, out, sums, n_threads=1):
    scaled = _dense(start, index, kernel, len(v)) * v
    out[:], sums[:] = scaled @ y.astype(np.float64), scaled.sum(axis=1)
