"""Float64 NumPy twins of the compiled kernels: same names, same arguments.

Slow, plain and overflow-free; they say what the kernels compute, and the tests hold
the kernels to them. `work` and `n_threads` are accepted and not used.
"""

import numpy as np
from scipy.special import logsumexp


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
    with np.errstate(over="ignore", under="ignore"):
        np.copyto(out, np.exp(exponent), casting="same_kind")
    return float(exponent.max())


def _rescale(scaling, mass, total, omega):
    most = np.finfo(np.float32).max
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        plain = np.divide(mass, total, out=np.zeros_like(total), where=total > 0)
        plain = np.minimum(plain, most)
        if omega == 1.0:
            return plain
        ratio = plain / scaling
        relaxed = scaling * ratio**omega
    return np.where((ratio > 0) & (relaxed < most), relaxed, plain)


def sinkhorn_pass(kernel, p, q, u, v, work, omega=1.0, n_threads=1):
    kernel = kernel.astype(np.float64)
    row_sums = kernel @ v.astype(np.float64)
    error = np.abs(u * row_sums - p).sum()
    scaling = _rescale(u.astype(np.float64), p, row_sums, omega)
    col_sums = kernel.T @ scaling
    u[:] = scaling
    v[:] = _rescale(v.astype(np.float64), q, col_sums, omega)
    return float(error)


def scale_to_plan(kernel, u, v, row_sums, col_sums, work, n_threads=1):
    plan = u.astype(np.float64)[:, None] * kernel * v
    row_sums[:] = plan.sum(axis=1)
    col_sums[:] = plan.sum(axis=0)
    kernel[:] = plan


def marginals(plan, row_sums, col_sums, work, n_threads=1):
    row_sums[:] = plan.sum(axis=1, dtype=np.float64)
    col_sums[:] = plan.sum(axis=0, dtype=np.float64)


def matmul(a, b, out, transposed=False, n_threads=1):
    b = b.T if transposed else b
    out[:] = a.astype(np.float64) @ b.astype(np.float64)


def contract(x, plan, y, out, n_threads=1):
    out[:] = x.T.astype(np.float64) @ plan.astype(np.float64) @ y.astype(np.float64)


def dot(plan, cost, n_threads=1):
    return float(np.vdot(plan.astype(np.float64), cost.astype(np.float64)))


def entropy(plan, n_threads=1):
    plan = plan.astype(np.float64)
    return float(-(plan * np.log(plan, out=np.zeros_like(plan), where=plan > 0)).sum())


def topk_rows(x, indices, values, n_threads=1):
    k = indices.shape[1]
    indices[:] = np.argsort(-x, axis=1, kind="stable")[:, :k]
    values[:] = np.take_along_axis(x, indices, axis=1)
