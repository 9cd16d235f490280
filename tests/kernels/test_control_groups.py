"""Limits of containers: which groups are asked, and what processors they grant."""

import functools

import pytest

from gwfast.kernels import threads
from gwfast.kernels.control_groups import groups


@pytest.mark.parametrize(
    "membership, folders, expected",
    [
        ("0::/\n", ["."], [(2, ".")]),
        ("0::/a/b\n", ["a/b"], [(2, "a/b"), (2, "a"), (2, ".")]),
        # A container that sees the path of its group, but that group as its root.
        ("0::/docker/1f", ["."], [(2, "docker/1f"), (2, "docker"), (2, ".")]),
        ("0::/../../a", ["."], [(2, ".")]),
        ("0::/a b/c:d", ["."], [(2, "a b/c:d"), (2, "a b"), (2, ".")]),
        ("4:cpu:/a\n3:memory:/b\n", ["cpu"], [(1, "cpu/a"), (1, "cpu")]),
        ("4:cpu,cpuacct:/a", ["cpu,cpuacct"], [(1, "cpu,cpuacct/a"), (1, "cpu,cpuacct")]),
        ("4:cpu,cpuacct:/a", ["cpu"], [(1, "cpu/a"), (1, "cpu")]),
        ("4:cpuset:/a\n1:name=systemd:/a\n", ["cpuset"], []),
        ("4:cpu:/a\n", ["memory"], []),
        ("4:cpu:/\n0::/s\n", ["cpu", "unified"], [(1, "cpu"), (2, "s"), (2, ".")]),
        (None, ["."], [(2, ".")]),
        (None, ["cpu"], [(2, "."), (1, "cpu")]),
        ("nonsense\n\n7\n", ["."], []),
        ("", ["."], []),
    ],
)
def test_own_group_and_those_around_it(membership, folders, expected, tmp_path):
    """By their version and their folder, relative to the root."""
    root, path = tmp_path / "fs", tmp_path / "membership"
    for folder in folders:
        (root / folder).mkdir(parents=True, exist_ok=True)
    if membership is not None:
        path.write_text(membership)
    assert [
        (version, str(folder.relative_to(root))) for version, folder in groups("cpu", root, path)
    ] == expected


def test_here_they_can_be_read():
    for version, folder in groups("memory"):
        assert version in (1, 2) and folder.is_absolute()


# --- Processors -----------------------------------------------------------------------

ALL = 64
AROUND = {
    "a/b/c/cpu.max": "800000 100000",
    "a/b/cpu.max": "max 100000",
    "a/cpu.max": "300000 100000",
    "cpu.max": "400000 100000",
    "elsewhere/cpu.max": "100000 100000",
}


def of_version_1(quota, period):
    group = "cpu,cpuacct/a/cpu.cfs"
    return {f"{group}_quota_us": quota, f"{group}_period_us": period}


@pytest.mark.parametrize(
    "membership, files, expected",
    [
        ("0::/", {"cpu.max": "150000 100000"}, 2),
        ("0::/", {"cpu.max": "400000 100000\n"}, 4),
        ("0::/", {"cpu.max": "30000 100000"}, 1),
        ("0::/", {"cpu.max": "9900000 100000"}, ALL),
        ("0::/", {"cpu.max": "max 100000"}, ALL),
        ("0::/", {"cpu.max": ""}, ALL),
        ("0::/", {"cpu.max": "1 0"}, ALL),
        ("4:cpu,cpuacct:/a", of_version_1("200000", "100000"), 2),
        ("4:cpu,cpuacct:/a", of_version_1("50000\n", "100000\n"), 1),
        ("4:cpu,cpuacct:/a", of_version_1("-1", "100000"), ALL),
        # The least one on the way up.
        ("0::/a/b/c", AROUND, 3),
        # A container that sees its group as the root.
        ("0::/docker/1f", {"cpu.max": "200000 100000"}, 2),
        ("", {}, ALL),
    ],
)
def test_processors_that_groups_grant(membership, files, expected, tmp_path, monkeypatch):
    (tmp_path / "membership").write_text(membership)
    for name, text in files.items():
        path = tmp_path / "fs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    where = dict(root=tmp_path / "fs", membership=tmp_path / "membership")
    monkeypatch.setattr(threads, "groups", functools.partial(groups, **where))
    monkeypatch.setattr(threads.os, "cpu_count", lambda: ALL)
    assert threads._quota.__wrapped__(0) == expected


def test_default_is_at_most_the_quota(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "_quota", lambda second: 1)
    assert threads.resolve_n_threads() == threads.resolve_n_threads(-1) == 1
    assert threads.resolve_n_threads(-2) == 1
    assert threads.resolve_n_threads(7) == 7
