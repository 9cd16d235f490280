"""`align` in the manners of scikit-learn, which need not be installed."""

import inspect

from ..utils.validation import as_matrix, one_of
from .align import align
from .retrieval import METHODS, nearest_neighbors


class NotFittedError(ValueError, AttributeError):
    """An aligner was used before it was fitted."""


class GromovWassersteinAligner:
    """Learn a map from one embedding space to another without any pairs.

    Parameters
    ----------
    n_words, metric, normalize, epsilon, init, loss, max_outer, max_inner, tol, \\
    marginal_tol, n_threads, memory_limit, tier, seed, refine, scale_costs
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
    >>> aligner = GromovWassersteinAligner(n_words=2000, refine=5)
    >>> mapped = aligner.fit(x, y).transform(x)  # doctest: +SKIP
    >>> rows_of_y = aligner.predict(x)  # doctest: +SKIP
    """

    def __init__(
        self,
        *,
        n_words=None,
        metric="cosine",
        normalize=("unit", "center", "unit"),
        epsilon="auto",
        init="auto",
        loss="square",
        max_outer=1000,
        max_inner=10_000,
        tol=1e-5,
        marginal_tol=1e-5,
        n_threads=None,
        memory_limit=None,
        tier="auto",
        seed=0,
        refine=None,
        scale_costs=None,
        retrieval="csls",
    ):
        self.n_words = n_words
        self.metric = metric
        self.normalize = normalize
        self.epsilon = epsilon
        self.init = init
        self.loss = loss
        self.max_outer = max_outer
        self.max_inner = max_inner
        self.tol = tol
        self.marginal_tol = marginal_tol
        self.n_threads = n_threads
        self.memory_limit = memory_limit
        self.tier = tier
        self.seed = seed
        self.refine = refine
        self.scale_costs = scale_costs
        self.retrieval = retrieval

    def fit(self, X, Y, *, p=None, q=None):
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
        options = self.get_params()
        one_of(options.pop("retrieval"), "retrieval", METHODS)
        self.result_ = align(X, Y, p=p, q=q, **options)
        self.mapping_ = self.result_.mapping
        self.n_features_in_ = len(self.mapping_)
        self.n_iter_ = self.result_.gw.n_outer
        return self

    def transform(self, X):
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
        return self._fitted().transform(X)

    def fit_transform(self, X, Y, *, p=None, q=None):
        """``fit(X, Y).transform(X)``."""
        return self.fit(X, Y, p=p, q=q).transform(X)

    def predict(self, X):
        """The row of `Y` that translates each vector.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        (n,) int64 ndarray
        """
        result = self._fitted()
        found = nearest_neighbors(
            self.transform(as_matrix(X, "X")),
            result.mapped_target,
            method=self.retrieval,
            k=1,
            sources=result.mapped_source,
            n_threads=self.n_threads,
        )
        return found.indices[:, 0]

    @classmethod
    def _defaults(cls):
        signature = inspect.signature(cls.__init__)
        return {
            name: parameter.default
            for name, parameter in signature.parameters.items()
            if name != "self"
        }

    def get_params(self, deep=True):
        """The parameters as they were given.

        Parameters
        ----------
        deep : bool, default=True
            Without meaning here: none of them is an estimator.

        Returns
        -------
        dict
        """
        return {name: getattr(self, name) for name in self._defaults()}

    def set_params(self, **params):
        """Set some of the parameters.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If there is no such parameter; none has been set then.
        """
        known = self._defaults()
        for name in params:
            if name not in known:
                raise ValueError(
                    f"params must be some of {sorted(known)}, got {name!r}"
                )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def _fitted(self):
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                "this GromovWassersteinAligner is not fitted: call fit(X, Y) first"
            )
        return self.result_

    def __sklearn_is_fitted__(self):
        return hasattr(self, "result_")

    def __sklearn_tags__(self):
        # Only scikit-learn asks.
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="transformer",
            target_tags=TargetTags(required=True),
            transformer_tags=TransformerTags(preserves_dtype=["float32"]),
            input_tags=InputTags(),
        )

    def __repr__(self):
        changed = [
            f"{name}={getattr(self, name)!r}"
            for name, default in self._defaults().items()
            if not _same(getattr(self, name), default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"


def _same(value, default):
    return value is default or (type(value) is type(default) and value == default)
