"""Dictionaries of spaces as POT learns them (Vincent-Cuaz et al., ICML 2021): each
space is near a weighted mean of atoms, and its plan and weights are found in turn.
"""

import itertools
import math

import numpy as np
from scipy.spatial.distance import cdist

from ..kernels.threads import resolve_n_threads, single_threaded_blas
from ..problems.losses import SQUARE
from ..quadratic.frank_wolfe import ExactLimits, directions, has_ties
from ..utils.validation import as_array, as_count, as_matrix
from ._barycenters import listed
from ._exact_batch import ExactDescents, exact_space
from ._starts import random_generator
from .arrays import Arrays, as_costs, as_limit, as_number
from .call import Call, as_weight, balanced, checked_costs, checked_masses
from .exact import solve_exact


def unmixing(given):
    """What POT returns for the arguments of a call of `...linear_unmixing`."""
    names = ("Y", "Cdict", "Ydict", "p", "q")
    named = {name: given.get(name) for name in names}
    arrays = Arrays(named | {"C": as_costs(given["C"], "C")})
    structures = as_array(arrays["Cdict"], "Cdict")
    if structures.ndim != 3:
        raise ValueError(f"Cdict must be a 3-D array, got {structures.ndim}-D")
    samples = Samples(given, arrays, [("C", "Y", "p")], structures.shape[-1])
    atoms = Atoms(samples, len(structures), arrays, ("Cdict", "Ydict"))
    with single_threaded_blas():
        weights, plans, _, losses = samples.unmix(atoms, np.zeros(1, dtype=int))
    embedded = atoms.apart(weights @ atoms.values)
    found = (weights[0], *(x[0] for x in embedded), np.ascontiguousarray(plans[0].T), losses[0])
    return tuple(map(arrays.back, found))


def dictionary_learning(given):
    """The same of `...dictionary_learning`."""
    size = len(given["Cs"])
    if not size:
        raise ValueError("Cs must not be empty")
    Cs = [as_costs(C, f"Cs[{s}]") for s, C in enumerate(given["Cs"])]
    named = {name: given.get(name) for name in ("q", "Cdict_init", "Ydict_init")}
    for name, xs in (("Cs", Cs), ("ps", given["ps"]), ("Ys", given.get("Ys"))):
        named |= listed(name, xs, size)
    arrays = Arrays(named)
    names = [[f"{name}[{s}]" for name in ("Cs", "Ys", "ps")] for s in range(size)]
    believed = {"symmetric": "symmetric" in given["projection"]}
    samples = Samples(given | believed, arrays, names, as_count(given["nt"], "nt"))
    rng = random_generator(given["random_state"])
    inits = "Cdict_init", "Ydict_init"
    atoms = Atoms(samples, as_count(given["D"], "D"), arrays, inits, rng)
    with single_threaded_blas():
        best, log = _learn(given, samples, atoms, rng)
    return *map(arrays.back, atoms.apart(best)), log


def _learn(given, samples, atoms, rng):
    """The atoms of the epoch that has the least loss, as rows, and POT's log."""
    size, log = len(samples.costs), {"loss_batches": [], "loss_epochs": []}
    n_epochs = as_limit(given["epochs"], "epochs", minimum=0)
    n_batch = min(as_count(given["batch_size"], "batch_size"), size)
    rates = [
        as_number(given[name], name)
        for name in ("learning_rate", "learning_rate_C", "learning_rate_Y")
        if name in given
    ]
    rates = np.repeat(rates, atoms.ends[: len(rates)])
    direction = Adam() if given["use_adam_optimizer"] else np.asarray
    atoms.project(given["projection"])
    best, least = atoms.values.copy(), np.inf
    for epoch in range(n_epochs):
        losses = []
        for _ in range(math.ceil(size / n_batch)):
            batch = rng.choice(size, size=n_batch, replace=False)
            weights, _, targets, found = samples.unmix(atoms, batch)
            losses.append(found.sum())
            apart = weights @ atoms.values * atoms.masses - targets
            atoms.values -= rates * direction(2 / n_batch * weights.T @ apart)
            atoms.project(given["projection"])
            if not np.isfinite(atoms.values).all():
                raise ValueError(
                    f"learning rates must leave atoms finite, got {set(rates)}, after "
                    f"which they are not in epoch {epoch}"
                )
        loss = sum(losses)
        if given["use_log"]:
            log["loss_batches"] += losses
            log["loss_epochs"].append(loss)
        if loss < least:
            best, least = atoms.values.copy(), loss
        if given["verbose"]:
            print(f"--- epoch = {epoch}  cumulated reconstruction error:  {loss}")
    return best, log


