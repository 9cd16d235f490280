"""The commands. `report` does the work."""

import functools
from pathlib import Path

import click

import gwfast

from .. import words
from ..utils.config import config as facts
from ..words.dictionaries import merge
from ..words.evaluation import CONVENTIONS
from .menu import cli
from .options import FILE, JSON, SPACE, reader_options, solver_options
from .outputs import check_output
from .plain import json_line
from .reading import check_target, read, report_file
from .report import Input, run

_counts = functools.partial(
    click.option, type=FILE, help="'word count' lines, for --marginals counts."
)


@cli.command()
@click.argument("source", metavar="SRC", type=FILE)
@click.argument("target", metavar="TGT", type=FILE)
@reader_options()
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
    reading,
    dictionaries,
    reverse_dictionaries,
    seeds,
    marginals,
    source_counts,
    target_counts,
    settings,
):
    """Align the vectors in SRC with those in TGT, with no dictionary.

    Files are word2vec or fastText text or word2vec binary, plain or compressed (gzip,
    bzip2, xz), .npz with arrays "words" and "vectors", .npy with a word list in the
    same folder, or .kv and .model files of gensim, if it is installed.
    """
    if len({marginals == "counts", bool(source_counts), bool(target_counts)}) > 1:
        raise click.UsageError(
            "--marginals counts, --source-counts and --target-counts go together"
        )
    if seeds is not None and settings.init != "auto":
        raise click.UsageError("--seeds and --init do not go together")
    vars(settings).update(
        marginals=marginals,
        source_counts=source_counts,
        target_counts=target_counts,
        dictionary=dictionaries,
        reverse_dictionary=reverse_dictionaries,
        seeds=seeds,
        max_vocab=reading.max_words,
        lower=reading.lower,
        encoding=reading.encoding,
        encoding_errors=reading.errors,
        max_bytes=reading.max_bytes,
    )
    lists = *dictionaries, *reverse_dictionaries
    check_output(settings, source, target, *lists, seeds, source_counts, target_counts)
    # The small files first: a mistake in them shows before a minute of reading.
    first_only = CONVENTIONS[settings.convention].first_only
    read_list = functools.partial(
        words.read_dictionary, first_only=first_only, max_bytes=reading.max_bytes
    )
    dictionary = merge(
        *map(read_list, dictionaries),
        *(read_list(path, reverse=True) for path in reverse_dictionaries),
    )
    known = None if seeds is None else read_list(seeds)
    inputs = []
    for path, counts in ((source, source_counts), (target, target_counts)):
        embeddings = read(path, reading, quiet=settings.quiet)
        if counts is not None:
            frequencies = words.read_counts(counts, max_bytes=reading.max_bytes)
            try:
                embeddings = embeddings.with_counts(frequencies)
            except ValueError as error:
                raise click.UsageError(f"{counts}: {error}") from error
        inputs.append(Input(str(path), embeddings))
    run(*inputs, dictionary, settings, known)


@cli.command()
@solver_options
def demo(settings):
    """Align the bundled sample: Spanish and French words of old novels."""
    settings.marginals, settings.seeds = "uniform", None
    check_output(settings)
    source, target, dictionary = words.load_sample()
    sides = Input("Spanish sample", source), Input("French sample", target)
    run(*sides, dictionary, settings)


@cli.command()
@click.argument("source", metavar="SRC", type=FILE)
@click.argument("target", metavar="DST", type=click.Path(dir_okay=False, path_type=Path))
@reader_options(default=None)
@SPACE
@click.option("--force", is_flag=True, help="Replace DST.")
@JSON
def convert(source, target, reading, space, force, as_json):
    """Write vectors in another format.

    The vectors of SRC are written to DST in the format that its name says: .vec and
    .txt are word2vec text, .bin is word2vec binary, .npz is read fastest; with .gz
    after it each of the first three is compressed.
    """
    check_target(target, force, "DST")
    embeddings = read(source, reading)
    words.write_embeddings(target, embeddings, space=space)
    report_file(target, embeddings, as_json)


@cli.command()
@JSON
def config(as_json):
    """Show how gwfast was built and what it runs on."""
    if as_json:
        click.echo(json_line(facts()))
    else:
        gwfast.show_config()
