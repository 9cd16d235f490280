"""Barycenters of spaces, called as in POT, with entropy and without: by turns, plans from the
barycenter to every space, and the barycenter that suits these plans.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist

from ..kernels.threads import single_threaded_blas
from ..problems.graphs import CostLike
from ..utils.validation import as_count, as_matrix, as_vector
from ._solve import solve_all, table
from ._spaces import Spaces, exact_plans, listed, one_by_one
from ._starts import random_generator
from .arrays import Arrays, as_costs, as_limit, as_number, pots_choice
from .call import LossFun, Plan, Solver
from .exact import exact

__all__ = [
    "entropic_fused_gromov_barycenters",
    "entropic_gromov_barycenters",
    "fgw_barycenters",
    "gromov_barycenters",
]
StopCriterion: TypeAlias = Literal["barycenter", "loss"]


class Barycenter(Spaces):
    """The spaces, their weights, and what the barycenter begins with: the structure `C`, features
    `Y`, or None, and plans `starts`, or None to start from the product of the masses.
    """

    keeps_plans = True  # whether logs have the plans of all updates

    def __init__(
        self, N, Cs, ps, p, lambdas, loss_fun, symmetric, init_C, random_state, Ys=None,
        init_Y=None, alpha=1.0, init_name="init_Y", G0=None,
    ):  # fmt: skip
        n, size, own = as_count(N, "N"), len(Cs), {"p": p, "init_C": as_costs(init_C, "init_C")}
        arrays = Arrays(listed(Cs=Cs, ps=ps, Ys=Ys) | own | {init_name: init_Y})
        self.back, self.init_name, self._lambdas = arrays.back, init_name, np.full(size, 1 / size)
        names = [(f"Cs[{s}]", f"Ys[{s}]", f"ps[{s}]") for s in range(size)]
        p = np.full(n, 1 / n) if p is None else as_vector(arrays["p"], "p", n)
        if not (p > 0).all():
            raise ValueError("p must be positive: barycenters are divided by it")
        super().__init__(arrays, names, p.astype(arrays.dtype), arrays.dtype)
        if lambdas is not None:
            self._lambdas = as_vector(lambdas, "lambdas", size)
        self.has_features, inits, shapes = Ys is not None, [], {"init_C": (n, n)}
        if self.has_features:
            self.Ys = np.concatenate(self.features)
            weighted = zip(self._lambdas, self.features, strict=True)
            self._weighted_Ys = np.concatenate([weight * Y for weight, Y in weighted])
            shapes[init_name] = n, self.Ys.shape[1]
        for name, shape in shapes.items():
            x = arrays[name]
            inits.append(x if x is None else as_matrix(x, name, shape=shape).astype(self.dtype))
        self._fixable = {name for name in shapes if arrays[name] is not None}
        options = dict(loss_fun=loss_fun, symmetric=symmetric, alpha=alpha)
        self._begin(options, random_state, G0, *inits)

    def _begin(self, options, random_state, G0, C, Y=None):
        n = len(self.p)
        if C is None:
            points = random_generator(random_state).randn(n, 2)
            C = cdist(points, points, "sqeuclidean").astype(self.dtype)
            if not self.has_features:  # as in POT
                C /= C.max()
        if Y is None and self.has_features:
            Y = np.zeros((n, self.Ys.shape[1]), dtype=self.dtype)
        self.C, self.Y, self.starts = C, Y, None
        self._squares = np.multiply.outer(self.p, self.p)
        self.begin(C, Y, {"C1": "init_C"}, **options)
        self._weigh(options["loss_fun"] == "kl_loss")

    def _weigh(self, takes_logs):
        """Weigh the costs whose means structures are, or their logarithms."""
        self._mean_of = np.exp if takes_logs else np.asarray
        self._weighted_Cs = [
            weight * (np.log(np.maximum(C, 1e-16)) if takes_logs else C).astype(np.float64)
            for weight, C in zip(self._lambdas, self.costs, strict=True)
        ]

    def mean_structure(self, plans):
        """Return the best structure for plans side by side."""
        halves = np.empty(plans.shape)
        for part, C in zip(self.parts, self._weighted_Cs, strict=True):
            np.matmul(plans[:, part], C, out=halves[:, part])
        mean = (halves @ plans.T) / self._divisors(plans)[1]
        return self._mean_of(mean).astype(self.dtype, copy=False)

    def mean_features(self, plans):
        """Return the best features for plans side by side."""
        mean = (plans @ self._weighted_Ys) / self._divisors(plans)[0][:, None]
        return mean.astype(self.dtype, copy=False)

    def _divisors(self, plans):
        """Return the mass of points and of pairs of points, by weight of the spaces."""
        return self.p, self._squares

    def masses(self, plans):
        """Return the masses of the barycenter."""
        return self.p

    def update(
        self, solve, max_iter, tol, stop_criterion, warmstartT, verbose, log, fixed_structure=False,
        fixed_features=False,
    ):  # fmt: skip
        """Return features, if there are any, and structure in the end, and POT's log; for `solve`
        see `one_by_one`.
        """
        pots_choice(stop_criterion, "stop_criterion", get_args(StopCriterion))
        for fixed, name in ((fixed_structure, "init_C"), (fixed_features, self.init_name)):
            if fixed and name not in self._fixable:
                raise _undefined(f"{name} must be given if it is fixed")
        tol, print_row = as_number(tol, "tol", zero=True), table()
        by_loss, everything = stop_criterion == "loss", range(len(self.costs))
        C, Y, plans = self.C, self.Y, self.starts
        # The plans are from the barycenter before an update, and so are the losses.
        losses, changes, iterates = [1e15], [], []
        with single_threaded_blas():
            for _ in range(as_limit(max_iter, "max_iter")):
                starts = plans if warmstartT and plans else [None] * len(self.costs)
                plans, apart = solve(C[None], None if Y is None else Y[None], starts, everything)
                together = self.joined(plans)
                losses.append(float(sum(apart)))
                former_C, former_Y = C, Y
                if self.has_features and not fixed_features:
                    Y = self.mean_features(together)
                if not fixed_structure:
                    C = self.mean_structure(together)
                if by_loss:
                    former, change = losses[-2], abs(losses[-1] - losses[-2])
                    changes.append((change / former if former != 0 else np.nan,))
                else:
                    pairs = [(C, former_C)] + [(Y, former_Y)] * self.has_features
                    changes.append([float(np.linalg.norm(x - y)) for x, y in pairs])
                    if log and self.has_features and self.keeps_plans:
                        iterates.append(list(map(self.back, plans)))
                if verbose:
                    print_row(*changes[-1])
                # As in POT, NaN stops too.
                if not max(changes[-1]) > tol:
                    break
        found = [self.back(x) for x in (Y, C) if x is not None]
        if log:
            entries = {"T": list(map(self.back, plans)), "p": self.back(self.masses(together))}
            entries |= {"Ts_iter": iterates} if iterates else {}
            if self.has_features:
                M = (self.costs_between(Y, s) for s in everything)
                entries["Ms"] = list(map(self.back, M))
            names = ["err_structure", "err_feature"] if self.has_features else ["err"]
            if by_loss:
                entries["loss"] = list(map(self.back, losses[1:]))
                names = ["err_rel_loss"] if self.has_features else ["err"]
            for name, errors in zip(names, zip(*changes, strict=True), strict=True):
                entries[name] = list(map(self.back, errors))
            found.append(entries)
        return tuple(found) if len(found) > 1 else found[0]

    def joined(self, plans):
        """Return plans side by side."""
        return np.concatenate(plans, axis=1)


def _undefined(message):
    """Return a ValueError that is POT's `UndefinedParameter` too, if POT is in use."""
    utils = sys.modules.get("ot.utils")
    if utils is None:
        return ValueError(message)
    return type("UndefinedParameter", (ValueError, utils.UndefinedParameter), {})(message)


