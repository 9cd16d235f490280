"""Two aligned embedding spaces: map, translate, refine, score and save."""

from __future__ import annotations

import dataclasses
import functools
import time
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from ..kernels.threads import resolve_n_threads
from ..problems.geometry import unit_rows
from ..results.coupling import matches_of
from ..results.result import GWResult
from ..results.tables import Translations
from ..utils.callers import outside
from ..utils.deadline import NEVER
from ..utils.labels import first_rows
from ..utils.progress import reporting
from ..utils.types import Float32Array, FloatArray, IntArray, PathLike, Progress
from ..utils.validation import as_array, as_count, one_of
from .evidence import Agreement
from .maps import RefineStep, refine_maps
from .normalize import Normalizer, Vectors, vectors_of
from .retrieval import (
    INVERSE_TEMPERATURE,
    BestMatches,
    ByPlan,
    Retrieval,
    best_matches,
    hubness,
    ranked,
    unit_or_zero,
)
from .saving import read_alignment, write_alignment

if TYPE_CHECKING:
    from ..words.dictionaries import Translations as Dictionary
    from ..words.evaluation import ConventionName, Precision

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
        ``y_normalized @ target_mapping`` lies in the common space; None if the common space is the
        normalized target space.
    source, target : Normalizer
        ``source.rows`` and ``target.rows`` are all rows of `x` and `y`, normalized.
    words : tuple of two, each a tuple of str or None
        Words of all rows of either side, see `with_words`.
    n_words : tuple of two int
        Number of the first rows of each side, which took part in the transport problem.
    refinement : tuple of RefineStep
        A record for each round of refinement: iteration, n_pairs (mutual matches), objective (mean
        CSLS of the best matches), change (fraction of matches that changed), seconds.
    evidence : tuple of Agreement
        How well rows agree under the map of the plan, of other optima of the search and of chance:
        start, cosine (mean, of mutual nearest neighbors), error, share. Of `align` with `refine`
        above 0, or a search in doubt; empty if all maps agree, as of few columns, if rows are few,
        or if time is.
    seconds : float
        Time of the alignment.
    n_threads : int

    Examples
    --------
    >>> import gwfast
    >>> from gwfast.words import load_sample
    >>> spanish, french, dictionary = load_sample()
    >>> alignment = gwfast.align(spanish, french, n_words=2000)
    >>> alignment.translate(["madre", "noche"], k=2).words
    [['mère', 'sœur'], ['nuit', 'journée']]
    >>> alignment.translate("nuit", k=1, direction="backward").words
    [['noche']]
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
    evidence: tuple[Agreement, ...] = ()
    seconds: float
    n_threads: int
    _gw: GWResult | None = None

    def __post_init__(self) -> None:
        # `_hubness` would not notice maps that change.
        arrays: list[Any] = [self.mapping, self.target_mapping]
        for side in (self.source, self.target):
            arrays += side.rows, *side.means
        for array in arrays:
            if array is not None:
                array.flags.writeable = False

    def __getstate__(self) -> dict[str, Any]:
        # Without what is cached: `_reversed` has the plan once more.
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Arrays that were pickled or copied can be written.
        self.__dict__.update(state)
        self.__post_init__()

    @property
    def gw(self) -> GWResult:
        """The solution of the transport problem, with its plan, status and history; from a file
        without the plan.
        """
        if self._gw is None:
            raise ValueError("gw is not in this file, of an earlier version: align again")
        return self._gw

    @property
    def plan(self) -> FloatArray:
        """(n_words, m_words) ndarray: mass moved between the rows that took part."""
        return self.gw.plan

    def match(self) -> IntArray:
        """Return the best target by the plan of each row that took part; -1 without mass."""
        return self.gw.match()

    @property
    def mapped_source(self) -> Float32Array:
        """(n, e) float32 ndarray: all source rows in the common space."""
        return _mapped(self.source.rows, self.mapping)

    @property
    def mapped_target(self) -> Float32Array:
        """(m, e) float32 ndarray: all target rows in the common space."""
        return _mapped(self.target.rows, self.target_mapping)

    def transform(self, x: Vectors) -> Float32Array:
        """Map vectors (n, d) of the source space, or `Embeddings`, to the common space, (n, e)."""
        return _mapped(self.source(x, "x"), self.mapping)

    def transform_target(self, y: Vectors) -> Float32Array:
        """Map vectors (m, d') of the target space, or `Embeddings`, to the common space, (m, e)."""
        return _mapped(self.target(y, "y"), self.target_mapping)

    def with_words(self, source: Sequence[str], target: Sequence[str]) -> Alignment:
        """Return the alignment with words for all rows of both sides, in their order.

        If a word repeats, `translate` looks up its first row.
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
        unknown: Literal["error", "empty"] = "error",
    ) -> Translations:
        """Return the best rows of the other side, with their words if there are words.

        Parameters
        ----------
        items : str, int, array-like of these, Embeddings, array-like (n, d), or None, default=None
            Words, row numbers, or vectors as given to `align`, of `Embeddings` or an array; None is
            all rows. "plan" and "barycentric" take words and rows that took part.
        k : int, default=10
            Translations of each item; all if there are fewer.
        direction : {"forward", "backward"}, default="forward"
            From source to target, or from target to source.
        method : {"csls", "nn", "inverted_softmax", "plan", "barycentric"}, default="csls"
            Rank by angles in the common space, see `nearest_neighbors`; by the entries of the
            plan ("plan"); or by the angle to the mean of the rows that the plan moves a row to.
        unknown : {"error", "empty"}, default="error"
            Whether a word that its side lacks is a ValueError, or has no translations. Words are
            found in any Unicode form.

        Returns
        -------
        Translations
            `words`, a list for each item, best first (None if the other side has no words), and
            `scores` and `indices`, (n_items, k). A row without mass in the plan, and an unknown
            word, has indices of -1.
        """
        one_of(method, "method", (*get_args(Retrieval), *get_args(ByPlan)))
        one_of(direction, "direction", get_args(Direction))
        one_of(unknown, "unknown", ("error", "empty"))
        self._check_rows()
        k, items = as_count(k, "k"), vectors_of(items)
        way, side = (self, "source") if direction == "forward" else (self._reversed, "target")
        items, missing = way._looked_up(items, side, unknown == "empty")
        if method in get_args(ByPlan):
            neighbors = way._by_plan(items, k, method)
        else:
            queries = unit_or_zero(way._queries(items))
            penalty = way._hubness(method)
            neighbors = ranked(queries, way.mapped_target, penalty, method, k, self.n_threads)
        neighbors.indices[missing], neighbors.scores[missing] = -1, 0.0
        words, named = way.words[1], None
        if words is not None:
            named = [
                [words[row] for row in best if row >= 0] for best in neighbors.indices.tolist()
            ]
        return Translations(named, neighbors.scores, neighbors.indices)

    @functools.cached_property
    def _reversed(self):
        """The alignment from target to source, whose `mapping` may be None."""
        gw = self._gw
        if gw is not None:
            gw = dataclasses.replace(gw, coupling=gw.coupling.T)
        return dataclasses.replace(
            self,
            mapping=self.target_mapping,
            target_mapping=self.mapping,
            source=self.target,
            target=self.source,
            words=self.words[::-1],
            n_words=self.n_words[::-1],
            _gw=gw,
        )

    def _queries(self, items):
        """Return source items in the common space."""
        if np.ndim(items) == 2:
            return _mapped(self.source(items, "items"), self.mapping)
        return _mapped(self.source.rows[_as_rows(items, len(self.source.rows))], self.mapping)

    def _by_plan(self, items, k, method):
        """Return the best rows for items that took part."""
        coupling, points = self.gw.coupling, self.target.rows
        rows = _as_rows(items, coupling.shape[0])
        if method == "plan":
            return matches_of(coupling, k, rows)
        means = coupling.transform(points[: coupling.shape[1]])[rows]
        unmatched = ~means.any(axis=1)
        means[unmatched] = points[0]  # any row, as zeros have no angle
        means = unit_rows(means, "rows of the plan", np.float32)
        neighbors = ranked(means, points, None, "nn", k, self.n_threads)
        neighbors.indices[unmatched], neighbors.scores[unmatched] = -1, 0.0
        return neighbors

    def _looked_up(self, items, side, may_lack):
        """Return the rows of source words, and other items as they are; and numbers of words that
        the `side`, which errors name, lacks if it `may_lack` some.
        """
        if items is None or np.ndim(items) > 1 or np.asarray(items).dtype.kind not in "UOT":
            return items, []
        if self.words[0] is None:
            raise ValueError(f"items must be row numbers or vectors, as the {side} has no words")
        words = np.atleast_1d(items).tolist()
        rows = [self._row_of_word[word] if word in self._row_of_word else -1 for word in words]
        missing = [k for k, row in enumerate(rows) if row < 0]
        if missing and not may_lack:
            others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise ValueError(
                f"items must be words of the {side}, got {words[missing[0]]!r}{others};"
                " unknown='empty' leaves their translations empty"
            )
        # Any row, whose translations are taken out.
        return [max(row, 0) for row in rows], missing

    @functools.cached_property
    def _row_of_word(self):
        return first_rows(self.words[0])

    @functools.cached_property
    def _known_hubness(self):
        return {}

    def _hubness(self, method):
        """Return the `hubness` of the targets, computed once: it takes as long as a search."""
        if method not in self._known_hubness:
            points = self.mapped_target, self.mapped_source
            self._known_hubness[method] = hubness(*points, method, self.n_threads)
        return self._known_hubness[method]

    def best_matches(self, k: int = 1) -> BestMatches:
        """Return the best rows of the other side for all rows of both, by CSLS.

        The result has `forward` (`k` `Neighbors` of all source rows), `backward` (the best source
        row of each target row), and `mutual`, a mask of source rows whose best match is mutual.
        """
        self._check_rows()
        sides, k = (self.mapped_source, self.mapped_target), as_count(k, "k")
        return best_matches(*sides, self._hubness("csls"), k, self.n_threads)

    def evaluate(
        self,
        dictionary: Dictionary,
        *,
        methods: Sequence[Ranking] | None = None,
        ks: Sequence[int] = (1, 5, 10),
        convention: ConventionName = "gwfast",
    ) -> dict[str, Precision]:
        """Score the translations of the alignment against a dictionary.

        Parameters
        ----------
        dictionary : mapping of str to iterable of str
            A warning tells if hardly any pair fits, or more pairs fit in the opposite direction.
        methods : sequence of str or None, default=None
            Methods of `translate`; None is "plan" (unless loaded from a file), "nn", "csls".
            "plan" and "barycentric" are scored on the queries that took part with at least one
            translation, the other methods on all.
        ks : sequence of int, default=(1, 5, 10)
            Numbers of translations that are looked at.
        convention : {"gwfast", "vecmap", "muse", "paper"}, default="gwfast"
            The evaluator whose rules of scoring apply.

        Returns
        -------
        dict of str to Precision
            By method: `at` (precision by k), `interval(k)`, `n_queries`, `coverage`.
        """
        from ..words.evaluation import count_reversed, gold_standard, scored

        if isinstance(methods, str):
            raise TypeError(f"methods must be a sequence of names, got {methods!r}")
        has_plan = self._gw is not None and self._gw.coupling.form != "lost"
        by_plan = get_args(ByPlan) if has_plan else ()
        methods = (*by_plan[:1], "nn", "csls") if methods is None else methods
        for method in methods:
            one_of(method, "methods", (*get_args(Retrieval), *by_plan))
        words_x, words_y = self.words
        if words_x is None or words_y is None:
            raise ValueError("words must be attached to both sides; see Alignment.with_words")
        n, m = self.n_words
        part = gold_standard(dictionary, words_x[:n], words_y[:m], convention)
        full = part
        if not part.convention.taking_part:
            full = gold_standard(dictionary, words_x, words_y, convention)
        if n_reversed := count_reversed(dictionary, full, words_x, words_y):
            warnings.warn(
                f"dictionary: more pairs fit the other way round, of {n_reversed} words; from"
                f" source to target of {len(full)}; read_dictionary(path, reverse=True) turns it",
                stacklevel=outside(),
            )
        # A large list of the right languages covers the vocabulary, a small list is covered.
        elif len(full) < 0.05 * min(full.n_words, len(full.sources)):
            warnings.warn(
                f"dictionary: only {len(full)} of {full.n_words} words have a pair in the"
                " vocabularies: is it of other languages?",
                stacklevel=outside(),
            )
        k = max((as_count(k, "ks") for k in ks), default=1)
        precision: dict[str, Precision] = {}
        for method in methods:
            gold = part if method in by_plan else full
            indices = self._translations(method, k, gold, full.candidates)
            precision[method] = scored(indices, gold, ks)
        return precision

    def _translations(self, method, k, gold, candidates):
        """Return the best `k` of the candidates, or all candidates, for each query."""
        if not len(gold):
            return np.empty((0, k), dtype=np.int64)
        all_targets = len(candidates) == len(self.target.rows)
        if method in get_args(Retrieval):
            rows, temperature = self.source.rows, gold.convention.inverse_temperature
            targets = self.mapped_target if all_targets else self.mapped_target[candidates]
            if all_targets and len(gold.sources) == len(rows) and temperature is None:
                penalty = self._hubness(method)
            else:
                sources, b = rows[gold.sources], temperature or INVERSE_TEMPERATURE
                sources = _mapped(sources, self.mapping)
                penalty = hubness(targets, sources, method, self.n_threads, b=b)
            queries = unit_or_zero(_mapped(rows[gold.rows], self.mapping))
            neighbors = ranked(queries, targets, penalty, method, k, self.n_threads)
            return candidates[neighbors.indices]
        asked = k
        while True:
            indices = self.translate(gold.rows, method=method, k=asked).indices
            allowed = np.isin(indices, candidates)
            if all_targets or allowed.sum(axis=1).min() >= k or indices.shape[1] < asked:
                break
            asked *= 2
        # A stable sort moves the candidates to the front, in their order. Other rows may follow if
        # there are few candidates; they are never right.
        order = np.argsort(~allowed, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(indices, order, axis=1)

    def refine(self, rounds: int = 5, *, progress: Progress = False) -> Alignment:
        """Return the alignment with maps of both sides fitted to mutual matches by CSLS.

        Parameters
        ----------
        rounds : int, default=5
            Fewer if the matches no longer change.
        progress : bool or callable, default=False
            See `gromov_wasserstein`.
        """
        return self._refined(as_count(rounds, "rounds", least=0), progress, NEVER)

    def _refined(self, rounds, progress, deadline):
        """Return `refine` without further rounds after a deadline."""
        self._check_rows()
        began = time.perf_counter()
        spaces = self.source.rows, self.target.rows, self.mapping, self.target_mapping
        with reporting(progress) as report:
            *maps, steps = refine_maps(*spaces, rounds, self.n_threads, report, deadline)
        return dataclasses.replace(
            self,
            mapping=maps[0],
            target_mapping=maps[1],
            refinement=self.refinement + steps,
            seconds=self.seconds + time.perf_counter() - began,
        )

    def save(self, path: PathLike, *, rows: bool = True) -> None:
        """Write a file for `Alignment.load`, whole or not at all.

        The file keeps all but the plan of `gw` and `n_threads`; :doc:`/words` describes its arrays.

        Parameters
        ----------
        path : path-like
            No suffix is added; in a folder the file is ``mapping.npz``.
        rows : bool, default=True
            Keep the normalized rows, which are most of the file, and their words. A file without
            rows maps vectors and cannot translate.
        """
        write_alignment(self, path, rows=rows)

    @classmethod
    def load(cls, path: PathLike, *, n_threads: int | None = None) -> Alignment:
        """Read an alignment that `save` wrote; it maps and translates as before, without the plan.

        Parameters
        ----------
        path : path-like
            The file, or a folder with it, such as ``gwfast align --output`` writes.
        n_threads : int or None, default=None
            None is a thread for each core.

        Raises
        ------
        ValueError
            If the file is damaged, of another version of gwfast, or holds something else.
        """
        return cls(**read_alignment(path), n_threads=resolve_n_threads(n_threads))

    def _check_rows(self):
        if not len(self.source.rows):
            raise ValueError("rows must be in the file to translate: it was saved with rows=False")

    def __repr__(self) -> str:
        d, e = self.mapping.shape
        sizes = f"{len(self.source.rows)} x {len(self.target.rows)} rows, mapping {d} -> {e}"
        return f"Alignment({sizes})" if self._gw is None else f"Alignment({sizes}, {self._gw!r})"


def _mapped(rows, mapping):
    return rows if mapping is None else rows @ mapping


def _as_rows(items, n):
    """Return numbers of some of the first `n` rows of a side."""
    rows = np.arange(n) if items is None else np.atleast_1d(as_array(items, "items"))
    if rows.size == 0:
        raise ValueError("items must not be empty")
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise TypeError(f"items must be words or row numbers, got {rows.ndim}-D {rows.dtype}")
    if rows.min() < 0 or rows.max() >= n:
        raise ValueError(
            f"items must be among the first {n} rows, got rows {rows.min()} to {rows.max()}"
        )
    return rows


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
