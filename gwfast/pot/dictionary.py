"""Dictionaries of spaces, called as in POT: learned, and what is near their atoms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..problems.graphs import CostLike
from ._dictionary import dictionary_learning, unmixing
from ._siblings import like
from .exact import fused_gromov_wasserstein

__all__ = [
    "fused_gromov_wasserstein_dictionary_learning",
    "fused_gromov_wasserstein_linear_unmixing",
    "gromov_wasserstein_dictionary_learning",
    "gromov_wasserstein_linear_unmixing",
]


@like(fused_gromov_wasserstein)
def gromov_wasserstein_linear_unmixing(
    C: CostLike,
    Cdict: ArrayLike,
    reg: float = 0.0,
    p: ArrayLike | None = None,
    q: ArrayLike | None = None,
    tol_outer: float = 1e-5,
    tol_inner: float = 1e-5,
    max_iter_outer: int = 20,
    max_iter_inner: int = 200,
    symmetric: bool | None = None,
    *,
    numItermaxEmd: float = 100_000,
) -> tuple[Any, ...]:
    """Weights of the atoms of a dictionary whose mean is nearest to a space, as
    `ot.gromov.gromov_wasserstein_linear_unmixing`.

    Plan and weights are found in turn, and lead to a local minimum of the
    Gromov-Wasserstein loss (Vincent-Cuaz et al., ICML 2021).

    Parameters
    ----------
    C : array-like of shape (ns, ns), or graph
    Cdict : array-like of shape (D, nt, nt)
        Structures of the atoms.
    reg : float, default=0
        Weight of the squared norm of the weights, which is taken from the loss: few
        atoms are preferred.
    p, q : array-like of shape (ns,) and (nt,), optional
        Masses of the space, and of all atoms, of one total; uniform by default.
    tol_outer : float, default=1e-5
        Relative change of the loss at which turns end.
    tol_inner : float, default=1e-5
        The same of the descents for a plan, and for weights.
    max_iter_outer : int, default=20
        Limit of turns.
    max_iter_inner : int, default=200
        Limit of steps of each descent.

    Returns
    -------
    w : array of shape (D,)
        Not negative, with a sum of one.
    Cembedded : array of shape (nt, nt)
        The mean of the atoms.
    T : array of shape (ns, nt)
    loss : scalar

    Examples
    --------
    >>> w, embedded, plan, loss = pot.gromov_wasserstein_linear_unmixing(
    ...     C1, np.stack([C2, C2 / 2])
    ... )
    >>> w.round(3)
    array([1., 0.])
    """
    return unmixing(locals())


@like(gromov_wasserstein_linear_unmixing, fused_gromov_wasserstein)
def fused_gromov_wasserstein_linear_unmixing(
    C: CostLike,
    Y: ArrayLike,
    Cdict: ArrayLike,
    Ydict: ArrayLike,
    alpha: float,
    reg: float = 0.0,
    p: ArrayLike | None = None,
    q: ArrayLike | None = None,
    tol_outer: float = 1e-5,
    tol_inner: float = 1e-5,
    max_iter_outer: int = 20,
    max_iter_inner: int = 200,
    symmetric: bool | None = True,
    *,
    numItermaxEmd: float = 100_000,
) -> tuple[Any, ...]:
    """The same with features, as `ot.gromov.fused_gromov_wasserstein_linear_unmixing`.

    Parameters
    ----------
    Y : array-like of shape (ns, d)
        Features of the points.
    Ydict : array-like of shape (D, nt, d)
        Features of the atoms.
    alpha : float
        Weight of the structures.

    Returns
    -------
    w : array of shape (D,)
        Not negative, with a sum of one.
    Cembedded, Yembedded : array of shape (nt, nt) and (nt, d)
        The means of the atoms.
    T : array of shape (ns, nt)
    loss : scalar

    Examples
    --------
    >>> Y = x[:, None]
    >>> w, embedded, features, plan, loss = (
    ...     pot.fused_gromov_wasserstein_linear_unmixing(
    ...         C1, Y, np.stack([C2, C2 / 2]), np.stack([Y[::-1], Y / 2]), alpha=0.5
    ...     )
    ... )
    >>> w.round(3)
    array([1., 0.])
    """
    return unmixing(locals())


@like(gromov_wasserstein_linear_unmixing)
def gromov_wasserstein_dictionary_learning(
    Cs: Sequence[CostLike],
    D: int,
    nt: int,
    reg: float = 0.0,
    ps: Sequence[ArrayLike] | None = None,
    q: ArrayLike | None = None,
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
    random_state: int | np.random.RandomState | None = None,
    *,
    numItermaxEmd: float = 100_000,
) -> tuple[Any, ...]:
    """A dictionary of atoms such that each space is near a weighted mean of them, as
    `ot.gromov.gromov_wasserstein_dictionary_learning`.

    Spaces of one batch are unmixed together, on threads (Vincent-Cuaz et al., ICML 2021).

    Parameters
    ----------
    Cs : list of S array-like of shape (ns, ns), or graphs
    D : int
        Atoms.
    nt : int
        Points of an atom.
    ps : list of S array-like of shape (ns,), optional
        Masses of the spaces, uniform by default.
    q : array-like of shape (nt,), optional
        Masses of all atoms, uniform by default.
    epochs : int, default=20
        Each has as many batches as take all spaces, drawn at random.
    batch_size : int, default=32
    learning_rate : float, default=1
        Length of a step of the atoms.
    Cdict_init : array-like of shape (D, nt, nt), optional
        By default normal numbers with the mean of the costs.
    projection : str, default="nonnegative_symmetric"
        What atoms are made after every step: "nonnegative" or "symmetric" where this
        has the word, both, or none.
    use_log : bool, default=True
        Whether the log is filled.
    use_adam_optimizer : bool, default=True
        Whether steps are those of Adam, or the gradient.
    verbose : bool, default=False
        Print the loss of every epoch.
    random_state : int, RandomState or None, default=None
        POT's random numbers.

    Returns
    -------
    Cdict : array of shape (D, nt, nt)
        That of the end of the epoch that has the least loss.
    log : dict
        "loss_batches" and "loss_epochs", sums of the losses.

    Examples
    --------
    >>> atoms, log = pot.gromov_wasserstein_dictionary_learning(
    ...     [C1, C2, C1 / 2], D=2, nt=3, epochs=4, random_state=0
    ... )
    >>> atoms.shape, len(log["loss_epochs"])
    ((2, 3, 3), 4)
    """
    return dictionary_learning(locals())


@like(gromov_wasserstein_dictionary_learning, fused_gromov_wasserstein_linear_unmixing)
def fused_gromov_wasserstein_dictionary_learning(
    Cs: Sequence[CostLike],
    Ys: Sequence[ArrayLike],
    D: int,
    nt: int,
    alpha: float,
    reg: float = 0.0,
    ps: Sequence[ArrayLike] | None = None,
    q: ArrayLike | None = None,
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
    random_state: int | np.random.RandomState | None = None,
    *,
    numItermaxEmd: float = 100_000,
) -> tuple[Any, ...]:
    """The same with features, as
    `ot.gromov.fused_gromov_wasserstein_dictionary_learning`.

    Parameters
    ----------
    Ys : list of S array-like of shape (ns, d)
        Features of the points.
    learning_rate_C, learning_rate_Y : float, default=1
        Length of a step of the structures, and of the features.
    Ydict_init : array-like of shape (D, nt, d), optional
        By default normal numbers with the means of the features.
    use_log : bool, default=False
        Whether the log is filled.

    Returns
    -------
    Cdict, Ydict : array of shape (D, nt, nt) and (D, nt, d)
        Those of the end of the epoch that has the least loss.
    log : dict
        "loss_batches" and "loss_epochs", sums of the losses.

    Examples
    --------
    >>> structures, features, log = pot.fused_gromov_wasserstein_dictionary_learning(
    ...     [C1, C2, C1 / 2], [x[:, None]] * 3, D=2, nt=3, alpha=0.5, epochs=4
    ... )
    >>> structures.shape, features.shape
    ((2, 3, 3), (2, 3, 1))
    """
    return dictionary_learning(locals())
