"""The control groups of Linux that this process is in: a container's limits."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath


def groups(
    controller: str,
    root: str | Path = "/sys/fs/cgroup",
    membership: str | Path = "/proc/self/cgroup",
) -> Iterator[tuple[int, Path]]:
    """Yield version and folder of the groups, of both versions, that can limit what a `controller`
    such as "cpu" gives to this process: its own group and those around it.

    A container may see the path of its group without seeing that group, its folder being the root:
    folders may be missing, and the root always comes.
    """
    try:
        lines = Path(membership).read_text().splitlines()
    except (OSError, ValueError):
        lines = ["0::/", f"1:{controller}:/"]
    for line in lines:
        number, controllers, path = (*line.split(":", 2), "", "")[:3]
        if number == "0":  # which may be mounted beside version 1
            version, tops = 2, [Path(root), Path(root, "unified")]
        elif controller in controllers.split(","):
            version, tops = 1, [Path(root, controllers), Path(root, controller)]
        else:
            continue
        top = next(filter(Path.is_dir, tops), None)
        if top is None:
            continue
        within = PurePosixPath(path.lstrip("/"))
        if ".." in within.parts:  # outside of the view of this process
            within = PurePosixPath()
        for group in (within, *within.parents):
            yield version, top / group
