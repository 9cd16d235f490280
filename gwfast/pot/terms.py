"""The terms of Gromov-Wasserstein losses, called as in POT: for programs that have a
loop of their own around them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..problems.graphs import CostLike
from ..utils.validation import as_matrix, as_vector, check_square
from ._problem import LossFun, Plan, as_loss
from ._siblings import like
from .arrays import Arrays, as_costs, kind_of

__all__ = ["gwggrad", "gwloss", "init_matrix", "init_matrix_semirelaxed", "tensor_product"]


def init_matrix(
    C1: CostLike,
    C2: CostLike,
    p: ArrayLike,
    q: ArrayLike,
    loss_fun: LossFun = "square_loss",
    nx: object = None,
) -> tuple[Any, Any, Any]:
    """What a Gromov-Wasserstein loss is computed with, as `ot.gromov.init_matrix`.

    With ``L(a, b) = f1(a) + f2(b) - h1(a) h2(b)``, and plans with marginals `p` and `q`.

    Parameters
    ----------
    C1, C2 : array-like of shape (ns, ns) and (nt, nt)
        Costs within the two spaces, as `entropic_gromov_wasserstein` takes them.
    p, q : array-like of shape (ns,) and (nt,)
        Marginals of the plans. They need not be masses; a column and a row are taken
        too.
    loss_fun : {"square_loss", "kl_loss"}, default="square_loss"
    nx : object, optional
        POT's backend, without effect: the library is that of the arrays.

    Returns
    -------
    constC : array of shape (ns, nt)
        ``f1(C1) p 1' + 1 (f2(C2) q)'``.
    hC1, hC2 : array of shape (ns, ns) and (nt, nt)
        ``h1(C1)``, which is `C1`, and ``h2(C2)``.

    Raises
    ------
    TypeError, ValueError
        If input is invalid; the message names the argument.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> C1 = np.array([[0.0, 3.0], [3.0, 0.0]])
    >>> constC, hC1, hC2 = pot.init_matrix(C1, C1 / 3, [0.5, 0.5], [0.5, 0.5])
    >>> constC
    array([[5., 5.],
           [5., 5.]])
    """
    arrays, loss, x, y, *masses = _data(loss_fun, C1, C2, p=p, q=q)
    constC = (loss.f1(x) @ masses[0])[:, None] + loss.f2(y) @ masses[1]
    back = arrays.back
    return back(constC), back(loss.h1(x)), back(loss.h2(y))


@like(init_matrix)
def init_matrix_semirelaxed(
    C1: CostLike, C2: CostLike, p: ArrayLike, loss_fun: LossFun = "square_loss", nx: object = None
) -> tuple[Any, Any, Any, Any]:
    """The same of plans without a second marginal, as `ot.gromov.init_matrix_semirelaxed`.

    Parameters
    ----------
    p : array-like of shape (ns,)
        First marginal of the plans. It need not be of masses; a column is taken too.

    Returns
    -------
    constC : array of shape (ns, nt)
        ``f1(C1) p 1'``.
    hC1, hC2 : array of shape (ns, ns) and (nt, nt)
        ``h1(C1)``, which is `C1`, and ``h2(C2)``.
    fC2t : array of shape (nt, nt)
        ``f2(C2)'``: what is still to be added to `constC` has ``q' fC2t`` as its rows.

    Examples
    --------
    >>> constC, hC1, hC2, fC2t = pot.init_matrix_semirelaxed(C1, C1 / 3, [0.5, 0.5])
    >>> constC + np.array([0.5, 0.5]) @ fC2t
    array([[5., 5.],
           [5., 5.]])
    """
    arrays, loss, x, y, p = _data(loss_fun, C1, C2, p=p)
    constC = np.outer(loss.f1(x) @ p, np.ones(len(y), dtype=x.dtype))
    back = arrays.back
    return back(constC), back(loss.h1(x)), back(loss.h2(y)), back(loss.f2(y).T)


def tensor_product(
    constC: ArrayLike, hC1: ArrayLike, hC2: ArrayLike, T: ArrayLike, nx: object = None
) -> Plan:
    """Costs between two spaces that a plan makes, as `ot.gromov.tensor_product`:
    ``sum L(C1_ik, C2_jl) T_kl`` over k and l.

    Tensors of torch and arrays of JAX are computed with where they are, in their own
    library, and have its gradients.

    Parameters
    ----------
    constC, hC1, hC2 : array-like of shape (ns, nt), (ns, ns) and (nt, nt)
        From `init_matrix`.
    T : array-like of shape (ns, nt)
        The plan.
    nx : object, optional
        POT's backend, without effect: the library is that of the arrays.

    Returns
    -------
    tens : array of shape (ns, nt)
        ``constC - hC1 T hC2'``.

    Raises
    ------
    TypeError, ValueError
        If input is invalid; the message names the argument.

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
    return _made(_tensor, constC, hC1, hC2, T)


