"""The points that a worker has of a problem, and what is asked of their costs."""

import weakref
from typing import NamedTuple

import numpy as np

from .._version import __version__
from ..kernels import _exponentials, _products
from ..kernels._products import Panels, Product
from ..kernels._rows import aligned_empty
from ..linear.gibbs_kernel import contract
from ..quadratic.factored import Right


class Shared(NamedTuple):
    """The data that all shards of a problem have: the features of the second space, and its
    masses; `token` identifies the problem, `version` is the version of gwfast.
    """

    token: str
    y: np.ndarray
    q: np.ndarray
    version: str = __version__


# The `Right` of each problem with shards in this process, by token.
_RIGHTS: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


def right_of(shared, n_threads):
    """The `Right` of a problem, which all shards in this process share."""
    key = shared.token, n_threads
    right = _RIGHTS.get(key)
    if right is None:
        right = _RIGHTS[key] = Right(owned(shared.y), n_threads)
    return right


class Points:
    """Features `x` (n_k, r) of points of the first space, and of all of the second.

    The cost is ``x core y'``; answers are in the precision that they are added up in.
    """

    def __init__(self, x, right):
        self._x, self._right, self._n_threads = owned(x), right, right.n_threads

    def sampled(self, core):
        """The lowest and the highest of some costs."""
        step = max(len(self._x) // 64, 1)
        some = np.ascontiguousarray(self._left(core)[::step])
        cost = aligned_empty((len(some), self._right.panels.m))
        _products.matmul(some, self._right.panels, cost, n_threads=self._n_threads)
        return float(cost.min()), float(cost.max())

    def logsumexp_rows(self, core, g, epsilon, cols=None):
        """See `LogDomain`; over some columns, or all."""
        if cols is None:
            cost = self._cost(core)
        else:
            cost = self._product(self._left(core), cols)
        out = np.empty(len(self._x))
        given = cost, np.zeros(len(out)), g, epsilon, out, self._n_threads
        _exponentials.logsumexp_rows(*given)
        return out

    def logsumexp_cols(self, core, f, epsilon):
        """See `LogDomain`, of the rows that are here."""
        out = np.empty(self._right.panels.m)
        return self._over_rows(self._cost(core), f, epsilon, out)

    def logsumexp_of_few(self, left, f, epsilon, cols):
        """Return the logarithms of sums of some columns, over the rows of `left`."""
        cost = self._product(left, cols)
        return self._over_rows(cost, f, epsilon, np.empty(cost.m))

    def _over_rows(self, cost, f, epsilon, out):
        given = cost, f, np.zeros(len(out)), epsilon, out, self._n_threads
        _exponentials.logsumexp_cols(*given)
        return out

    def contract_plan(self, plan):
        """``x' plan y`` of the rows of a plan."""
        ones = [np.ones(size, dtype=np.float32) for size in plan.shape]
        y = self._right.features
        return contract(self._x, owned(plan), y, *ones, self._n_threads)[0]

    def _left(self, core):
        left = aligned_empty((len(self._x), core.shape[1]))
        panels = Panels(np.ascontiguousarray(core), n_threads=self._n_threads)
        _products.matmul(self._x, panels, left, n_threads=self._n_threads)
        return left

    def _cost(self, core):
        return Product(self._left(core), self._right.panels)

    def _product(self, left, cols):
        some = np.ascontiguousarray(self._right.features[cols])
        return Product(left, Panels(some, True, n_threads=self._n_threads))


def owned(x):
    """A float32 copy that starts where the kernels like it."""
    made = aligned_empty(x.shape)
    made[:] = x
    return made
