"""The options that commands share, and how their texts become values."""

from pathlib import Path
from typing import get_args

import click

from ..alignment.normalize import STEPS
from ..problems.epsilon import parse_epsilon
from ..problems.geometry import STATISTICS
from ..quadratic.factory import Tier
from ..words import CONVENTIONS
from .page import METHOD_LABELS

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
# Of fastText's millions; as many as MUSE and vecmap look at.
MAX_VOCAB = 200_000
SEED = click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="For random starts.",
)
QUIET = click.option("--quiet", is_flag=True, help="Show no progress.")


def n_words(default, minimum=1):
    return click.option(
        "--n-words",
        type=click.IntRange(minimum),
        default=default,
        show_default=True,
        metavar="N",
        help="Most frequent words of each side that take part in the transport.",
    )


def max_vocab(minimum=1, default=MAX_VOCAB):
    return click.option(
        "--max-vocab",
        type=click.IntRange(minimum),
        default=default,
        show_default=default or "all",
        metavar="N",
        help="Words to read from a file, which is sorted by frequency.",
    )


def convention(default):
    return click.option(
        "--convention",
        type=click.Choice(list(CONVENTIONS)),
        default=default,
        show_default=True,
        help="Whose rules of scoring.",
    )


def _epsilon(context, parameter, value):
    """``auto``, a positive number, or a percentage of the mean linearized cost."""
    try:
        return parse_epsilon(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _methods(context, parameter, value):
    names = tuple(value.split(","))
    for name in names:
        if name not in METHOD_LABELS:
            raise click.BadParameter(
                f"expected some of {', '.join(METHOD_LABELS)}, got {name!r}"
            )
    return names


def _normalize(context, parameter, value):
    steps = () if value == "none" else tuple(value.split(","))
    for step in steps:
        if step not in STEPS:
            raise click.BadParameter(
                f"expected {' and '.join(STEPS)}, with commas between, or none, got"
                f" {step!r}"
            )
    return steps


def with_options(*options):
    """Several options at once, in the order in which --help is to show them."""

    def decorate(command):
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


# What `align` and `demo` share: the fields of `AlignSettings`.
solver_options = with_options(
    n_words(2000),
    click.option(
        "--epsilon",
        default="auto",
        show_default=True,
        callback=_epsilon,
        metavar="FLOAT|N%|auto",
        help="Strength of the entropic regularization; N% is a percentage of"
        " the mean linearized cost, of which auto is 1.75%.",
    ),
    click.option(
        "--init",
        type=click.Choice(["auto", "product", "profile", "random"]),
        default="auto",
        show_default=True,
        help="Start of the solve; auto tries several.",
    ),
    SEED,
    click.option(
        "--normalize",
        default="unit,center,unit",
        show_default=True,
        callback=_normalize,
        metavar="STEPS",
        help="What is done to the vectors first: unit makes their lengths one, center"
        " their mean zero; or none.",
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
        type=click.Choice(get_args(Tier)),
        default="auto",
        show_default=True,
        help="How the kernel is kept: all of it, what matters of it, or nothing.",
    ),
    click.option(
        "--scale-costs",
        type=click.Choice(STATISTICS),
        help="Divide the costs of each side by this statistic of them.",
    ),
    click.option(
        "--refine",
        type=click.IntRange(0),
        default=5,
        show_default=True,
        metavar="N",
        help="Rounds of fitting the mapping to mutual CSLS matches, at most; 0 leaves"
        " the one of the plan.",
    ),
    click.option(
        "--whiten/--no-whiten",
        default=True,
        show_default=True,
        help="Whiten both sides in each round.",
    ),
    click.option(
        "--reweight",
        type=click.FloatRange(0),
        metavar="POWER",
        help="Weight directions by this power of their correlation in each round. [0.5,"
        " or 0 with --no-whiten]",
    ),
    click.option(
        "--methods",
        default="coupling,nn,csls",
        show_default=True,
        callback=_methods,
        metavar="NAMES",
        help="Of translation, to be scored; also barycentric and inverted_softmax.",
    ),
    convention("gwfast"),
    click.option(
        "--output",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Write there: mapping.npz, translations.tsv, dictionary.txt, result.json,"
        " report.html, dynamics.png.",
    ),
    click.option(
        "--vectors",
        "write_vectors",
        type=click.Choice(["text", "binary"]),
        help="Write the mapped vectors of both sides there as well.",
    ),
    click.option("--force", is_flag=True, help="Replace these files in --output."),
    QUIET,
)


def reader_options(default=MAX_VOCAB):
    """How embeddings are read; `default` is of --max-vocab, None is all words."""
    return with_options(
        max_vocab(default=default),
        click.option("--lower", is_flag=True, help="Put words in lower case."),
        click.option(
            "--encoding-errors",
            type=click.Choice(["strict", "replace", "skip"]),
            default="strict",
            show_default=True,
            help="What to do with words that are not UTF-8.",
        ),
    )
