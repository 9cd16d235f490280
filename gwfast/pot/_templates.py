"""All problems between the graphs of a batch and templates, solved in one compiled
call, and the gradients of all.
"""

import numpy as np
from scipy import sparse

from ..kernels._exact_pairs import Space
from ..kernels.threads import single_threaded_blas
from ..problems.geometry import within_range
from ..problems.losses import SQUARE
from ..quadratic.frank_wolfe import ExactLimits
from ..utils.validation import MASS_TOLERANCE, as_array, check_finite
from ._exact_batch import ExactDescents
from .arrays import as_host
from .gradients import centered, traced
from .unified import LeftToPot

NOT_HERE = (
    "is none of gwfast's: it has graphs and templates whose edges go both ways, "
    "templates of positive weights, and alpha above 0. While POT's functions are "
    "swapped (gwfast.pot.patch()), others are left to POT"
)


def distances(arrays, batch, alphas=None, edges=None):
    """Return the values of functions by argument name; without `edges` no structures."""
    Y, X = _finite(arrays, "tplt_features", 3), _finite(arrays, "G_features", 2)
    size, m, width = Y.shape
    _check_shape("G_features", X, (len(X), width))
    q, C = _finite(arrays, "tplt_weights", 2), np.zeros((size, m, m))
    _check_shape("tplt_weights", q, (size, m))
    if not (q > 0).all():
        raise LeftToPot(f"a weight of {q.min()} {NOT_HERE}")
    off = abs(q.sum(axis=1) - 1).max()
    if off > MASS_TOLERANCE:
        raise ValueError(f"tplt_weights must sum to one, got a row off by {off:.2g}")
    if edges is None:
        alphas = np.zeros(size)
    else:
        C = _finite(arrays, "tplt_adjacencies", 3)
        _check_shape("tplt_adjacencies", C, (size, m, m))
        # Updates add up the rounding of float32.
        if abs(C - C.swapaxes(1, 2)).max() > 1e-4 * abs(C).max():
            raise LeftToPot(f"an edge of a template that goes one way {NOT_HERE}")
        C = (C + C.swapaxes(1, 2)) / 2
    q = q / q.sum(axis=1, keepdims=True)
    with single_threaded_blas():
        found = Distances(Graphs(X, batch, edges), C, Y, q, alphas)
    made = arrays.back(found.losses[0] if batch is None else found.losses)

    def gradient(upstream):
        made = found.gradients(upstream)
        if "alpha" in made and arrays["alpha"].size == 1:
            made["alpha"] = made["alpha"].sum()
        return made

    return traced(made, arrays, gradient)


def _finite(arrays, name, ndim):
    """An array of that many dimensions, in float64."""
    x = as_array(arrays[name], name).astype(np.float64)
    if x.ndim != ndim or not x.size:
        raise ValueError(f"{name} must be {ndim}-D and not empty, got shape {x.shape}")
    check_finite(x, name, x.sum())
    return within_range(x, name)


def _numbers(x, name, end):
    """Whole numbers below that."""
    x = as_host(x, name)
    if x.dtype.kind not in "iu" or (x.size and not 0 <= x.min() <= x.max() < end):
        raise ValueError(f"{name} must hold whole numbers from 0 to {end - 1}, got {x}")
    return x


def _check_shape(name, x, shape):
    if x.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {x.shape}")


