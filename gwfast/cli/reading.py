"""Files of vectors that commands read and write."""

import time

import click

from .. import words
from ..experiments.store import as_json as json_line
from .terminal import described

# Seconds of reading after which a cache is worth mentioning.
_SLOW = 2.0


def read(
    path, max_vocab, lower, encoding_errors, max_bytes, *, cache=False, quiet=True
):
    """Embeddings; mentions the cache where it would help."""
    began = time.perf_counter()
    try:
        embeddings = words.read_embeddings(
            path, max_words=max_vocab, lower=lower, errors=encoding_errors, cache=cache,
            max_bytes=max_bytes,
        )  # fmt: skip
    except words.EmbeddingsFileError as error:  # what Python calls it
        message = str(error).replace("errors='replace'", "--encoding-errors replace")
        raise click.ClickException(message.replace("'skip'", "skip")) from error
    seconds = time.perf_counter() - began
    if seconds > _SLOW and not (cache or quiet):
        click.echo(
            f"{path}: read in {seconds:.0f} s; with --cache a copy beside it would be"
            " kept, and read much faster",
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
    if not as_json:
        click.echo(f"{path}: {described(embeddings)}")
        return
    n, d = embeddings.vectors.shape
    facts = {
        "output": str(path),
        "words": n,
        "columns": d,
        "duplicates_dropped": embeddings.n_duplicates,
        "undecodable_dropped": embeddings.n_undecodable,
    }
    click.echo(json_line(facts))