class Atoms:
    """Structures, and features if there are, of each atom one row of a matrix.

    What is not given is random, as in POT, and close to the means of the samples.

    Attributes
    ----------
    values : (D, k) ndarray
    masses : (k,) ndarray
        Of every entry in the squared distance of two such rows.
    ends : tuple of int
        Entries of the structure, and of the features.
    """

    def __init__(self, samples, size, arrays, names, rng=None):
        n, alpha, q = len(samples.q), samples.alpha, samples.q
        means = [[cost.mean for cost in samples.costs]]
        shapes, masses = [(size, n, n)], [alpha * np.outer(q, q)]
        for features in samples.features:
            means.append([one.mean(axis=0) for one in features])
            shapes.append((size, n, samples.width))
            masses.append((1 - alpha) * np.outer(q, np.ones(samples.width)))
        parts = []
        for shape, name, mean in zip(shapes, names, means, strict=False):
            x = arrays[name]
            if x is None:
                # In this order, for POT's random numbers.
                mean, scale = np.mean(mean, axis=0), np.std(mean, axis=0)
                x = rng.normal(loc=mean, scale=scale, size=shape)
            elif x.shape != shape:
                raise ValueError(f"{name} must have shape {shape}, got {x.shape}")
            x = x.reshape(size, math.prod(shape[1:]))
            parts.append(as_matrix(x, name).astype(np.float64))
        self.values = np.concatenate(parts, axis=1)
        self.masses = np.concatenate([x.ravel() for x in masses])
        self.ends, self._shapes = tuple(x.shape[1] for x in parts), shapes

    def apart(self, rows):
        """Structures (k, n, n), and features (k, n, d) if there are, of rows like these."""
        parts = np.split(rows, self.ends[:-1], axis=1)
        parts = zip(parts, self._shapes, strict=True)
        return [x.reshape(-1, *shape[1:]) for x, shape in parts]

    def project(self, projection):
        """Make structures what this has the words for."""
        structures = self.apart(self.values)[0]
        if "symmetric" in projection:
            structures = 0.5 * (structures + structures.transpose(0, 2, 1))
        if "nonnegative" in projection:
            structures = np.maximum(structures, 0.0)
        self.values[:, : self.ends[0]] = structures.reshape(len(structures), -1)

    @property
    def symmetric(self):
        structures = self.apart(self.values)[0]
        return bool((structures == structures.transpose(0, 2, 1)).all())


