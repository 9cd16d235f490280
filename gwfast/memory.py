"""How much memory there is, how much a problem takes, and which tier fits.

- "dense": the kernel in one n x m float32 buffer, the fastest;
- "sparse": the entries of it that matter, once the plan is concentrated on a few;
  before, and to find them, as "tiled";
- "tiled": never more of the kernel than a strip of rows a thread; every pass makes it
  anew, which costs a product of 2 n m d flops.
"""

import math
import numbers
import os
import re
from pathlib import Path

from ._validation import one_of

TIERS = ("dense", "sparse", "tiled")
# Of what is free, the share that a solve may plan with.
USABLE = 0.9
# Entries that the sparse tier expects to keep, as a share, and bytes for each: column
# and value, and what choosing them takes.
EXPECTED_DENSITY, BYTES_KEPT = 0.03, 12
UNITS = {"": 1, "B": 1, **{f"{p}B": 1000**k for k, p in enumerate("KMGT", start=1)}}
UNITS |= {f"{p}IB": 1024**k for k, p in enumerate("KMGT", start=1)}


def as_limit(memory_limit):
    """Bytes: of a number, of text such as "2.4GB", or of None, what is free.

    Raises
    ------
    TypeError, ValueError
    """
    if memory_limit is None:
        free = free_memory()
        return math.inf if free is None else USABLE * free
    if isinstance(memory_limit, str):
        match = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z]*)\s*", memory_limit)
        unit = match and UNITS.get(match[2].upper())
        try:
            limit = float(match[1]) * unit
        except (TypeError, ValueError):
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


def free_memory():
    """Bytes this process may still take, a container's limit counted; None if the
    system does not say.
    """
    known = [_free_of_machine(), *_free_of_groups()]
    return min((free for free in known if free is not None), default=None)


def _free_of_machine():
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    except (OSError, ValueError):
        pass
    try:  # not Linux: all there is
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _free_of_groups(root="/sys/fs/cgroup"):
    """What control groups, of both versions, leave."""
    for folder, limit, used, cache in (
        (".", "memory.max", "memory.current", "inactive_file"),
        (
            "memory",
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "total_inactive_file",
        ),
    ):
        group = Path(root, folder)
        try:
            most = int((group / limit).read_text())  # "max": no limit
            taken = int((group / used).read_text())
        except (OSError, ValueError):
            continue
        # Files read and not used since are counted as taken, and given up on demand.
        yield max(most - taken + _statistic(group / "memory.stat", cache), 0)


def _statistic(path, name):
    try:
        return next(
            int(line.split()[1])
            for line in path.read_text().splitlines()
            if line.split()[:1] == [name]
        )
    except (OSError, ValueError, IndexError, StopIteration):
        return 0


def needs(problem, n_threads, itemsize=4):
    """Bytes that a solve takes beside its input, by tier."""
    return {
        tier: problem.nbytes(tier, n_threads, itemsize=itemsize)
        for tier in problem.tiers
    }


def choose(problem, tier, limit, n_threads, itemsize=4):
    """The tier to use.

    Parameters
    ----------
    problem : QuadraticProblem
    tier : {"auto", "dense", "sparse", "tiled"}
    limit : float
        Bytes.
    n_threads : int
    itemsize : int, default=4
        Bytes of a number in its matrices.

    Raises
    ------
    ValueError
        If the problem cannot be solved in that tier.
    MemoryError
        If it does not fit; the message has the sizes.
    """
    one_of(tier, "tier", ("auto", *TIERS))
    takes = needs(problem, n_threads, itemsize)
    if tier != "auto" and tier not in takes:
        raise ValueError(
            f"tier must be 'dense' for costs that are not two point clouds under the "
            f"squared loss, got {tier!r}"
        )
    allowed = takes if tier == "auto" else {tier: takes[tier]}
    for name, size in allowed.items():
        if size <= limit:
            return name
    n, m = problem.shape
    sizes = ", ".join(f"{size / 1e9:.3g} GB ({name})" for name, size in takes.items())
    asked = "" if tier == "auto" else f" with tier={tier!r}"
    raise MemoryError(
        f"a problem of {n} x {m} takes {sizes}, and memory_limit is {limit / 1e9:.3g} "
        f"GB{asked}; {_advice(problem, takes, allowed, limit, n_threads, itemsize)}"
    )


def _advice(problem, takes, tiers, limit, n_threads, itemsize):
    fitting = [name for name, size in takes.items() if size <= limit]
    if fitting:
        return f"tier={fitting[0]!r} would fit"
    low, high = 0.0, 1.0
    for _ in range(20):
        scale = (low + high) / 2
        least = min(problem.nbytes(tier, n_threads, scale, itemsize) for tier in tiers)
        low, high = (scale, high) if least <= limit else (low, scale)
    n, m = (int(low * size) for size in problem.shape)
    return f"about {n} x {m} would fit" if min(n, m) > 1 else "nothing would fit"
