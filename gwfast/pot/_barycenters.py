"""Barycenters of spaces as POT makes them: in turn, plans from the barycenter to every
space, and the barycenter that suits these plans.
"""

from __future__ import annotations

import functools
import itertools
import sys
from typing import Literal, TypeAlias, get_args

import numpy as np
from scipy.spatial.distance import cdist

from ..kernels.threads import single_threaded_blas
from ..utils.validation import as_count, as_matrix, as_vector
from ._solve import table
from ._starts import PARTITIONS, STARTS, feature_centers, random_generator
from .arrays import Arrays, as_costs, as_limit, as_number, pots_choice
from .call import Call, as_loss, balanced, checked_costs, checked_masses

StopCriterion: TypeAlias = Literal["barycenter", "loss"]


def barycenter(given, solve_all, batch=None, *, kind=None, features="init_Y", **tolerances):
    """Return what POT does, for the arguments of a call.

    ``solve_all(problems)`` are the answers to several `Call` with these tolerances, ``batch.of``
    makes the function for plans that suit it, and `kind` is the class of the spaces. `features` is
    the argument that has the first features.
    """
    _check(given, features)
    spaces = (kind or Spaces)(given, features, tolerances)
    tol, print_row = as_number(given["tol"], "tol", zero=True), table()
    by_loss, fused = given["stop_criterion"] == "loss", spaces.Y is not None
    C, Y = spaces.C, spaces.Y

    make = batch and batch.of(spaces)
    options = given | tolerances
    names = ["max_iter", "tol_rel", "tol_abs"]
    if "epsilon" in given:
        names = ["epsilon", "max_iter", "tol", "solver", "numItermax", "stopThr", "warn"]
    options = {name: options[name] for name in (*names, "verbose") if name in options}
    solve_all = functools.partial(solve_all, **options)
    make = make or functools.partial(_solve_problems, spaces, solve_all)
    # The plans are from the barycenter before an update, and so are the losses.
    plans, losses, changes, iterates = spaces.starts, [1e15], [], []
    with single_threaded_blas():
        for _ in range(as_limit(given["max_iter"], "max_iter")):
            plans, loss = make(C, Y, plans if given["warmstartT"] else None)
            losses.append(loss)
            former_C, former_Y = C, Y
            if fused and not given["fixed_features"]:
                Y = spaces.mean_features(plans)
            if not given.get("fixed_structure"):
                C = spaces.mean_structure(plans)
            if by_loss:
                former, change = losses[-2], abs(losses[-1] - losses[-2])
                changes.append((change / former if former != 0 else np.nan,))
            else:
                pairs = ((C, former_C), (Y, former_Y)) if fused else ((C, former_C),)
                changes.append([float(np.linalg.norm(x - y)) for x, y in pairs])
            if given["log"] and fused and not by_loss and spaces.keeps_plans:
                iterates.append(spaces.apart(plans))
            if given["verbose"]:
                print_row(*changes[-1])
            # As in POT, nan stops too.
            if not max(changes[-1]) > tol:
                break
    found = [spaces.back(x) for x in (Y, C) if x is not None]
    if given["log"]:
        sides = {"T": plans} | ({"Ms": spaces.feature_costs(Y)} if fused else {})
        found.append(_log(spaces, sides, losses[1:], changes, iterates, by_loss))
    return tuple(found) if len(found) > 1 else found[0]


def _solve_problems(spaces, solve_all, C, Y, starts):
    """Return the plans from a barycenter, side by side, and the sum of their losses."""
    answers = solve_all([spaces.problem(s, C, Y, starts) for s in range(len(spaces.qs))])
    plans = spaces.joined([answer.plan for answer in answers])
    return plans, float(sum(answer.value for answer in answers))


