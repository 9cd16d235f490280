"""`align` in the manners of scikit-learn, which only this module needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, get_args

import numpy as np
from numpy.typing import ArrayLike

from ..problems.epsilon import EpsilonLike
from ..problems.geometry import Metric, Statistic
from ..problems.losses import LossName
from ..quadratic.linearize import Tier
from ..solvers.options import InitLike
from ..utils.labels import in_order, labels_of
from ..utils.types import Float32Array, IntArray, MemoryLimit, PathLike
from ..utils.validation import one_of
from .align import Masses, align
from .normalize import NormalizeStep
from .refine import Refinement
from .retrieval import Retrieval, nearest_neighbors
from .scikit_learn import BaseEstimator, TransformerMixin, check_is_fitted, validate_data
from .two_spaces import TwoSpaces

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclasses.dataclass(kw_only=True, repr=False, eq=False)
class GromovWassersteinAligner(TransformerMixin, BaseEstimator):
    """Learn a map from one embedding space to another without any pairs.

    It needs scikit-learn, and behaves like its estimators. Its `y` is not labels but the other
    space: any number of rows, in an order of their own. ``check_estimator`` passes one column of
    labels as `y`, so 23 of its checks fail; 8 fail if one column can be a space, with
    ``metric="sqeuclidean", normalize=("center",)``.

    Parameters
    ----------
    n_words, metric, normalize, epsilon, init, loss, max_outer, max_inner, tol, \
marginal_tol, time_limit, n_threads, memory_limit, tier, seed, search_time, \
refine, scale_costs, checkpoint
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

    Notes
    -----
    *Pipelines.* It is the last step. ``make_pipeline(PCA(30), aligner).fit(x, y)``:
    the steps before it see `x` only, and what `y` needs is done to it beforehand.
    ``make_pipeline(EachSpace(PCA(30)), aligner).fit(TwoSpaces(x, y))``: they are for
    each space apart, see `EachSpace`.

    *Splitting two spaces.* Rows of the two do not belong together, so they are split apart:
    ``GridSearchCV(aligner, grid).fit(TwoSpaces(x, y))``, of an aligner or of such a pipeline, with
    any splitter, which takes a share of both spaces (`TwoSpaces`). ``GridSearchCV(pipeline,
    grid).fit(x[:n], y[:n])`` of another pipeline needs equally many rows of both, and splitters
    take equal row numbers; that rows share a number is not used. Either way the choice is
    by `score`, which needs no known pairs. With such, pass ``scoring=function`` of the fitted
    aligner.

    Examples
    --------
    >>> import numpy as np
    >>> from gwfast import GromovWassersteinAligner, TwoSpaces
    >>> x = np.random.default_rng(0).standard_exponential((100, 8)) ** 2
    >>> y = x[::-1, ::-1]  # in another order, with columns in another order
    >>> aligner = GromovWassersteinAligner(retrieval="nn").fit(x, y)
    >>> aligner.transform(x).shape, aligner.predict(x[:3]).tolist()
    ((100, 8), [99, 98, 97])

    Its settings, chosen without known pairs:

    >>> from sklearn.model_selection import GridSearchCV, KFold
    >>> grid, folds = {"epsilon": [0.05, 0.003]}, KFold(2, shuffle=True, random_state=1)
    >>> search = GridSearchCV(GromovWassersteinAligner(), grid, cv=folds)
    >>> search.fit(TwoSpaces(x, y)).best_params_
    {'epsilon': 0.003}
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
    search_time: float | None = None
    refine: Refinement | int | None = None
    scale_costs: Statistic | None = None
    checkpoint: PathLike | None = None
    retrieval: Retrieval = "csls"

    def fit(
        self,
        X: ArrayLike | TwoSpaces,
        Y: ArrayLike | None = None,
        *,
        p: Masses = None,
        q: Masses = None,
    ) -> Self:
        """Align the rows of `X` with those of `Y`, most frequent first.

        Parameters
        ----------
        X : array-like of shape (n, d), or TwoSpaces
        Y : array-like of shape (m, d')
            The other space: not labels, and of any number of rows; None only where `X`
            has both.
        p, q : "uniform", "zipf", array-like or None, default=None
            Masses, see `align`.

        Returns
        -------
        self
        """
        source, target = _apart(X, Y)
        p = in_order(p, "p", labels_of(source), of="X")
        q = in_order(q, "q", labels_of(target), of="Y")
        # Angles of points on a line, and a single point, tell nothing.
        least = {"ensure_min_samples": 2}
        least["ensure_min_features"] = 2 if self.metric == "cosine" else 1
        checks = {"dtype": ("float64", "float32")} | least
        source, target = validate_data(self, source, target, validate_separately=(checks, checks))
        options = self.get_params(deep=False)
        one_of(options.pop("retrieval"), "retrieval", get_args(Retrieval))
        self.result_ = align(source, target, p=p, q=q, **options)
        self.mapping_ = self.result_.mapping
        self.n_iter_ = self.result_.gw.n_iter
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
        X = validate_data(self, X, **{"dtype": ("float64", "float32")}, reset=False)
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

    def score(self, X: ArrayLike | TwoSpaces, y: ArrayLike | None = None) -> float:
        """How much nearer mapped rows are to their best targets than to others: the
        mean CSLS similarity of the best pairs. Higher is better; no pairs are known.

        It compares epsilons, starts, refinements and numbers of rows; between metrics
        or normalizations that change what similar means it is a weaker guide.

        Parameters
        ----------
        X : array-like of shape (n, d), or TwoSpaces
            Rows of the source space, new or not.
        y : array-like of shape (m, d') or None, default=None
            Rows of the target space to find them among; None is those of `fit`.

        Returns
        -------
        float
            ``2 cos(x, y) - r(x) - r(y)`` on the mean, see `nearest_neighbors`: from
            -4 to 4, and around 0 where nothing matches.
        """
        source, target = _apart(X, y)
        mapped = self.transform(source)
        if target is None:
            targets, sources = self.result_.mapped_target, self.result_.mapped_source
        else:
            targets, sources = self.result_.transform_target(target), mapped
        found = nearest_neighbors(mapped, targets, k=1, sources=sources, n_threads=self.n_threads)
        return float(found.scores.mean(dtype=np.float64))

    def __sklearn_is_fitted__(self):
        return hasattr(self, "result_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags


def _apart(X, Y):
    """Two spaces, of which the second may be None."""
    if not isinstance(X, TwoSpaces):
        return X, Y
    if Y is not None:
        raise ValueError("the second space must be None where X is TwoSpaces")
    return X.x, X.y
