"""Barycenters of spaces as POT makes them: in turn, plans from the barycenter to every
space, and the barycenter that suits these plans.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from ..utils.validation import as_count, as_matrix, as_square, as_vector
from ._problem import Answer, Problem, pots_choice, random_generator, table
from .arrays import Arrays, as_costs, as_limit, as_number

StopCriterion: TypeAlias = Literal["barycenter", "loss"]
CRITERIA = get_args(StopCriterion)


class _Step(NamedTuple):
    """A barycenter, and the update that has made it."""

    C: NDArray[Any]
    Y: NDArray[Any] | None
    Ms: list[Any]  # costs between `Y` and the features of every space
    plans: list[NDArray[Any]]  # from the barycenter before the update
    loss: float  # of these plans
    changes: tuple[float, ...]  # what the criterion compares with the tolerance


@dataclasses.dataclass(frozen=True)
class Rules:
    """How a barycenter is updated, and until when.

    Attributes
    ----------
    solve : callable
        The `Answer` to a `Problem`.
    data : dict
        That of a `Problem` but for its arrays.
    stop_criterion, max_iter, tol, warmstartT, verbose, fixed_structure, fixed_features
        See `entropic_fused_gromov_barycenters`.
    """

    solve: Callable[[Problem], Answer]
    data: dict[str, Any]
    stop_criterion: str
    max_iter: float
    tol: float
    warmstartT: bool
    verbose: bool
    fixed_structure: bool = False
    fixed_features: bool = False

    def check(self, init_C, init_Y, name_Y="init_Y"):
        """The errors of POT, where there is something wrong."""
        pots_choice(self.stop_criterion, "stop_criterion", CRITERIA)
        for fixed, name, given in (
            ("structure", "init_C", init_C), ("features", name_Y, init_Y)
        ):  # fmt: skip
            if getattr(self, f"fixed_{fixed}") and given is None:
                raise _undefined(f"{name} must be given where fixed_{fixed}=True")

    @property
    def by_loss(self):
        return self.stop_criterion == "loss"


def structure(spaces, rules, log):
    """What POT returns of a barycenter without features."""
    errors, losses = [], []
    for step in _updates(spaces, rules):
        errors += step.changes
        losses.append(step.loss)
    C = spaces.back(step.C)
    if not log:
        return C
    lists = {"err": errors, "loss": losses} if rules.by_loss else {"err": errors}
    return C, spaces.log(step, lists)


def structure_and_features(spaces, rules, log):
    """What POT returns of a barycenter with features."""
    changes, losses, plans = [], [], []
    for step in _updates(spaces, rules):
        changes.append(step.changes)
        losses.append(step.loss)
        if log and not rules.by_loss:
            plans.append(list(map(spaces.back, step.plans)))
    Y, C = spaces.back(step.Y), spaces.back(step.C)
    if not log:
        return Y, C
    if rules.by_loss:
        lists = {"loss": losses, "err_rel_loss": [change for (change,) in changes]}
        return Y, C, spaces.log(step, lists)
    structures, features = (list(errors) for errors in zip(*changes, strict=True))
    lists = {"err_feature": features, "err_structure": structures}
    return Y, C, spaces.log(step, lists) | {"Ts_iter": plans}


def _updates(spaces, rules):
    """Yield a `_Step` for every update of the barycenter."""
    tol, print_row = as_number(rules.tol, "tol", zero=True), table()
    C, Y, Ms = spaces.C, spaces.Y, spaces.feature_costs(spaces.Y)
    no_plans = [None] * len(spaces.Cs)
    plans, loss = no_plans, 1e15
    for _ in range(as_limit(rules.max_iter, "max_iter")):
        former_C, former_Y, former_loss = C, Y, loss
        starts = plans if rules.warmstartT else no_plans
        plans, loss = spaces.transport(C, Ms, starts, rules)
        if Y is not None and not rules.fixed_features:
            Y = spaces.mean_features(plans)
            Ms = spaces.feature_costs(Y)
        if not rules.fixed_structure:
            C = spaces.mean_structure(plans, rules.data["loss_fun"])
        if rules.by_loss:
            changes = (_relative_change(loss, former_loss),)
        elif Y is None:
            changes = (_distance(C, former_C),)
        else:
            changes = _distance(C, former_C), _distance(Y, former_Y)
        if rules.verbose:
            print_row(*changes)
        yield _Step(C, Y, Ms, plans, loss, changes)
        # As in POT, nan stops too.
        if not max(changes) > tol:
            return


class Spaces:
    """The spaces, and what is given of the barycenter, in arrays of one dtype."""

    def __init__(
        self,
        N,
        Cs,
        ps,
        p,
        lambdas,
        init_C,
        random_state,
        Ys=None,
        init_Y=None,
        name_Y="init_Y",
    ):
        n, size = as_count(N, "N"), len(Cs)
        if not size:
            raise ValueError("Cs must not be empty")
        Cs = [as_costs(C, f"Cs[{s}]") for s, C in enumerate(Cs)]
        named = {"p": p, "init_C": as_costs(init_C, "init_C"), name_Y: init_Y}
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
                self.Y = matrix(name_Y, shape=self.Y.shape)
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

    def transport(self, C, Ms, starts, rules):
        """Plans from the structure `C` to all spaces, and the loss they make."""
        plans, values = [], []
        for s, (C_s, p_s, M) in enumerate(zip(self.Cs, self.ps, Ms, strict=True)):
            names = {"C1": "init_C", "C2": f"Cs[{s}]", "q": f"ps[{s}]"}
            problem = Problem(
                C, C_s, self.p, p_s, M=M, G0=starts[s], names=names, **rules.data
            )
            answer = rules.solve(problem)
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
