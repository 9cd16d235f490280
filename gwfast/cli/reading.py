"""Files of vectors that commands read and write."""

import time

import click

from .. import words
from .plain import json_line
from .terminal import described
from .wording import counted

# Arguments in messages of Python, and the options of the command line.
_OPTIONS = {
    "errors='replace' or 'skip'": "--encoding-errors replace or skip",
    "errors='skip'": "--encoding-errors skip",
    "encoding='latin-1', ": "--encoding latin-1, ",
    "; max_words=": "; --max-vocab ",
}
# Seconds of reading after which a faster format is worth mentioning.
_SLOW = 2.0


def read(path, reading, *, quiet=True):
    """Return the embeddings of a file; mention a faster format if reading is slow."""
    began = time.perf_counter()
    try:
        embeddings = words.read_embeddings(path, **vars(reading))
    except words.EmbeddingsFileError as error:
        message = str(error)
        for name, option in _OPTIONS.items():
            message = message.replace(name, option)
        raise click.ClickException(message) from error
    seconds = time.perf_counter() - began
    if seconds > _SLOW and not quiet and path.suffix != ".npz":
        click.echo(
            f"{path}: read in {seconds:.0f} s; gwfast convert {path} {path.stem}.npz writes a"
            " copy that is read much faster",
            err=True,
        )
    return embeddings


def check_target(path, force, name):
    """Refuse a file that vectors cannot be written to, or that is there."""
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if suffix not in (".vec", ".txt", ".bin", ".npz"):
        raise click.UsageError(
            f"{name} must end in .vec, .txt, .bin or .npz, or .gz after it, got {path}"
        )
    if not path.absolute().parent.is_dir():
        raise click.UsageError(f"{name} must be in an existing folder, got {path}")
    if path.exists() and not force:
        raise click.UsageError(f"{name} must not exist without --force, got {path}")


def report_file(path, embeddings, as_json):
    """Say what was written."""
    if as_json:
        click.echo(json_line({"output": str(path), **counted(embeddings)}))
    else:
        click.echo(f"{path}: {described(embeddings)}")
