"""The command line: options, and errors as one line. `gwfast.report` does the work.

Needs click, rich and matplotlib (the extra ``cli``), as `gwfast.__main__` checks.
"""

import math
import sys
from pathlib import Path

import click

import gwfast

from .memory import TIERS
from .report import Input, Settings, run
from .words import (
    load_sample,
    merge,
    read_counts,
    read_dictionary,
    read_embeddings,
)
from .words.dictionaries import invert

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


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


def _epsilon(context, parameter, value):
    """``auto``, a positive number, or a percentage of the mean pseudo-cost."""
    if value == "auto":
        return value
    relative = value.endswith("%")
    try:
        number = float(value.removesuffix("%"))
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise click.BadParameter(
            f"expected 'auto', a number above 0 or a percentage, got {value!r}"
        )
    return gwfast.Epsilon(relative=number / 100) if relative else number


def _normalize(context, parameter, value):
    return () if value == "none" else tuple(value.split(","))


_SOLVER_OPTIONS = (
    click.option(
        "--n-words",
        type=click.IntRange(1),
        default=2000,
        show_default=True,
        metavar="N",
        help="Most frequent words of each side that take part in the transport; the"
        " others are mapped.",
    ),
    click.option(
        "--epsilon",
        default="auto",
        show_default=True,
        callback=_epsilon,
        metavar="FLOAT|N%|auto",
        help="Strength of the entropic regularization; N% is a share of the mean"
        " pseudo-cost, of which auto is 1.75%.",
    ),
    click.option(
        "--init",
        type=click.Choice(["auto", "product", "profile", "random"]),
        default="auto",
        show_default=True,
        help="Start of the solve; auto tries several.",
    ),
    click.option(
        "--seed",
        type=click.IntRange(0),
        default=0,
        show_default=True,
        metavar="N",
        help="For random starts.",
    ),
    click.option(
        "--normalize",
        default="unit,center,unit",
        show_default=True,
        callback=_normalize,
        metavar="STEPS",
        help="What is done to the vectors first, or none.",
    ),
    click.option(
        "--max-outer",
        type=click.IntRange(1),
        metavar="N",
        help="Limit of outer iterations.",
    ),
    click.option(
        "--tol",
        type=click.FloatRange(0, min_open=True),
        metavar="FLOAT",
        help="Relative change at which the solve stops.",
    ),
    click.option(
        "--threads", type=click.IntRange(1), metavar="N", help="Number of threads."
    ),
    click.option(
        "--memory-limit",
        metavar="SIZE",
        help="Memory that the solve may take, such as 2.4GB; by default what is free.",
    ),
    click.option(
        "--tier",
        type=click.Choice(["auto", *TIERS]),
        default="auto",
        show_default=True,
        help="How the kernel is kept: all of it, what matters of it, or nothing.",
    ),
    click.option(
        "--output",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Write mapping.npz, translations.tsv, result.json and dynamics.png there.",
    ),
    click.option("--force", is_flag=True, help="Replace these files in --output."),
    click.option("--quiet", is_flag=True, help="Show no progress."),
)


def _solver_options(command):
    """Add what `align` and `demo` share: the fields of `Settings`."""
    for option in reversed(_SOLVER_OPTIONS):
        command = option(command)
    return command


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


@cli.command()
@click.argument("source", metavar="SRC", type=_FILE)
@click.argument("target", metavar="TGT", type=_FILE)
@click.option(
    "--max-vocab",
    type=click.IntRange(1),
    default=20000,
    show_default=True,
    metavar="N",
    help="Words to read from each file, which is sorted by frequency.",
)
@click.option(
    "--dictionary",
    "dictionaries",
    type=_FILE,
    multiple=True,
    help="Score by this list, 'source target' a line. Several are joined.",
)
@click.option(
    "--reverse-dictionary",
    "reverse_dictionaries",
    type=_FILE,
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
@click.option("--source-counts", type=_FILE, help="'word count' lines.")
@click.option("--target-counts", type=_FILE, help="'word count' lines.")
@_solver_options
def align(
    source,
    target,
    max_vocab,
    dictionaries,
    reverse_dictionaries,
    marginals,
    source_counts,
    target_counts,
    **settings,
):
    """Align the vectors in SRC with those in TGT, with no dictionary.

    Files are word2vec or fastText text (also .gz), word2vec binary (.bin), .npz with
    arrays "words" and "vectors", or .npy with a word list beside it.
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
        embeddings = read_embeddings(path, max_words=max_vocab)
        if counts is not None:
            frequencies = read_counts(counts)
            try:
                embeddings = embeddings.with_counts(frequencies)
            except ValueError as error:
                raise click.UsageError(f"{counts}: {error}") from error
        inputs.append(Input(str(path), embeddings))
    run(*inputs, dictionary, settings)


@cli.command()
@_solver_options
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
def config():
    """Show how gwfast was built and what it runs on."""
    gwfast.show_config()