class Samples:
    """Spaces that are near means of atoms of `nt` points, in float64.

    Attributes
    ----------
    costs, ps : list of DenseCost and of ndarray
        Of every space, its masses with the total of those of atoms, `q`.
    features : list of list of (n, width) ndarray
        Of every space, in one list; none without.
    alpha : float
        Weight of the structures.
    """

    def __init__(self, given, arrays, names, nt):
        self.q = checked_masses(arrays["q"], "q", nt)
        self._total = float(self.q.sum())
        self.alpha, self.features, self.width = 1.0, [], 0
        self.costs, self.ps = [], []
        if "alpha" in given:
            self.alpha, self.features = as_weight(given["alpha"], "alpha"), [[]]
            self.width = as_matrix(arrays[names[0][1]], names[0][1]).shape[1]
        for C, Y, p in names:
            cost = checked_costs(arrays[C], C, np.float64, SQUARE)
            masses = checked_masses(arrays[p], p, cost.n)
            self.costs.append(cost)
            self.ps.append(balanced(self.q, masses, "q", p))
            for features in self.features:
                shape = cost.n, self.width
                features.append(as_matrix(arrays[Y], Y, shape=shape).astype(float))
        self._reg = as_number(given["reg"], "reg", zero=True)
        self._tols = [as_number(given[x], x, zero=True) for x in ("tol_outer", "tol_inner")]
        self._limits = [as_limit(given[x], x) for x in ("max_iter_outer", "max_iter_inner")]
        self._symmetric = given["symmetric"]
        self._prepare()

    def _prepare(self):
        """What the descents need of the samples, if all of them suit these."""
        many = max(cost.n for cost in self.costs) * len(self.q)
        masses = np.concatenate([self.q, *self.ps])
        symmetric = all(cost.symmetric for cost in self.costs)
        self._suits = symmetric and bool((masses > 0).all())
        self._suits = self._suits and resolve_n_threads(None, work=many) == 1
        if not self._suits:
            return
        limits = ExactLimits(self._limits[1], tol=0.0, min_relative=self._tols[1])
        weight = (1.0 - self.alpha) / (2.0 * self._total)
        self._descents = ExactDescents(limits, weight)
        self._shift = float(np.mean([cost.mean for cost in self.costs]))
        costs = [cost.matrix for cost in self.costs]
        spaces = list(zip(self.ps, costs, *self.features, strict=True))
        # If vertices tie, plain problems begin along eigenvectors as well.
        tied = [not self.features and has_ties(C, p) for p, C, *_ in spaces]
        self._tied = any(tied)
        self._spaces = [
            self._space(SQUARE.h2, *space, turned=turned)
            for space, turned in zip(spaces, tied, strict=True)
        ]

    def _space(self, values, masses, C, features=None, turned=False):
        """Return the side of an exact problem of mass one; values are a function of costs."""
        C = (C + C.T) / 2 - self._shift
        masses = masses / self._total
        constants = self.alpha * (np.square(C) @ masses)
        turns = directions(-C, masses, 2) if turned else None
        return exact_space(values(C), masses, constants, features, turns)

    def unmix(self, atoms, some):
        """Weights (k, D), plans (nt, ns), and for these what atoms should be near, as
        rows times their masses; and losses (k,) of these samples.
        """
        shape = len(some), len(atoms.values)
        weights, losses = np.full(shape, 1 / shape[1]), np.full(shape[0], 1e15)
        targets = np.empty((shape[0], atoms.values.shape[1]))
        gram = (atoms.values * atoms.masses) @ atoms.values.T
        gram -= self._reg * np.eye(shape[1])
        suits = self._suits and atoms.symmetric
        plans, left = [None] * shape[0], np.arange(shape[0])
        for _ in range(self._limits[0]):
            means = atoms.apart(weights[left] @ atoms.values)
            solve = self._together if suits else self._singly
            found, at = solve(some[left], means, [plans[k] for k in left])
            for k, plan in zip(left, found, strict=True):
                plans[k], targets[k] = plan, self._target(some[k], plan)
            former, w = losses[left], weights[left]
            at -= self._reg * np.square(w).sum(axis=1)
            self._weigh(w, at, gram, targets[left] @ atoms.values.T)
            weights[left], losses[left] = w, at
            left = left[_relative(at - former, former) > self._tols[0]]
            if not len(left):
                break
        return weights, plans, targets, losses

    def _target(self, s, plan):
        """What the mean of atoms should be near, for a plan from it to a sample."""
        made = [self.alpha * (plan @ self.costs[s].matrix @ plan.T).ravel()]
        for features in self.features:
            made.append((1 - self.alpha) * (plan @ features[s]).ravel())
        return np.concatenate(made)

    def _weigh(self, weights, losses, gram, targets):
        """Change weights to the best ones for the plans, and losses to theirs, by
        conditional gradient. It ends as POT's does.
        """
        gradient, goes_on = 2 * (weights @ gram - targets), np.ones(len(losses), bool)
        for _ in range(self._limits[1]):
            least = gradient == gradient.min(axis=1, keepdims=True)
            way = least / least.sum(axis=1, keepdims=True) - weights
            turn = way @ gram
            slope = np.einsum("kd,kd->k", gradient, way)
            bend = np.einsum("kd,kd->k", turn, way)
            # To the end where the loss is concave on the way and lower there.
            step = (bend + slope < 0).astype(np.float64)
            np.divide(slope, -2 * bend, out=step, where=bend > 0)
            step = goes_on * np.minimum(np.maximum(step, 0.0), 1.0)
            weights += step[:, None] * way
            gradient += 2 * step[:, None] * turn
            change = (bend * step + slope) * step
            goes_on &= _relative(change, losses) > self._tols[1]
            losses += change
            if not goes_on.any():
                break

    def _together(self, some, means, plans):
        """Plans from means of atoms to samples, and losses, from other plans or, in
        the first turn, None.
        """
        stops = np.cumsum([len(self.ps[s]) for s in some])
        parts = [slice(*pair) for pair in itertools.pairwise([0, *stops])]
        ends, starts = np.empty((len(self.q), stops[-1])), plans[0] is not None
        if starts:
            np.divide(np.concatenate(plans, axis=1), self._total, out=ends)
        centers = [
            self._space(lambda C: -self.alpha * C, self.q, *mean, turned=self._tied and not starts)
            for mean in zip(*means, strict=True)
        ]
        spaces = [self._spaces[s] for s in some]
        losses = self._descents.solve(centers, spaces, ends, parts, starts)
        ends *= self._total
        return [ends[:, part] for part in parts], losses * self._total**2

    def _singly(self, some, means, plans):
        """The same of samples or atoms that do not suit the descents."""
        answers = []
        for s, plan, C, *Y in zip(some, plans, *means, strict=True):
            M = None
            for features in self.features:
                M = cdist(*Y, features[s], "sqeuclidean")
            costs = C, self.costs[s].matrix, self.q, self.ps[s]
            call = Call.of(*costs, "square_loss", self._symmetric, plan, M, self.alpha)
            answers.append(solve_exact(call, self._limits[1], self._tols[1]))
        losses = [answer.value for answer in answers]
        return [answer.plan for answer in answers], np.array(losses)


def _relative(changes, losses):
    """Relative changes of losses, as POT has them."""
    return abs(changes) / np.maximum(abs(losses), 1e-15)


class Adam:
    """Steps of Adam (Kingma and Ba, ICLR 2015), one a call."""

    def __init__(self):
        self._moments, self._n_steps = [0.0, 0.0], 0

    def __call__(self, gradient):
        self._n_steps += 1
        unbiased = []
        # The decay of both moments, and a divisor that keeps steps finite.
        for k, (x, decay) in enumerate([(gradient, 0.9), (np.square(gradient), 0.99)]):
            made = decay * self._moments[k] + (1 - decay) * x
            self._moments[k] = made
            unbiased.append(made / (1 - decay**self._n_steps))
        return unbiased[0] / (np.sqrt(unbiased[1]) + 1e-9)
