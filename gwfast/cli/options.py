"""The options that commands share, and how their texts become values."""

import functools
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import click

from ..alignment.normalize import VectorStep, check_steps
from ..problems.epsilon import as_epsilon
from ..problems.geometry import Statistic
from ..quadratic.linearize import TierName
from ..words.evaluation import CONVENTIONS
from .wording import METHOD_LABELS

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
JSON = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print the result as one JSON object, and all else on stderr.",
)
SPACE = click.option(
    "--space",
    metavar="TEXT",
    help="What to write for a space in a word, which .vec, .txt and .bin cannot hold.",
)


def gathered(name, *options):
    """Options whose values the command is given as attributes of one argument, `name`,
    in the order in which --help is to show them.
    """

    def decorate(command):
        @functools.wraps(command)
        def call(**values):
            given = {one: values.pop(one) for one in names}
            return command(**{name: SimpleNamespace(**given)}, **values)

        for option in reversed(options):
            option(call)
        last = call.__click_params__[-len(options) :]
        names = [parameter.name for parameter in reversed(last)]
        return call

    return decorate


def count(*names, least=1, **attributes):
    """An option that is a whole number."""
    return click.option(*names, type=click.IntRange(least), metavar="N", **attributes)


def n_words(default, least=1):
    return count(
        "--n-words",
        least=least,
        default=default,
        help="Most frequent words of each side that take part in the transport.",
    )


def max_vocab(*name, least=1, default=200_000):
    return count(
        "--max-vocab",
        *name,
        least=least,
        default=default,
        show_default=default or "all",
        help="Words to read from a file, which is sorted by frequency.",
    )


def convention(default):
    return click.option(
        "--convention",
        type=click.Choice(list(CONVENTIONS)),
        default=default,
        help="Whose rules of scoring.",
    )


def time_limit(text):
    return click.option(
        "--time-limit", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help=text
    )


def epsilon(*names, convert, text, default="auto", **attributes):
    return click.option(
        "--epsilon",
        *names,
        type=convert,
        default=default,
        metavar="FLOAT|N%|auto",
        help=text,
        **attributes,
    )


def parsed_epsilon(text):
    """``auto``, a positive number, or a percentage of the mean linearized cost."""
    try:
        return as_epsilon(text).value or text
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _names(text, known, expected):
    names = tuple(text.split(","))
    for name in names:
        if name not in known:
            raise click.BadParameter(f"expected {expected}, got {name!r}")
    return names


def _methods(text):
    return _names(text, METHOD_LABELS, f"some of {', '.join(METHOD_LABELS)}")


def _normalize(text):
    steps = () if text == "none" else tuple(text.split(","))
    try:
        check_steps(steps)
    except ValueError:
        steps, statistics = " and ".join(get_args(VectorStep)), ", ".join(get_args(Statistic))
        raise click.BadParameter(
            f"expected {steps}, with commas between, or none, and at the end perhaps one of"
            f" {statistics}, got {text!r}"
        ) from None
    return steps


# What `align` and `demo` share.
solver_options = gathered(
    "settings",
    n_words(2000),
    epsilon(
        convert=parsed_epsilon,
        text="Strength of the entropic regularization; N% is a percentage of the mean"
        " linearized cost, of which auto is 1.75%.",
    ),
    click.option(
        "--init",
        type=click.Choice(["auto", "product", "profile", "random", "identical"]),
        default="auto",
        help="Start of the solve; auto tries several, identical matches words that are"
        " spelt alike.",
    ),
    count("--seed", least=0, default=0, help="For random starts."),
    click.option(
        "--normalize",
        type=_normalize,
        default="unit,center,unit",
        metavar="STEPS",
        help="Steps before the solve: unit makes the lengths of vectors one, center their mean"
        " zero; mean, median or max at the end divides the costs by it; or none.",
    ),
    click.option(
        "--tol",
        type=click.FloatRange(0, min_open=True),
        default=1e-5,
        metavar="FLOAT",
        help="Relative change at which the solve stops.",
    ),
    time_limit("Time after which solve and refinement end with the best so far."),
    click.option(
        "--search-time",
        type=click.FloatRange(0, min_open=True),
        metavar="SECONDS",
        help="Time to look for lower optima; less if none is found for half of it.",
    ),
    count("--threads", help="Number of threads."),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Of a Dask cluster, such as tcp://host:8786, whose workers solve what has"
        " 10,000 words a side or more.",
    ),
    click.option(
        "--memory-limit",
        metavar="SIZE",
        help="Memory that the solve may take, such as 2.4GB; by default what is free.",
    ),
    click.option(
        "--tier",
        type=click.Choice(get_args(TierName)),
        default="auto",
        help="How the kernel is kept: all of it, nothing, or of each word the nearest neighbors.",
    ),
    click.option(
        "--checkpoint",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Keep there where the solve stands; killed, the same command goes on.",
    ),
    count(
        "--refine",
        least=0,
        default=5,
        help="Rounds of fitting the mapping to mutual CSLS matches, at most; 0 leaves"
        " the mapping of the plan.",
    ),
    click.option(
        "--methods",
        type=_methods,
        default="coupling,nn,csls",
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
    JSON,
    click.option("--quiet", is_flag=True, help="Show no progress."),
)


def reader_options(default=200_000):
    """Of `read_embeddings`; `default` is of --max-vocab, None is all words."""
    return gathered(
        "reading",
        max_vocab("max_words", default=default),
        click.option("--lower", is_flag=True, help="Put words in lower case."),
        click.option(
            "--encoding-errors",
            "errors",
            type=click.Choice(["strict", "replace", "skip"]),
            default="strict",
            help="What to do with words that cannot be decoded. skip also leaves out"
            " rows that cannot be used: no word, other than d numbers, numbers that are"
            " not finite or all zero.",
        ),
        click.option(
            "--encoding",
            default="utf-8",
            metavar="NAME",
            help="Encoding of the words, such as latin-1.",
        ),
        count(
            "--max-bytes",
            show_default="16 MiB and 64 times its size",
            help="Most bytes that a file may unpack to.",
        ),
    )
