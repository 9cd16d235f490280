"""Dictionaries of spaces, called as in POT (Vincent-Cuaz et al., ICML 2021): means of atoms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..kernels.threads import single_threaded_blas
from ..problems.graphs import CostLike
from ..utils.validation import as_array, as_count, as_matrix
from ._spaces import Spaces, exact_plans, listed
from ._starts import random_generator
from .arrays import Arrays, as_costs, as_limit, as_number
from .call import Masses, Seed, as_weight, checked_masses

__all__ = [
    "fused_gromov_wasserstein_dictionary_learning",
    "fused_gromov_wasserstein_linear_unmixing",
    "gromov_wasserstein_dictionary_learning",
    "gromov_wasserstein_linear_unmixing",
]


class Limits(NamedTuple):
    """Limits of the turns of weights and plans, and the factor of the squared norm of weights."""

    reg: float
    tol_outer: float
    tol_inner: float
    max_iter_outer: int
    max_iter_inner: int

    @classmethod
    def of(cls, reg, tol_outer, tol_inner, max_iter_outer, max_iter_inner):
        """Return checked arguments."""
        return cls(
            as_number(reg, "reg", zero=True),
            as_number(tol_outer, "tol_outer", zero=True),
            as_number(tol_inner, "tol_inner", zero=True),
            as_limit(max_iter_outer, "max_iter_outer"),
            as_limit(max_iter_inner, "max_iter_inner"),
        )


class Training(NamedTuple):
    """How atoms are learned; `rates` are by the names of their arguments."""

    epochs: int
    batch_size: int
    rates: dict[str, float]
    projection: str
    use_log: bool
    use_adam_optimizer: bool
    verbose: bool


class Dictionary(Spaces):
    """Spaces, and atoms: structures, and features if any, in rows of `values`; random as in POT."""

    def __init__(self, arrays, names, shape, alpha, inits, limits, symmetric, random_state=None):
        size, n = shape
        self.q = checked_masses(arrays["q"], "q", n).astype(np.float64)
        super().__init__(arrays, names, self.q, np.float64)
        self.rng, self._limits = random_generator(random_state), limits
        self._alpha = 1.0 if alpha is None else as_weight(alpha, "alpha")
        sides = [(self._alpha * np.outer(self.q, self.q), self.costs)]
        if alpha is not None:
            if self.features[0] is None:
                raise TypeError(f"{names[0][1]} must be an array, got None")
            masses = (1 - self._alpha) * self.q
            sides.append((np.outer(masses, np.ones(self.features[0].shape[1])), self.features))
        self._shapes, parts = [weights.shape for weights, _ in sides], []
        for name, (weights, values) in zip(inits, sides, strict=False):
            x, shape = arrays[name], (size, *weights.shape)
            if x is None:
                # Means of all costs, or of each feature, in this order, for POT's random numbers.
                means = [x.mean(axis=0) if parts else x.mean() for x in values]
                x = self.rng.normal(np.mean(means, axis=0), np.std(means, axis=0), shape)
            elif x.shape != shape:
                raise ValueError(f"{name} must have shape {shape}, got {x.shape}")
            parts.append(as_matrix(x.reshape(size, -1), name).astype(np.float64))
        self.values, self.ends = np.concatenate(parts, axis=1), [x.shape[1] for x in parts]
        # The weight of every entry in the squared distance of two rows.
        self._weights = np.concatenate([weights.ravel() for weights, _ in sides])
        C, *Y = (x[0] for x in self.split(self.values))
        names = {"C1": inits[0], "p": "q"}
        self.begin(C, Y[0] if Y else None, names, symmetric=symmetric, alpha=self._alpha)
        max_iter, tol = self._limits.max_iter_inner, self._limits.tol_inner
        self._solve = exact_plans(self, max_iter, tol, turns=True)

    def split(self, rows):
        """Return structures (k, n, n), and features (k, n, d) if there are any, of rows."""
        parts = zip(np.split(rows, self.ends[:-1], axis=1), self._shapes, strict=True)
        return [x.reshape(-1, *shape) for x, shape in parts]

    def project(self, projection):
        """Make structures what `projection` has the words for."""
        structures = self.split(self.values)[0]
        if "symmetric" in projection:
            structures = 0.5 * (structures + structures.transpose(0, 2, 1))
        if "nonnegative" in projection:
            structures = np.maximum(structures, 0.0)
        self.values[:, : self.ends[0]] = structures.reshape(len(structures), -1)

    def unmix(self, numbers):
        """Return weights, plans, half of the gradients in means of atoms, and losses of spaces."""
        shape = len(numbers), len(self.values)
        weights, losses = np.full(shape, 1 / shape[1]), np.full(shape[0], 1e15)
        targets = np.empty((shape[0], self.values.shape[1]))
        gram = (self.values * self._weights) @ self.values.T
        gram -= self._limits.reg * np.eye(shape[1])
        plans, left = [None] * shape[0], np.arange(shape[0])
        for _ in range(self._limits.max_iter_outer):
            C, *Y = self.split(weights[left] @ self.values)
            starts = [plans[k] for k in left]
            new_plans, new_losses = self._solve(C, Y[0] if Y else None, starts, numbers[left])
            for k, plan in zip(left, new_plans, strict=True):
                plans[k], targets[k] = plan, self._target(numbers[k], plan)
            former, w = losses[left], weights[left]
            new_losses = new_losses - self._limits.reg * np.square(w).sum(axis=1)
            self._weigh(w, new_losses, gram, targets[left] @ self.values.T)
            weights[left], losses[left] = w, new_losses
            left = left[_relative(new_losses - former, former) > self._limits.tol_outer]
            if not len(left):
                break
        return weights, plans, weights @ self.values * self._weights - targets, losses

    def _target(self, s, plan):
        """Return what the mean of atoms should be near, for a plan from it to a sample."""
        target = self._alpha * (plan @ self.costs[s] @ plan.T).ravel()
        if self.features[s] is None:
            return target
        return np.append(target, (1 - self._alpha) * (plan @ self.features[s]).ravel())

    def _weigh(self, weights, losses, gram, targets):
        """Change weights to the best for the plans, and losses, by POT's conditional gradient."""
        gradient, goes_on = 2 * (weights @ gram - targets), np.ones(len(losses), bool)
        for _ in range(self._limits.max_iter_inner):
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
            goes_on &= _relative(change, losses) > self._limits.tol_inner
            losses += change
            if not goes_on.any():
                break