def entropic_gromov_barycenters(
    N: int, Cs: Sequence[CostLike], ps: Sequence[ArrayLike] | None = None,
    p: ArrayLike | None = None, lambdas: ArrayLike | None = None, loss_fun: LossFun = "square_loss",
    epsilon: float = 0.1, symmetric: bool | None = True, max_iter: float = 1000, tol: float = 1e-9,
    stop_criterion: StopCriterion = "barycenter", warmstartT: bool = False, verbose: bool = False,
    log: bool = False, init_C: ArrayLike | None = None,
    random_state: int | np.random.RandomState | None = None, *, solver: Solver = "PGD",
    warmstart: bool = False, numItermax: float = 1000, stopThr: float = 1e-9, warn: bool = True,
) -> Plan:  # fmt: skip
    """Return the entropic Gromov-Wasserstein barycenter of spaces, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.entropic_gromov_barycenters>`__.
    For other parameters see `entropic_gromov_wasserstein`.

    Parameters
    ----------
    N : int
        Number of points of the barycenter.
    Cs, init_C : S arrays of shape (ns, ns), or graphs, and array of shape (N, N), optional
        The first barycenter has by default squared distances of random points.
    ps, p, lambdas : S arrays of shape (ns,), array of shape (N,), and S floats, optional
        Masses of the spaces and of the barycenter, and weights of the spaces, uniform by default.
    max_iter, tol, stop_criterion : int, float, {"barycenter", "loss"}
        Limit of updates, and of outer iterations for the plans of an update; and the change of the
        barycenter (Frobenius norm), or relative change of the loss, at which updates stop.
    warmstartT : bool, default=False
        Whether the plans of an update start from the plans of the last update.
    random_state : int, RandomState or None, default=None
        Seed of POT's random numbers.

    Returns
    -------
    C : array of shape (N, N)
    log : dict
        If asked for: "err", with the criterion "loss" also "loss", the plans "T", and "p".

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> gwfast.pot.entropic_gromov_barycenters(4, [1 - np.eye(5)] * 2, epsilon=0.5).shape
    (4, 4)
    """
    spaces = Barycenter(N, Cs, ps, p, lambdas, loss_fun, symmetric, init_C, random_state)
    solve = one_by_one(
        spaces, solve_all, epsilon=epsilon, max_iter=max_iter, tol=1e-4, solver=solver,
        numItermax=numItermax, stopThr=stopThr, verbose=verbose, warn=warn,
    )  # fmt: skip
    return spaces.update(solve, max_iter, tol, stop_criterion, warmstartT, verbose, log)


