"""Who called this package, for the line that a warning names."""

import os
import sys
from pathlib import Path

PACKAGE = str(Path(__file__).parents[1]) + os.sep


def outside() -> int:
    """The `stacklevel` of whoever called this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    return level