@like(tensor_product)
def gwloss(
    constC: ArrayLike, hC1: ArrayLike, hC2: ArrayLike, T: ArrayLike, nx: object = None
) -> Plan:
    """Gromov-Wasserstein loss of a plan, as `ot.gromov.gwloss`.

    Returns
    -------
    loss : scalar
        ``<tensor_product(constC, hC1, hC2, T), T>``.

    Examples
    --------
    >>> terms = pot.init_matrix(C1, C1 / 3, p, p)
    >>> print(pot.gwloss(*terms, np.eye(2) / 2))
    2.0
    """
    return _made(_loss, constC, hC1, hC2, T)


@like(tensor_product)
def gwggrad(
    constC: ArrayLike, hC1: ArrayLike, hC2: ArrayLike, T: ArrayLike, nx: object = None
) -> Plan:
    """Gradient of the loss in the plan, as `ot.gromov.gwggrad`: of symmetric costs, of
    others it has one of the two orientations.

    Returns
    -------
    grad : array of shape (ns, nt)
        ``2 tensor_product(constC, hC1, hC2, T)``.

    Examples
    --------
    >>> terms = pot.init_matrix(C1, C1 / 3, p, p)
    >>> pot.gwggrad(*terms, np.eye(2) / 2)
    array([[ 4., 10.],
           [10.,  4.]])
    """
    return _made(_gradient, constC, hC1, hC2, T)


def _tensor(constC, hC1, hC2, T):
    return constC - hC1 @ T @ hC2.T


def _loss(constC, hC1, hC2, T):
    return (_tensor(constC, hC1, hC2, T) * T).sum()


def _gradient(constC, hC1, hC2, T):
    return 2 * _tensor(constC, hC1, hC2, T)


def _made(make, constC, hC1, hC2, T):
    """`make` of the four, of which loops have thousands: what has its own operators is
    handed on with few questions.
    """
    given = constC, hC1, hC2, T
    plain = type(constC) is type(hC1) is type(hC2) is type(T) is np.ndarray
    if plain and T.dtype.kind == "f":
        try:
            return make(constC, hC1, hC2, T)
        except ValueError as error:
            came = ", ".join(str(x.shape) for x in given)
            raise ValueError(
                "constC, hC1, hC2 and T must have shapes such as (n, m), (n, n), "
                f"(m, m) and (n, m), got {came}"
            ) from error
    # They have the operators of NumPy, and gradients through them.
    if not plain and {*map(kind_of, given)} in ({"torch"}, {"jax"}):
        return make(constC, hC1, hC2, T)
    arrays = Arrays(dict(zip(("constC", "hC1", "hC2", "T"), given, strict=True)))
    one = (arrays[name].astype(arrays.dtype, copy=False) for name in ("constC", "hC1", "hC2", "T"))
    return arrays.back(_made(make, *one))


def _data(loss_fun, C1, C2, **masses):
    """The arguments as `Arrays`, the `Loss`, and costs and masses in one dtype."""
    loss = as_loss(loss_fun, "loss_fun")
    costs = {"C1": as_costs(C1, "C1"), "C2": as_costs(C2, "C2")}
    arrays, made = Arrays(costs | masses), []
    for name in costs:
        cost = as_matrix(arrays[name], name).astype(arrays.dtype, copy=False)
        check_square(cost, name)
        loss.check(cost, name)
        made.append(cost)
    for name, cost in zip(masses, [*made], strict=False):
        mass = as_vector(np.reshape(arrays[name], -1), name, len(cost))
        made.append(mass.astype(arrays.dtype, copy=False))
    return arrays, loss, *made