def _log(spaces, sides, losses, changes, iterates, by_loss):
    """POT's log, with what there is of all spaces side by side."""
    errors, log = list(zip(*changes, strict=True)), {}
    if spaces.Y is None:
        log |= {"err": errors[0]} | ({"loss": losses} if by_loss else {})
    elif by_loss:
        log |= {"loss": losses, "err_rel_loss": errors[0]}
    else:
        log |= {"err_feature": errors[1], "err_structure": errors[0]}
    log = {name: list(map(spaces.back, x)) for name, x in log.items()}
    log |= {name: spaces.apart(x) for name, x in sides.items()}
    log["p"] = spaces.back(spaces.masses(sides["T"]))
    return log | ({"Ts_iter": iterates} if iterates else {})


def _check(given, features):
    """The errors of POT, where there is something wrong."""
    pots_choice(given["stop_criterion"], "stop_criterion", get_args(StopCriterion))
    for fixed, name in (("fixed_structure", "init_C"), ("fixed_features", features)):
        if given.get(fixed) and given[name] is None:
            raise _undefined(f"{name} must be given where {fixed}=True")


class Spaces:
    """The spaces, and what is given of the barycenter, in arrays of one dtype.

    What there is of every space, its plan for one, stands side by side in one array,
    so that an update takes few products.

    Attributes
    ----------
    costs, qs : list of DenseCost and of ndarray
        Of every space, its masses with the total of `p`.
    features : list of ndarray or None
    parts : list of slice
        Where the spaces stand in such an array, of `n_points` in all.
    C, Y, starts : ndarray
        What the barycenter begins with; `Y` is None without features, and `starts`
        where the first plans start from the product of the masses.
    """

    keeps_plans = True  # whether logs have the plans of all updates

    def __init__(self, given, features, tolerances):
        n, size, Ys = as_count(given["N"], "N"), len(given["Cs"]), given.get("Ys")
        if not size:
            raise ValueError("Cs must not be empty")
        Cs = [as_costs(C, f"Cs[{s}]") for s, C in enumerate(given["Cs"])]
        init_C, init_Y = as_costs(given["init_C"], "init_C"), given.get(features)
        named = {"p": given.get("p"), "init_C": init_C, features: init_Y}
        for name, xs in (("Cs", Cs), ("ps", given["ps"]), ("Ys", Ys)):
            named |= listed(name, xs, size)
        arrays, self._given = Arrays(named), given | tolerances
        self.dtype, self.back = arrays.dtype, arrays.back

        def matrix(name, **options):
            x = as_matrix(arrays[name], name, **options)
            return x.astype(self.dtype, copy=False)

        loss = as_loss(given["loss_fun"], "loss_fun")
        self.costs = [
            checked_costs(arrays[f"Cs[{s}]"], f"Cs[{s}]", self.dtype, loss) for s in range(size)
        ]
        sizes = [cost.n for cost in self.costs]
        self._read_masses(arrays, n, sizes)
        self._lambdas = np.full(size, 1 / size)
        if given["lambdas"] is not None:
            self._lambdas = as_vector(given["lambdas"], "lambdas", size)
        ends = list(itertools.accumulate(sizes, initial=0))
        self.parts = [slice(*pair) for pair in itertools.pairwise(ends)]
        self.n_points = ends[-1]
        self.features = None
        if Ys is not None:
            columns = matrix("Ys[0]").shape[1]
            shapes = [(cost.n, columns) for cost in self.costs]
            Ys = [matrix(f"Ys[{s}]", shape=x) for s, x in enumerate(shapes)]
            self.features, self._Ys = Ys, np.concatenate(Ys)
            self._weighted_Ys = np.repeat(self._lambdas, sizes)[:, None] * self._Ys
            if init_Y is not None:
                init_Y = matrix(features, shape=(n, columns))
        if init_C is not None:
            init_C = matrix("init_C", shape=(n, n))
        self._weigh_costs(loss)
        self.C, self.Y, self.starts = self._begin(n, init_C, init_Y)

    def _read_masses(self, arrays, n, sizes):
        self.p = np.full(n, 1 / n, dtype=self.dtype)
        if self._given["p"] is not None:
            self.p = as_vector(arrays["p"], "p", n).astype(self.dtype)
            if not (self.p > 0).all():
                raise ValueError("p must be positive: barycenters are divided by it")
        self._squares = np.multiply.outer(self.p, self.p)
        self.qs = self._masses_of_spaces(arrays, sizes)

    def _masses_of_spaces(self, arrays, sizes):
        def made(s, size):
            name = f"ps[{s}]"
            q = self._fitted(checked_masses(arrays[name], name, size), name)
            return q.astype(self.dtype, copy=False)

        if self._given["ps"] is not None:
            return list(itertools.starmap(made, enumerate(sizes)))
        uniform = {size: made(0, size) for size in set(sizes)}
        return [uniform[size] for size in sizes]

    def _fitted(self, q, name):
        return balanced(self.p, q, "p", name)

    def _weigh_costs(self, loss):
        kl, weights = self._means_logs(loss), self._lambdas[:, None, None]
        self._weighted_Cs = []
        for some, Cs in self.runs():
            columns = slice(self.parts[some][0].start, self.parts[some][-1].stop)
            Cs = weights[some] * (np.log(np.maximum(Cs, 1e-16)) if kl else Cs)
            self._weighted_Cs.append((columns, Cs))
        self._mean_of = np.exp if kl else np.asarray

    def _means_logs(self, loss):
        """Whether the best structure is the mean of logarithms."""
        return loss.name == "kl"

    def _begin(self, n, init_C, init_Y):
        """Structure, features and plans."""
        C, Y = init_C, init_Y
        if C is None:
            points = random_generator(self._given["random_state"]).randn(n, 2)
            C = cdist(points, points, "sqeuclidean").astype(self.dtype)
            if self.features is None:  # POT does so without features only
                C /= C.max()
        if Y is None and self.features is not None:
            Y = np.zeros((n, self._Ys.shape[1]), dtype=self.dtype)
        return C, Y, None

    def runs(self):
        """Spaces of one size that come one after another, a slice, and their costs,
        (k, m, m) in float64.
        """
        end = 0
        for _, run in itertools.groupby(self.costs, key=lambda cost: cost.n):
            Cs = np.array([cost.matrix for cost in run], dtype=np.float64)
            end += len(Cs)
            yield slice(end - len(Cs), end), Cs

    def feature_costs(self, Y, s=None):
        """Costs of `Y` and the features of space `s`, or of all spaces; None without features."""
        if Y is None:
            return None
        features = self._Ys if s is None else self._Ys[self.parts[s]]
        return cdist(Y, features, "sqeuclidean").astype(self.dtype, copy=False)

    def problem(self, s, C, Y, starts=None):
        """The `Call` of the structure `C` and features `Y`, and a space."""
        given = self._given
        return Call.of(
            C,
            self.costs[s].matrix,
            self.p,
            self.qs[s],
            given["loss_fun"],
            given["symmetric"],
            None if starts is None else starts[:, self.parts[s]],
            self.feature_costs(Y, s),
            given.get("alpha", 1.0),
            names={"C1": "init_C", "C2": f"Cs[{s}]", "q": f"ps[{s}]"},
        )

    def mean_structure(self, plans):
        """The best structure for the plans."""
        halves = np.empty(plans.shape)
        for columns, Cs in self._weighted_Cs:
            # With the spaces along the first axis.
            left, out = (
                x[:, columns].reshape(len(x), *Cs.shape[:2]).transpose(1, 0, 2)
                for x in (plans, halves)
            )
            np.matmul(left, Cs, out=out)
        mean = (halves @ plans.T) / self._divisors(plans)[1]
        return self._mean_of(mean).astype(self.dtype, copy=False)

    def mean_features(self, plans):
        """The best features for the plans."""
        mean = (plans @ self._weighted_Ys) / self._divisors(plans)[0][:, None]
        return mean.astype(self.dtype, copy=False)

    def _divisors(self, plans):
        """The mass of points and of pairs of points, by weight of the spaces."""
        return self.p, self._squares

    def masses(self, plans):
        """Those of the barycenter."""
        return self.p

    def joined(self, plans):
        """Plans side by side."""
        return np.concatenate(plans, axis=1)

    def apart(self, x):
        """What stands side by side, as a list of the caller's arrays."""
        return list(map(self.back, self.cut(x)))

    def cut(self, x):
        """The same as arrays of NumPy."""
        return [x[:, part].copy() for part in self.parts]


