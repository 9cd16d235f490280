"""Files that are there whole or not at all, and folders to write them to."""

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from .types import PathLike

PREFIX = ".gwfast-unfinished-"


@contextmanager
def naming(path: PathLike) -> Iterator[None]:
    """Let errors of the system name `path` if they name a temporary file, or no file at all, as
    when a disk is full.
    """
    try:
        yield
    except OSError as error:
        nameless = error.filename is None and error.errno is not None
        if nameless or PREFIX in f"{error.filename} {error.filename2}":
            error.filename = os.fsdecode(path)
        raise


@contextmanager
def replacing(path: PathLike) -> Iterator[BinaryIO]:
    """A binary stream whose content becomes the file `path` if all goes well. A pipe or a device is
    written to as it is. The file has no name before it is whole, if the system has such files, so
    that a killed process leaves nothing.
    """
    target = Path(os.path.realpath(os.fsdecode(path)))
    with naming(path):
        if target.exists() and not target.is_file():
            with open(target, "wb") as stream:
                yield stream
            return
        temporary = target.parent / f"{PREFIX}{secrets.token_hex(8)}"
        try:
            nameless = _nameless(target.parent)
            with nameless or open(temporary, "xb") as stream:
                yield stream
                if nameless:
                    stream.flush()
                    _link(f"/proc/self/fd/{stream.fileno()}", temporary)
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)


def _nameless(folder):
    """Return a new binary stream to a file in `folder` without a name, or None."""
    if not os.path.isdir("/proc/self/fd"):
        return None
    try:
        return open(os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o666), "wb")
    except (AttributeError, OSError):  # not Linux, or a file system without such files
        return None


def _link(unnamed, path):
    """Give a file without a name the name `path`, or copy it on a file system without links."""
    try:
        # A folder's descriptor makes `link` follow the symbolic link.
        os.link(unnamed, path, src_dir_fd=0)
    except OSError:
        shutil.copyfile(unnamed, path)


@contextmanager
def temporary_folder(holder: Path) -> Iterator[Path]:
    """A folder in `holder`, which is removed in the end with all its content."""
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=holder) as folder:
        yield Path(folder)


def check_folder(folder: Path, name: str) -> None:
    """Raise an error unless `folder` is a folder or can be made, and can be written to."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{name} must be a folder, got the file {folder}")
    if not folder.is_dir() and not folder.absolute().parent.is_dir():
        raise ValueError(f"{name} must be in an existing folder, got {folder}")
    holder = folder if folder.is_dir() else folder.absolute().parent
    with naming(folder), tempfile.TemporaryFile(prefix=PREFIX, dir=holder):
        pass
