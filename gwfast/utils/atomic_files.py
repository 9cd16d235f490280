"""Files that are there whole or not at all, and folders to write them to."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(
    path: str | os.PathLike[str], *, durable: bool = False
) -> Iterator[BinaryIO]:
    """A binary stream whose content becomes the file `path` if all goes well.

    With `durable` that is on the disk before it takes the place of what was there, and
    what a process killed on the way leaves behind is replaced by the next one. What is
    no regular file, a pipe for instance, is written to as it is.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        with open(path, "wb") as stream:
            yield stream
        return
    unique = path.name if durable else secrets.token_hex(8)
    temporary = path.with_name(f".gwfast-{unique}")
    try:
        with open(temporary, "wb" if durable else "xb") as stream:
            yield stream
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename == str(temporary):
            error.filename = str(path)  # the name that the caller knows
        raise


def check_folder(folder: Path, name: str) -> None:
    """A ValueError for what is no folder, and cannot be made as one."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{name} must be a folder, got the file {folder}")
    if not folder.is_dir() and not folder.absolute().parent.is_dir():
        raise ValueError(f"{name} must be in an existing folder, got {folder}")