class SemirelaxedSpaces(Spaces):
    """The spaces of a barycenter that takes its masses, another for each space, from
    the plans: these are from the spaces to it, and stand side by side transposed.
    """

    keeps_plans = False

    def _read_masses(self, arrays, n, sizes):
        self.qs = self._masses_of_spaces(arrays, sizes)

    def _fitted(self, q, name):
        return q

    def _means_logs(self, loss):
        return False

    def _begin(self, n, init_C, init_Y):
        """As POT: plans by a name, and from them the rest."""
        name, seed = self._given["G0"], self._given["random_state"]
        pots_choice(name, "G0", STARTS + PARTITIONS)
        C, Y, clusters = init_C, init_Y, name in PARTITIONS
        if Y is None and self.features is not None and clusters:
            Y = feature_centers(self._Ys, n, seed).astype(self.dtype, copy=False)
        if C is None:
            C = np.zeros((n, n), dtype=self.dtype)
        named = {"random_state": seed, "use_target": init_C is not None}
        starts = np.zeros((n, self.n_points), dtype=self.dtype)
        # Smaller spaces are matched to what the larger ones were clustered into.
        for expands in (False, True):
            for s, (cost, part) in enumerate(zip(self.costs, self.parts, strict=True)):
                if expands == (cost.n <= n):
                    made = self.problem(s, C, Y if clusters else None, **named)
                    starts[:, part] = made.G0.T
            if init_C is None:
                C = self.mean_structure(starts)
        if init_C is None and name in ("product", "random_product"):
            # A constant structure would stay one.
            noise = random_generator(seed).uniform(-0.01, 0.01, size=(n, n))
            noise = (noise + noise.T) / 2 if self._given["symmetric"] else noise
            C = (C + noise).astype(self.dtype, copy=False)
        if Y is None and self.features is not None:
            Y = self.mean_features(starts)
        return C, Y, starts

    def problem(self, s, C, Y, starts=None, random_state=0, **named):
        """The `Call` of a space, and the structure `C` and features `Y`."""
        given, M = self._given, self.feature_costs(Y, s)
        return Call.of(
            self.costs[s].matrix,
            C,
            self.qs[s],
            None,
            given["loss_fun"],
            given["symmetric"],
            given["G0"] if starts is None else starts[:, self.parts[s]].T,
            None if M is None else M.T,
            given.get("alpha", 1.0),
            "semirelaxed",
            names={"C1": f"Cs[{s}]", "C2": "init_C", "p": f"ps[{s}]"},
            random_state=random_state,
            **named,
        )

    def _divisors(self, plans):
        masses = self.masses(plans)
        points, pairs = self._lambdas @ masses, (self._lambdas * masses.T) @ masses
        # What no mass of any space goes to is zero.
        return tuple(np.where(x > 0, x, 1.0) for x in (points, pairs))

    def masses(self, plans):
        return np.add.reduceat(plans, [x.start for x in self.parts], axis=1).T

    def joined(self, plans):
        return super().joined([plan.T for plan in plans])

    def cut(self, x):
        return [one.T.copy() for one in super().cut(x)]


def listed(name, xs, size):
    """Arrays of a list by their names; POT takes no lists in it, and warns of them."""
    if xs is None:
        return {}
    if len(xs) != size:
        raise ValueError(f"{name} must have as many arrays as Cs, {size}, got {len(xs)}")
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
