"""The frame that called this package, for the line that a warning names."""

import contextlib
import os
import sys
from pathlib import Path

# Files whose frames are on the way to the caller: contexts are entered by contextlib.
INSIDE = str(Path(__file__).parents[1]) + os.sep, contextlib.__file__


def outside() -> int:
    """Return the `stacklevel` of the call of this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and _is_on_the_way(frame):
        frame, level = frame.f_back, level + 1
    return level


def _is_on_the_way(frame):
    """Return whether a frame is of this package, or of a package that calls estimators."""
    module = frame.f_globals.get("__name__", "")
    of_package = frame.f_code.co_filename.startswith(INSIDE)
    return of_package or module.startswith(("sklearn.", "joblib."))
