"""Files that are there whole or not at all."""

import os
import secrets
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path):
    """A binary stream whose content becomes the file `path` if all goes well.

    What is no regular file, a pipe for instance, is written to as it is.
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        with open(path, "wb") as stream:
            yield stream
        return
    temporary = path.with_name(f".gwfast-{secrets.token_hex(8)}")
    try:
        with open(temporary, "xb") as stream:
            yield stream
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        if error.filename == str(temporary):
            error.filename = str(path)  # the name that the caller knows
        raise
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
