"""How much memory this process holds, and held at most."""

import ctypes
import gc
import re
import resource
import sys
from pathlib import Path


class Footprint:
    """The most memory that is held from now on.

    Linux forgets the largest size so far when asked to. Elsewhere it is the size since the process
    began.
    """

    def __init__(self):
        gc.collect()
        try:
            # Memory that was freed and not returned could be used again unseen.
            ctypes.CDLL(None).malloc_trim(0)
        except (AttributeError, OSError, TypeError):
            pass
        try:
            Path("/proc/self/clear_refs").write_text("5")
        except OSError:
            pass
        self.before = _sizes()[0]

    @property
    def process(self):
        """MB of the whole process."""
        return _sizes()[1]

    @property
    def above(self):
        """MB beyond those at the beginning."""
        return self.process - self.before


def _sizes():
    """Return MB held now (elsewhere than on Linux at most so far), and at most."""
    try:
        text = Path("/proc/self/status").read_text()
    except OSError:
        # Bytes on macOS, KiB elsewhere.
        unit = 1 if sys.platform == "darwin" else 1024
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
        return most, most
    found = (re.search(rf"{name}:\s+(\d+) kB", text) for name in ("VmRSS", "VmHWM"))
    return tuple(int(match[1]) * 1024 / 1e6 for match in found)
