"""Barycenters of spaces, called as in POT: in turn, plans from the barycenter to every
space, and the barycenter that suits these plans.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from ..utils.validation import as_count, as_matrix, as_square, as_vector
from ._problem import (
    LossFun,
    Plan,
    Problem,
    Solver,
    method_of,
    pots_choice,
    random_generator,
    table,
)
from .arrays import Arrays, as_limit, as_number

__all__ = ["entropic_fused_gromov_barycenters", "entropic_gromov_barycenters"]
StopCriterion: TypeAlias = Literal["barycenter", "loss"]
CRITERIA = get_args(StopCriterion)
# Change of a plan (Frobenius norm) at which its outer iterations stop; POT's.
PLAN_TOL = 1e-4


def entropic_gromov_barycenters(
    N: int,
    Cs: Sequence[ArrayLike],
    ps: Sequence[ArrayLike] | None = None,
    p: ArrayLike | None = None,
    lambdas: ArrayLike | None = None,
    loss_fun: LossFun = "square_loss",
    epsilon: float = 0.1,
    symmetric: bool | None = True,
    max_iter: float = 1000,
    tol: float = 1e-9,
    stop_criterion: StopCriterion = "barycenter",
    warmstartT: bool = False,
    verbose: bool = False,
    log: bool = False,
    init_C: ArrayLike | None = None,
    random_state: int | np.random.RandomState | None = None,
    *,
    solver: Solver = "PGD",
    warmstart: bool = False,
    numItermax: float = 1000,
    stopThr: float = 1e-9,
    warn: bool = True,
) -> Plan:
    """Entropic Gromov-Wasserstein barycenter, as
    `ot.gromov.entropic_gromov_barycenters`.

    Parameters
    ----------
    N : int
        Points of the barycenter.
    Cs : list of S array-like of shape (ns, ns)
    ps : list of S array-like of shape (ns,), optional
        Uniform by default.
    p : array-like of shape (N,), optional
    lambdas : list of S floats, optional
        Weights of the spaces, equal by default.
    max_iter : int, default=1000
        Limit of updates, and of outer iterations for the plans of one of them.
    tol : float, default=1e-9
        Stops when an update changes the barycenter by at most this (Frobenius norm),
        or the loss relatively by at most this.
    stop_criterion : {"barycenter", "loss"}, default="barycenter"
    warmstartT : bool, default=False
        Whether the plans of one update start from those of the last.
    init_C : array-like of shape (N, N), optional
        By default distances of random points.
    random_state : int, RandomState or None, default=None
        POT's random numbers.
    loss_fun, epsilon, symmetric, verbose, log, solver, warmstart, numItermax, \
stopThr, warn
        See `entropic_gromov_wasserstein`.

    Returns
    -------
    C : array of shape (N, N)
    log : dict
        If asked for: "err", with the criterion "loss" also "loss", the plans "T", "p".
    """
    by_loss = pots_choice(stop_criterion, "stop_criterion", CRITERIA) == "loss"
    spaces = _Spaces(N, Cs, ps, p, lambdas, init_C, random_state)
    data = dict(loss_fun=loss_fun, symmetric=symmetric)
    options = _solver(epsilon, max_iter, verbose, solver, numItermax, stopThr, warn)
    errors, losses = [], []
    for step in _updates(spaces, data, options, tol, by_loss, warmstartT):
        errors += step.changes
        losses.append(step.loss)
    C = spaces.back(step.C)
    if not log:
        return C
    lists = {"err": errors, "loss": losses} if by_loss else {"err": errors}
    return C, spaces.log(step, lists)


def entropic_fused_gromov_barycenters(
    N: int,
    Ys: Sequence[ArrayLike],
    Cs: Sequence[ArrayLike],
    ps: Sequence[ArrayLike] | None = None,
    p: ArrayLike | None = None,
    lambdas: ArrayLike | None = None,
    loss_fun: LossFun = "square_loss",
    epsilon: float = 0.1,
    symmetric: bool | None = True,
    alpha: float = 0.5,
    max_iter: float = 1000,
    tol: float = 1e-9,
    stop_criterion: StopCriterion = "barycenter",
    warmstartT: bool = False,
    verbose: bool = False,
    log: bool = False,
    init_C: ArrayLike | None = None,
    init_Y: ArrayLike | None = None,
    fixed_structure: bool = False,
    fixed_features: bool = False,
    random_state: int | np.random.RandomState | None = None,
    *,
    solver: Solver = "PGD",
    warmstart: bool = False,
    numItermax: float = 1000,
    stopThr: float = 1e-9,
    warn: bool = True,
) -> tuple[Any, ...]:
    """Entropic fused Gromov-Wasserstein barycenter, as
    `ot.gromov.entropic_fused_gromov_barycenters` is meant: POT 0.9.7 returns the
    features it began with, see DIFFERENCES.md.

    Parameters
    ----------
    Ys : list of S array-like of shape (ns, d)
        Features of the points.
    alpha : float, default=0.5
        Weight of the structures.
    tol : float, default=1e-9
        Stops when an update changes neither structure nor features by more than this
        (Frobenius norm), or the loss relatively by at most this.
    init_Y : array-like of shape (N, d), optional
        Zeros by default.
    fixed_structure, fixed_features : bool, default=False
        Whether `init_C`, or `init_Y`, stays as it is.
    N, Cs, ps, p, lambdas, loss_fun, epsilon, symmetric, max_iter, stop_criterion, \