def _relative(changes, losses):
    """Return relative changes of losses, as POT has them."""
    return abs(changes) / np.maximum(abs(losses), 1e-15)


def unmix(C, Y, Cdict, Ydict, alpha, p, q, limits, symmetric):
    """Return what POT does for a space; without features `Y`, `Ydict` and `alpha` are None."""
    arrays = Arrays(dict(C=as_costs(C, "C"), Y=Y, Cdict=Cdict, Ydict=Ydict, p=p, q=q))
    structures = as_array(arrays["Cdict"], "Cdict")
    if structures.ndim != 3 or not structures.size:
        raise ValueError(f"Cdict must be 3-D and not empty, got shape {structures.shape}")
    if alpha is not None and Ydict is None:
        raise TypeError("Ydict must be an array, got None")
    shape, inits = (len(structures), structures.shape[-1]), ("Cdict", "Ydict")
    dictionary = Dictionary(arrays, [("C", "Y", "p")], shape, alpha, inits, limits, symmetric)
    with single_threaded_blas():
        weights, plans, _, losses = dictionary.unmix(np.zeros(1, dtype=int))
    embedded = (x[0] for x in dictionary.split(weights @ dictionary.values))
    found = weights[0], *embedded, np.ascontiguousarray(plans[0].T), losses[0]
    return tuple(map(arrays.back, found))


def learn(Cs, Ys, D, nt, alpha, ps, q, inits, limits, training, random_state):
    """Return the atoms of the epoch with the least loss, and POT's log; features may be None."""
    size, log = len(Cs), {"loss_batches": [], "loss_epochs": []}
    arrays = Arrays(listed(Cs=Cs, ps=ps, Ys=Ys) | {"q": q} | inits)
    names = [(f"Cs[{s}]", f"Ys[{s}]", f"ps[{s}]") for s in range(size)]
    shape, symmetric = (as_count(D, "D"), as_count(nt, "nt")), "symmetric" in training.projection
    dictionary = Dictionary(arrays, names, shape, alpha, [*inits], limits, symmetric, random_state)
    n_epochs = as_limit(training.epochs, "epochs", minimum=0)
    n_batch = min(as_count(training.batch_size, "batch_size"), size)
    rates = [as_number(rate, name) for name, rate in training.rates.items()]
    rates = np.repeat(rates, dictionary.ends[: len(rates)])
    direction = Adam() if training.use_adam_optimizer else np.asarray
    dictionary.project(training.projection)
    best, least = dictionary.values.copy(), np.inf
    with single_threaded_blas():
        for epoch in range(n_epochs):
            losses = []
            for _ in range(math.ceil(size / n_batch)):
                batch = dictionary.rng.choice(size, size=n_batch, replace=False)
                weights, _, half_gradients, batch_losses = dictionary.unmix(batch)
                losses.append(batch_losses.sum())
                dictionary.values -= rates * direction(2 / n_batch * weights.T @ half_gradients)
                dictionary.project(training.projection)
                # Fourth powers of costs must be finite.
                if not np.isfinite(dictionary.values**4).all():
                    raise ValueError(f"learning rates must keep atoms finite, got {set(rates)}")
            loss = sum(losses)
            if training.use_log:
                log["loss_batches"] += losses
                log["loss_epochs"].append(loss)
            if loss < least:
                best, least = dictionary.values.copy(), loss
            if training.verbose:
                print(f"--- epoch = {epoch}  cumulated reconstruction error:  {loss}")
    return *map(arrays.back, dictionary.split(best)), log


