"""Barycenters of spaces, called as in POT: plans from the barycenter as it is to every
space, and the barycenter that suits them, in turn.
"""

import sys

import numpy as np
from scipy.spatial.distance import cdist

from ..utils.validation import as_count, as_matrix, as_square, as_vector
from ._problem import Problem, Table, one_of, random_generator
from .arrays import Arrays, as_limit, as_number
from .balanced import METHODS

CRITERIA = ("barycenter", "loss")
# To which plans are solved for a barycenter that is not the last one; POT's.
PLAN_TOL = 1e-4


def entropic_gromov_barycenters(
    N,
    Cs,
    ps=None,
    p=None,
    lambdas=None,
    loss_fun="square_loss",
    epsilon=0.1,
    symmetric=True,
    max_iter=1000,
    tol=1e-9,
    stop_criterion="barycenter",
    warmstartT=False,
    verbose=False,
    log=False,
    init_C=None,
    random_state=None,
    *,
    solver="PGD",
    warmstart=False,
    numItermax=1000,
    stopThr=1e-9,
    warn=True,
):
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
    by_loss = one_of(stop_criterion, "stop_criterion", CRITERIA) == "loss"
    spaces = _Spaces(N, Cs, ps, p, lambdas, init_C)
    spaces.problem = {"loss_fun": loss_fun, "symmetric": symmetric}
    spaces.solver = _solver(
        epsilon, max_iter, verbose, solver, numItermax, stopThr, warn
    )
    if spaces.C is None:
        spaces.C = _random_structure(spaces, random_state)
        spaces.C /= spaces.C.max()
    tol, errors, losses = as_number(tol, "tol", zero=True), [], []
    table, last_loss = Table(), 1e15
    for _ in range(as_limit(max_iter, "max_iter")):
        spaces.transport(warmstartT)
        change = spaces.update_structure()
        if by_loss:
            change, last_loss = _relative(spaces.loss, last_loss), spaces.loss
            losses.append(last_loss)
        errors.append(change)
        if verbose:
            table.add(change)
        # As in POT, nan stops too.
        if not change > tol:
            break
    C = spaces.back(spaces.C)
    if not log:
        return C
    entries = {"err": spaces.back_each(errors)}
    if by_loss:
        entries["loss"] = spaces.back_each(losses)
    return C, entries | spaces.log()


def entropic_fused_gromov_barycenters(
    N,
    Ys,
    Cs,
    ps=None,
    p=None,
    lambdas=None,
    loss_fun="square_loss",
    epsilon=0.1,
    symmetric=True,
    alpha=0.5,
    max_iter=1000,
    tol=1e-9,
    stop_criterion="barycenter",
    warmstartT=False,
    verbose=False,
    log=False,
    init_C=None,
    init_Y=None,
    fixed_structure=False,
    fixed_features=False,
    random_state=None,
    *,
    solver="PGD",
    warmstart=False,
    numItermax=1000,
    stopThr=1e-9,
    warn=True,
):
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
    by_loss = one_of(stop_criterion, "stop_criterion", CRITERIA) == "loss"
    if fixed_structure and init_C is None:
        raise _undefined("init_C must be given where fixed_structure=True")
    if fixed_features and init_Y is None:
        raise _undefined("init_Y must be given where fixed_features=True")
    spaces = _Spaces(N, Cs, ps, p, lambdas, init_C, Ys, init_Y)
    spaces.problem = {"loss_fun": loss_fun, "symmetric": symmetric, "alpha": alpha}
    spaces.solver = _solver(
        epsilon, max_iter, verbose, solver, numItermax, stopThr, warn
    )
    if spaces.C is None:
        spaces.C = _random_structure(spaces, random_state)
    tol, table, last_loss = as_number(tol, "tol", zero=True), Table(), 1e15
    features, structures, plans, losses, relative = [], [], [], [], []
    for _ in range(as_limit(max_iter, "max_iter")):
        spaces.transport(warmstartT)
        features.append(0.0 if fixed_features else spaces.update_features())
        structures.append(0.0 if fixed_structure else spaces.update_structure())
        changes = structures[-1], features[-1]
        if by_loss:
            changes = (_relative(spaces.loss, last_loss),)
            last_loss = spaces.loss
            losses.append(last_loss)
            relative.append(changes[0])
        elif log:
            plans.append(list(map(spaces.back, spaces.plans)))
        if verbose:
            table.add(*changes)
        if not max(changes) > tol:
            break
    Y, C = spaces.back(spaces.Y), spaces.back(spaces.C)
    if not log:
        return Y, C
    if by_loss:
        entries = {"loss": losses, "err_rel_loss": relative}
    else:
        entries = {"err_feature": features, "err_structure": structures}
    entries = {name: spaces.back_each(x) for name, x in entries.items()}
    if not by_loss:
        entries["Ts_iter"] = plans
    entries["Ms"] = list(map(spaces.back, spaces.Ms))
    return Y, C, entries | spaces.log()


