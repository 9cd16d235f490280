"""Barycenters of spaces, called as in POT: by turns plans to every space, and their barycenter."""

from __future__ import annotations

import dataclasses
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
from ._starts import PARTITIONS, STARTS, feature_centers, named_plan, random_generator
from .arrays import Arrays, as_costs, as_limit, as_number, pots_choice
from .call import Call, LossFun, Masses, Plan, Seed, Solver
from .exact import solve_all_exact

__all__ = [
    "entropic_fused_gromov_barycenters",
    "entropic_gromov_barycenters",
    "fgw_barycenters",
    "gromov_barycenters",
    "semirelaxed_fgw_barycenters",
    "semirelaxed_gromov_barycenters",
]
StopCriterion: TypeAlias = Literal["barycenter", "loss"]


class Barycenter(Spaces):
    """Spaces, weights, and a first structure `C`, features `Y` or None, plans `starts` or None."""

    keeps_plans = True  # whether logs have the plans of all updates
    _fixes_structure = _fixes_features = False

    def __init__(
        self,
        N,
        Cs,
        ps,
        p,
        lambdas,
        loss_fun,
        symmetric,
        inits,
        random_state,
        Ys=None,
        alpha=1.0,
        G0=None,
    ):
        n, size = as_count(N, "N"), len(Cs)
        inits = inits | {"init_C": as_costs(inits["init_C"], "init_C")}
        arrays = Arrays(listed(Cs=Cs, ps=ps, Ys=Ys) | {"p": p} | inits)
        self.back, self._lambdas = arrays.back, np.full(size, 1 / size)
        names = [(f"Cs[{s}]", f"Ys[{s}]", f"ps[{s}]") for s in range(size)]
        p = np.full(n, 1 / n) if p is None else as_vector(arrays["p"], "p", n)
        if not (p > 0).all():
            raise ValueError("p must be positive: barycenters are divided by it")
        super().__init__(arrays, names, p.astype(arrays.dtype), arrays.dtype)
        if lambdas is not None:
            self._lambdas = as_vector(lambdas, "lambdas", size)
        self.has_features, shapes = Ys is not None, [(n, n)]
        if self.has_features:
            self.Ys = np.concatenate(self.features)
            weighted = zip(self._lambdas, self.features, strict=True)
            self._weighted_Ys = np.concatenate([weight * Y for weight, Y in weighted])
            shapes.append((n, self.Ys.shape[1]))
        self._inits = {
            name: None if arrays[name] is None else as_matrix(arrays[name], name, shape=shape)
            for name, shape in zip(inits, shapes, strict=False)
        }
        first = (x if x is None else x.astype(self.dtype) for x in self._inits.values())
        options = dict(loss_fun=loss_fun, symmetric=symmetric, alpha=alpha)
        self._begin(options, random_state, G0, *first)

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

    def fix(self, structure, features):
        """Keep the first structure, or the first features, in all updates if so asked."""
        for is_fixed, name in zip((structure, features), self._inits, strict=False):
            if is_fixed and self._inits[name] is None:
                raise _undefined(f"{name} must be given if it is fixed")
        self._fixes_structure, self._fixes_features = structure, features

    def update(self, solve, max_iter, tol, stop_criterion, warmstartT, verbose, log):
        """Return features (if any), structure and POT's log; for `solve` see `one_by_one`."""
        pots_choice(stop_criterion, "stop_criterion", get_args(StopCriterion))
        tol, print_row = as_number(tol, "tol", zero=True), table()
        by_loss, everything = stop_criterion == "loss", range(len(self.costs))
        C, Y, plans = self.C, self.Y, self.starts
        # The plans are from the barycenter before an update, and so are the losses.
        losses, changes, iterates = [1e15], [], []
        with single_threaded_blas():
            for _ in range(as_limit(max_iter, "max_iter")):
                starts = plans if warmstartT and plans else [None] * len(self.costs)
                plans, plan_losses = solve(
                    C[None], None if Y is None else Y[None], starts, everything
                )
                together = self.joined(plans)
                losses.append(float(sum(plan_losses)))
                former_C, former_Y = C, Y
                if self.has_features and not self._fixes_features:
                    Y = self.mean_features(together)
                if not self._fixes_structure:
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
        results = [self.back(x) for x in (Y, C) if x is not None]
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
            results.append(entries)
        return tuple(results) if len(results) > 1 else results[0]

    def joined(self, plans):
        """Return plans side by side."""
        return np.concatenate(plans, axis=1)


def _undefined(message):
    """Return a ValueError that is POT's `UndefinedParameter` too, if POT is in use."""
    utils = sys.modules.get("ot.utils")
    if utils is None:
        return ValueError(message)
    return type("UndefinedParameter", (ValueError, utils.UndefinedParameter), {})(message)