class Adam:
    """Steps of Adam (Kingma and Ba, ICLR 2015), one a call."""

    def __init__(self):
        self._mean, self._square, self._n_steps = 0.0, 0.0, 0

    def __call__(self, gradient):
        self._n_steps += 1
        self._mean = 0.9 * self._mean + (1 - 0.9) * gradient
        self._square = 0.99 * self._square + (1 - 0.99) * np.square(gradient)
        mean = self._mean / (1 - 0.9**self._n_steps)
        square = self._square / (1 - 0.99**self._n_steps)
        return mean / (np.sqrt(square) + 1e-9)


def gromov_wasserstein_linear_unmixing(
    C: CostLike,
    Cdict: ArrayLike,
    reg: float = 0.0,
    p: Masses = None,
    q: Masses = None,
    tol_outer: float = 1e-5,
    tol_inner: float = 1e-5,
    max_iter_outer: int = 20,
    max_iter_inner: int = 200,
    symmetric: bool | None = None,
    *,
    numItermaxEmd: float = 100_000,
) -> tuple[Any, ...]:
    """Return weights of atoms whose mean is nearest to a space (a local minimum), as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.gromov_wasserstein_linear_unmixing>`__.

    Parameters
    ----------
    C, Cdict, p, q : arrays of shape (ns, ns), or a graph, (D, nt, nt), (ns,) and (nt,)
        The space, and structures of the atoms; masses of both, of one total, uniform by default.
    reg : float, default=0
        Factor of the squared norm of the weights, which is taken from the loss.
    tol_outer, tol_inner, max_iter_outer, max_iter_inner
        Relative change of the loss at which turns, and the descents of a turn, end; their limits.
    symmetric, numItermaxEmd : bool, optional, and int
        Whether costs are symmetric; None looks. Linear problems are always solved.

    Returns
    -------
    w, Cembedded, T, loss : arrays of shape (D,), (nt, nt) and (ns, nt), and scalar
        Weights of sum one, the mean of the atoms, and the plan.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> C = 1 - np.eye(5)
    >>> gwfast.pot.gromov_wasserstein_linear_unmixing(C, np.stack([C, C / 2]))[0].round(3)
    array([1., 0.])
    """
    limits = Limits.of(reg, tol_outer, tol_inner, max_iter_outer, max_iter_inner)
    return unmix(C, None, Cdict, None, None, p, q, limits, symmetric)


def fused_gromov_wasserstein_linear_unmixing(
    C: CostLike,
    Y: ArrayLike,
    Cdict: ArrayLike,
    Ydict: ArrayLike,
    alpha: float,
    reg: float = 0.0,
    p: Masses = None,
    q: Masses = None,
    tol_outer: float = 1e-5,
    tol_inner: float = 1e-5,
    max_iter_outer: int = 20,
    max_iter_inner: int = 200,
    symmetric: bool | None = True,
    *,
    numItermaxEmd: float = 100_000,
) -> tuple[Any, ...]:
    """Return the same with features, and after `Cembedded` the mean of the features of the atoms,
    `Yembedded` of shape (nt, d), as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.fused_gromov_wasserstein_linear_unmixing>`__.
    For other parameters see `gromov_wasserstein_linear_unmixing`.

    Parameters
    ----------
    Y, Ydict, alpha : arrays of shape (ns, d) and (D, nt, d), and float
        Features of the points, and of the atoms; weight of the structures.
    """
    limits = Limits.of(reg, tol_outer, tol_inner, max_iter_outer, max_iter_inner)
    return unmix(C, Y, Cdict, Ydict, as_weight(alpha, "alpha"), p, q, limits, symmetric)


