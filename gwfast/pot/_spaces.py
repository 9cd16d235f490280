"""Problems between several spaces and a center: what barycenters and dictionaries solve."""

import dataclasses
import itertools
import math

import numpy as np
from scipy.spatial.distance import cdist

from ..kernels._costs import extent
from ..kernels._exact_pairs import ExactPairs, Space
from ..kernels.threads import resolve_n_threads
from ..problems.dense_cost import ROUNDING as SYMMETRY
from ..problems.geometry import DenseCost
from ..quadratic.frank_wolfe import ROUNDING, SLICE, directions, has_ties
from ..utils.validation import as_matrix
from .arrays import as_costs
from .call import Call, balanced, checked_costs, checked_masses
from .exact import NOTHING, exact_limits, solve_all_exact


class Spaces:
    """The `costs` and `features` (or None) of spaces, with columns of plans (`parts`); and `calls`,
    the problems between a center with masses `p` and each. `names` are the names in messages.
    """

    field, side = "x", "C1"  # of the center in a `Call`, and its argument

    def __init__(self, arrays, names, p, dtype):
        self.dtype, self.p, self._names = dtype, p, names
        self._sides = [checked_costs(arrays[name], name, dtype) for name, _, _ in names]
        self.costs = [side.matrix for side in self._sides]
        self.features, first = [None] * len(names), names[0][1]
        if arrays[first] is not None:
            width = as_matrix(arrays[first], first).shape[1]
            sides = zip(names, self.costs, strict=True)
            self.features = [
                as_matrix(arrays[name], name, shape=(len(C), width)).astype(dtype, copy=False)
                for (_, name, _), C in sides
            ]
        self._masses = [arrays[name] for _, _, name in names]
        self.parts = _parts(map(len, self.costs))

    def begin(self, C, Y, names, **options):
        """Check and keep the problems of a center."""
        first = self.call(0, C, Y, names, **options)
        self.calls = [first]
        # Arguments that spaces share are checked once.
        for s, (cost, _, masses) in enumerate(self._names[1:], start=1):
            y = self._sides[s]
            first.loss.check(y.matrix, cost)
            q = checked_masses(self._masses[s], masses, y.n)
            q = balanced(self.p, q, first.name("p"), masses).astype(self.dtype, copy=False)
            space_names, M = names | {"C2": cost, "q": masses}, self.costs_between(Y, s)
            self.calls.append(dataclasses.replace(first, y=y, q=q, M=M, names=space_names))

    def call(self, s, C, Y, names, **options):
        """Return the problem between a center and a space."""
        space_names = {"C2": self._names[s][0], "q": self._names[s][2]}
        M = self.costs_between(Y, s)
        sides = C, self.costs[s], self.p, self._masses[s]
        return Call.of(*sides, M=M, names=names | space_names, **options)

    def calls_at(self, Cs, Ys, starts, numbers):
        """Return problems of spaces by number with centers in stacks, one for each or for all."""
        centers = [DenseCost.from_checked(C, self.calls[0].name(self.side)) for C in Cs]
        shares = len(numbers) // len(centers)
        Ys = [None] * len(numbers) if Ys is None else [*Ys] * shares
        calls = []
        for s, C, Y, start in zip(numbers, centers * shares, Ys, starts, strict=True):
            changed = {self.field: C, "M": self.costs_between(Y, s), "G0": start}
            calls.append(dataclasses.replace(self.calls[s], **changed))
        return calls

    def costs_between(self, Y, s):
        """Return the costs between the features `Y` of a center and of a space, or None."""
        if Y is None:
            return None
        return cdist(Y, self.features[s], "sqeuclidean").astype(self.dtype, copy=False)


def _parts(sizes):
    """Return slices of these sizes that follow one another."""
    ends = list(itertools.accumulate(sizes, initial=0))
    return list(map(slice, ends, ends[1:]))


def one_by_one(spaces, solve_all, **options):
    """Return ``solve(*problems)``, for plans and losses of `Spaces.calls_at` by `solve_all`."""

    def solve(*problems):
        answers = solve_all(spaces.calls_at(*problems), **options)
        losses = np.array([answer.value for answer in answers])
        return [answer.plan for answer in answers], losses

    return solve


