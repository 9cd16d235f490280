"""`align` in the manners of scikit-learn, which only this module needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from ..problems.epsilon import EpsilonLike
from ..problems.geometry import Metric, Statistic
from ..problems.losses import LossName
from ..quadratic.factory import Tier
from ..solvers.options import InitLike, Search
from ..utils.types import Float32Array, IntArray, MemoryLimit, PathLike
from ..utils.validation import one_of
from .align import Masses, align
from .normalize import NormalizeStep
from .refine import Refinement
from .retrieval import METHODS, Retrieval, nearest_neighbors

try:
    from sklearn.base import BaseEstimator, TransformerMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:

    class TransformerMixin:  # type: ignore[no-redef]
        """Stands for scikit-learn's where that is missing."""

    class BaseEstimator:  # type: ignore[no-redef]
        """Says what is missing when an estimator is made."""

        def __new__(cls, *args, **options):
            raise ImportError(
                f'{cls.__name__} needs scikit-learn: pip install "gwfast-ot[sklearn]"'
            )


if TYPE_CHECKING:
    from typing_extensions import Self

# For scikit-learn's checks: other numbers become float64.
FLOATS = {"dtype": ("float64", "float32")}


@dataclasses.dataclass(kw_only=True, repr=False, eq=False)
class GromovWassersteinAligner(TransformerMixin, BaseEstimator):
    """Learn a map from one embedding space to another without any pairs.

    It needs scikit-learn, of whose estimators it has all manners.

    Parameters
    ----------
    n_words, metric, normalize, epsilon, init, loss, max_outer, max_inner, tol, \
marginal_tol, time_limit, n_threads, memory_limit, tier, seed, search, refine, \
scale_costs, checkpoint
        See `align`. They are checked by `fit`.
    retrieval : {"csls", "nn", "inverted_softmax"}, default="csls"
        How `predict` ranks, see `nearest_neighbors`.

    Attributes
    ----------
    result_ : AlignmentResult
    mapping_ : (d, d') float32 ndarray
    n_features_in_ : int
    n_iter_ : int
        Outer iterations.

    Examples
    --------
    >>> import gwfast
    >>> from gwfast.words import load_sample
    >>> spanish, french, _ = load_sample()
    >>> aligner = gwfast.GromovWassersteinAligner(n_words=500)
    >>> mapped = aligner.fit(spanish.vectors, french.vectors).transform(spanish.vectors)
    >>> mapped.shape
    (2500, 200)
    >>> aligner.predict(spanish.vectors[:5]).shape
    (5,)
    """

    n_words: int | None = None
    metric: Metric = "cosine"
    normalize: Sequence[NormalizeStep] = ("unit", "center", "unit")
    epsilon: EpsilonLike = "auto"
    init: InitLike = "auto"
    loss: LossName = "square"
    max_outer: int = 1000
    max_inner: int = 10_000
    tol: float = 1e-5
    marginal_tol: float = 1e-5
    time_limit: float | None = None
    n_threads: int | None = None
    memory_limit: MemoryLimit = None
    tier: Tier = "auto"
    seed: int = 0
    search: Search = "fast"
    refine: Refinement | int | None = None
    scale_costs: Statistic | None = None
    checkpoint: PathLike | None = None
    retrieval: Retrieval = "csls"

    def fit(
        self, X: ArrayLike, Y: ArrayLike, *, p: Masses = None, q: Masses = None
    ) -> Self:
        """Align the rows of `X` with those of `Y`, most frequent first.

        Parameters
        ----------
        X : array-like of shape (n, d)
        Y : array-like of shape (m, d')
            The other space: not labels, and of any number of rows.
        p, q : "uniform", "zipf", array-like or None, default=None
            Masses, see `align`.

        Returns
        -------
        self
        """
        X, Y = validate_data(self, X, Y, validate_separately=(FLOATS, FLOATS))
        options = self.get_params(deep=False)
        one_of(options.pop("retrieval"), "retrieval", METHODS)
        self.result_ = align(X, Y, p=p, q=q, **options)
        self.mapping_ = self.result_.mapping
        self.n_iter_ = self.result_.gw.n_outer
        return self

    def transform(self, X: ArrayLike) -> Float32Array:
        """Vectors of the space of `X` in that of `Y`.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        (n, d') float32 ndarray
            Comparable by angle with ``result_.mapped_target``.

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        check_is_fitted(self, msg="this %(name)s is not fitted: call fit(X, Y) first")
        X = validate_data(self, X, **FLOATS, reset=False)
        return self.result_.transform(X)

    def predict(self, X: ArrayLike) -> IntArray:
        """The row of `Y` that translates each vector.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        (n,) int64 ndarray
        """
        found = nearest_neighbors(
            self.transform(X),
            self.result_.mapped_target,
            method=self.retrieval,
            k=1,
            sources=self.result_.mapped_source,
            n_threads=self.n_threads,
        )
        return found.indices[:, 0]

    def __sklearn_is_fitted__(self):
        return hasattr(self, "result_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags
