"""Files that are there whole or not at all, and folders to write them to."""

import os
import secrets
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
    """Open a binary stream whose content becomes the file `path` if all goes well; a pipe or a
    device is written to as it is.
    """
    target = Path(os.path.realpath(os.fsdecode(path)))
    with naming(path):
        if target.exists() and not target.is_file():
            with open(target, "wb") as stream:
                yield stream
            return
        temporary = target.parent / f"{PREFIX}{secrets.token_hex(8)}"
        try:
            with open(temporary, "xb") as stream:
                yield stream
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def temporary_folder(holder: Path) -> Iterator[Path]:
    """Make a new folder in a hidden folder in `holder`, which is removed with all its content."""
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=holder) as outer:
        folder = Path(outer, "new")
        folder.mkdir()
        yield folder


def check_folder(folder: Path, name: str) -> None:
    """Raise an error unless `folder` is a folder or can be made, and can be written to."""
    holder = folder if folder.is_dir() else folder.absolute().parent
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{name} must be a folder, got the file {folder}")
    if not holder.is_dir():
        raise ValueError(f"{name} must be in an existing folder, got {folder}")
    with naming(folder), tempfile.TemporaryFile(prefix=PREFIX, dir=holder):
        pass
