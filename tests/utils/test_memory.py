"""How much memory there is, and which tier fits it."""

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from helpers.problems import cloud, random_cost
from helpers.processes import run_python

from gwfast import PointCloud, QuadraticProblem
from gwfast.quadratic.neighbors import NeighborTier
from gwfast.solvers.search.levels import choose, needs
from gwfast.utils import memory
from gwfast.utils.memory import as_memory_limit

# --- What a caller may pass -----------------------------------------------------------


@pytest.mark.parametrize(
    "given, expected",
    [
        (1, 1),
        (math.inf, math.inf),
        (np.float32(1e9), 1e9),
        (np.int64(10**9), 1e9),
        (Fraction(3, 2), 1.5),
        ("100", 100),
        ("100B", 100),
        (" 2.4 gB ", 2.4e9),
        ("3kb", 3000),
        ("1.5MiB", 1.5 * 1024**2),
        ("1TB", 1e12),
        ("1TiB", 1024**4),
    ],
)
def test_limit_is_read(given, expected):
    assert as_memory_limit(given) == expected


NO_SIZES = ["", "GB", "2.4XB", "1.2.3GB", ".", "-1GB", "1e9", "nan", "1 2", "GB 1"]
REFUSED = [
    *((text, ValueError, r"such as '2\.4GB', got ") for text in NO_SIZES),
    *((x, ValueError, "be positive, got ") for x in [0, -math.inf, math.nan, "0GB"]),
    *((x, TypeError, type(x).__name__) for x in [True, b"1GB", [1], (1,), 1j]),
]


@pytest.mark.parametrize("given, error, message", REFUSED)
def test_what_is_no_limit_is_refused(given, error, message):
    with pytest.raises(error, match=f"^memory_limit must .*{message}"):
        as_memory_limit(given)


@pytest.mark.parametrize("free, expected", [(None, math.inf), (1000, 900), (0, 0)])
def test_none_is_most_of_what_is_free(free, expected, monkeypatch):
    monkeypatch.setattr(memory, "free_memory", lambda: free)
    assert as_memory_limit(None) == expected


# --- What is free ---------------------------------------------------------------------

# Control groups: the line that says that a process is in a group, and the files of the group.
IN_BYTES = [f"memory/a/b/memory.{name}_in_bytes" for name in ("limit", "usage")]
VERSIONS = [("4:memory:/a/b", *IN_BYTES), ("0::/a/b", "a/b/memory.max", "a/b/memory.current")]


def written(root, files):
    """Return the bytes that groups with these files leave; None is no file."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is not None:
            path.write_text(f"{text}\n")
    where = dict(root=root, membership=root / "membership")
    return list(memory._free_of_groups(**where))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "limit, used, expected",
    [
        (1000, 300, [700]),
        (1000, 1200, [0]),
        ("max", 300, []),
        (2**63 - 4096, 300, []),
        (1000, None, []),
        (None, 300, []),
        ("", 300, []),
        (1000, "unknown", []),
    ],
)
def test_groups_leave_what_is_below_their_limit(version, limit, used, expected, tmp_path):
    membership, *names = version
    files = zip(names, (limit, used), strict=True)
    assert written(tmp_path, {"membership": membership, **dict(files)}) == expected


def test_groups_around_the_own_one_count(tmp_path):
    files = {
        "membership": "0::/a/b",
        "a/b/memory.max": "max",
        "a/b/memory.current": 100,
        "a/memory.max": 1000,
        "a/memory.current": 300,
        "a/memory.stat": "anon 5\ninactive_file 50",
        "memory.max": 5000,
        "memory.current": 400,
    }
    assert written(tmp_path, files) == [750, 4600]


def test_group_that_a_container_sees_as_the_root(tmp_path):
    files = {
        "membership": "4:memory:/docker/1f",
        "memory/memory.limit_in_bytes": 1000,
        "memory/memory.usage_in_bytes": 900,
        "memory/memory.stat": "inactive_file 1\ntotal_inactive_file 30",
    }
    assert written(tmp_path, files) == [130]


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="sizes are read as on Linux")
@pytest.mark.parametrize("name, bounded", [("RLIMIT_AS", "VmSize"), ("RLIMIT_DATA", "VmData")])
def test_limit_of_the_process_refuses_up_front(name, bounded):
    """A process that may take 200 MB more refuses 4000 x 4000 points before it allocates."""
    code = f"""