def gromov_wasserstein_dictionary_learning(
    Cs: Sequence[CostLike],
    D: int,
    nt: int,
    reg: float = 0.0,
    ps: Sequence[ArrayLike] | None = None,
    q: Masses = None,
    epochs: int = 20,
    batch_size: int = 32,
    learning_rate: float = 1.0,
    Cdict_init: ArrayLike | None = None,
    projection: str = "nonnegative_symmetric",
    use_log: bool = True,
    tol_outer: float = 1e-5,
    tol_inner: float = 1e-5,
    max_iter_outer: int = 20,
    max_iter_inner: int = 200,
    use_adam_optimizer: bool = True,
    verbose: bool = False,
    random_state: Seed = None,
    *,
    numItermaxEmd: float = 100_000,
) -> tuple[Any, ...]:
    """Return atoms such that each space is near a weighted mean of them, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.gromov_wasserstein_dictionary_learning>`__.
    For other parameters see `gromov_wasserstein_linear_unmixing`.

    Parameters
    ----------
    Cs, ps, D, nt : S arrays of shape (ns, ns), or graphs, S arrays of shape (ns,), int and int
        The spaces and their masses; number of atoms, and of points of an atom.
    epochs, batch_size, learning_rate, use_adam_optimizer, random_state
        An epoch takes all spaces, in batches that are drawn by POT's random numbers and unmixed
        together; after a batch atoms make a step of this length, by Adam or along the gradient.
    Cdict_init : array-like of shape (D, nt, nt), optional
        By default normal numbers with the mean of the costs.
    projection : str, default="nonnegative_symmetric"
        What atoms are made after every step: "nonnegative", "symmetric", both, or neither.
    use_log, verbose : bool
        Whether to fill the log, and to print the loss of every epoch.

    Returns
    -------
    Cdict, log : array of shape (D, nt, nt), and dict
        The atoms of the epoch with the least loss; sums of losses, "loss_batches", "loss_epochs".
    """
    inits, rates = {"Cdict_init": Cdict_init}, {"learning_rate": learning_rate}
    limits = Limits.of(reg, tol_outer, tol_inner, max_iter_outer, max_iter_inner)
    training = Training(epochs, batch_size, rates, projection, use_log, use_adam_optimizer, verbose)
    return learn(Cs, None, D, nt, None, ps, q, inits, limits, training, random_state)


def fused_gromov_wasserstein_dictionary_learning(
    Cs: Sequence[CostLike],
    Ys: Sequence[ArrayLike],
    D: int,
    nt: int,
    alpha: float,
    reg: float = 0.0,
    ps: Sequence[ArrayLike] | None = None,
    q: Masses = None,
    epochs: int = 20,
    batch_size: int = 32,
    learning_rate_C: float = 1.0,
    learning_rate_Y: float = 1.0,
    Cdict_init: ArrayLike | None = None,
    Ydict_init: ArrayLike | None = None,
    projection: str = "nonnegative_symmetric",
    use_log: bool = False,
    tol_outer: float = 1e-5,
    tol_inner: float = 1e-5,
    max_iter_outer: int = 20,
    max_iter_inner: int = 200,
    use_adam_optimizer: bool = True,
    verbose: bool = False,
    random_state: Seed = None,
    *,
    numItermaxEmd: float = 100_000,
) -> tuple[Any, ...]:
    """Return the same with features, and after `Cdict` the features of the atoms, `Ydict`, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.fused_gromov_wasserstein_dictionary_learning>`__.
    For other parameters see `gromov_wasserstein_dictionary_learning` and
    `fused_gromov_wasserstein_linear_unmixing`.

    Parameters
    ----------
    Ys, Ydict_init : S arrays of shape (ns, d), and array of shape (D, nt, d), optional
        Features, and their first atoms, by default normal numbers with the means of the features.
    learning_rate_C, learning_rate_Y : float, default=1
        Length of a step of the structures, and of the features.
    """
    inits = {"Cdict_init": Cdict_init, "Ydict_init": Ydict_init}
    rates = {"learning_rate_C": learning_rate_C, "learning_rate_Y": learning_rate_Y}
    alpha = as_weight(alpha, "alpha")
    limits = Limits.of(reg, tol_outer, tol_inner, max_iter_outer, max_iter_inner)
    training = Training(epochs, batch_size, rates, projection, use_log, use_adam_optimizer, verbose)
    return learn(Cs, Ys, D, nt, alpha, ps, q, inits, limits, training, random_state)