class SemirelaxedBarycenter(Barycenter):
    """A barycenter with other masses in each space: plans lead to it, and are joined transposed."""

    keeps_plans, field, side = False, "y", "C2"

    def _begin(self, options, random_state, G0, C, Y=None):
        """Begin as POT: plans by a name, and from them the rest."""
        pots_choice(G0, "G0", STARTS + PARTITIONS)
        self._weigh(takes_logs=False)
        n, clusters = len(self.p), G0 in PARTITIONS
        named = options | dict(G0=G0, random_state=random_state, use_target=C is not None)
        if Y is None and self.has_features and clusters:
            Y = feature_centers(self.Ys, n, random_state).astype(self.dtype, copy=False)
        starts, structure = [None] * len(self.costs), C
        if C is None:
            structure = np.zeros((n, n), dtype=self.dtype)
            starts = [np.zeros((len(cost), n), dtype=self.dtype) for cost in self.costs]
        # Smaller spaces are matched to the clusters of the larger spaces.
        for expands in (False, True):
            for s, cost in enumerate(self.costs):
                if expands == (len(cost) <= n):
                    starts[s] = self.call(s, structure, Y if clusters else None, {}, **named).G0
            if C is None:
                structure = self.mean_structure(self.joined(starts))
        if C is None and G0 in ("product", "random_product"):
            # A constant structure would stay constant.
            noise = random_generator(random_state).uniform(-0.01, 0.01, size=(n, n))
            noise = (noise + noise.T) / 2 if options["symmetric"] else noise
            structure = (structure + noise).astype(self.dtype, copy=False)
        if Y is None and self.has_features:
            Y = self.mean_features(self.joined(starts))
        self.C, self.Y, self.starts, self._method = structure, Y, starts, G0
        self.calls = [self.call(s, structure, Y, {}, **options) for s in range(len(self.costs))]

    def call(self, s, C, Y, names, **options):
        cost, _, masses = self._names[s]
        names = {"C1": cost, "C2": "init_C", "p": masses}
        sides, M = (self.costs[s], C, self._masses[s]), self.costs_between(Y, s)
        return Call.of(*sides, M=M, marginals="semirelaxed", names=names, **options)

    def calls_at(self, Cs, Ys, starts, numbers):
        # As in POT, plans by name are made again for each barycenter.
        calls = super().calls_at(Cs, Ys, starts, numbers)
        for k, call in enumerate(calls):
            if call.G0 is None:
                calls[k] = dataclasses.replace(call, G0=named_plan(call, self._method, 0, True))
        return calls

    def costs_between(self, Y, s):
        M = super().costs_between(Y, s)
        return None if M is None else np.ascontiguousarray(M.T)

    def _divisors(self, plans):
        masses = self.masses(plans)
        points, pairs = self._lambdas @ masses, (self._lambdas * masses.T) @ masses
        # Points that no space gives mass to are zero.
        return tuple(np.where(x > 0, x, 1.0) for x in (points, pairs))

    def masses(self, plans):
        return np.add.reduceat(plans, [part.start for part in self.parts], axis=1).T

    def joined(self, plans):
        return np.concatenate([plan.T for plan in plans], axis=1)


def _entropic_plans(spaces, epsilon, max_iter, solver, numItermax, stopThr, verbose, warn):
    """Return a function as `one_by_one` for problems with entropy."""
    return one_by_one(
        spaces,
        solve_all,
        epsilon=epsilon,
        max_iter=max_iter,
        tol=1e-4,
        solver=solver,
        numItermax=numItermax,
        stopThr=stopThr,
        verbose=verbose,
        warn=warn,
    )