import re, resource
from pathlib import Path
import numpy as np
import gwfast.solvers.gromov
cost = np.random.default_rng(0).random((4000, 4000), dtype=np.float32)
size = re.search(r"{bounded}:\\s+(\\d+)", Path("/proc/self/status").read_text())
limit = 1024 * int(size[1]) + 200_000_000
resource.setrlimit(resource.{name}, (limit, resource.RLIM_INFINITY))
try:
    gwfast.gromov_wasserstein(cost, cost)
except MemoryError as error:
    print(error)
"""
    said = run_python(code).stdout
    assert "4000 x 4000" in said and "memory_limit is 0.1" in said


@pytest.mark.parametrize(
    "machine, groups, process, expected",
    [
        (500, [900, 400], [], 400),
        (500, [400], [450, 200], 200),
        (None, [], [], None),
        (5, [0], [], 0),
    ],
)
def test_the_least_counts(machine, groups, process, expected, monkeypatch):
    monkeypatch.setattr(memory, "_free_of_machine", lambda: machine)
    monkeypatch.setattr(memory, "_free_of_groups", lambda: groups)
    monkeypatch.setattr(memory, "_free_of_process", lambda: process)
    assert memory.free_memory() == expected


def test_here_something_is_free():
    assert 0 < memory.free_memory() < 1e15


# --- Choice ---------------------------------------------------------------------------


def clouds(n=3000, m=2000, d=5):
    return QuadraticProblem(PointCloud(cloud(n, d, 0)), PointCloud(cloud(m, d, 1)))


def test_auto_is_the_first_that_fits():
    """And a refusal has the sizes, and what would fit."""
    problem = clouds(40_000, 30_000, 2)
    takes = needs(problem, 1)
    assert list(takes) == ["dense", "tiled", "neighbors"]
    assert takes["dense"] > max(takes["neighbors"], takes["tiled"])
    for tier, size in takes.items():
        if tier != "neighbors":  # an approximation, which has to be asked for
            assert choose(problem, "auto", size, 1) == tier
        assert str(choose(problem, tier, size, 1)) == tier
        with pytest.raises(MemoryError):
            choose(problem, tier, size - 1, 1)
    assert choose(problem, "auto", math.inf, 1) == "dense"
    with pytest.raises(MemoryError):
        choose(problem, "auto", takes["tiled"] - 1, 1)
    with pytest.raises(MemoryError) as refusal:
        choose(problem, "dense", takes["tiled"], 1)
    message = str(refusal.value)
    assert "40000 x 30000" in message and "SolverOptions(tier='dense')" in message
    for tier, size in takes.items():
        assert f"{size / 1e9:.3g} GB ({tier})" in message
    assert f"memory_limit is {takes['tiled'] / 1e9:.3g} GB" in message
    assert "SolverOptions(tier='tiled') or fewer points would fit" in message


def test_needs_grow_with_the_points_as_documented():
    small, large = (needs(clouds(k, k, 2), 1) for k in (20_000, 40_000))
    assert large["dense"] == pytest.approx(4 * small["dense"], rel=0.08)
    for tier in ("tiled", "neighbors"):
        assert large[tier] < 2.5 * small[tier]
    assert small["dense"] >= 4 * 20_000**2
    for tier in small:
        assert needs(clouds(), 1)[tier] <= needs(clouds(), 8)[tier]


def test_points_and_a_matrix_have_one_tier():
    problem = QuadraticProblem(PointCloud(cloud(5, 2, 0)), random_cost(5, 1))
    assert list(needs(problem, 1)) == ["dense"]
    assert choose(problem, "auto", math.inf, 1) == "dense"
    for tier in ("tiled", "neighbors", NeighborTier(5)):
        with pytest.raises(ValueError, match=r"tier must be 'auto' or 'dense' .* got '"):
            choose(problem, tier, math.inf, 1)


@pytest.mark.parametrize("tier", ["", "Dense", "fast", None, 1, ["dense"]])
def test_tier_that_is_none_is_refused(tier):
    with pytest.raises(ValueError, match="tier must be one of"):
        choose(clouds(5, 5), tier, math.inf, 1)
