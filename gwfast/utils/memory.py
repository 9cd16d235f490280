"""How much memory there is."""

import math
import numbers
import os
import re
from collections.abc import Iterator
from pathlib import Path

from .types import MemoryLimit

# Of what is free, the fraction that a solve may plan with.
USABLE = 0.9
# Of control groups of versions 2 and 1: the folder, and the names of what they limit,
# what is taken, and the part of that in files read and not used since.
GROUPS = (
    ". memory.max memory.current inactive_file",
    "memory memory.limit_in_bytes memory.usage_in_bytes total_inactive_file",
)
UNITS = {"": 1, "B": 1, **{f"{p}B": 1000**k for k, p in enumerate("KMGT", start=1)}}
UNITS |= {f"{p}IB": 1024**k for k, p in enumerate("KMGT", start=1)}


def as_memory_limit(memory_limit: MemoryLimit) -> float:
    """Bytes: of a number, of text such as "2.4GB", or of None, what is free."""
    if memory_limit is None:
        free = free_memory()
        return math.inf if free is None else USABLE * free
    if isinstance(memory_limit, str):
        match = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]*)\s*", memory_limit)
        number, unit = match.groups() if match else ("", "")
        try:
            limit = float(number) * UNITS[unit.upper()]
        except (KeyError, ValueError):
            raise ValueError(
                "memory_limit must be a number of bytes or text such as '2.4GB', got "
                f"{memory_limit!r}"
            ) from None
    elif isinstance(memory_limit, bool) or not isinstance(memory_limit, numbers.Real):
        raise TypeError(
            "memory_limit must be a number of bytes, text such as '2.4GB' or None, got "
            f"{type(memory_limit).__name__}"
        )
    else:
        limit = float(memory_limit)
    if not limit > 0:
        raise ValueError(f"memory_limit must be positive, got {memory_limit!r}")
    return limit


def free_memory() -> int | None:
    """Bytes this process may still take, a container's limit counted; None if the
    system does not say.
    """
    known = [_free_of_machine(), *_free_of_groups()]
    return min((free for free in known if free is not None), default=None)


def _free_of_machine():
    available = _statistic(Path("/proc/meminfo"), "MemAvailable:")
    if available is not None:
        return 1024 * available
    try:  # not Linux: all there is
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _free_of_groups(root: str | Path = "/sys/fs/cgroup") -> Iterator[int]:
    """What control groups, of both versions, leave."""
    for folder, limit, used, cache in map(str.split, GROUPS):
        group = Path(root, folder)
        try:
            limit_bytes = int((group / limit).read_text())  # "max": no limit
            used_bytes = int((group / used).read_text())
        except (OSError, ValueError):
            continue
        given_up_on_demand = _statistic(group / "memory.stat", cache) or 0
        yield max(limit_bytes - used_bytes + given_up_on_demand, 0)


def _statistic(path, name):
    """The number after a name in a file of lines, or None."""
    try:
        found = re.search(rf"^{name}\s+(\d+)", path.read_text(), re.MULTILINE)
    except (OSError, ValueError):
        return None
    return int(found[1]) if found else None