class Graphs:
    """All graphs of a batch.

    Parameters
    ----------
    X : (n_nodes, d) ndarray
        Features.
    batch : array-like of shape (n_nodes,) or None
    edges : array-like of shape (2, n_edges) or None

    Attributes
    ----------
    order : (n_nodes,) ndarray of int
        Nodes in the order of their graphs, as in all that follows.
    X : (n_nodes, d) ndarray
    sizes, begins : (n_graphs,) ndarray of int
        Nodes of each graph, and the first of them.
    masses : (n_nodes,) ndarray
        Uniform in each graph.
    edges : (n_nodes, n_nodes) sparse array
        How many join two nodes of one graph.
    """

    def __init__(self, X, batch, edges):
        n, graph = len(X), np.zeros(len(X), dtype=int)
        if batch is not None:
            graph = _numbers(batch, "batch", n)
            _check_shape("batch", graph, (n,))
        self.order, self.sizes = np.argsort(graph, kind="stable"), np.bincount(graph)
        if not self.sizes.all():
            empty = int(np.argmin(self.sizes))
            raise ValueError(f"batch must have nodes of all graphs, got none of {empty}")
        self.begins = np.cumsum(self.sizes) - self.sizes
        self.X, self.masses = X[self.order], np.repeat(1 / self.sizes, self.sizes)
        self.edges = sparse.csr_array((n, n))
        if edges is not None:
            edges = _numbers(edges, "G_edges", n)
            if edges.ndim != 2 or len(edges) != 2:
                raise ValueError(f"G_edges must have shape (2, n_edges), got {edges.shape}")
            within = edges[:, graph[edges[0]] == graph[edges[1]]]
            pairs = np.argsort(self.order)[within]
            made = np.ones(pairs.shape[1]), tuple(pairs)
            self.edges = sparse.csr_array(made, shape=(n, n))
            if (self.edges != self.edges.T).nnz:
                raise LeftToPot(f"an edge of a graph that goes one way {NOT_HERE}")
        self._values = self._dense()

    def _dense(self):
        """The costs of all graphs, those of one after another's."""
        ends = np.cumsum(self.sizes**2)
        values, made = np.zeros(ends[-1]), self.edges.tocoo()
        graph = np.repeat(np.arange(len(self.sizes)), self.sizes)[made.row]
        row, col = made.row - self.begins[graph], made.col - self.begins[graph]
        values[(ends - self.sizes**2)[graph] + row * self.sizes[graph] + col] = made.data
        parts = np.split(SQUARE.h2(values), ends[:-1])
        return [x.reshape(n, n) for x, n in zip(parts, self.sizes, strict=True)]

    def spaces(self, alpha):
        """The `Space` of each, with that weight of the structure."""
        X = np.sqrt(1 - alpha) * self.X
        losses = alpha * (self.edges.power(2) @ self.masses)
        constants = np.add.reduceat(losses * self.masses, self.begins)
        most = np.maximum.reduceat(losses, self.begins)
        ends = np.append(self.begins, len(X))
        made = []
        for k, values in enumerate(self._values):
            some = slice(ends[k], ends[k + 1])
            sizes = constants[k], abs(values).max(), most[k]
            made.append(Space(values, values, self.masses[some], *sizes, X[some]))
        return made


