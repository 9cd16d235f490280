"""Distances from graphs to templates, as in POT's layers of graph networks, in compiled code."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist

from ..kernels.threads import single_threaded_blas
from ..problems.geometry import within_range
from ..problems.losses import SQUARE
from ..quadratic.frank_wolfe import ExactLimits
from ..utils.validation import MASS_TOLERANCE, as_array, check_finite
from ._spaces import ExactDescents, exact_space
from .arrays import Arrays, as_host
from .gradients import centered, traced
from .unified import LeftToPot

__all__ = ["FGW_distance_to_templates", "wasserstein_distance_to_templates"]


def _losses(arrays, batch, alphas=None, edges=None):
    """Return the losses, with gradients; without `edges` of features alone."""
    Y, X = _read(arrays, "tplt_features", (None,) * 3), _read(arrays, "G_features", (None,) * 2)
    size, m, width = Y.shape
    _check_shape("G_features", X, (len(X), width))
    q, C = _read(arrays, "tplt_weights", (size, m)), np.zeros((size, m, m))
    if not (q > 0).all():
        raise LeftToPot(f"tplt_weights must be positive, got {q.min()}")
    error = abs(q.sum(axis=1) - 1).max()
    if error > MASS_TOLERANCE:
        raise ValueError(f"tplt_weights must sum to one, got a row off by {error:.2g}")
    if edges is None:
        alphas = np.zeros(size)
    else:
        C = _read(arrays, "tplt_adjacencies", (size, m, m))
        # Updates add up the rounding of float32.
        if abs(C - C.swapaxes(1, 2)).max() > 1e-4 * abs(C).max():
            raise LeftToPot("tplt_adjacencies must be symmetric, got edges that go one way")
        C = (C + C.swapaxes(1, 2)) / 2
    graphs = Graphs(X, batch, edges)
    with single_threaded_blas():
        distances = Distances(graphs, C, Y, q / q.sum(axis=1, keepdims=True), alphas)
    losses = distances.losses[0] if batch is None else distances.losses

    def gradient(upstream):
        by_name = distances.gradients(upstream)
        if "alpha" in by_name and arrays["alpha"].size == 1:
            by_name["alpha"] = by_name["alpha"].sum()
        return by_name

    return traced(arrays.back(losses), arrays, gradient)


def _read(arrays, name, shape):
    """Return an array of that shape, where None is any size, in float64."""
    x = as_array(arrays[name], name).astype(np.float64)
    if x.ndim != len(shape) or not x.size:
        raise ValueError(f"{name} must be {len(shape)}-D and not empty, got shape {x.shape}")
    if None not in shape:
        _check_shape(name, x, shape)
    check_finite(x, name, x.sum())
    return within_range(x, name)


def _whole_numbers(x, name, end):
    """Return an array of whole numbers below `end`."""
    x = as_host(x, name)
    if x.dtype.kind not in "iu" or (x.size and not 0 <= x.min() <= x.max() < end):
        raise ValueError(f"{name} must hold whole numbers from 0 to {end - 1}, got {x}")
    return x


def _check_shape(name, x, shape):
    if x.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {x.shape}")


class Graphs:
    """The graphs of a batch: nodes in the `order` of graphs, and numbers of edges as costs."""

    def __init__(self, X, batch, edges):
        n, graph = len(X), np.zeros(len(X), dtype=int)
        if batch is not None:
            graph = _whole_numbers(batch, "batch", n)
            _check_shape("batch", graph, (n,))
        self.order, self.sizes = np.argsort(graph, kind="stable"), np.bincount(graph)
        if not self.sizes.all():
            empty = int(np.argmin(self.sizes))
            raise ValueError(f"batch must have nodes of all graphs, got no nodes of {empty}")
        ends = np.cumsum(self.sizes)
        self.begins = ends - self.sizes
        self.parts = list(map(slice, self.begins, ends))
        self.X, self.masses = X[self.order], np.repeat(1 / self.sizes, self.sizes)
        self.costs = [np.zeros((size, size)) for size in self.sizes]
        if edges is not None:
            self._count(_whole_numbers(edges, "G_edges", n), graph)

    def _count(self, edges, graph):
        """Count the edges within graphs."""
        if edges.ndim != 2 or len(edges) != 2:
            raise ValueError(f"G_edges must have shape (2, n_edges), got {edges.shape}")
        of = graph[edges[0]]
        within = of == graph[edges[1]]
        of = of[within]
        rows, columns = np.argsort(self.order)[edges[:, within]] - self.begins[of]
        ends = np.cumsum(self.sizes**2)
        places = (ends - self.sizes**2)[of] + rows * self.sizes[of] + columns
        counts = np.bincount(places, minlength=ends[-1]).astype(np.float64)
        blocks = zip(np.split(counts, ends[:-1]), self.sizes, strict=True)
        self.costs = [block.reshape(size, size) for block, size in blocks]
        if any((cost != cost.T).any() for cost in self.costs):
            raise LeftToPot("G_edges must go both ways, got edges that go one way")

    def spaces(self, alpha):
        """Return the `Space` of each graph, with that weight of the structure."""
        X = np.sqrt(1 - alpha) * self.X
        return [
            exact_space(1, cost, self.masses[part], SQUARE, alpha, X[part])
            for cost, part in zip(self.costs, self.parts, strict=True)
        ]


class Distances:
    """The losses (n_graphs, n_templates) of plans from templates, with symmetric costs C
    (n_templates, m, m), features Y (n_templates, m, d), positive masses q and weights, to graphs.
    """

    def __init__(self, graphs, C, Y, q, alphas):
        self._graphs, self._C, self._Y, self._q, self._alphas = graphs, C, Y, q, alphas
        (size, m), n_graphs, n_nodes = q.shape, len(graphs.sizes), len(graphs.X)
        plans = np.empty((m, size * n_nodes))
        potentials = np.empty(size * (n_graphs * m + n_nodes))
        begins = np.add.outer(n_nodes * np.arange(size), graphs.begins).ravel()
        parts = list(map(slice, begins, begins + np.tile(graphs.sizes, size)))
        of_alpha = {alpha: graphs.spaces(alpha) for alpha in set(alphas)}
        templates = [
            exact_space(0, *sides, SQUARE, alpha, np.sqrt(1 - alpha) * features)
            for *sides, alpha, features in zip(C, q, alphas, Y, strict=True)
        ]
        firsts = [template for template in templates for _ in range(n_graphs)]
        seconds = [space for alpha in alphas for space in of_alpha[alpha]]
        # The limits of POT's layers.
        limits = ExactLimits(max_outer=50, tol=0.0, min_relative=1e-9, min_change=1e-9)
        losses = ExactDescents(limits, 0.5).solve(firsts, seconds, plans, parts, False, potentials)
        self._plans = plans.reshape(m, size, n_nodes).transpose(1, 0, 2)
        firsts_of_rows = m * np.arange(len(begins)) + begins
        rows = potentials[firsts_of_rows[:, None] + np.arange(m)]
        self._potentials = rows.reshape(size, n_graphs, m)
        self.losses = losses.reshape(size, n_graphs).T

    def gradients(self, upstream):
        """Return the gradients of ``sum upstream * losses`` by names, with all plans held still."""
        graphs, Y, X = self._graphs, self._Y, self._graphs.X
        alphas, upstream = self._alphas[:, None], upstream.reshape(self.losses.shape).T
        of_nodes = np.repeat(upstream, graphs.sizes, axis=1)
        weighted_plans = self._plans * of_nodes[:, None]
        # Squared distances of features.
        total, to_graphs = weighted_plans.sum(axis=2), (1 - alphas) * of_nodes * graphs.masses
        of_Y = 2 * (1 - alphas[:, None]) * (total[:, :, None] * Y - weighted_plans @ X)
        back = ((1 - alphas[:, None]) * weighted_plans).transpose(2, 0, 1)
        of_X = np.empty_like(X)
        of_X[graphs.order] = 2 * (to_graphs.sum(axis=0)[:, None] * X - np.tensordot(back, Y, 2))
        potentials = np.einsum("kg,kgm->km", upstream, self._potentials)
        # Constants of the nodes of templates.
        added = alphas * (SQUARE.f1(self._C) @ self._q[:, :, None])[:, :, 0]
        potentials += upstream.sum(axis=1)[:, None] * added
        by_name = {"G_features": of_X, "tplt_features": of_Y}
        by_name["tplt_weights"] = np.array([centered(2 * x) for x in potentials])
        if alphas.all():
            by_name |= self._of_structures(upstream, weighted_plans)
        return by_name

    def _of_structures(self, upstream, weighted_plans):
        """Return the gradients in adjacencies of templates and alpha."""
        graphs, q, Y, X = self._graphs, self._q, self._Y, self._graphs.X
        weight = upstream.sum(axis=1)[:, None, None]
        sides = zip(graphs.parts, graphs.costs, strict=True)
        along = np.concatenate([self._plans[:, :, part] @ cost for part, cost in sides], axis=2)
        of_C = weight * self._C * q[:, :, None] * q[:, None] - weighted_plans @ along.swapaxes(1, 2)
        # Symmetric but for rounding, which steps that are scaled by it would enlarge.
        of_C = self._alphas[:, None, None] * (of_C + of_C.swapaxes(1, 2))
        distances = cdist(Y.reshape(-1, Y.shape[2]), X, "sqeuclidean").reshape(self._plans.shape)
        linear = np.add.reduceat((self._plans * distances).sum(axis=1), graphs.begins, axis=1)
        of_alpha = (upstream * (self.losses.T - linear)).sum(axis=1) / self._alphas
        return {"tplt_adjacencies": of_C, "alpha": of_alpha}


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
    """Return fused Gromov-Wasserstein losses between graphs and templates, as `POT
    <https://pythonot.github.io/gen_modules/ot.gnn.html>`__, whose ``ot.gnn.TFGWPooling`` calls it:
    an array (n_graphs, n_templates), or (n_templates,) without `batch`. Tensors have gradients in
    adjacencies, features, weights and alpha. Edges that go one way, zero weights and ``alpha=0``
    are a NotImplementedError, and left to POT while it is swapped.

    Parameters
    ----------
    G_edges, G_features, batch : arrays of shape (2, n_edges), (n_nodes, d) and (n_nodes,)
        Numbers of the nodes that edges join, of both directions; features of nodes, and the number
        of the graph of each, by default one graph.
    tplt_adjacencies, tplt_features, tplt_weights : arrays (n_templates, m, ...)
        Costs (m, m), features (m, d) and masses (m,) of templates, positive and of sum one.
    alpha, multi_alpha : float or array-like of shape (1,) or (n_templates,), default=0.5, and bool
        Weight of the structure, above 0, or whether there is a weight for each template.

    Examples
    --------
    >>> import numpy as np, gwfast
    >>> path = np.eye(4, k=1) + np.eye(4, k=-1)
    >>> graph, features = np.array(path.nonzero()), np.zeros((2, 4, 1))
    >>> templates, weights = np.array([path, 1 - np.eye(4)]), np.full((2, 4), 0.25)
    >>> gwfast.pot.FGW_distance_to_templates(graph, templates, features[0], features, weights)
    array([0.    , 0.1875])
    """
    alpha = [alpha] if isinstance(alpha, numbers.Real) else alpha  # a number has no library
    named = dict(G_features=G_features, tplt_features=tplt_features, tplt_weights=tplt_weights)
    named |= dict(tplt_adjacencies=tplt_adjacencies, alpha=alpha)
    arrays = Arrays(named, traces=True)
    size = len(as_array(arrays["tplt_weights"], "tplt_weights"))
    alphas = as_array(arrays["alpha"], "alpha").astype(np.float64).ravel()
    expected = size if multi_alpha else 1
    if len(alphas) != expected:
        raise ValueError(f"alpha must have {expected} entries, got {len(alphas)}")
    if not ((alphas >= 0) & (alphas <= 1)).all():
        raise ValueError(f"alpha must be between 0 and 1, got {alphas}")
    if not alphas.all():
        raise LeftToPot("alpha must be positive, got 0")
    return _losses(arrays, batch, np.broadcast_to(alphas, size), G_edges)


def wasserstein_distance_to_templates(
    G_features: ArrayLike,
    tplt_features: ArrayLike,
    tplt_weights: ArrayLike,
    batch: ArrayLike | None = None,
) -> Any:
    """Return Wasserstein losses between features of graphs and of templates, as `POT
    <https://pythonot.github.io/gen_modules/ot.gnn.html>`__, whose ``ot.gnn.TWPooling`` calls it.
    For parameters see `FGW_distance_to_templates`.
    """
    named = dict(G_features=G_features, tplt_features=tplt_features, tplt_weights=tplt_weights)
    return _losses(Arrays(named, traces=True), batch)
