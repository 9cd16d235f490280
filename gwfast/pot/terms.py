"""The terms of Gromov-Wasserstein losses, called as in POT: for programs with their own loop."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..problems.graphs import CostLike
from ..utils.validation import as_vector
from .arrays import Arrays, as_costs, library_of
from .call import LossFun, Plan, as_loss, checked_costs

__all__ = ["gwggrad", "gwloss", "init_matrix", "init_matrix_semirelaxed", "tensor_product"]


def init_matrix(
    C1: CostLike,
    C2: CostLike,
    p: ArrayLike,
    q: ArrayLike,
    loss_fun: LossFun = "square_loss",
    nx: object = None,
) -> tuple[Any, Any, Any]:
    """Return the parts of a Gromov-Wasserstein loss, as POT's `init_matrix
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.init_matrix>`_: the loss
    ``L(a, b) = f1(a) + f2(b) - h1(a) h2(b)`` of plans with marginals `p` and `q`.

    Parameters
    ----------
    C1, C2, p, q, loss_fun
        As in `entropic_gromov_wasserstein`; marginals need not be masses, and may be a column and a
        row.
    nx : object, optional
        POT's backend, without effect: the arrays decide on the library.

    Returns
    -------
    constC, hC1, hC2 : arrays of shape (ns, nt), (ns, ns) and (nt, nt)
        ``f1(C1) p 1' + 1 (f2(C2) q)'``; ``h1(C1)``, which is `C1`; and ``h2(C2)``.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> C1, p = np.array([[0.0, 3.0], [3.0, 0.0]]), np.array([0.5, 0.5])
    >>> terms = pot.init_matrix(C1, C1 / 3, p, p)
    >>> pot.tensor_product(*terms, np.eye(2) / 2)
    array([[2., 5.],
           [5., 2.]])
    """
    arrays, loss, x, y, *masses = _data(loss_fun, C1, C2, p=p, q=q)
    constC = (loss.f1(x) @ masses[0])[:, None] + loss.f2(y) @ masses[1]
    return arrays.back(constC), arrays.back(loss.h1(x)), arrays.back(loss.h2(y))


def init_matrix_semirelaxed(
    C1: CostLike, C2: CostLike, p: ArrayLike, loss_fun: LossFun = "square_loss", nx: object = None
) -> tuple[Any, Any, Any, Any]:
    """Return the parts of the loss of plans without a second marginal, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.init_matrix_semirelaxed>`__.
    For parameters see `init_matrix`.

    Returns
    -------
    constC, hC1, hC2, fC2t : arrays of shape (ns, nt), (ns, ns), (nt, nt) and (nt, nt)
        ``f1(C1) p 1'``; ``h1(C1)``, which is `C1`; ``h2(C2)``; and ``f2(C2)'``: to complete the
        loss, add ``q' fC2t`` to each row of `constC`.
    """
    arrays, loss, x, y, p = _data(loss_fun, C1, C2, p=p)
    constC = np.outer(loss.f1(x) @ p, np.ones(len(y), dtype=x.dtype))
    return tuple(map(arrays.back, (constC, loss.h1(x), loss.h2(y), loss.f2(y).T)))


def tensor_product(
    constC: ArrayLike, hC1: ArrayLike, hC2: ArrayLike, T: ArrayLike, nx: object = None
) -> Plan:
    """Return the costs ``sum L(C1_ik, C2_jl) T_kl`` (over k and l) between two spaces that a plan
    makes, as POT's `tensor_product
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.tensor_product>`_, which is
    ``constC - hC1 T hC2'``. For other parameters see `init_matrix`.

    Tensors of torch and arrays of JAX stay where they are, in their library, and have gradients.

    Parameters
    ----------
    constC, hC1, hC2, T : array-like of shape (ns, nt), (ns, ns), (nt, nt) and (ns, nt)
        Parts of the loss, from `init_matrix`, and the plan.
    """
    product, _, back = _product(constC, hC1, hC2, T)
    return back(product)


def gwloss(
    constC: ArrayLike, hC1: ArrayLike, hC2: ArrayLike, T: ArrayLike, nx: object = None
) -> Plan:
    """Return the loss ``<tensor_product(constC, hC1, hC2, T), T>`` of a plan, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.gwloss>`__.
    For parameters see `tensor_product`.
    """
    product, plan, back = _product(constC, hC1, hC2, T)
    return back((product * plan).sum())


def gwggrad(
    constC: ArrayLike, hC1: ArrayLike, hC2: ArrayLike, T: ArrayLike, nx: object = None
) -> Plan:
    """Return the gradient ``2 tensor_product(constC, hC1, hC2, T)`` of the loss of a plan, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.gwggrad>`__: of costs that are
    not symmetric it has one of the two orientations. For parameters see `tensor_product`.
    """
    product, _, back = _product(constC, hC1, hC2, T)
    return back(2 * product)


def _product(constC, hC1, hC2, T):
    """Return the tensor product, the plan, and a function that returns results in their library."""
    # Loops have thousands of calls, so arrays with operators of their own pass few checks.
    arguments, back = (constC, hC1, hC2, T), lambda x: x
    plain = type(constC) is type(hC1) is type(hC2) is type(T) is np.ndarray
    # Operators of torch and JAX are NumPy's, and gradients go through them.
    if not plain and {*map(library_of, arguments)} in ({"torch"}, {"jax"}):
        return constC - hC1 @ T @ hC2.T, T, back
    if not (plain and T.dtype.kind == "f"):
        names = "constC", "hC1", "hC2", "T"
        arrays = Arrays(dict(zip(names, arguments, strict=True)))
        constC, hC1, hC2, T = (arrays[name].astype(arrays.dtype, copy=False) for name in names)
        back = arrays.back
    try:
        return constC - hC1 @ T @ hC2.T, T, back
    except ValueError as error:
        came = ", ".join(str(x.shape) for x in (constC, hC1, hC2, T))
        rule = "constC, hC1, hC2 and T must have shapes (n, m), (n, n), (m, m) and (n, m)"
        raise ValueError(f"{rule}, got {came}") from error


def _data(loss_fun, C1, C2, **masses):
    """Return the arguments as `Arrays`, the `Loss`, and costs and masses in one dtype."""
    loss = as_loss(loss_fun, "loss_fun")
    arrays = Arrays({"C1": as_costs(C1, "C1"), "C2": as_costs(C2, "C2")} | masses)
    x, y = (checked_costs(arrays[name], name, arrays.dtype, loss).matrix for name in ("C1", "C2"))
    vectors = [
        as_vector(np.reshape(arrays[name], -1), name, len(costs)).astype(arrays.dtype, copy=False)
        for name, costs in zip(masses, (x, y), strict=False)
    ]
    return arrays, loss, x, y, *vectors