class Distances:
    """Losses of plans between templates, the first spaces, and graphs.

    Parameters
    ----------
    graphs : Graphs
    C : (n_templates, m, m) ndarray
        Symmetric.
    Y : (n_templates, m, d) ndarray
    q : (n_templates, m) ndarray
        Positive, and each template's with a sum of one.
    alphas : (n_templates,) ndarray
        Of the structure.

    Attributes
    ----------
    losses : (n_graphs, n_templates) ndarray
    """

    def __init__(self, graphs, C, Y, q, alphas):
        self._graphs, self._C, self._Y, self._q = graphs, C, Y, q
        self._alphas = alphas
        (size, m), n_graphs, n_nodes = q.shape, len(graphs.sizes), len(graphs.X)
        plans = np.empty((m, size * n_nodes))
        potentials = np.empty(size * (n_graphs * m + n_nodes))
        begins = np.add.outer(n_nodes * np.arange(size), graphs.begins).ravel()
        ends = begins + np.tile(graphs.sizes, size)
        parts = list(map(slice, begins, ends))
        # What each node of a template adds to the loss.
        self._added = alphas[:, None] * (SQUARE.f1(C) @ q[:, :, None])[:, :, 0]
        of_alpha = {alpha: graphs.spaces(alpha) for alpha in set(alphas)}
        firsts = [one for k in range(size) for one in [self._space(k)] * n_graphs]
        seconds = [one for alpha in alphas for one in of_alpha[alpha]]
        # POT's limits in its layers.
        descents = ExactDescents(
            ExactLimits(max_outer=50, tol=0.0, min_relative=1e-9, min_change=1e-9), 0.5
        )
        losses = descents.solve(firsts, seconds, plans, parts, False, potentials)
        self._plans = plans.reshape(m, size, n_nodes).transpose(1, 0, 2)
        at = m * np.arange(len(begins)) + begins
        rows = potentials[at[:, None] + np.arange(m)]
        self._potentials = rows.reshape(size, n_graphs, m)
        self.losses = losses.reshape(size, n_graphs).T

    def _space(self, k):
        """The `Space` of a template."""
        alpha, added = self._alphas[k], self._added[k]
        values, X = -alpha * SQUARE.h1(self._C[k]), np.sqrt(1 - alpha) * self._Y[k]
        sizes = self._q[k] @ added, abs(values).max(), added.max()
        return Space(values, values, self._q[k], *sizes, X)

    def gradients(self, upstream):
        """Of ``sum upstream * losses`` by names: with all plans held still, and those
        of weights from potentials.
        """
        graphs, Y, X = self._graphs, self._Y, self._graphs.X
        alphas, upstream = self._alphas[:, None], upstream.reshape(self.losses.shape).T
        of_nodes = np.repeat(upstream, graphs.sizes, axis=1)
        moved = self._plans * of_nodes[:, None]
        # Squared distances of features.
        total, to_graphs = moved.sum(axis=2), (1 - alphas) * of_nodes * graphs.masses
        of_Y = 2 * (1 - alphas[:, None]) * (total[:, :, None] * Y - moved @ X)
        back = ((1 - alphas[:, None]) * moved).transpose(2, 0, 1)
        of_X = 2 * (to_graphs.sum(axis=0)[:, None] * X - np.tensordot(back, Y, 2))
        given = np.empty_like(X)
        given[graphs.order] = of_X
        potentials = np.einsum("kg,kgm->km", upstream, self._potentials)
        potentials += upstream.sum(axis=1)[:, None] * self._added
        made = {"G_features": given, "tplt_features": of_Y}
        made["tplt_weights"] = np.array([centered(2 * x) for x in potentials])
        if alphas.all():
            made |= self._of_structures(upstream, moved)
        return made

    def _of_structures(self, upstream, moved):
        """The same, of adjacencies of templates and alpha."""
        graphs, q, Y, X = self._graphs, self._q, self._Y, self._graphs.X
        weight = upstream.sum(axis=1)[:, None, None]
        plans = np.ascontiguousarray(self._plans.transpose(2, 0, 1))
        along = graphs.edges @ plans.reshape(len(X), -1)
        along = along.reshape(plans.shape).transpose(1, 0, 2)
        made = weight * self._C * q[:, :, None] * q[:, None] - moved @ along
        # Symmetric but for rounding, which steps that are scaled by it would enlarge.
        made = self._alphas[:, None, None] * (made + made.swapaxes(1, 2))
        apart = np.add.reduceat(graphs.masses * (X**2).sum(axis=1), graphs.begins)
        both = np.einsum("kmn,kmd,nd->kn", self._plans, Y, X, optimize=True)
        linear = (q * (Y**2).sum(axis=2)).sum(axis=1)[:, None] + apart
        linear = linear - 2 * np.add.reduceat(both, graphs.begins, axis=1)
        quadratic = self.losses.T - (1 - self._alphas[:, None]) * linear
        quadratic /= self._alphas[:, None]
        of_alpha = (upstream * (quadratic - linear)).sum(axis=1)
        return {"tplt_adjacencies": made, "alpha": of_alpha}
