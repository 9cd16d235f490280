"""Barycenters of spaces as POT makes them: in turn, plans from the barycenter to every
space, and the barycenter that suits these plans.
"""

from __future__ import annotations

import sys
from typing import Literal, TypeAlias, get_args

import numpy as np
from scipy.spatial.distance import cdist

from ..utils.validation import as_count, as_matrix, as_square, as_vector
from ._problem import Problem
from ._solve import table
from ._starts import random_generator
from .arrays import Arrays, as_costs, as_limit, as_number, pots_choice

StopCriterion: TypeAlias = Literal["barycenter", "loss"]
CRITERIA = get_args(StopCriterion)


def barycenter(given, solve, *, features="init_Y", **tolerances):
    """What POT returns, for the arguments of a call.

    ``solve(problem)`` is the `Answer` to a `Problem`, whose tolerances are these.
    `features` is the argument that has the first features.
    """
    _check(given, features)
    spaces = _Spaces(given, features)
    tol, print_row = as_number(given["tol"], "tol", zero=True), table()
    by_loss, fused = given["stop_criterion"] == "loss", spaces.Y is not None
    C, Y, Ms = spaces.C, spaces.Y, spaces.feature_costs(spaces.Y)
    no_plans = plans = [None] * len(spaces.Cs)
    # The plans are from the barycenter before an update, and so are the losses.
    losses, changes, iterates = [1e15], [], []
    for _ in range(as_limit(given["max_iter"], "max_iter")):
        starts = plans if given["warmstartT"] else no_plans
        problems = spaces.problems(C, Ms, starts, given | tolerances)
        answers = [solve(problem) for problem in problems]
        plans = [answer.plan for answer in answers]
        losses.append(float(np.sum([answer.value for answer in answers])))
        former_C, former_Y = C, Y
        if fused and not given["fixed_features"]:
            Y = spaces.mean_features(plans)
            Ms = spaces.feature_costs(Y)
        if not given.get("fixed_structure"):
            C = spaces.mean_structure(plans, given["loss_fun"])
        if by_loss:
            former, change = losses[-2], abs(losses[-1] - losses[-2])
            changes.append((change / former if former != 0 else np.nan,))
        else:
            pairs = ((C, former_C), (Y, former_Y)) if fused else ((C, former_C),)
            changes.append([float(np.linalg.norm(x - y)) for x, y in pairs])
        if given["log"] and fused and not by_loss:
            iterates.append(list(map(spaces.back, plans)))
        if given["verbose"]:
            print_row(*changes[-1])
        # As in POT, nan stops too.
        if not max(changes[-1]) > tol:
            break
    found = [spaces.back(x) for x in (Y, C) if x is not None]
    if given["log"]:
        lists = {"T": plans} | ({"Ms": Ms} if fused else {})
        found.append(_log(spaces, lists, losses[1:], changes, iterates, by_loss))
    return tuple(found) if len(found) > 1 else found[0]


def _log(spaces, lists, losses, changes, iterates, by_loss):
    """POT's log, which has these lists."""
    errors = list(zip(*changes, strict=True))
    if spaces.Y is None:
        lists |= {"err": errors[0]} | ({"loss": losses} if by_loss else {})
    elif by_loss:
        lists |= {"loss": losses, "err_rel_loss": errors[0]}
    else:
        lists |= {"err_feature": errors[1], "err_structure": errors[0]}
    log = {name: list(map(spaces.back, x)) for name, x in lists.items()}
    log["p"] = spaces.back(spaces.p)
    return log | ({"Ts_iter": iterates} if len(changes[0]) > 1 else {})


def _check(given, features):
    """The errors of POT, where there is something wrong."""
    pots_choice(given["stop_criterion"], "stop_criterion", CRITERIA)
    for fixed, name in (("fixed_structure", "init_C"), ("fixed_features", features)):
        if given.get(fixed) and given[name] is None:
            raise _undefined(f"{name} must be given where {fixed}=True")


class _Spaces:
    """The spaces, and what is given of the barycenter, in arrays of one dtype."""

    def __init__(self, given, features):
        n, size, Ys = as_count(given["N"], "N"), len(given["Cs"]), given.get("Ys")
        if not size:
            raise ValueError("Cs must not be empty")
        Cs = [as_costs(C, f"Cs[{s}]") for s, C in enumerate(given["Cs"])]
        init_C, init_Y = as_costs(given["init_C"], "init_C"), given.get(features)
        named = {"p": given["p"], "init_C": init_C, features: init_Y}
        for name, xs in (("Cs", Cs), ("ps", given["ps"]), ("Ys", Ys)):
            named |= _named(name, xs, size)
        arrays = Arrays(named)
        self.dtype, self.back = arrays.dtype, arrays.back

        def matrix(name, check=as_matrix, **options):
            return check(arrays[name], name, **options).astype(self.dtype, copy=False)

        self.Cs = [matrix(f"Cs[{s}]", as_square) for s in range(size)]
        self.ps = [arrays[f"ps[{s}]"] for s in range(size)]
        self.p = np.full(n, 1 / n, dtype=self.dtype)
        if given["p"] is not None:
            self.p = as_vector(arrays["p"], "p", n).astype(self.dtype)
            if not (self.p > 0).all():
                raise ValueError("p must be positive: barycenters are divided by it")
        self.lambdas = np.full(size, 1 / size)
        if given["lambdas"] is not None:
            self.lambdas = as_vector(given["lambdas"], "lambdas", size)
        self.Ys = self.Y = None
        if Ys is not None:
            columns = matrix("Ys[0]").shape[1]
            shapes = [(len(C), columns) for C in self.Cs]
            self.Ys = [matrix(f"Ys[{s}]", shape=x) for s, x in enumerate(shapes)]
            self.Y = np.zeros((n, columns), dtype=self.dtype)
            if init_Y is not None:
                self.Y = matrix(features, shape=self.Y.shape)
        if init_C is not None:
            self.C = matrix("init_C", shape=(n, n))
        else:
            points = random_generator(given["random_state"]).randn(n, 2)
            self.C = cdist(points, points, "sqeuclidean").astype(self.dtype)
            if Ys is None:  # POT does so without features only
                self.C /= self.C.max()

    def feature_costs(self, Y):
        """Costs between `Y` and the features of every space, None without features."""
        if Y is None:
            return [None] * len(self.Cs)
        Ms = (cdist(Y, Y_s, "sqeuclidean") for Y_s in self.Ys)
        return [M.astype(self.dtype, copy=False) for M in Ms]

    def problems(self, C, Ms, starts, given):
        """The `Problem` of the structure `C` and each space."""
        for s, (C_s, p_s, M) in enumerate(zip(self.Cs, self.ps, Ms, strict=True)):
            names = {"C1": "init_C", "C2": f"Cs[{s}]", "q": f"ps[{s}]"}
            arrays = {"init_C": C, names["C2"]: C_s, "p": self.p, names["q"]: p_s}
            yield Problem(given | arrays | {"M": M, "G0": starts[s]}, names=names)

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


def _undefined(message):
    """A ValueError that is POT's `UndefinedParameter` too, where POT is in use."""
    utils = sys.modules.get("ot.utils")
    if utils is None:
        return ValueError(message)
    kind = type("UndefinedParameter", (ValueError, utils.UndefinedParameter), {})
    return kind(message)
