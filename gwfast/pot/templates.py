"""Distances from graphs to templates, called as in POT's layers of graph networks."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..utils.validation import as_array
from ._templates import NOT_HERE, distances
from .arrays import Arrays
from .unified import LeftToPot

__all__ = ["FGW_distance_to_templates", "wasserstein_distance_to_templates"]


def FGW_distance_to_templates(
    G_edges: ArrayLike,
    tplt_adjacencies: ArrayLike,
    G_features: ArrayLike,
    tplt_features: ArrayLike,
    tplt_weights: ArrayLike,
    alpha: ArrayLike = 0.5,
    multi_alpha: bool = False,
    batch: ArrayLike | None = None,
) -> Any:
    """Fused Gromov-Wasserstein losses between graphs and templates, as
    `ot.gnn.FGW_distance_to_templates`, which `ot.gnn.TFGWPooling` calls (Vincent-Cuaz
    et al., NeurIPS 2022).

    Parameters
    ----------
    G_edges : array-like of shape (2, n_edges)
        Numbers of the nodes that each edge joins; edges of both directions.
    tplt_adjacencies : array-like of shape (n_templates, m, m)
    G_features : array-like of shape (n_nodes, d)
    tplt_features : array-like of shape (n_templates, m, d)
    tplt_weights : array-like of shape (n_templates, m)
        Masses of the nodes of each template, positive and with a sum of one.
    alpha : float or array-like of shape (1,) or (n_templates,), default=0.5
        Weight of the structure, above 0, that of features is ``1 - alpha``.
    multi_alpha : bool, default=False
        Whether there is one for each template.
    batch : array-like of shape (n_nodes,), optional
        The number of the graph that each node is of; by default there is one graph.

    Returns
    -------
    losses : array of shape (n_graphs, n_templates), or (n_templates,) without `batch`
        Of the library and dtype of the input. Tensors of torch have gradients in
        adjacencies, features and weights of templates, features of graphs and alpha.

    Raises
    ------
    NotImplementedError
        If edges go one way, a weight or alpha is zero; POT solves these while its
        function is swapped.
    TypeError, ValueError
        If an argument has the wrong type, shape or value; the message names it.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> path, ring = np.eye(4, k=1) + np.eye(4, k=-1), np.zeros((4, 1))
    >>> edges = np.array(path.nonzero())
    >>> templates = np.array([path, 1 - np.eye(4)]), np.zeros((2, 4, 1))
    >>> weights = np.full((2, 4), 0.25)
    >>> losses = pot.FGW_distance_to_templates(
    ...     edges, templates[0], np.zeros((4, 1)), templates[1], weights
    ... )
    >>> losses.round(4)
    array([0.    , 0.1875])
    """
    arrays = Arrays(
        dict(
            tplt_features=tplt_features,
            tplt_weights=tplt_weights,
            G_features=G_features,
            tplt_adjacencies=tplt_adjacencies,
            # A number has no library.
            alpha=[alpha] if isinstance(alpha, numbers.Real) else alpha,
        ),
        traces=True,
    )
    size = len(as_array(arrays["tplt_weights"], "tplt_weights"))
    alphas = as_array(arrays["alpha"], "alpha").astype(np.float64).ravel()
    expected = size if multi_alpha else 1
    if len(alphas) != expected:
        raise ValueError(f"alpha must have {expected} entries, got {len(alphas)}")
    if not ((alphas >= 0) & (alphas <= 1)).all():
        raise ValueError(f"alpha must be between 0 and 1, got {alphas}")
    if not alphas.all():
        raise LeftToPot(f"alpha of zero {NOT_HERE}")
    return distances(arrays, batch, np.broadcast_to(alphas, size), G_edges)


def wasserstein_distance_to_templates(
    G_features: ArrayLike,
    tplt_features: ArrayLike,
    tplt_weights: ArrayLike,
    batch: ArrayLike | None = None,
) -> Any:
    """Wasserstein losses between features of graphs and of templates, as
    `ot.gnn.wasserstein_distance_to_templates`, which `ot.gnn.TWPooling` calls.

    Parameters
    ----------
    G_features : array-like of shape (n_nodes, d)
    tplt_features : array-like of shape (n_templates, m, d)
    tplt_weights : array-like of shape (n_templates, m)
        Masses of the nodes of each template, positive and with a sum of one.
    batch : array-like of shape (n_nodes,), optional
        The number of the graph that each node is of; by default there is one graph.

    Returns
    -------
    losses : array of shape (n_graphs, n_templates), or (n_templates,) without `batch`
        With gradients as those of `FGW_distance_to_templates`.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import pot
    >>> nodes, template = np.array([[0.0], [1.0]]), np.array([[[0.0], [3.0]]])
    >>> pot.wasserstein_distance_to_templates(nodes, template, np.full((1, 2), 0.5))
    array([2.])
    """
    arrays = Arrays(
        dict(tplt_features=tplt_features, tplt_weights=tplt_weights, G_features=G_features),
        traces=True,
    )
    return distances(arrays, batch)
