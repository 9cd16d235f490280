"""A plan that stays where it is."""

import functools

import numpy as np
from scipy import sparse

from ..kernels._rows import aligned_empty
from ..results.coupling import LEFT_OUT, Coupling
from ..results.tables import Neighbors


class ShardedCoupling(Coupling):
    """A plan whose rows are on the workers of a `Team`; as factors in shards that began anew. With
    the scalings of the kernel the plan may overwrite the kernel on workers.
    """

    form = "factors"

    def __init__(self, team, spec, scalings, n_threads):
        super().__init__(team.shape, n_threads)
        self._team, self._spec = team, spec
        # Slices of the rows that the shards have.
        self._scalings, self.rows = scalings, team.rows

    @property
    def nbytes(self):
        """Bytes in this process."""
        spec = self._spec
        return spec.core.nbytes + spec.f.nbytes + spec.g.nbytes

    def ask(self, method, each=(), *, stored=True):
        """Return the answers of the shards to arguments for all, or to a dict of some arguments."""
        if isinstance(each, tuple):
            each = dict.fromkeys(range(len(self.rows)), each)
        asked, scaled = {}, None
        for k, args in each.items():
            rows = self.rows[k]
            if stored and self._scalings is not None:
                u, v = self._scalings
                scaled = u[rows], v
            asked[k] = self._spec.of(rows), scaled, method, *args
        return self._team.ask("of_plan", asked)

    @property
    def marginals(self):
        rows, cols = zip(*self.ask("marginals"), strict=True)
        return np.concatenate(rows), sum(cols)

    def entropy(self):
        return sum(self.ask("entropy"))

    def tocsr(self, left_out=LEFT_OUT):
        parts = self.ask("tocsr", (left_out,))
        return sparse.csr_array(sparse.vstack(parts, format="csr"))

    def _transposed(self):
        return _Transposed(self)

    def _toarray(self):
        out = aligned_empty(self.shape)
        for k, rows in enumerate(self.rows):
            (out[rows],) = self.ask("toarray", {k: ()})
        return out

    def _rows(self, rows):
        parts = self._parts(np.arange(self.shape[0])[rows])
        return np.concatenate(self.ask("_rows", {k: (part,) for k, part in parts}))

    def _topk(self, k, rows):
        numbers = np.arange(self.shape[0])[rows]
        if not len(numbers):
            return Neighbors(np.empty((0, k), np.int64), np.empty((0, k), np.float32))
        order = np.argsort(numbers, kind="stable")
        each = {number: (k, part) for number, part in self._parts(numbers[order])}
        answers = zip(*self.ask("_topk", each), strict=True)
        inverse = np.argsort(order, kind="stable")
        return Neighbors(*(np.concatenate(blocks)[inverse] for blocks in answers))

    def _parts(self, numbers):
        """Yield the shards that have rows of these sorted `numbers`, and which of their rows."""
        for k, rows in enumerate(self.rows):
            inside = numbers[(numbers >= rows.start) & (numbers < rows.stop)] - rows.start
            if len(inside):
                # A slice copies nothing.
                is_full = np.array_equal(inside, np.arange(rows.stop - rows.start))
                yield k, slice(None) if is_full else inside

    def _apply(self, y):
        return np.concatenate(self.ask("_apply", (y,)))


class _Transposed(Coupling):
    """The other side of a `ShardedCoupling`: every worker has some of its columns."""

    form = "factors"

    def __init__(self, coupling):
        super().__init__(coupling.shape[::-1], coupling.n_threads)
        self._coupling, self._cols = coupling, coupling.rows
        self._ask = functools.partial(coupling.ask, stored=False)

    @property
    def nbytes(self):
        return self._coupling.nbytes

    @property
    def marginals(self):
        return self._coupling.marginals[::-1]

    def entropy(self):
        return self._coupling.entropy()

    def _transposed(self):
        return self._coupling

    def _toarray(self):
        return np.ascontiguousarray(self._coupling.toarray().T)

    def _rows(self, rows):
        return np.concatenate(self._ask("T._rows", (rows,)), axis=1)

    def _topk(self, k, rows):
        indices, scores = zip(*self._ask("T._topk", (k, rows)), strict=True)
        starts = [cols.start for cols in self._cols]
        indices = np.concatenate([*map(np.add, indices, starts)], axis=1)
        scores = np.concatenate(scores, axis=1)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return Neighbors(*(np.take_along_axis(x, best, 1) for x in (indices, scores)))

    def _apply(self, y):
        return sum(self._ask("T._apply", dict(enumerate((y[cols],) for cols in self._cols))))
