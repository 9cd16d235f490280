"""Files that are there whole or not at all, and folders to write them to.

What is being written has a name of its own until it is whole. Its writer holds a lock
on it, which the system takes away when the writer dies: what a killed one has left is
removed by the next who writes beside it, and what another still writes is not.
"""

import os
import re
import secrets
import shutil
import socket
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # not on Windows, where nothing is removed
    fcntl = None  # type: ignore[assignment]

from .types import PathLike

_PREFIX = ".gwfast-"
# Also as earlier versions called them, without a host.
_NAME = re.compile(r"\.gwfast-(([0-9a-f]{8}-)?[0-9a-f]{16}|[a-z0-9_]{8})")
# Locks may not be seen from one machine to another, so that theirs must be old as well.
_HOST = f"{zlib.crc32(socket.gethostname().encode()):08x}"
_OLD = 7 * 24 * 3600.0  # seconds
# Folders that this process has looked through.
_tidied: set[str] = set()


@contextmanager
def naming(path: PathLike) -> Iterator[None]:
    """Errors of the system inside name `path`, as the caller has it, where they name a
    temporary file, or no file at all, as when a disk is full.
    """
    try:
        yield
    except OSError as error:
        nameless = error.filename is None and error.errno is not None
        if nameless or _PREFIX in str(error.filename):
            error.filename = os.fsdecode(path)
        raise


@contextmanager
def replacing(path: PathLike, *, durable: bool = False) -> Iterator[BinaryIO]:
    """A binary stream whose content becomes the file `path` if all goes well.

    With `durable` that is on the disk before it takes the place of what was there. What
    is no regular file, a pipe for instance, is written to as it is.
    """
    target = Path(os.path.realpath(os.fsdecode(path)))
    with naming(path):
        if target.exists() and not target.is_file():
            with open(target, "wb") as stream:
                yield stream
            return
        with _locked(target.parent, _new_file) as temporary:
            try:
                with open(temporary, "wb") as stream:
                    yield stream
                    if durable:
                        stream.flush()
                        os.fsync(stream.fileno())
                os.replace(temporary, target)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise


@contextmanager
def temporary_folder(holder: Path) -> Iterator[Path]:
    """A folder in another one, which is removed in the end with what it still holds."""
    with _locked(holder, _new_folder) as folder:
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _new_file(path):
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)


def _new_folder(path):
    path.mkdir(0o700)
    # Windows does not open folders, and has no locks here.
    return os.open(path if fcntl else os.devnull, os.O_RDONLY)


@contextmanager
def _locked(folder, make):
    """A new path in a folder, which is tidied up; what `make` opens there is locked
    inside the block.
    """
    _tidy(folder)
    while True:
        path = folder / f"{_PREFIX}{_HOST}-{secrets.token_hex(8)}"
        descriptor = make(path)
        # Who tidies up may have been faster; then the path is gone once it is locked.
        if not _lock(descriptor, wait=True) or path.exists():
            break
        os.close(descriptor)
    try:
        yield path
    finally:
        os.close(descriptor)


def _lock(descriptor, wait):
    """Whether a lock was had; there are file systems without."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _tidy(folder):
    """Remove what killed writers have left in a folder; once, as it may be a large one,
    and not if anything stands against it."""
    name = os.path.realpath(folder)
    if fcntl is None or name in _tidied:
        return
    _tidied.add(name)
    with suppress(OSError):
        for path in Path(name).glob(f"{_PREFIX}*"):
            with suppress(OSError):
                if _NAME.fullmatch(path.name):
                    _remove_stale(path)


def _remove_stale(path):
    status = path.lstat()
    ours = path.name.startswith(f"{_PREFIX}{_HOST}-")
    if not ours and time.time() - status.st_mtime < _OLD:
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if _lock(descriptor, wait=False):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    finally:
        os.close(descriptor)


def check_folder(folder: Path, name: str) -> None:
    """A ValueError for what is no folder, and cannot be made as one."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{name} must be a folder, got the file {folder}")
    if not folder.is_dir() and not folder.absolute().parent.is_dir():
        raise ValueError(f"{name} must be in an existing folder, got {folder}")