def entropic_gromov_barycenters(
    N: int,
    Cs: Sequence[CostLike],
    ps: Sequence[ArrayLike] | None = None,
    p: Masses = None,
    lambdas: Masses = None,
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
    random_state: Seed = None,
    *,
    solver: Solver = "PGD",
    warmstart: bool = False,
    numItermax: float = 1000,
    stopThr: float = 1e-9,
    warn: bool = True,
) -> Plan:
    """Return the entropic Gromov-Wasserstein barycenter of spaces, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.entropic_gromov_barycenters>`__.
    For other parameters see `entropic_gromov_wasserstein`.

    Parameters
    ----------
    N, Cs, ps, p, lambdas : int, S arrays (ns, ns) or graphs, S arrays (ns,), array (N,), S floats
        Number of points of the barycenter, the spaces, masses of both and weights of the spaces,
        uniform by default.
    max_iter, tol, stop_criterion : int, float, {"barycenter", "loss"}
        Limit of updates, and of outer iterations for the plans of an update; and the change of the
        barycenter (Frobenius norm), or relative change of the loss, at which updates stop.
    warmstartT : bool, default=False
        Whether the plans of an update start from the plans of the last update.
    init_C, random_state : array of shape (N, N), optional, and int, RandomState or None
        Default are squared distances of random points, by POT's random numbers.

    Returns
    -------
    C, log : array of shape (N, N), and if asked for a dict
        It has "err", with the criterion "loss" also "loss", the plans "T", and "p".
    """
    inits = {"init_C": init_C}
    spaces = Barycenter(N, Cs, ps, p, lambdas, loss_fun, symmetric, inits, random_state)
    solve = _entropic_plans(spaces, epsilon, max_iter, solver, numItermax, stopThr, verbose, warn)
    return spaces.update(solve, max_iter, tol, stop_criterion, warmstartT, verbose, log)


def entropic_fused_gromov_barycenters(
    N: int,
    Ys: Sequence[ArrayLike],
    Cs: Sequence[CostLike],
    ps: Sequence[ArrayLike] | None = None,
    p: Masses = None,
    lambdas: Masses = None,
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
    random_state: Seed = None,
    *,
    solver: Solver = "PGD",
    warmstart: bool = False,
    numItermax: float = 1000,
    stopThr: float = 1e-9,
    warn: bool = True,
) -> tuple[Any, ...]:
    """Return the entropic fused Gromov-Wasserstein barycenter of spaces, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.entropic_fused_gromov_barycenters>`__,
    but with features that are updated, which POT 0.9.7 returns as they began. For other parameters
    see `entropic_gromov_barycenters`.

    Parameters
    ----------
    Ys, init_Y, alpha : S arrays (ns, d), array (N, d), optional, and float, default=0.5
        Features of the points, and of the first barycenter (zeros); weight of the structures.
    fixed_structure, fixed_features : bool, default=False
        Whether `init_C`, or `init_Y`, stays as it is.

    Returns
    -------
    Y, C, log : arrays of shape (N, d) and (N, N), and if asked for a dict
        It has "err_feature", "err_structure" and "Ts_iter", or with the criterion "loss" "loss" and
        "err_rel_loss"; the plans "T", "p", and "Ms", the costs between features.
    """
    inits = {"init_C": init_C, "init_Y": init_Y}
    spaces = Barycenter(N, Cs, ps, p, lambdas, loss_fun, symmetric, inits, random_state, Ys, alpha)
    solve = _entropic_plans(spaces, epsilon, max_iter, solver, numItermax, stopThr, verbose, warn)
    spaces.fix(fixed_structure, fixed_features)
    return spaces.update(solve, max_iter, tol, stop_criterion, warmstartT, verbose, log)


def gromov_barycenters(
    N: int,
    Cs: Sequence[CostLike],
    ps: Sequence[ArrayLike] | None = None,
    p: Masses = None,
    lambdas: Masses = None,
    loss_fun: LossFun = "square_loss",
    symmetric: bool | None = True,
    armijo: bool = False,
    max_iter: float = 1000,
    tol: float = 1e-9,
    stop_criterion: StopCriterion = "barycenter",
    warmstartT: bool = False,
    verbose: bool = False,
    log: bool = False,
    init_C: ArrayLike | None = None,
    random_state: Seed = None,
    *,
    numItermaxEmd: float = 100_000,
) -> Plan:
    """Return the Gromov-Wasserstein barycenter of spaces without entropy, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.gromov_barycenters>`__.
    For parameters and results see `entropic_gromov_barycenters` and `gromov_wasserstein`.
    """
    inits = {"init_C": init_C}
    spaces = Barycenter(N, Cs, ps, p, lambdas, loss_fun, symmetric, inits, random_state)
    solve = exact_plans(spaces, max_iter, 1e-5, verbose)
    return spaces.update(solve, max_iter, tol, stop_criterion, warmstartT, verbose, log)


