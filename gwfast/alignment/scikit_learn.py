"""Classes and functions of scikit-learn, or stand-ins if it is not installed."""

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    # No estimator can be made, so nothing calls these.
    check_is_fitted = validate_data = None

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


__all__ = [
    "BaseEstimator",
    "ClassNamePrefixFeaturesOutMixin",
    "TransformerMixin",
    "check_is_fitted",
    "validate_data",
]
