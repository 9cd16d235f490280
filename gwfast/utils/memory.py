"""How much memory there is."""

import functools
import math
import numbers
import os
import re
import sys
import time
from pathlib import Path

from ..kernels.control_groups import groups
from ..kernels.threads import single_threaded_blas
from .types import MemoryLimit

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

# Names of files of control groups, by version: the limit, the memory in use, and the part of it in
# files read and not used since.
GROUP_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}


def as_memory_limit(memory_limit: MemoryLimit) -> float:
    """Return bytes: of a number, of text such as "2.4GB", or 90 % of the free memory for None."""
    if memory_limit is None:
        free = free_memory()
        return math.inf if free is None else 0.9 * free
    expected = "memory_limit must be a number of bytes or text such as '2.4GB', got "
    if isinstance(memory_limit, str):
        match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([KMGT]?)(I?)B?\s*", memory_limit.upper())
        if match is None or (match[3] and not match[2]):
            raise ValueError(f"{expected}{memory_limit!r}")
        limit = float(match[1]) * (1024 if match[3] else 1000) ** " KMGT".index(match[2] or " ")
    elif isinstance(memory_limit, bool) or not isinstance(memory_limit, numbers.Real):
        raise TypeError(f"{expected}{type(memory_limit).__name__}")
    else:
        limit = math.inf if memory_limit > sys.float_info.max else float(memory_limit)
    if not limit > 0:
        raise ValueError(f"memory_limit must be positive, got {memory_limit!r}")
    return limit


def check_size(what: str, size: float, limit: float) -> None:
    """Raise a MemoryError if a size in bytes exceeds the limit."""
    if size > limit:
        raise MemoryError(
            f"{what} takes {size / 1e9:.3g} GB, and memory_limit is {limit / 1e9:.3g} GB"
        )


def free_memory() -> int | None:
    """Return the bytes this process may still take, limits of its own (``ulimit -v``) and of a
    container counted; None if the system does not say.
    """
    limits = [_free_of_machine(), *_free_of_groups(), *_free_of_process()]
    return min((free for free in limits if free is not None), default=None)


def _free_of_machine():
    available = _number(Path("/proc/meminfo"), r"MemAvailable:\s+(\d+)")
    if available is not None:
        return 1024 * available
    try:  # not Linux: all there is
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _free_of_groups(**where):
    """Yield the bytes that control groups, of both versions, leave."""
    for limit, version, group in _limited_groups(int(time.monotonic()), **where):
        _, used, cache = GROUP_FILES[version]
        used = _number(group / used)
        if used is not None:
            # The system takes files back if memory is asked for.
            files = _number(group / "memory.stat", rf"{cache}\s+(\d+)") or 0
            yield max(limit - used + files, 0)


@functools.lru_cache(maxsize=1)
def _limited_groups(second, **where):
    """Return limits of groups, their versions and folders, of this second: looking for them takes
    as long as a small solve.
    """
    found = groups("memory", **where)
    limits = [(_number(group / GROUP_FILES[n][0]), n, group) for n, group in found]
    # Version 1 says about 2^63 where there is no limit.
    return [limit for limit in limits if limit[0] is not None and limit[0] < 2**62]


def _free_of_process():
    """Yield the bytes of address space that limits of this process leave."""
    for name, bounded in (("RLIMIT_AS", "VmSize:"), ("RLIMIT_DATA", "VmData:")):
        limit = resource.getrlimit(getattr(resource, name))[0] if resource else math.inf
        if resource and limit != resource.RLIM_INFINITY:
            # BLAS takes its buffers, which any solve needs and which count as used.
            try:
                with single_threaded_blas():
                    pass
            except MemoryError:
                yield 0
            used = _number(Path("/proc/self/status"), rf"{bounded}\s+(\d+)") or 0
            yield max(limit - 1024 * used, 0)


def _number(path, pattern=r"(\d+)\s*$"):
    """Return the number at the beginning of a line of a file, after a pattern, or None."""
    try:
        match = re.search(f"^{pattern}", path.read_text(), re.MULTILINE)
    except (OSError, ValueError):
        return None
    return int(match[1]) if match else None
