"""Options that commands share, and messages of the library in terms of these options."""

import functools
import inspect
import re
from pathlib import Path

import click

# Labels of the methods of translation.
METHODS = {
    "plan": "plan",
    "barycentric": "barycentric",
    "nn": "nearest neighbor",
    "csls": "CSLS",
    "inverted_softmax": "inverted softmax",
}
# Phrases of the library, and phrases with options in their place. An item of a list that is None,
# or has an option that the running command lacks, is left out of the list.
_PHRASES = {
    "SolverOptions(search_time=...)": "--search-time SECONDS",
    "SolverOptions with a larger search_time": "a larger --search-time",
    "a few known pairs (init=Seeds(...))": "a few known pairs (--seeds FILE)",
    'init="auto"': "--init auto",
    "SolverOptions with a larger n_neighbors or tier='tiled'": "--tier tiled",
    "SolverOptions with a larger max_inner or marginal_tol": None,
    "SolverOptions(max_inner=...)": None,
    "the smaller steps of SolverOptions(method='ppa'), the proximal point method": None,
    "a larger marginal_tol of SolverOptions": None,
    "a linear_cost,": None,
    "at max_inner": "at their limit",
    "PointCloud.scaled_by, or matrices over their means": "--normalize unit,center,unit,mean",
    "(tol ": "(--tol ",
    "(marginal_tol": "(at most",
    "time_limit ended": "--time-limit ended",
    "memory_limit": "--memory-limit",
    "fewer points": "a smaller --n-words",
    "more points": "a larger --n-words",
    "read_dictionary(path, reverse=True)": "--reverse-dictionary",
    "errors='replace' or 'skip'": "--bad-rows replace or skip",
    "errors='skip'": "--bad-rows skip",
    "no file of Alignment.save": "no result of gwfast align",
    "encoding='latin-1', ": "--encoding latin-1, ",
    "; max_words=": "; --max-vocab ",
    "; max_bytes sets": "; --max-bytes sets",
    "; see space": "; see --space",
    "No module named 'distributed'": "--scheduler needs dask: pip install 'gwfast-ot[distributed]'",
}


def as_options(text):
    """Return text of the library with options of the running command for arguments in Python."""
    options = {
        name for option in click.get_current_context().command.params for name in option.opts
    }
    text = re.sub(r"SolverOptions\(tier='(\w+)'\)", r"--tier \1", text).replace("\n", " ")
    for name in options:
        argument = name[2:].replace("-", "_")
        text = re.sub(rf"(?<![-\w]){argument}(?= must )", name, text)
        if argument in ("epsilon", "tol", "time_limit"):
            text = re.sub(rf"\b(larger|smaller|or|an) {argument}\b", rf"\1 {name}", text)
    for argument, phrase in _PHRASES.items():
        if phrase is not None and options.issuperset(re.findall(r"--[\w-]+", phrase)):
            text = text.replace(argument, phrase)
        else:
            item = re.escape(argument)
            text = re.sub(f"(, or |, | or ){item}|{item}(, or |, | or )", "", text)
    return text


def single_backslashes(text):
    """Return a message without the doubled backslashes of Python's quotes."""
    return re.sub("'.*?'", lambda quoted: quoted[0].replace(r"\\", "\\"), text)


def arguments_of(function, settings):
    """Return the settings that are arguments of a function of the library."""
    names = {"max_vocab": "max_words", "bad_rows": "errors", "threads": "n_threads"}
    named = {names.get(name, name): value for name, value in vars(settings).items()}
    return {name: named[name] for name in inspect.signature(function).parameters if name in named}


def group(*options):
    """Return a decorator that adds options to a command, in the order of its help."""
    return lambda command: functools.reduce(lambda to, add: add(to), reversed(options), command)


def _epsilon(text):
    from ..problems.epsilon import as_epsilon

    try:
        return as_epsilon(text).value or text
    except ValueError as error:
        rule = "must be a number above 0, a percentage such as 2%, or auto"
        raise click.BadParameter(f"{rule}, got {text}") from error


def _steps(text):
    from ..alignment.normalize import check_steps

    steps = () if text == "none" else tuple(text.split(","))
    try:
        check_steps(steps)
    except ValueError as error:
        rule = "must be unit and center, then perhaps mean, median or max, with commas, or none"
        raise click.BadParameter(f"{rule}, got {text}") from error
    return steps


def _methods(text):
    return tuple(click.Choice([*METHODS]).convert(name, None, None) for name in text.split(","))


file = click.Path(exists=True, dir_okay=False, path_type=Path)
new_file = click.Path(dir_okay=False, path_type=Path)
positive = click.FloatRange(0, min_open=True)
count = functools.partial(click.option, type=click.IntRange(1), metavar="N")
folder = click.argument("folder", metavar="DIR", type=click.Path(exists=True, path_type=Path))

# fmt: off
as_json = click.option("--json", "as_json", is_flag=True,
    help="Print the result as one JSON object, and all else on stderr.")
space = click.option("--space", metavar="TEXT",
    help="Replacement for a space in a word, which .vec, .txt and .bin cannot hold.")
max_bytes = count("--max-bytes", show_default="16 MiB and 64 times its size",
    help="Most bytes that a file may unpack to.")
