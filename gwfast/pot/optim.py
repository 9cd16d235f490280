"""`ot.optim.cg`, called as in POT, for a Gromov-Wasserstein loss beside linear costs."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .arrays import Arrays, as_host
from .call import Call, Plan
from .exact import check_start, solve_exact
from .terms import init_matrix
from .unified import LeftToPot

__all__ = ["cg"]
# By loss: the function from ``h2(C2)`` to `C2`, and the power of its weight that both costs take.
LOSSES = {"square_loss": (lambda h2: h2 / 2, 0.5), "kl_loss": (np.exp, 1.0)}


def cg(
    a: ArrayLike,
    b: ArrayLike,
    M: ArrayLike,
    reg: float,
    f: Callable[[Any], Any],
    df: Callable[[Any], Any],
    G0: ArrayLike | None = None,
    line_search: Callable[..., Any] | None = None,
    numItermax: float = 200,
    numItermaxEmd: float = 100_000,
    stopThr: float = 1e-9,
    stopThr2: float = 1e-9,
    verbose: bool = False,
    log: bool = False,
    nx: object = None,
) -> Plan:
    """Return the plan that minimizes ``<G, M> + reg f(G)``, as POT's `cg
    <https://pythonot.github.io/gen_modules/ot.optim.html#ot.optim.cg>`_, if `f` is a
    Gromov-Wasserstein loss. Any other `f` is a NotImplementedError, and left to POT while its
    function is swapped. For other parameters see `gromov_wasserstein`.

    The costs of the two spaces are searched for among the arrays that `df` refers to, as
    ``lambda G: gwggrad(constC, hC1, hC2, G)`` refers to `hC1` and `hC2`. `f` and `df` are compared
    with these costs at random plans.

    Parameters
    ----------
    a, b, M, reg : array-like of shape (ns,), (nt,) and (ns, nt), or 0, and float
        Masses, linear costs, and the positive weight of `f`.
    f, df : callable
        Loss of a plan, and its gradient, as `gwloss` and `gwggrad` have them.
    numItermax, stopThr, stopThr2
        The `max_iter`, `tol_rel` and `tol_abs` of `gromov_wasserstein`.
    line_search, nx
        Without effect: steps are the best, and the arrays decide on the library.

    Returns
    -------
    T, log
        The log is as from `fused_gromov_wasserstein`, or without `M` from `gromov_wasserstein`.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> x = np.array([0.0, 2, 3, 9, 14])
    >>> C1, p = np.abs(np.subtract.outer(x, x)), np.full(5, 0.2)
    >>> terms = pot.init_matrix(C1, C1[::-1, ::-1], p, p)
    >>> f, df = (lambda G: pot.gwloss(*terms, G)), (lambda G: pot.gwggrad(*terms, G))
    >>> pot.cg(p, p, 0, 1.0, f, df).argmax(axis=1)
    array([4, 3, 2, 1, 0])
    """
    try:
        call = _call(a, b, M, reg, f, df, G0)
    except Exception as error:  # any at all, of functions that are the caller's
        raise LeftToPot(f"f must be a Gromov-Wasserstein loss of plans: {error}") from error
    return solve_exact(call, numItermax, stopThr, stopThr2, verbose=verbose).result(log)


def _call(a, b, M, reg, f, df, G0):
    """Return the `Call` of the objective: its quadratic term has the weight of one half."""
    weight, M = float(reg), None if isinstance(M, int | float) and M == 0 else M
    arrays = Arrays({"a": a, "b": b, "M": M, "G0": G0})
    if M is not None:
        M, weight = arrays.back(2 * arrays["M"], arrays["M"].dtype), 2 * weight
    if not weight > 0:
        raise ValueError(f"reg must be positive, got {reg}")
    left, right, loss_fun = _costs(arrays, f, df)
    weight **= LOSSES[loss_fun][1]
    C1, C2 = (arrays.back(weight * x, x.dtype) for x in (left, right))
    # The names here of arguments of `solve_exact`.
    names = {"max_iter": "numItermax", "tol_rel": "stopThr", "tol_abs": "stopThr2"}
    names |= {"p": "a", "q": "b"}
    call = Call.of(C1, C2, a, b, loss_fun, None, G0, M, 0.5, names=names)
    if call.G0 is not None:
        check_start(call)
    return call


def _costs(arrays, f, df):
    """Return the costs of both spaces, and the loss between them that `f` and `df` compute."""
    a, b = arrays["a"], arrays["b"]
    pairs = _pairs(df, len(a), len(b))
    start = np.outer(a, b) if arrays["G0"] is None else arrays["G0"]
    factors = _factors(a, b / b.sum())
    plans = [(x @ y.T).astype(start.dtype) for x, y in factors]
    with np.errstate(all="ignore"):
        first, second = (as_host(df(arrays.back(G, G.dtype)), "df") for G in plans)
        loss = float(f(arrays.back(plans[0], start.dtype)))
    eps = max(np.finfo(x.dtype).eps for x in (start, first, *itertools.chain(*pairs)))

    def agree(x, y):
        return np.abs(x - y).max() <= eps**0.5 * np.abs(x).max()

    for left, right in pairs if agree(2 * loss, np.vdot(first, plans[0])) else ():
        # Products with both orientations of costs, which are equal if costs are symmetric.
        products = [left @ x @ (right @ y).T + left.T @ x @ (right.T @ y).T for x, y in factors]
        if not agree(first - second, products[1] - products[0]):
            continue
        for loss_fun, (inverse, _) in LOSSES.items():
            C1, C2 = left, inverse(right)
            constant = init_matrix(C1, C2, a, b, loss_fun)[0]
            constant = constant + init_matrix(C1.T, C2.T, a, b, loss_fun)[0]
            if agree(constant, first + products[0]):
                return C1, C2, loss_fun
    raise ValueError("f and df do not agree with any costs that df refers to")


def _pairs(function, n, m):
    """Return the pairs of matrices (n, n) and (m, m) that a function refers to, also in lists."""
    names, shapes = inspect.getclosurevars(function), {(n, n), (m, m)}
    matrices = [
        as_host(x, "df") * 1.0
        for value in (*names.nonlocals.values(), *names.globals.values())
        for x in (value if isinstance(value, list | tuple) else [value])
        if tuple(getattr(x, "shape", ())) in shapes
    ]
    pairs = itertools.permutations(matrices, 2)
    pairs = [pair for pair in pairs if (len(pair[0]), len(pair[1])) == (n, m)]
    if not pairs:
        raise ValueError("df refers to no costs of two spaces")
    return pairs


def _factors(a, b):
    """Return factors (n, k) and (m, k) of a random plan from `a` to `b`, and of a single entry."""
    # Entries must be large, as what adds to a loss may be zero.
    rng = np.random.default_rng(0)
    first, second = [], []
    for masses in (a, b):
        z = rng.random(len(masses))
        centered = z - z @ masses / masses.sum()
        first.append(masses[:, None] * np.stack([np.ones_like(z), centered], axis=1))
        second.append(np.where(z == z.max(), 1.0, 0.0)[:, None])
    return first, second