def entropic_fused_gromov_barycenters(
    N: int, Ys: Sequence[ArrayLike], Cs: Sequence[CostLike], ps: Sequence[ArrayLike] | None = None,
    p: ArrayLike | None = None, lambdas: ArrayLike | None = None, loss_fun: LossFun = "square_loss",
    epsilon: float = 0.1, symmetric: bool | None = True, alpha: float = 0.5, max_iter: float = 1000,
    tol: float = 1e-9, stop_criterion: StopCriterion = "barycenter", warmstartT: bool = False,
    verbose: bool = False, log: bool = False, init_C: ArrayLike | None = None,
    init_Y: ArrayLike | None = None, fixed_structure: bool = False, fixed_features: bool = False,
    random_state: int | np.random.RandomState | None = None, *, solver: Solver = "PGD",
    warmstart: bool = False, numItermax: float = 1000, stopThr: float = 1e-9, warn: bool = True,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the entropic fused Gromov-Wasserstein barycenter of spaces, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.entropic_fused_gromov_barycenters>`__,
    but with features that are updated, which POT 0.9.7 returns as they began. For other parameters
    see `entropic_gromov_barycenters`.

    Parameters
    ----------
    Ys, init_Y : S arrays of shape (ns, d), and array of shape (N, d), optional
        Features of the points, and of the first barycenter, zeros by default.
    alpha : float, default=0.5
        Weight of the structures.
    fixed_structure, fixed_features : bool, default=False
        Whether `init_C`, or `init_Y`, stays as it is.

    Returns
    -------
    Y, C : arrays of shape (N, d) and (N, N)
    log : dict
        If asked for: "err_feature", "err_structure" and "Ts_iter", or with the criterion "loss"
        "loss" and "err_rel_loss"; the plans "T", "p", and "Ms", the costs between features.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> spaces = [np.eye(5)] * 2, [1 - np.eye(5)] * 2
    >>> gwfast.pot.entropic_fused_gromov_barycenters(4, *spaces, epsilon=0.5)[0].shape
    (4, 5)
    """
    spaces = Barycenter(
        N, Cs, ps, p, lambdas, loss_fun, symmetric, init_C, random_state, Ys, init_Y, alpha
    )
    solve = one_by_one(
        spaces, solve_all, epsilon=epsilon, max_iter=max_iter, tol=1e-4, solver=solver,
        numItermax=numItermax, stopThr=stopThr, verbose=verbose, warn=warn,
    )  # fmt: skip
    return spaces.update(
        solve, max_iter, tol, stop_criterion, warmstartT, verbose, log, fixed_structure,
        fixed_features,
    )  # fmt: skip


@exact
def gromov_barycenters(
    N: int, Cs: Sequence[CostLike], ps: Sequence[ArrayLike] | None = None,
    p: ArrayLike | None = None, lambdas: ArrayLike | None = None, loss_fun: LossFun = "square_loss",
    symmetric: bool | None = True, armijo: bool = False, max_iter: float = 1000, tol: float = 1e-9,
    stop_criterion: StopCriterion = "barycenter", warmstartT: bool = False, verbose: bool = False,
    log: bool = False, init_C: ArrayLike | None = None,
    random_state: int | np.random.RandomState | None = None, *, numItermaxEmd: float = 100_000,
) -> Plan:  # fmt: skip
    """Return the Gromov-Wasserstein barycenter of spaces without entropy, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.gromov_barycenters>`__.
    For other parameters see `entropic_gromov_barycenters` and `gromov_wasserstein`.

    Returns
    -------
    C, log
        As of `entropic_gromov_barycenters`.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> gwfast.pot.gromov_barycenters(4, [1 - np.eye(5), 1 - np.eye(6)]).shape
    (4, 4)
    """
    spaces = Barycenter(N, Cs, ps, p, lambdas, loss_fun, symmetric, init_C, random_state)
    solve = exact_plans(spaces, max_iter, 1e-5, verbose)
    return spaces.update(solve, max_iter, tol, stop_criterion, warmstartT, verbose, log)


@exact
def fgw_barycenters(
    N: int, Ys: Sequence[ArrayLike], Cs: Sequence[CostLike], ps: Sequence[ArrayLike] | None = None,
    lambdas: ArrayLike | None = None, alpha: float = 0.5, fixed_structure: bool = False,
    fixed_features: bool = False, p: ArrayLike | None = None, loss_fun: LossFun = "square_loss",
    armijo: bool = False, symmetric: bool | None = True, max_iter: float = 100, tol: float = 1e-9,
    stop_criterion: StopCriterion = "barycenter", warmstartT: bool = False, verbose: bool = False,
    log: bool = False, init_C: ArrayLike | None = None, init_X: ArrayLike | None = None,
    random_state: int | np.random.RandomState | None = None, *, numItermaxEmd: float = 100_000,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the fused Gromov-Wasserstein barycenter of spaces without entropy, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.fgw_barycenters>`__.
    For other parameters see `entropic_fused_gromov_barycenters` and `gromov_barycenters`.

    Parameters
    ----------
    init_X : array-like of shape (N, d), optional
        Features of the first barycenter, zeros by default.

    Returns
    -------
    X, C, log
        As of `entropic_fused_gromov_barycenters`.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> gwfast.pot.fgw_barycenters(4, [np.eye(5)] * 2, [1 - np.eye(5)] * 2)[0].shape
    (4, 5)
    """
    spaces = Barycenter(
        N, Cs, ps, p, lambdas, loss_fun, symmetric, init_C, random_state, Ys, init_X, alpha,
        init_name="init_X",
    )  # fmt: skip
    return spaces.update(
        exact_plans(spaces, max_iter, 1e-5, verbose), max_iter, tol, stop_criterion, warmstartT,
        verbose, log, fixed_structure, fixed_features,
    )  # fmt: skip