def fgw_barycenters(
    N: int,
    Ys: Sequence[ArrayLike],
    Cs: Sequence[CostLike],
    ps: Sequence[ArrayLike] | None = None,
    lambdas: Masses = None,
    alpha: float = 0.5,
    fixed_structure: bool = False,
    fixed_features: bool = False,
    p: Masses = None,
    loss_fun: LossFun = "square_loss",
    armijo: bool = False,
    symmetric: bool | None = True,
    max_iter: float = 100,
    tol: float = 1e-9,
    stop_criterion: StopCriterion = "barycenter",
    warmstartT: bool = False,
    verbose: bool = False,
    log: bool = False,
    init_C: ArrayLike | None = None,
    init_X: ArrayLike | None = None,
    random_state: Seed = None,
    *,
    numItermaxEmd: float = 100_000,
) -> tuple[Any, ...]:
    """Return the fused Gromov-Wasserstein barycenter of spaces without entropy, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.fgw_barycenters>`__.
    For results and other parameters see `entropic_fused_gromov_barycenters` and
    `gromov_barycenters`.

    Parameters
    ----------
    init_X : array-like of shape (N, d), optional
        Features of the first barycenter, zeros by default.
    """
    inits = {"init_C": init_C, "init_X": init_X}
    spaces = Barycenter(N, Cs, ps, p, lambdas, loss_fun, symmetric, inits, random_state, Ys, alpha)
    solve = exact_plans(spaces, max_iter, 1e-5, verbose)
    spaces.fix(fixed_structure, fixed_features)
    return spaces.update(solve, max_iter, tol, stop_criterion, warmstartT, verbose, log)


def semirelaxed_gromov_barycenters(
    N: int,
    Cs: Sequence[CostLike],
    ps: Sequence[ArrayLike] | None = None,
    lambdas: Masses = None,
    loss_fun: LossFun = "square_loss",
    symmetric: bool | None = True,
    max_iter: float = 1000,
    tol: float = 1e-9,
    stop_criterion: StopCriterion = "barycenter",
    warmstartT: bool = False,
    verbose: bool = False,
    log: bool = False,
    init_C: ArrayLike | None = None,
    G0: str = "product",
    random_state: Seed = None,
) -> Plan:
    """Return the semi-relaxed Gromov-Wasserstein barycenter of spaces without entropy, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.semirelaxed_gromov_barycenters>`__.
    For other parameters see `entropic_gromov_barycenters`.

    Parameters
    ----------
    G0, init_C : str, default="product", and array of shape (N, N), optional
        Plans to start from: "product", "random_product" or "random", or by clusters (with POT)
        "fluid", "spectral", "kmeans", "fluid_soft", "spectral_soft" or "kmeans_soft". Default is
        the structure of these plans, with a little noise if they are products.

    Returns
    -------
    C, log : array of shape (N, N), zero between points that no space takes together, and dict
        As of `entropic_gromov_barycenters`, with plans "T" of shape (ns, N), and "p" of shape
        (S, N), the masses that each space gives.
    """
    inits = {"init_C": init_C}
    spaces = SemirelaxedBarycenter(
        N, Cs, ps, None, lambdas, loss_fun, symmetric, inits, random_state, G0=G0
    )
    solve = one_by_one(spaces, solve_all_exact, max_iter=max_iter, tol_rel=tol, verbose=verbose)
    return spaces.update(solve, max_iter, tol, stop_criterion, warmstartT, verbose, log)


def semirelaxed_fgw_barycenters(
    N: int,
    Ys: Sequence[ArrayLike],
    Cs: Sequence[CostLike],
    ps: Sequence[ArrayLike] | None = None,
    lambdas: Masses = None,
    alpha: float = 0.5,
    fixed_structure: bool = False,
    fixed_features: bool = False,
    p: Masses = None,
    loss_fun: LossFun = "square_loss",
    symmetric: bool | None = True,
    max_iter: float = 100,
    tol: float = 1e-9,
    stop_criterion: StopCriterion = "barycenter",
    warmstartT: bool = False,
    verbose: bool = False,
    log: bool = False,
    init_C: ArrayLike | None = None,
    init_X: ArrayLike | None = None,
    G0: str = "product",
    random_state: Seed = None,
) -> tuple[Any, ...]:
    """Return the semi-relaxed fused Gromov-Wasserstein barycenter without entropy, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.semirelaxed_fgw_barycenters>`__.
    For results and other parameters see `semirelaxed_gromov_barycenters` and `fgw_barycenters`.

    Parameters
    ----------
    p, init_X : arrays of shape (N,) and (N, d), optional
        `p` is without effect, as in POT. Features are by default the features of the plans, or with
        clusters centers by scikit-learn.
    """
    inits = {"init_C": init_C, "init_X": init_X}
    spaces = SemirelaxedBarycenter(
        N, Cs, ps, None, lambdas, loss_fun, symmetric, inits, random_state, Ys, alpha, G0
    )
    solve = one_by_one(spaces, solve_all_exact, max_iter=max_iter, tol_rel=tol, verbose=verbose)
    spaces.fix(fixed_structure, fixed_features)
    return spaces.update(solve, max_iter, tol, stop_criterion, warmstartT, verbose, log)