warmstartT, verbose, log, init_C, random_state, solver, warmstart, numItermax, \
stopThr, warn
        See `entropic_gromov_barycenters`.

    Returns
    -------
    Y : array of shape (N, d)
    C : array of shape (N, N)
    log : dict
        If asked for: "err_feature", "err_structure" and "Ts_iter", or with the
        criterion "loss" "loss" and "err_rel_loss"; the plans "T", "p", and "Ms", the
        costs between features.
    """
    by_loss = pots_choice(stop_criterion, "stop_criterion", CRITERIA) == "loss"
    if fixed_structure and init_C is None:
        raise _undefined("init_C must be given where fixed_structure=True")
    if fixed_features and init_Y is None:
        raise _undefined("init_Y must be given where fixed_features=True")
    spaces = _Spaces(N, Cs, ps, p, lambdas, init_C, random_state, Ys, init_Y)
    data = dict(loss_fun=loss_fun, symmetric=symmetric, alpha=alpha)
    options = _solver(epsilon, max_iter, verbose, solver, numItermax, stopThr, warn)
    fixed = fixed_structure, fixed_features
    changes, losses, plans = [], [], []
    for step in _updates(spaces, data, options, tol, by_loss, warmstartT, *fixed):
        changes.append(step.changes)
        losses.append(step.loss)
        if log and not by_loss:
            plans.append(list(map(spaces.back, step.plans)))
    Y, C = spaces.back(step.Y), spaces.back(step.C)
    if not log:
        return Y, C
    if by_loss:
        lists = {"loss": losses, "err_rel_loss": [change for (change,) in changes]}
        return Y, C, spaces.log(step, lists)
    structures, features = (list(errors) for errors in zip(*changes, strict=True))
    lists = {"err_feature": features, "err_structure": structures}
    return Y, C, spaces.log(step, lists) | {"Ts_iter": plans}


class _Step(NamedTuple):
    """A barycenter, and the update that has made it."""

    C: NDArray[Any]
    Y: NDArray[Any] | None
    Ms: list[Any]  # costs between `Y` and the features of every space
    plans: list[NDArray[Any]]  # from the barycenter before the update
    loss: float  # of these plans
    changes: tuple[float, ...]  # what the criterion compares with the tolerance


def _updates(
    spaces,
    data,
    options,
    tol,
    by_loss,
    warm_start,
    fixed_structure=False,
    fixed_features=False,
):
    """Yield a `_Step` for every update of the barycenter.

    `data` is that of a `Problem` but for its arrays, `options` how to solve it.
    """
    tol, print_row = as_number(tol, "tol", zero=True), table()
    C, Y, Ms = spaces.C, spaces.Y, spaces.feature_costs(spaces.Y)
    no_plans = [None] * len(spaces.Cs)
    plans, loss = no_plans, 1e15
    for _ in range(as_limit(options["max_iter"], "max_iter")):
        former_C, former_Y, former_loss = C, Y, loss
        starts = plans if warm_start else no_plans
        plans, loss = spaces.transport(C, Ms, starts, data, options)
        if Y is not None and not fixed_features:
            Y = spaces.mean_features(plans)
            Ms = spaces.feature_costs(Y)
        if not fixed_structure:
            C = spaces.mean_structure(plans, data["loss_fun"])
        if by_loss:
            changes = (_relative_change(loss, former_loss),)
        elif Y is None:
            changes = (_distance(C, former_C),)
        else:
            changes = _distance(C, former_C), _distance(Y, former_Y)
        if options["verbose"]:
            print_row(*changes)
        yield _Step(C, Y, Ms, plans, loss, changes)
        # As in POT, nan stops too.
        if not max(changes) > tol:
            return


class _Spaces:
    """The spaces, and what is given of the barycenter, in arrays of one dtype."""

    def __init__(
        self, N, Cs, ps, p, lambdas, init_C, random_state, Ys=None, init_Y=None
    ):
        n, size = as_count(N, "N"), len(Cs)
        if not size:
            raise ValueError("Cs must not be empty")
        named = {"p": p, "init_C": init_C, "init_Y": init_Y}
        for name, xs in (("Cs", Cs), ("ps", ps), ("Ys", Ys)):
            named |= _named(name, xs, size)
        arrays = Arrays(named)
        self.dtype, self.back = arrays.dtype, arrays.back

        def matrix(name, check=as_matrix, **options):
            return check(arrays[name], name, **options).astype(self.dtype, copy=False)

        self.Cs = [matrix(f"Cs[{s}]", as_square) for s in range(size)]
        self.ps = [arrays[f"ps[{s}]"] for s in range(size)]
        self.p = np.full(n, 1 / n, dtype=self.dtype)
        if p is not None:
            self.p = as_vector(arrays["p"], "p", n).astype(self.dtype)
            if not (self.p > 0).all():
                raise ValueError("p must be positive: barycenters are divided by it")
        self.lambdas = np.full(size, 1 / size)
        if lambdas is not None:
            self.lambdas = as_vector(lambdas, "lambdas", size)
        self.Ys = self.Y = None
        if Ys is not None:
            columns = matrix("Ys[0]").shape[1]
            shapes = [(len(C), columns) for C in self.Cs]
            self.Ys = [matrix(f"Ys[{s}]", shape=x) for s, x in enumerate(shapes)]
            self.Y = np.zeros((n, columns), dtype=self.dtype)
            if init_Y is not None:
                self.Y = matrix("init_Y", shape=self.Y.shape)
        if init_C is not None:
            self.C = matrix("init_C", shape=(n, n))
        else:
            points = random_generator(random_state).randn(n, 2)
            self.C = cdist(points, points, "sqeuclidean").astype(self.dtype)
            if Ys is None:  # POT does so without features only
                self.C /= self.C.max()

    def feature_costs(self, Y):
        """Costs between `Y` and the features of every space, None without features."""
        if Y is None:
            return [None] * len(self.Cs)
        Ms = (cdist(Y, Y_s, "sqeuclidean") for Y_s in self.Ys)
        return [M.astype(self.dtype, copy=False) for M in Ms]

    def transport(self, C, Ms, starts, data, options):
        """Plans from the structure `C` to all spaces, and the loss they make."""
        plans, values = [], []
        for s, (C_s, p_s, M) in enumerate(zip(self.Cs, self.ps, Ms, strict=True)):
            names = {"C1": "init_C", "C2": f"Cs[{s}]", "q": f"ps[{s}]"}
            problem = Problem(
                C, C_s, self.p, p_s, M=M, G0=starts[s], names=names, **data
            )
            answer = problem.solve(**options)
            plans.append(answer.solved.plan)
            values.append(answer.value)
        return plans, float(np.sum(values))

    def mean_structure(self, plans, loss_fun):
        """The best structure for the plans."""
        kl, mean = loss_fun == "kl_loss", 0.0
        for weight, T, C in zip(self.lambdas, plans, self.Cs, strict=True):
            C = np.log(np.maximum(C, 1e-16)) if kl else C
            mean = mean + weight * (T @ C @ T.T)
        mean = mean / np.outer(self.p, self.p)
        return (np.exp(mean) if kl else mean).astype(self.dtype)

    def mean_features(self, plans):
        """The best features for the plans."""
        mean = 0.0
        for weight, T, Y in zip(self.lambdas, plans, self.Ys, strict=True):
            mean = mean + weight * (T @ Y)
        return (mean / self.p[:, None]).astype(self.dtype)

    def log(self, step, lists):
        """POT's log: lists of numbers by name, and what all barycenters have."""
        lists = lists | {"T": step.plans} | ({} if self.Y is None else {"Ms": step.Ms})
        entries = {name: list(map(self.back, x)) for name, x in lists.items()}
        return entries | {"p": self.back(self.p)}


