"""Semi-relaxed barycenters of spaces, called as in POT: plans have the masses of the spaces, and
the barycenter gets different masses from each space.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..problems.graphs import CostLike
from ._spaces import one_by_one
from ._starts import PARTITIONS, STARTS, feature_centers, named_plan, random_generator
from .arrays import pots_choice
from .barycenters import Barycenter, StopCriterion
from .call import Call, LossFun, Plan
from .exact import solve_all_exact

__all__ = ["semirelaxed_fgw_barycenters", "semirelaxed_gromov_barycenters"]


class SemirelaxedBarycenter(Barycenter):
    """Plans are from the spaces to the barycenter, and stand side by side transposed."""

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
        self.begin(structure, Y, {}, **options)

    def call(self, s, C, Y, names, **options):
        cost, _, masses = self._names[s]
        names = {"C1": cost, "C2": "init_C", "p": masses}
        sides, M = (self.costs[s], C, self._masses[s]), self.costs_between(Y, s)
        return Call.of(*sides, M=M, marginals="semirelaxed", names=names, **options)

    def calls_at(self, Cs, Ys, starts, some):
        # As in POT, plans by name are made again for each barycenter.
        return [
            call
            if call.G0 is not None
            else dataclasses.replace(call, G0=named_plan(call, self._method, 0, True))
            for call in super().calls_at(Cs, Ys, starts, some)
        ]

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


def semirelaxed_gromov_barycenters(
    N: int, Cs: Sequence[CostLike], ps: Sequence[ArrayLike] | None = None,
    lambdas: ArrayLike | None = None, loss_fun: LossFun = "square_loss",
    symmetric: bool | None = True, max_iter: float = 1000, tol: float = 1e-9,
    stop_criterion: StopCriterion = "barycenter", warmstartT: bool = False, verbose: bool = False,
    log: bool = False, init_C: ArrayLike | None = None, G0: str = "product",
    random_state: int | np.random.RandomState | None = None,
) -> Plan:  # fmt: skip
    """Return the semi-relaxed Gromov-Wasserstein barycenter of spaces without entropy, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.semirelaxed_gromov_barycenters>`__.
    For other parameters see `entropic_gromov_barycenters`.

    Parameters
    ----------
    init_C : array-like of shape (N, N), optional
        By default the structure of the plans `G0`, with a little noise if these are products.
    G0 : str, default="product"
        Plans to start from: "product", "random_product" or "random", or by clusters (with POT)
        "fluid", "spectral", "kmeans", "fluid_soft", "spectral_soft" or "kmeans_soft".

    Returns
    -------
    C : array of shape (N, N)
        Zero between points that no space takes together.
    log : dict
        As of `entropic_gromov_barycenters`, with plans "T" of shape (ns, N), and "p" of shape
        (S, N), the masses that each space gives.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> gwfast.pot.semirelaxed_gromov_barycenters(4, [1 - np.eye(5)], random_state=0).shape
    (4, 4)
    """
    spaces = SemirelaxedBarycenter(
        N, Cs, ps, None, lambdas, loss_fun, symmetric, init_C, random_state, G0=G0
    )
    solve = one_by_one(spaces, solve_all_exact, max_iter=max_iter, tol_rel=tol, verbose=verbose)
    return spaces.update(solve, max_iter, tol, stop_criterion, warmstartT, verbose, log)


def semirelaxed_fgw_barycenters(
    N: int, Ys: Sequence[ArrayLike], Cs: Sequence[CostLike], ps: Sequence[ArrayLike] | None = None,
    lambdas: ArrayLike | None = None, alpha: float = 0.5, fixed_structure: bool = False,
    fixed_features: bool = False, p: ArrayLike | None = None, loss_fun: LossFun = "square_loss",
    symmetric: bool | None = True, max_iter: float = 100, tol: float = 1e-9,
    stop_criterion: StopCriterion = "barycenter", warmstartT: bool = False, verbose: bool = False,
    log: bool = False, init_C: ArrayLike | None = None, init_X: ArrayLike | None = None,
    G0: str = "product", random_state: int | np.random.RandomState | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the semi-relaxed fused Gromov-Wasserstein barycenter without entropy, as `POT
    <https://pythonot.github.io/gen_modules/ot.gromov.html#ot.gromov.semirelaxed_fgw_barycenters>`__.
    For other parameters see `semirelaxed_gromov_barycenters` and `fgw_barycenters`.

    Parameters
    ----------
    p, init_X : arrays of shape (N,) and (N, d), optional
        `p` is without effect, as in POT. Features are by default the features of the plans, or with
        clusters centers by scikit-learn.

    Returns
    -------
    X, C, log
        As of `fgw_barycenters`, with "T" and "p" of `semirelaxed_gromov_barycenters`.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> spaces = [np.eye(5)] * 2, [1 - np.eye(5)] * 2
    >>> gwfast.pot.semirelaxed_fgw_barycenters(4, *spaces, random_state=0)[0].shape
    (4, 5)
    """
    spaces = SemirelaxedBarycenter(
        N, Cs, ps, None, lambdas, loss_fun, symmetric, init_C, random_state, Ys, init_X, alpha,
        "init_X", G0,
    )  # fmt: skip
    solve = one_by_one(spaces, solve_all_exact, max_iter=max_iter, tol_rel=tol, verbose=verbose)
    return spaces.update(
        solve, max_iter, tol, stop_criterion, warmstartT, verbose, log, fixed_structure,
        fixed_features,
    )  # fmt: skip
