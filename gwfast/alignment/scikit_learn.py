"""What of scikit-learn the estimators are made of, or what stands for it."""

try:
    from sklearn.base import BaseEstimator, TransformerMixin, clone
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    # No estimator can be made, and so nothing asks for these.
    check_is_fitted = clone = validate_data = None

    class TransformerMixin:  # type: ignore[no-redef]
        """Stands for scikit-learn's where that is missing."""

    class BaseEstimator:  # type: ignore[no-redef]
        """Says what is missing when an estimator is made."""

        def __new__(cls, *args, **options):
            raise ImportError(
                f'{cls.__name__} needs scikit-learn: pip install "gwfast-ot[sklearn]"'
            )


__all__ = ["BaseEstimator", "TransformerMixin", "check_is_fitted", "clone", "validate_data"]
