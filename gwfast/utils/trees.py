"""Arrays that were saved, checked when they are read."""

import numpy as np


def as_saved(array, shape, dtype):
    """Return a saved array if it has this shape and dtype."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected an array, got {type(array).__name__}")
    if array.shape != tuple(shape) or array.dtype != dtype:
        raise ValueError(
            f"expected {np.dtype(dtype)} of shape {tuple(shape)}, "
            f"got {array.dtype} of shape {array.shape}"
        )
    return array
