"""How much memory this process holds, and held at most."""

import ctypes
import gc
import re
import resource
import sys
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Footprint:
    """The most memory that is held from now on, looked at now and then.

    Linux forgets the largest size so far when asked to. Elsewhere it is the process's
    from its beginning, and what came before the look it is asked at stays in it.

    Attributes
    ----------
    before, most, process : float
        MB at the beginning, at most in what was looked at, and at most ever.
    """

    def __init__(self):
        _return_freed()
        self.before, most = _sizes()
        self.process, self.most = most, self.before
        self.forgets = self.begin()

    def begin(self):
        """Look from here on; returns whether that is known from what was before."""
        try:
            CLEAR.write_text("5")
        except OSError:
            return False
        return True

    def look(self):
        """Take what was held since `begin`."""
        most = _sizes()[1]
        self.process = max(self.process, most)
        self.most = max(self.most, most)

    @property
    def above(self):
        """MB beyond those of the beginning."""
        return self.most - self.before


def _return_freed():
    """Give the system back what was freed, where the C library does that (glibc keeps
    up to 64 MB): else what is held from now on may lie in it, and is not seen.
    """
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):
        pass


def _sizes():
    """MB held now (elsewhere than on Linux at most so far), and at most."""
    try:
        text = STATUS.read_text()
    except OSError:
        # Bytes on macOS, KiB elsewhere.
        unit = 1 if sys.platform == "darwin" else 1024
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
        return most, most
    found = (re.search(rf"{name}:\s+(\d+) kB", text) for name in ("VmRSS", "VmHWM"))
    return tuple(int(match[1]) * 1024 / 1e6 for match in found)
