"""The commands, and errors as one line. `report` does the work."""

import sys
import time
from pathlib import Path

import click

import gwfast

from ..words import (
    load_sample,
    merge,
    read_counts,
    read_dictionary,
    read_embeddings,
    write_embeddings,
)
from ..words.dictionaries import invert
from .experiment import experiment
from .options import FILE, reader_options, solver_options
from .report import Input, Settings, run

# Seconds of reading after which a cache is worth telling of.
_SLOW = 5.0


def main(argv=None):
    """Run the command line; an error is one line on stderr, never a traceback.

    Parameters
    ----------
    argv : list of str, optional

    Returns
    -------
    int
        Exit status, see `gwfast.__main__.main`.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # words that the encoding lacks become ?
            stream.reconfigure(errors="replace")
    try:
        return cli.main(argv, prog_name="gwfast", standalone_mode=False) or 0
    except click.Abort:  # click's name for Ctrl-C
        click.echo("gwfast: interrupted", err=True)
        return 130
    except click.ClickException as error:
        message = error.format_message()
    except OSError as error:
        message = (
            f"{error.filename}: {error.strerror}" if error.filename else str(error)
        )
    except MemoryError as error:
        message = f"out of memory: {error}"
    except ValueError as error:  # gwfast's own say which argument or which file
        message = str(error)
    click.echo("gwfast: error: " + message.replace("\n", " "), err=True)
    return 2


@click.group(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(gwfast.__version__, prog_name="gwfast")
@click.pass_context
def cli(context):
    """Align two word-embedding spaces by Gromov-Wasserstein optimal transport."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _read(path, max_vocab, lower, encoding_errors, *, cache=False, quiet=True):
    """Embeddings; tells of the cache where it would help."""
    began = time.perf_counter()
    embeddings = read_embeddings(
        path, max_words=max_vocab, lower=lower, errors=encoding_errors, cache=cache
    )
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
@reader_options
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
    "--marginals",
    type=click.Choice(["uniform", "zipf", "counts"]),
    default="uniform",
    show_default=True,
    help="Weights of the words.",
)
@click.option("--source-counts", type=FILE, help="'word count' lines.")
@click.option("--target-counts", type=FILE, help="'word count' lines.")
@solver_options
def align(
    source,
    target,
    max_vocab,
    lower,
    encoding_errors,
    cache,
    dictionaries,
    reverse_dictionaries,
    marginals,
    source_counts,
    target_counts,
    **settings,
):
    """Align the vectors in SRC with those in TGT, with no dictionary.

    Files are word2vec or fastText text or word2vec binary, plain or compressed (gzip,
    bzip2, xz), .npz with arrays "words" and "vectors", .npy with a word list beside
    it, or KeyedVectors that gensim has saved.
    """
    wants_counts = marginals == "counts"
    if not wants_counts == bool(source_counts) == bool(target_counts):
        raise click.UsageError(
            "--marginals counts, --source-counts and --target-counts go together"
        )
    # The small files first: a mistake in them shows before a minute of reading.
    dictionary = merge(
        *map(read_dictionary, dictionaries),
        *(invert(read_dictionary(path)) for path in reverse_dictionaries),
    )
    settings = Settings(marginals=marginals, **settings)
    settings.check_output()
    inputs = []
    for path, counts in ((source, source_counts), (target, target_counts)):
        embeddings = _read(
            path, max_vocab, lower, encoding_errors, cache=cache, quiet=settings.quiet
        )
        if counts is not None:
            frequencies = read_counts(counts)
            try:
                embeddings = embeddings.with_counts(frequencies)
            except ValueError as error:
                raise click.UsageError(f"{counts}: {error}") from error
        inputs.append(Input(str(path), embeddings))
    run(*inputs, dictionary, settings)


@cli.command()
@solver_options
def demo(**settings):
    """Align the bundled sample: Spanish and French words of old novels."""
    settings = Settings(marginals="uniform", **settings)
    settings.check_output()
    source, target, dictionary = load_sample()
    run(
        Input("Spanish sample", source), Input("French sample", target), dictionary,
        settings,
    )  # fmt: skip


@cli.command()
@click.argument("source", metavar="SRC", type=FILE)
@click.argument(
    "target", metavar="DST", type=click.Path(dir_okay=False, path_type=Path)
)
@reader_options
@click.option("--force", is_flag=True, help="Replace DST.")
def convert(source, target, max_vocab, lower, encoding_errors, force):
    """Write the vectors of SRC to DST in the format that its name says.

    .vec and .txt are word2vec text, .bin is word2vec binary, .npz is read fastest; with
    .gz after it each of the first three is compressed.
    """
    if target.exists() and not force:
        raise click.UsageError(f"DST must not exist without --force, got {target}")
    embeddings = _read(source, max_vocab, lower, encoding_errors)
    write_embeddings(target, embeddings)
    n, d = embeddings.vectors.shape
    click.echo(f"{target}: {n:,} words, {d} columns")


@cli.command()
def config():
    """Show how gwfast was built and what it runs on."""
    gwfast.show_config()


cli.add_command(experiment)