def exact_plans(spaces, max_iter, tol_rel, verbose=False, turns=False):
    """Return a function as `one_by_one` for problems without entropy; small plain problems are
    solved together. It `turns` plans of the first centers along eigenvectors if vertices tie.
    """
    calls = spaces.calls
    alone = one_by_one(spaces, solve_all_exact, max_iter=max_iter, tol_rel=tol_rel, verbose=verbose)
    # Means of symmetric costs are symmetric, but atoms need not be.
    plain = calls[0].p.all() and (turns or calls[0].x.symmetric)
    plain = plain and all(call.y.symmetric and call.q.all() for call in calls)
    work = max(math.prod(call.shape) for call in calls)
    if verbose or not plain or resolve_n_threads(None, work=work) > 1:
        return alone
    total, alpha, loss = calls[0].total, calls[0].alpha, calls[0].loss
    shift = sum(call.y.mean for call in calls) / len(calls) if loss.shift_invariant else 0.0
    limits = exact_limits(calls[0], max_iter, tol_rel, 0.0)
    descents = ExactDescents(limits, (1.0 - alpha) / (2.0 * total))
    ties = [turns and call.M is None and has_ties(call.y.matrix, call.q) for call in calls]

    def space(number, C, masses, features, n_turns):
        C = np.add(C, C.T, dtype=np.float64)
        C /= 2
        C -= shift
        return exact_space(number, C, masses, loss, alpha, features, n_turns)

    p, *qs = (x.astype(np.float64) / total for x in (calls[0].p, *(call.q for call in calls)))
    sides = zip(spaces.costs, qs, spaces.features, ties, strict=True)
    others = [space(1, C, q, features, 2 * tie) for C, q, features, tie in sides]

    def solve(Cs, Ys, starts, numbers):
        if turns and not abs(Cs - Cs.swapaxes(1, 2)).max() <= SYMMETRY * abs(Cs).max():
            return alone(Cs, Ys, starts, numbers)
        is_warm = starts[0] is not None
        n_turns = 0 if is_warm else 2 * any(ties)
        sides = zip(Cs, [None] * len(Cs) if Ys is None else Ys, strict=True)
        firsts = [space(0, C, p, Y, n_turns) for C, Y in sides]
        # A range has all spaces.
        parts = (
            spaces.parts
            if type(numbers) is range
            else _parts(len(spaces.costs[s]) for s in numbers)
        )
        plans = np.empty((len(p), parts[-1].stop))
        if is_warm:
            np.divide(np.concatenate(starts, axis=1), total, out=plans)
        firsts, seconds = firsts * (len(numbers) // len(firsts)), [others[s] for s in numbers]
        losses = descents.solve(firsts, seconds, plans, parts, is_warm)
        plans *= total
        plans = plans.astype(spaces.dtype, copy=False)
        return [plans[:, part] for part in parts], total**2 * losses

    return solve


class ExactDescents:
    """Exact problems of mass one between pairs of spaces, each on one thread; see `ExactPairs`."""

    def __init__(self, limits, weight):
        self._pairs = []
        self._options = dict(
            max_outer=limits.max_outer,
            tol=limits.tol,
            rounding=ROUNDING,
            linear=weight,
            least_change=limits.min_change,
            least_relative=limits.min_relative,
        )

    def solve(self, firsts, seconds, plans, parts, is_warm, potentials=None):
        """Write the plans of pairs of `exact_space` to parts of `plans`; return the losses."""
        # A descent counts as four passes over a plan: updates below .5 ms are made by one thread.
        size, work = len(firsts), 4 * plans.size
        n_shares = min(resolve_n_threads(None, work=work), size)
        if len(self._pairs) != n_shares:
            self._pairs = [ExactPairs(**self._options) for _ in range(n_shares)]
        for k, pairs in enumerate(self._pairs):
            share = slice(size * k // n_shares, size * (k + 1) // n_shares)
            columns, share_potentials = (
                slice(parts[share][0].start, parts[share][-1].stop),
                potentials,
            )
            if share_potentials is not None:
                share_potentials = share_potentials[share.start * len(plans) + columns.start :]
            pairs.begin(firsts[share], seconds[share], plans[:, columns], is_warm, share_potentials)
        while not ExactPairs.go_on(self._pairs, SLICE):
            pass
        plans[plans < NOTHING] = 0.0
        return np.concatenate([pairs.costs for pairs in self._pairs])


def exact_space(number, costs, masses, loss, weight, features=None, n_turns=0):
    """Return the first (0) or second `Space` of exact problems of mass one with symmetric costs;
    `weight` is the weight of the quadratic term. Descents also begin along `n_turns` eigenvectors.
    """
    h, f = (loss.h2, loss.f2) if number else (loss.h1, loss.f1)
    values = np.ascontiguousarray(h(costs) if number else -weight * h(costs))
    constants = weight * (f(costs) @ masses)
    if features is not None:
        features = np.array(features, dtype=np.float64, order="C")
    turns = directions(-costs, masses, n_turns) if n_turns else None
    largest, most = (max(-low, high) for low, high, _ in map(extent, (values.ravel(), constants)))
    return Space(
        values, values, masses, masses @ constants, largest, most, features, turns, n_turns > 0
    )


def listed(**lists):
    """Return arrays of lists, of costs `Cs` first, by their names; POT takes no lists as arrays."""
    named, size = {}, len(lists["Cs"])
    if not size:
        raise ValueError("Cs must not be empty")
    for name, xs in lists.items():
        xs = [None] * size if xs is None else xs
        if len(xs) != size:
            raise ValueError(f"{name} must have {size} arrays like Cs, got {len(xs)}")
        for s, x in enumerate(xs):
            key = f"{name}[{s}]"
            if isinstance(x, list | tuple):
                raise ValueError(f"{key} must be an array, got a {type(x).__name__}")
            named[key] = as_costs(x, key) if name == "Cs" else x
    return named