dictionaries = group(
    click.option("--dictionary", type=file, multiple=True,
        help="Score by this list, 'source target' a line. Several are joined."),
    click.option("--reverse-dictionary", type=file, multiple=True,
        help="The same with 'target source' lines."),
)


def scoring(methods):
    """Return a decorator that adds the options of scores, with these methods as the default."""
    return group(
        click.option("--methods", type=_methods, default=methods, metavar="NAMES",
            help=f"Methods of translation to score, some of {', '.join(METHODS)}."),
        click.option("--convention", type=click.Choice(["gwfast", "vecmap", "muse", "paper"]),
            default="gwfast", help="Evaluator whose rules of scoring apply."),
    )


def reader(max_vocab=None):
    """Return a decorator that adds the options of `read_embeddings`; None is all words."""
    return group(
        count("--max-vocab", default=max_vocab, show_default=max_vocab or "all",
            help="Words to read from a file, which is sorted by frequency."),
        click.option("--lower", is_flag=True, help="Put words in lower case."),
        click.option("--bad-rows", type=click.Choice(["strict", "replace", "skip"]),
            default="strict", help="Treatment of words that cannot be decoded. skip also leaves"
            " out rows that cannot be used: no word, other than d numbers, numbers that are not"
            " finite or all zero."),
        click.option("--encoding", default="utf-8", metavar="NAME", help="Encoding of the words."),
        max_bytes,
    )


weights = group(
    click.option("--seeds", type=file,
        help="Start from these pairs, 'source target' a line, in place of --init."),
    click.option("--marginals", type=click.Choice(["uniform", "zipf", "counts"]),
        default="uniform", help="Weights of the words."),
    click.option("--source-counts", type=file, help="'word count' lines, for --marginals counts."),
    click.option("--target-counts", type=file, help="'word count' lines, for --marginals counts."),
)
solver = group(
    count("--n-words", default=2000,
        help="Most frequent words of each side that take part in the transport."),
    click.option("--epsilon", type=_epsilon, default="auto", metavar="FLOAT|N%|auto",
        help="Strength of the entropic regularization; N% is a percentage of the mean linearized"
        " cost, of which auto is 1.75%."),
    click.option("--init", default="auto",
        type=click.Choice(["auto", "product", "profile", "random", "identical"]),
        help="Start of the solve; auto tries several, identical matches words spelt alike."),
    count("--seed", type=click.IntRange(0), default=0, help="Seed of random starts."),
    click.option("--normalize", type=_steps, default="unit,center,unit", metavar="STEPS",
        help="Steps before the solve: unit makes the lengths of vectors one, center their mean"
        " zero; mean, median or max at the end divides the costs by it; or none."),
    click.option("--tol", type=positive, default=1e-5, metavar="FLOAT",
        help="Relative change at which the solve stops."),
    click.option("--time-limit", type=positive, metavar="SECONDS",
        help="Time after which solve and refinement end with the best so far."),
    click.option("--search-time", type=positive, metavar="SECONDS",
        help="Time to look for lower optima; less if none is found for half of it."),
    count("--threads", help="Number of threads."),
    click.option("--scheduler", metavar="ADDRESS",
        help="Scheduler of a Dask cluster, such as tcp://host:8786, whose workers solve problems"
        " of 10,000 words a side or more."),
    click.option("--memory-limit", metavar="SIZE",
        help="Memory that the solve may take, such as 2.4GB; by default the free memory."),
    click.option("--tier", type=click.Choice(["auto", "dense", "tiled", "neighbors"]),
        default="auto", help="Kernel that is kept: all, nothing, or some nearest neighbors."),
    click.option("--checkpoint", type=click.Path(path_type=Path), metavar="FILE",
        help="Keep the state of the solve there; if killed, the same command goes on."),
    count("--refine", type=click.IntRange(0), default=5,
        help="Rounds of fitting the mapping to mutual CSLS matches, at most; 0 leaves the mapping"
        " of the plan."),
    scoring("plan,nn,csls"),
    click.option("--output", type=click.Path(path_type=Path), metavar="DIR",
        help="Write there: mapping.npz, translations.tsv, dictionary.txt, result.json,"
        " report.html, dynamics.png."),
    click.option("--vectors", "write_vectors", type=click.Choice(["text", "binary"]),
        help="Write the mapped vectors of both sides there as well."),
    click.option("--force", is_flag=True, help="Replace these files in --output."),
    as_json,
    click.option("--quiet", is_flag=True, help="Show no progress."),
)
mapping = group(
    click.option("--output", type=new_file, metavar="FILE", show_default="stdout, word2vec text",
        help="Write there, in the format of the name, as `gwfast convert` does."),
    click.option("--side", type=click.Choice(["source", "target"]), default="source",
        help="Space of the vectors."),
    space,
    click.option("--force", is_flag=True, help="Replace --output."),
    as_json,
)
translating = group(
    click.option("-k", "--count", "k", type=click.IntRange(1, 10), default=5,
        help="Translations of each word."),
    click.option("--direction", type=click.Choice(["forward", "backward"]), default="forward",
        help="forward from source to target, or backward."),
    as_json,
)
# fmt: on
