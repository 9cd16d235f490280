"""The commands. `report` does the work."""

import functools
import time
from pathlib import Path

import click

import gwfast

from .. import words
from .experiment import experiment
from .menu import cli
from .options import FILE, reader_options, solver_options
from .report import AlignSettings, Input, run
from .terminal import described

# Seconds of reading after which a cache is worth mentioning.
_SLOW = 2.0
_counts = functools.partial(
    click.option, type=FILE, help="'word count' lines, for --marginals counts."
)


def _read(
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


@cli.command()
@click.argument("source", metavar="SRC", type=FILE)
@click.argument("target", metavar="TGT", type=FILE)
@reader_options()
@click.option(
    "--cache",
    is_flag=True,
    help="Keep what was read in SRC.npz and TGT.npz, and read these if they are there.",
)
@click.option(
    "--dictionary",
    "dictionaries",
    type=FILE,
    multiple=True,
    help="Score by this list, 'source target' a line. Several are joined.",
)
@click.option(
    "--reverse-dictionary",
    "reverse_dictionaries",
    type=FILE,
    multiple=True,
    help="The same with 'target source' lines.",
)
@click.option(
    "--seeds",
    type=FILE,
    help="Start from these pairs, 'source target' a line: a few that are known; in"
    " place of --init.",
)
@click.option(
    "--marginals",
    type=click.Choice(["uniform", "zipf", "counts"]),
    default="uniform",
    help="Weights of the words.",
)
@_counts("--source-counts")
@_counts("--target-counts")
@solver_options
def align(
    source,
    target,
    max_vocab,
    lower,
    encoding_errors,
    max_bytes,
    cache,
    dictionaries,
    reverse_dictionaries,
    seeds,
    source_counts,
    target_counts,
    **settings,
):
    """Align the vectors in SRC with those in TGT, with no dictionary.

    Files are word2vec or fastText text or word2vec binary, plain or compressed (gzip,
    bzip2, xz), .npz with arrays "words" and "vectors", .npy with a word list beside
    it, or KeyedVectors that gensim has saved.
    """
    wants_counts = settings["marginals"] == "counts"
    if not wants_counts == bool(source_counts) == bool(target_counts):
        raise click.UsageError(
            "--marginals counts, --source-counts and --target-counts go together"
        )
    # The small files first: a mistake in them shows before a minute of reading.
    settings = AlignSettings(**settings)
    if seeds is not None and settings.init != "auto":
        raise click.UsageError("--seeds and --init do not go together")
    lists = (*dictionaries, *reverse_dictionaries, *([seeds] if seeds else []))
    counts = [path for path in (source_counts, target_counts) if path is not None]
    settings.check_output((source, target, *lists, *counts))
    first_only = words.CONVENTIONS[settings.convention].first_only
    rules = {"first_only": first_only, "max_bytes": max_bytes}
    read = [words.read_dictionary(path, **rules) for path in lists]
    known = read.pop() if seeds else None
    n = len(dictionaries)
    dictionary = words.merge(*read[:n], *map(words.invert, read[n:]))
    inputs = []
    for path, counts in ((source, source_counts), (target, target_counts)):
        embeddings = _read(
            path, max_vocab, lower, encoding_errors, max_bytes,
            cache=cache, quiet=settings.quiet,
        )  # fmt: skip
        if counts is not None:
            frequencies = words.read_counts(counts, max_bytes=max_bytes)
            try:
                embeddings = embeddings.with_counts(frequencies)
            except ValueError as error:
                raise click.UsageError(f"{counts}: {error}") from error
        inputs.append(Input(str(path), embeddings))
    run(*inputs, dictionary, settings, known)


@cli.command()
@solver_options
def demo(**settings):
    """Align the bundled sample: Spanish and French words of old novels."""
    settings = AlignSettings(marginals="uniform", **settings)
    settings.check_output()
    source, target, dictionary = words.load_sample()
    sides = Input("Spanish sample", source), Input("French sample", target)
    run(*sides, dictionary, settings)


@cli.command()
@click.argument("source", metavar="SRC", type=FILE)
@click.argument(
    "target", metavar="DST", type=click.Path(dir_okay=False, path_type=Path)
)
@reader_options(default=None)
@click.option(
    "--space",
    metavar="TEXT",
    help="What to write for a space in a word, which .vec, .txt and .bin cannot hold.",
)
@click.option("--force", is_flag=True, help="Replace DST.")
def convert(source, target, max_vocab, lower, encoding_errors, max_bytes, space, force):
    """Write vectors in another format.

    The vectors of SRC are written to DST in the format that its name says: .vec and
    .txt are word2vec text, .bin is word2vec binary, .npz is read fastest; with .gz
    after it each of the first three is compressed.
    """
    suffix = target.with_suffix("").suffix if target.suffix == ".gz" else target.suffix
    if suffix not in (".vec", ".txt", ".bin", ".npz"):
        raise click.UsageError(
            f"DST must end in .vec, .txt, .bin or .npz, or .gz after it, got {target}"
        )
    if not target.absolute().parent.is_dir():
        raise click.UsageError(f"DST must be in an existing folder, got {target}")
    if target.exists() and not force:
        raise click.UsageError(f"DST must not exist without --force, got {target}")
    embeddings = _read(source, max_vocab, lower, encoding_errors, max_bytes)
    words.write_embeddings(target, embeddings, space=space)
    click.echo(f"{target}: {described(embeddings)}")


@cli.command()
def config():
    """Show how gwfast was built and what it runs on."""
    gwfast.show_config()


cli.add_command(experiment)