class _Spaces:
    """The spaces, and the barycenter as it is."""

    def __init__(self, N, Cs, ps, p, lambdas, init_C, Ys=None, init_Y=None):
        self.n, size = as_count(N, "N"), len(Cs)
        if not size:
            raise ValueError("Cs must not be empty")
        named = {"p": p, "init_C": init_C, "init_Y": init_Y}
        for name, xs in (("Cs", Cs), ("ps", ps), ("Ys", Ys)):
            named |= _named(name, xs, size)
        arrays = Arrays(named)
        self.dtype, self.back, self.back_each = (
            arrays.dtype,
            arrays.back,
            arrays.back_each,
        )

        def matrix(name, check=as_matrix, **options):
            return check(arrays[name], name, **options).astype(self.dtype, copy=False)

        self.Cs = [matrix(f"Cs[{s}]", as_square) for s in range(size)]
        self.C = None
        if init_C is not None:
            self.C = matrix("init_C", shape=(self.n, self.n))
        self.ps = [arrays[f"ps[{s}]"] for s in range(size)]
        self.p = np.full(self.n, 1 / self.n, dtype=self.dtype)
        if p is not None:
            self.p = as_vector(arrays["p"], "p", self.n).astype(self.dtype)
            if not (self.p > 0).all():
                raise ValueError("p must be positive: barycenters are divided by it")
        self.lambdas = np.full(size, 1 / size)
        if lambdas is not None:
            self.lambdas = as_vector(lambdas, "lambdas", size)
        self.plans, self.Ms, self.loss = [None] * size, [None] * size, None
        self.Y = None
        if Ys is not None:
            columns = matrix("Ys[0]").shape[1]
            self.Ys = [
                matrix(f"Ys[{s}]", shape=(len(C), columns))
                for s, C in enumerate(self.Cs)
            ]
            self.Y = np.zeros((self.n, columns), dtype=self.dtype)
            if init_Y is not None:
                self.Y = matrix("init_Y", shape=self.Y.shape)
            self._compare_features()

    def _compare_features(self):
        Ms = (cdist(self.Y, Y, "sqeuclidean") for Y in self.Ys)
        self.Ms = [M.astype(self.dtype, copy=False) for M in Ms]

    def transport(self, warmstart):
        """Plans to all spaces, and the loss they make."""
        values = []
        for s, (C, p, M) in enumerate(zip(self.Cs, self.ps, self.Ms, strict=True)):
            names = {"C1": "init_C", "C2": f"Cs[{s}]", "q": f"ps[{s}]"}
            problem = Problem(
                self.C,
                C,
                self.p,
                p,
                M=M,
                G0=self.plans[s] if warmstart else None,
                names=names,
                **self.problem,
            )
            answer = problem.solve(**self.solver)
            self.plans[s] = answer.solved.plan
            values.append(answer.value)
        self.loss = float(np.sum(values))

    def update_structure(self):
        """The best structure for the plans; returns how much it changed."""
        kl, mean = self.problem["loss_fun"] == "kl_loss", 0.0
        for weight, T, C in zip(self.lambdas, self.plans, self.Cs, strict=True):
            C = np.log(np.maximum(C, 1e-16)) if kl else C
            mean = mean + weight * (T @ C @ T.T)
        mean = mean / np.outer(self.p, self.p)
        C, self.C = self.C, (np.exp(mean) if kl else mean).astype(self.dtype)
        return float(np.linalg.norm(self.C - C))

    def update_features(self):
        """The best features for the plans; returns how much they changed."""
        mean = 0.0
        for weight, T, Y in zip(self.lambdas, self.plans, self.Ys, strict=True):
            mean = mean + weight * (T @ Y)
        Y, self.Y = self.Y, (mean / self.p[:, None]).astype(self.dtype)
        self._compare_features()
        return float(np.linalg.norm(self.Y - Y))

    def log(self):
        return {"T": list(map(self.back, self.plans)), "p": self.back(self.p)}


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
    one_of(solver, "solver", METHODS)
    return {
        "method": METHODS[solver],
        "epsilon": epsilon,
        "max_iter": max_iter,
        "tol": PLAN_TOL,
        "verbose": verbose,
        "max_inner": numItermax,
        "inner_tol": stopThr,
        "warn": warn,
    }


def _random_structure(spaces, random_state):
    """Squared distances of the points that POT would take."""
    points = random_generator(random_state).randn(spaces.n, 2)
    return cdist(points, points, "sqeuclidean").astype(spaces.dtype)


def _relative(loss, last):
    return abs(loss - last) / last if last != 0 else np.nan


def _undefined(message):
    """A ValueError that is POT's `UndefinedParameter` too, where POT is in use."""
    utils = sys.modules.get("ot.utils")
    if utils is None:
        return ValueError(message)
    kind = type("UndefinedParameter", (ValueError, utils.UndefinedParameter), {})
    return kind(message)
