"""Tensors of torch, and their gradients beside differences."""

import numpy as np
import pytest


def tensors(given, names=(), dtype="float64"):
    """Return tensors of arrays, which ask for gradients if they are named."""
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, dtype)
    return {
        name: torch.tensor(x, dtype=dtype, requires_grad=name in names) for name, x in given.items()
    }


def check_gradients(loss, given, without=(), *, masses=("p", "q"), step=1e-5):
    """Compare gradients of a loss of arrays or tensors with differences along random directions,
    but `without` some arguments.
    """
    rng, names = np.random.default_rng(1), [name for name in given if name not in without]
    asking = tensors(given, names)
    loss(**asking).backward()
    for name in names:
        x = np.asarray(given[name])
        along = rng.standard_normal(x.shape)
        if x.ndim == 2 and np.array_equal(x, x.T):
            along = along + along.T
        if name in masses:
            along = 0.1 * (along - along.mean())
        ends = [float(loss(**given | {name: x + s * along})) for s in (step, -step)]
        found = float((asking[name].grad.numpy() * along).sum())
        assert found == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-4), name
