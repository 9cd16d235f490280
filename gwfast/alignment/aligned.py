"""Two aligned embedding spaces: map, translate, refine, score and save."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from ..kernels.threads import resolve_n_threads
from ..problems.geometry import unit_rows
from ..results.coupling import matches_of
from ..results.result import GWResult
from ..results.tables import Translations
from ..utils.deadline import NEVER
from ..utils.progress import reporting
from ..utils.types import Float32Array, FloatArray, IntArray, PathLike, Progress
from ..utils.validation import as_array, as_count, one_of
from .normalize import Normalizer, Vectors, vectors_of
from .procrustes import Maps
from .refine import RefineStep, refine_maps
from .retrieval import BestMatches, Retrieval, best_matches, hubness, ranked
from .saving import read_alignment, write_alignment

if TYPE_CHECKING:
    from ..words.dictionaries import Translations as Dictionary
    from ..words.evaluation import ConventionName, Precision

ByPlan: TypeAlias = Literal["coupling", "barycentric"]
Ranking: TypeAlias = Retrieval | ByPlan
Direction: TypeAlias = Literal["forward", "backward"]
# Words of all rows of a side; None if the side has no words.
Words: TypeAlias = tuple[str, ...] | None


@dataclasses.dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class Alignment:
    """Two aligned embedding spaces, as `align` and `Alignment.load` return them.

    Attributes
    ----------
    mapping : (d, d') float32 ndarray
        ``x_normalized @ mapping`` lies in the common space. Orthogonal (semi-orthogonal if d !=
        d') before a refinement. Read-only, like all arrays of an alignment.
    target_mapping : (d', d') float32 ndarray or None
        ``y_normalized @ target_mapping`` lies in the common space; None if the common space is
        the normalized target space.
    source, target : Normalizer
        ``source.rows`` and ``target.rows`` are all rows of `x` and `y`, normalized.
    words : tuple of two, each a tuple of str or None
        Words of all rows of either side, see `with_words`.
    n_words : tuple of two int
        Rows of each side, the first, that took part in the transport problem.
    refinement : tuple of RefineStep
        One record for each round of refinement: iteration, n_pairs (mutual matches), objective
        (mean CSLS of the best matches), change (fraction of matches that changed), seconds.
    seconds : float
        Time of the alignment.
    n_threads : int

    Examples
    --------
    >>> import gwfast
    >>> from gwfast.words import load_sample
    >>> spanish, french, dictionary = load_sample()
    >>> alignment = gwfast.align(spanish, french, n_words=500)
    >>> alignment.translate("noche", k=2).words
    [['nuit', 'soir']]
    >>> alignment.evaluate(dictionary)["csls"].n_queries
    396
    """

    mapping: Float32Array
    target_mapping: Float32Array | None = None
    source: Normalizer
    target: Normalizer
    words: tuple[Words, Words] = (None, None)
    n_words: tuple[int, int]
    refinement: tuple[RefineStep, ...] = ()
    seconds: float
    n_threads: int
    _gw: GWResult | None = None

    def __post_init__(self) -> None:
        # `_hubness` would not notice maps that change.
        arrays = [self.mapping, self.source.rows, self.target.rows]
        if self.target_mapping is not None:
            arrays.append(self.target_mapping)
        for array in arrays:
            array.flags.writeable = False
        for mean in (*self.source.means, *self.target.means):
            mean.flags.writeable = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Arrays that were pickled or copied can be written.
        self.__dict__.update(state)
        self.__post_init__()

    @property
    def gw(self) -> GWResult:
        """The solution of the transport problem, with its plan, status and history."""
        if self._gw is None:
            raise ValueError("gw is not in a file of Alignment.save: align again, or save gw too")
        return self._gw

    @property
    def plan(self) -> FloatArray:
        """(n_words, m_words) ndarray: mass moved between the rows that took part."""
        return self.gw.plan

    def match(self) -> IntArray:
        """Return the best target row of each source row that took part, by the plan; -1 for a row
        without mass.
        """
        return self.gw.match()

    @property
    def mapped_source(self) -> Float32Array:
        """(n, e) float32 ndarray: all source rows in the common space."""
        return self.source.rows @ self.mapping

    @property
    def mapped_target(self) -> Float32Array:
        """(m, e) float32 ndarray: all target rows in the common space."""
        return self._map_target(self.target.rows)

    def transform(self, x: Vectors) -> Float32Array:
        """Map vectors (n, d) of the source space, or `Embeddings`, to the common space, (n, e)."""
        return self.source(x, "x") @ self.mapping

    def transform_target(self, y: Vectors) -> Float32Array:
        """Map vectors (m, d') of the target space, or `Embeddings`, to the common space, (m, e)."""
        return self._map_target(self.target(y, "y"))

    def _map_target(self, y):
        return y if self.target_mapping is None else y @ self.target_mapping

    def with_words(self, source: Sequence[str], target: Sequence[str]) -> Alignment:
        """Return the alignment with words for all rows of both sides.

        Parameters
        ----------
        source, target : sequence of str
            In the order of the rows. If a word repeats, `translate` looks up its first row.
        """
        words = as_words(source, "source", self.source), as_words(target, "target", self.target)
        return dataclasses.replace(self, words=words)

    def translate(
        self,
        items: Vectors | None = None,
        *,
        k: int = 10,
        direction: Direction = "forward",
        method: Ranking = "csls",
    ) -> Translations:
        """Return the best rows of the other side, with their words if there are words.

        Parameters
        ----------
        items : str, int, array-like of these, Embeddings, array-like (n, d), or None, default=None
            Words, row numbers, or vectors as given to `align`, of `Embeddings` or an array; None is
            all rows. "coupling" and "barycentric" take words and rows that took part.
        k : int, default=10
            Translations of each item; all if there are fewer.
        direction : {"forward", "backward"}, default="forward"
            From source to target, or from target to source.
        method : {"csls", "nn", "inverted_softmax", "coupling", "barycentric"}, default="csls"
            Rank by angles in the common space, see `nearest_neighbors`; by the entries of the
            plan ("coupling"); or by the angle to the mean of the rows that the plan moves a row to.

        Returns
        -------
        Translations
            `words`, a list for each item, best first (None if the other side has no words), and
            `scores` and `indices`, (n_items, k). A row without mass in the plan has indices of -1.

        Examples
        --------
        >>> import gwfast
        >>> from gwfast.words import load_sample
        >>> spanish, french, _ = load_sample()
        >>> alignment = gwfast.align(spanish, french, n_words=500)
        >>> alignment.translate(["madre", "noche"], k=2).words
        [['mère', 'sœur'], ['nuit', 'soir']]
        >>> alignment.translate("nuit", k=1, direction="backward").words
        [['noche']]
        """
        one_of(method, "method", (*get_args(Retrieval), *get_args(ByPlan)))
        one_of(direction, "direction", get_args(Direction))
        self._check_rows()
        k, items = as_count(k, "k"), vectors_of(items)
        if method in get_args(ByPlan):
            found = self._by_plan(items, k, direction, method)
        else:
            queries = unit_rows(self._queries(items, direction), "items", np.float32)
            targets = self.mapped_target if direction == "forward" else self.mapped_source
            penalty = self._hubness(method, direction)
            found = ranked(queries, targets, penalty, method, k, self.n_threads)
        words = self.words[direction == "forward"]
        named = None
        if words is not None:
            named = [[words[row] for row in best if row >= 0] for best in found.indices.tolist()]
        return Translations(named, found.scores, found.indices)

    def _queries(self, items, direction):
        """Return the items in the common space."""
        forward = direction == "forward"
        if np.ndim(items) == 2:
            return self.transform(items) if forward else self.transform_target(items)
        side = self.source if forward else self.target
        rows = side.rows[self._as_rows(items, len(side.rows), direction)]
        return rows @ self.mapping if forward else self._map_target(rows)

    def _by_plan(self, items, k, direction, method):
        """Return the best rows for items that took part."""
        forward = direction == "forward"
        coupling = self.gw.coupling if forward else self.gw.coupling.T
        rows = self._as_rows(items, coupling.shape[0], direction)
        if method == "coupling":
            return matches_of(coupling, k, rows)
        points = self.target.rows if forward else self.source.rows
        means = coupling.transform(points[: coupling.shape[1]])[rows]
        unmatched = ~means.any(axis=1)
        means[unmatched] = points[0]  # any row, as zeros have no angle
        means = unit_rows(means, "rows of the plan", np.float32)
        found = ranked(means, points, None, "nn", k, self.n_threads)
        found.indices[unmatched], found.scores[unmatched] = -1, 0.0
        return found

    def _as_rows(self, items, n, direction):
        """Return numbers of some of the first `n` rows of a side."""
        if items is None:
            return np.arange(n)
        side = "source" if direction == "forward" else "target"
        if np.asarray(items).dtype.kind in "UO":
            items = self._rows_of(np.atleast_1d(np.asarray(items)).tolist(), side)
        rows = np.atleast_1d(as_array(items, "items"))
        if rows.size == 0:
            raise ValueError("items must not be empty")
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            raise TypeError(f"items must be words or row numbers, got {rows.ndim}-D {rows.dtype}")
        if rows.min() < 0 or rows.max() >= n:
            raise ValueError(
                f"items must be among the first {n} rows, got rows {rows.min()} to {rows.max()}"
            )
        return rows

    def _rows_of(self, words, side):
        known = self._row_of_word[side]
        if known is None:
            raise ValueError(f"items must be row numbers or vectors, as the {side} has no words")
        for word in words:
            if word not in known:
                raise ValueError(f"items must be words of the {side}, got {word!r}")
        return [known[word] for word in words]

    @functools.cached_property
    def _row_of_word(self):
        """Return the first row of each word, by side."""
        rows = {}
        for side, words in zip(("source", "target"), self.words, strict=True):
            pairs = None if words is None else reversed([*enumerate(words)])
            rows[side] = None if pairs is None else {word: row for row, word in pairs}
        return rows

    @functools.cached_property
    def _known_hubness(self):
        return {}

    def _hubness(self, method, direction):
        """Return `hubness`, computed once: it takes as long as a search for all rows."""
        known, key = self._known_hubness, (method, direction)
        if key not in known:
            points = self.mapped_target, self.mapped_source
            targets, sources = points if direction == "forward" else points[::-1]
            known[key] = hubness(targets, sources, method=method, n_threads=self.n_threads)
        return known[key]

    def best_matches(self, k: int = 1) -> BestMatches:
        """Return the best rows of the other side for all rows of both, by CSLS.

        Parameters
        ----------
        k : int, default=1
            Target rows for each source row.

        Returns
        -------
        BestMatches
            `forward` (`Neighbors` of all source rows), `backward` (the best source row of each
            target row), and `mutual`, a mask of the source rows whose best match is mutual.
        """
        self._check_rows()
        return best_matches(
            self.mapped_source,
            self.mapped_target,
            k=as_count(k, "k"),
            penalty=self._hubness("csls", "forward"),
            n_threads=self.n_threads,
        )

    def evaluate(
        self,
        dictionary: Dictionary,
        *,
        methods: Sequence[Ranking] | None = None,
        ks: Sequence[int] = (1, 5, 10),
        convention: ConventionName = "gwfast",
    ) -> dict[str, Precision]:
        """Score the translations of the alignment against a dictionary.

        The methods "coupling" and "barycentric" are scored on the queries that took part with at
        least one translation, the other methods on all.

        Parameters
        ----------
        dictionary : mapping of str to iterable of str
        methods : sequence of str or None, default=None
            Methods of `translate`; None is "coupling" (unless loaded from a file), "nn", "csls".
        ks : sequence of int, default=(1, 5, 10)
            Numbers of translations that are looked at.
        convention : {"gwfast", "vecmap", "muse", "paper"}, default="gwfast"
            The evaluator whose rules of scoring apply.

        Returns
        -------
        dict of str to Precision
            By method: `at` (precision by k), `interval(k)`, `n_queries`, `coverage`.

        Warns
        -----
        UserWarning
            If more pairs of the dictionary fit the other way round.
        """
        from .scoring import score

        by_plan = () if self._gw is None else get_args(ByPlan)
        return score(self, dictionary, methods, ks, convention, by_plan)

    def refine(self, rounds: int = 5, *, progress: Progress = False) -> Alignment:
        """Return the alignment with maps fitted to mutual matches.

        Each round matches rows by CSLS, and fits the maps of both sides to the mutual matches.

        Parameters
        ----------
        rounds : int, default=5
            At most; fewer if the matches no longer change.
        progress : bool or callable, default=False
            See `gromov_wasserstein`.
        """
        return self._refined(as_count(rounds, "rounds", least=0), progress, NEVER)

    def _refined(self, rounds, progress, deadline):
        """Return `refine` without further rounds after a deadline."""
        self._check_rows()
        began = time.perf_counter()
        with reporting(progress) as report_progress:
            maps, steps = refine_maps(
                self.source.rows,
                self.target.rows,
                Maps(self.mapping, self.target_mapping),
                rounds,
                self.n_threads,
                report_progress,
                deadline,
            )
        return dataclasses.replace(
            self,
            mapping=maps.source,
            target_mapping=maps.target,
            refinement=self.refinement + steps,
            seconds=self.seconds + time.perf_counter() - began,
        )

    def save(self, path: PathLike, *, rows: bool = True) -> None:
        """Write a file for `Alignment.load`, whole or not at all.

        The file keeps all but `gw` and `n_threads`; :doc:`/words` describes its arrays.

        Parameters
        ----------
        path : path-like
            Used as given; no suffix is added.
        rows : bool, default=True
            Keep the normalized rows, which are most of the file, and their words. A file without
            rows maps vectors and cannot translate.
        """
        write_alignment(self, path, rows=rows)

    @classmethod
    def load(cls, path: PathLike, *, n_threads: int | None = None) -> Alignment:
        """Read an alignment that `save` wrote; it maps and translates as before, without `gw`.

        Parameters
        ----------
        path : path-like
            The file, or a folder that ``gwfast align --output`` wrote.
        n_threads : int or None, default=None
            None is one thread a core.

        Raises
        ------
        ValueError
            If the file is damaged, of a later version of gwfast, or holds something else.

        Examples
        --------
        >>> import os, tempfile
        >>> import gwfast
        >>> from gwfast.words import load_sample
        >>> spanish, french, dictionary = load_sample()
        >>> alignment = gwfast.align(spanish, french, n_words=500)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "es-fr.npz")
        ...     alignment.save(path)
        ...     loaded = gwfast.Alignment.load(path)
        >>> loaded.translate("noche", k=1).words
        [['nuit']]
        """
        return cls(**read_alignment(path), n_threads=resolve_n_threads(n_threads))

    def _check_rows(self):
        if not len(self.source.rows):
            raise ValueError("rows must be in the file to translate: it was saved with rows=False")

    def __repr__(self) -> str:
        d, e = self.mapping.shape
        sizes = f"{len(self.source.rows)} x {len(self.target.rows)} rows, mapping {d} -> {e}"
        return f"Alignment({sizes})" if self._gw is None else f"Alignment({sizes}, {self._gw!r})"


def as_words(words, name, side):
    """Return the words of all rows of a side, checked, as a tuple."""
    words = tuple(words)
    if len(words) != len(side.rows):
        raise ValueError(
            f"{name} must have {len(side.rows)} words, one for each row, got {len(words)}"
        )
    for word in words:
        if not isinstance(word, str):
            raise TypeError(f"{name} must have words that are str, got {type(word).__name__}")
    return words
