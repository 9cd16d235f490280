"""A step of scikit-learn's before the aligner, for each of two spaces."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from .scikit_learn import BaseEstimator, TransformerMixin, check_is_fitted, clone
from .two_spaces import TwoSpaces

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclasses.dataclass(repr=False, eq=False)
class EachSpace(TransformerMixin, BaseEstimator):
    """A transformer of scikit-learn, fitted to each of two spaces apart.

    For pipelines whose last step is `GromovWassersteinAligner`: what comes before it
    is done to both spaces, which go in together, as `TwoSpaces`. It needs scikit-learn.

    Parameters
    ----------
    transformer : estimator
        Such as ``PCA(30)``; it is cloned, once for each space.

    Attributes
    ----------
    source_, target_ : estimator
        The transformer of the first space and that of the second, fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import PCA
    >>> from sklearn.model_selection import GridSearchCV, KFold
    >>> from sklearn.pipeline import make_pipeline
    >>> from gwfast import EachSpace, GromovWassersteinAligner, TwoSpaces
    >>> x = np.random.default_rng(0).standard_exponential((100, 8)) ** 2
    >>> y = x[::-1, ::-1]  # in another order, with columns in another order
    >>> pipeline = make_pipeline(EachSpace(PCA()), GromovWassersteinAligner())
    >>> grid = {"eachspace__transformer__n_components": [2, 8]}
    >>> folds = KFold(2, shuffle=True, random_state=0)
    >>> search = GridSearchCV(pipeline, grid, cv=folds).fit(TwoSpaces(x, y))
    >>> search.best_params_
    {'eachspace__transformer__n_components': 8}
    >>> search.predict(x[:3]).tolist()
    [99, 98, 97]
    """

    transformer: Any

    def fit(self, X: TwoSpaces, y: None = None) -> Self:
        """Fit one transformer to each space.

        Parameters
        ----------
        X : TwoSpaces
        y : None
            For pipelines, which pass one.

        Returns
        -------
        self
        """
        if not isinstance(X, TwoSpaces):
            raise TypeError(f"X must be TwoSpaces(x, y), got {type(X).__name__}")
        self.source_, self.target_ = (clone(self.transformer).fit(space) for space in (X.x, X.y))
        return self

    def transform(self, X: TwoSpaces | ArrayLike) -> Any:
        """Both spaces, each by its transformer; or rows of the first space alone.

        Parameters
        ----------
        X : TwoSpaces, or array-like of shape (n, d)

        Returns
        -------
        TwoSpaces, or (n, e) ndarray

        Raises
        ------
        NotFittedError
            Before `fit`.
        """
        check_is_fitted(self, msg="this %(name)s is not fitted: call fit(X) first")
        if isinstance(X, TwoSpaces):
            return TwoSpaces(self.source_.transform(X.x), self.target_.transform(X.y))
        return self.source_.transform(X)
