"""`align` as an estimator of scikit-learn."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, get_args

import numpy as np
from numpy.typing import ArrayLike

from ..kernels.threads import resolve_n_threads
from ..problems.epsilon import EpsilonLike
from ..problems.geometry import Metric
from ..solvers.options import InitLike, SolverOptions
from ..utils.labels import in_order, labels_of
from ..utils.types import Float32Array, IntArray, MemoryLimit, PathLike
from ..utils.validation import one_of
from .align import Masses, align
from .normalize import NormalizeStep
from .retrieval import Retrieval, hubness, ranked, unit_or_zero

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:

    class ClassNamePrefixFeaturesOutMixin:  # type: ignore[no-redef]
        """Stand in for scikit-learn's class."""

    class TransformerMixin:  # type: ignore[no-redef]
        """Stand in for scikit-learn's class."""

    class BaseEstimator:  # type: ignore[no-redef]
        """Raise an ImportError when an estimator is made."""

        def __new__(cls, *args, **options):
            raise ImportError(
                f'{cls.__name__} needs scikit-learn: pip install "gwfast-ot[sklearn]"'
            )


if TYPE_CHECKING:
    from typing_extensions import Self


@dataclasses.dataclass(kw_only=True, repr=False, eq=False)
class GromovWassersteinAligner(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Learn a map from an embedding space to another space without known pairs.

    An estimator of scikit-learn, which must be installed. Its `y` is the other space, with any
    number of rows in any order. :doc:`/scikit-learn` has pipelines and grid searches.

    Parameters
    ----------
    n_words, metric, normalize, epsilon, init, refine, tol, time_limit, n_threads, memory_limit, \
seed, checkpoint, options
        See `align`. They are checked by `fit`.
    retrieval : {"csls", "nn", "inverted_softmax"}, default="csls"
        How `predict` ranks, see `nearest_neighbors`.

    Attributes
    ----------
    result_ : Alignment
    mapping_ : (d, d') float32 ndarray
    n_features_in_ : int
    n_iter_ : int
        Outer iterations.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import GromovWassersteinAligner
    >>> x = np.random.default_rng(0).standard_exponential((100, 8)) ** 2
    >>> y = x[::-1, ::-1]  # in another order, with columns in another order
    >>> aligner = GromovWassersteinAligner(retrieval="nn").fit(x, y)
    >>> aligner.transform(x).shape, aligner.predict(x[:3]).tolist()
    ((100, 8), [99, 98, 97])
    """

    n_words: int | None = None
    metric: Metric = "cosine"
    normalize: Sequence[NormalizeStep] = ("unit", "center", "unit")
    epsilon: EpsilonLike = "auto"
    init: InitLike = "auto"
    refine: int = 0
    tol: float = 1e-5
    time_limit: float | None = None
    n_threads: int | None = None
    memory_limit: MemoryLimit = None
    seed: int = 0
    checkpoint: PathLike | None = None
    options: SolverOptions | None = None
    retrieval: Retrieval = "csls"

    def fit(self, X: ArrayLike, Y: ArrayLike, *, p: Masses = None, q: Masses = None) -> Self:
        """Align the rows of `X` with the rows of `Y`, and return the estimator.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Most frequent rows first.
        Y : array-like of shape (m, d')
            The other space: no labels, and any number of rows.
        p, q : {"uniform", "zipf"}, array-like or None, default=None
            Masses, see `align`.
        """
        p = in_order(p, "p", labels_of(X), of="X")
        q = in_order(q, "q", labels_of(Y), of="Y")
        checks = {
            "dtype": ("float64", "float32"),
            "ensure_min_samples": 2,
            "ensure_min_features": 2 if self.metric == "cosine" else 1,
        }
        source, target = validate_data(self, X, Y, validate_separately=(checks, checks))
        options = self.get_params(deep=False)
        one_of(options.pop("retrieval"), "retrieval", get_args(Retrieval))
        result = align(source, target, p=p, q=q, **options)
        self.result_ = dataclasses.replace(
            result,
            source=dataclasses.replace(result.source, columns=labels_of(X, 1)),
            target=dataclasses.replace(result.target, columns=labels_of(Y, 1)),
        )
        self.mapping_ = self.result_.mapping
        self.n_iter_ = self.result_.gw.n_iter
        return self

    def transform(self, X: ArrayLike) -> Float32Array:
        """Map vectors (n, d) to the common space of ``result_.mapped_target``, (n, d')."""
        vectors = self._vectors(X)
        return self.result_.transform(vectors)

    def _vectors(self, X):
        check_is_fitted(self, msg="this %(name)s is not fitted: call fit(X, Y) first")
        return validate_data(self, X, dtype=("float64", "float32"), reset=False)

    def predict(self, X: ArrayLike) -> IntArray:
        """Return the row of `Y` that translates each vector, (n,), for vectors (n, d)."""
        vectors = self._vectors(X)
        return self.result_.translate(vectors, k=1, method=self.retrieval).indices[:, 0]

    def score(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """Return the mean CSLS similarity of mapped rows and their best targets, from -4 to 4.

        It is around 0 if nothing matches, and needs no known pairs. It compares epsilons, starts
        and refinements; between metrics or normalizations it is a weaker guide.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows of the source space, new or not.
        y : array-like of shape (m, d') or None, default=None
            Candidates of the target space; None is the rows of `fit`.
        """
        vectors = self._vectors(X)
        if y is None:
            scores = self.result_.translate(vectors, k=1).scores
        else:
            mapped, targets = self.result_.transform(vectors), self.result_.transform_target(y)
            n_threads = resolve_n_threads(self.n_threads)
            penalty = hubness(targets, mapped, "csls", n_threads)
            scores = ranked(unit_or_zero(mapped), targets, penalty, "csls", 1, n_threads).scores
        return float(scores.mean(dtype=np.float64))

    @property
    def _n_features_out(self):
        return self.mapping_.shape[1]

    def __sklearn_is_fitted__(self):
        return hasattr(self, "result_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags
