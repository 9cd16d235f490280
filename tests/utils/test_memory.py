"""How much memory there is and which tier fits it, by pure functions; test_footprint measures."""

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from helpers.problems import cloud
from helpers.processes import run_python

from gwfast import PointCloud, QuadraticProblem
from gwfast.solvers.search.levels import choose, needs
from gwfast.utils import memory

LIMITS = {1: 1, math.inf: math.inf, 10**400: math.inf, np.int64(10**9): 1e9, Fraction(3, 2): 1.5}
LIMITS |= {"100": 100, "100B": 100, " 2.4 gB ": 2.4e9, "3kb": 3000, "1.5MiB": 1.5 * 1024**2}
LIMITS |= {"1TB": 1e12, "1TiB": 1024**4}


@pytest.mark.parametrize("limit, expected", LIMITS.items())
def test_limit_is_read(limit, expected):
    assert memory.as_memory_limit(limit) == expected


FREE = [(500, [900, 400], [], 400), (500, [400], [450, 200], 200), (500, [], [], 500)]


@pytest.mark.parametrize(
    "machine, groups, process, expected", [*FREE, (None, [], [], None), (5, [0], [], 0)]
)
def test_the_least_that_is_free_counts(machine, groups, process, expected, monkeypatch):
    for name, free in (("machine", machine), ("groups", groups), ("process", process)):
        monkeypatch.setattr(memory, f"_free_of_{name}", lambda free=free: free)
    assert memory.free_memory() == expected
    assert memory.as_memory_limit(None) == (math.inf if expected is None else 0.9 * expected)


def free_of_groups(root, membership, **files):
    """Return the bytes that groups leave, by the files of each folder; None is no file."""
    for folder, texts in files.items():
        path = root / folder.replace("_", "/")
        path.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            if text is not None:
                (path / f"memory.{name}").write_text(f"{text}\n")
    (root / "membership").write_text(membership)
    return list(memory._free_of_groups(root=root, membership=root / "membership"))


UNKNOWN = [("max", 300), (2**63 - 4096, 300), (1000, None), (None, 300), ("", 300), (1000, "?")]


@pytest.mark.parametrize(
    "limit, used, expected", [(1000, 300, [700]), (1000, 1200, [0]), *((*x, []) for x in UNKNOWN)]
)
def test_groups_leave_what_is_below_their_limit(limit, used, expected, tmp_path):
    first = dict(limit_in_bytes=limit, usage_in_bytes=used)
    assert free_of_groups(tmp_path / "1", "4:memory:/a/b", memory_a_b=first) == expected
    second = dict(max=limit, current=used)
    assert free_of_groups(tmp_path / "2", "0::/a/b", a_b=second) == expected


def test_groups_around_the_own_group_and_the_root_of_a_container_count(tmp_path):
    around = dict(max=1000, current=300, stat="anon 5\ninactive_file 50")
    files = dict(a_b=dict(max="max", current=100), a=around, **{"": dict(max=5000, current=400)})
    assert free_of_groups(tmp_path / "1", "0::/a/b", **files) == [750, 4600]
    stat = "inactive_file 1\ntotal_inactive_file 30"
    files = dict(limit_in_bytes=1000, usage_in_bytes=900, stat=stat)
    assert free_of_groups(tmp_path / "2", "4:memory:/docker/1f", memory=files) == [130]


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="sizes are read as on Linux")
def test_limits_of_the_process_refuse_up_front():
    """A process that may take 200 MB more refuses 4000 x 4000 points before it allocates."""
    code = """
import re, resource
from pathlib import Path
import numpy as np
import gwfast.solvers.gromov
cost = np.tile(np.arange(4000, dtype=np.float32), (4000, 1))
for name, bounded in (("RLIMIT_AS", "VmSize"), ("RLIMIT_DATA", "VmData")):
    size = re.search(bounded + r":\\s+(\\d+)", Path("/proc/self/status").read_text())
    limits = resource.getrlimit(getattr(resource, name))
    limit = 1024 * int(size[1]) + 200_000_000
    resource.setrlimit(getattr(resource, name), (limit, limits[1]))
    try:
        gwfast.gromov_wasserstein(cost, cost)
    except MemoryError as error:
        print(error)
    resource.setrlimit(getattr(resource, name), limits)
"""
    lines = run_python(code).stdout.splitlines()
    assert len(lines) == 2
    assert all("4000 x 4000" in line and "memory_limit is 0.1" in line for line in lines)


def test_auto_is_the_first_that_fits():
    problem = QuadraticProblem(*(PointCloud(cloud(n, 2, n)) for n in (40_000, 30_000)))
    takes = needs(problem, 1)
    assert list(takes) == ["dense", "tiled", "neighbors"]
    assert takes["dense"] >= 4 * math.prod(problem.shape)
    assert max(takes["tiled"], takes["neighbors"]) < takes["dense"] / 20
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
    said = [f"{size / 1e9:.3g} GB ({tier})" for tier, size in takes.items()]
    said += ["40000 x 30000", f"memory_limit is {takes['tiled'] / 1e9:.3g} GB", "tier='tiled'"]
    assert all(fact in str(refusal.value) for fact in said)