def _named(name, xs, size):
    """Arrays of a list by their names; POT takes no lists in it, and warns of them."""
    if xs is None:
        return {}
    if len(xs) != size:
        raise ValueError(
            f"{name} must have as many arrays as Cs, {size}, got {len(xs)}"
        )
    for s, x in enumerate(xs):
        if isinstance(x, list | tuple):
            raise ValueError(f"{name}[{s}] must be an array, got a {type(x).__name__}")
    return {f"{name}[{s}]": x for s, x in enumerate(xs)}


def _solver(epsilon, max_iter, verbose, solver, numItermax, stopThr, warn):
    """Options of every solve."""
    return {
        "method": method_of(solver),
        "epsilon": epsilon,
        "max_iter": max_iter,
        "tol": PLAN_TOL,
        "verbose": verbose,
        "max_inner": numItermax,
        "inner_tol": stopThr,
        "warn": warn,
    }


def _distance(x, y):
    return float(np.linalg.norm(x - y))


def _relative_change(loss, former):
    return abs(loss - former) / former if former != 0 else np.nan


def _undefined(message):
    """A ValueError that is POT's `UndefinedParameter` too, where POT is in use."""
    utils = sys.modules.get("ot.utils")
    if utils is None:
        return ValueError(message)
    kind = type("UndefinedParameter", (ValueError, utils.UndefinedParameter), {})
    return kind(message)
