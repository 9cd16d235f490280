"""``gwfast experiment``: the options of the paper's experiments."""

from pathlib import Path

import click

from ..experiments import published
from ..experiments.alignments import NORMALIZE
from ..experiments.data import MUSE, first_file
from ..experiments.distances import Distances
from ..experiments.dynamics import Dynamics
from ..experiments.runner import run
from ..experiments.tables import Table1, Table2
from ..problems.geometry import STATISTICS
from . import options as common
from .menu import cli


def _folder(help, **attributes):
    path = click.Path(exists=True, file_okay=False, path_type=Path)
    return click.option("--data", "folder", type=path, metavar="DIR", help=help, **attributes)


def _epsilon_text(text):
    """The text as it was given, once it is known to be an epsilon."""
    common.parsed_epsilon(text)
    return text


def _once(context, parameter, values):
    """Without those that came before."""
    return tuple(dict.fromkeys(values))


def _names(text):
    return tuple(dict.fromkeys(text.split(",")))


def _pairs(text):
    names = _names(text)
    for name in names:
        if name.count("-") != 1 or not all(name.split("-")):
            raise click.BadParameter(f"expected pairs such as en-es, got {name!r}")
    return names


def _files(context, parameter, value):
    """Paths by name, of arguments ``NAME=FILE``."""
    files = {}
    for text in value:
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise click.BadParameter(f"expected NAME=FILE, got {text!r}")
        if name in files:
            raise click.BadParameter(f"expected different names, got {name!r} twice")
        files[name] = common.FILE.convert(path, parameter, context)
    return files


def _epsilons(*default):
    return common.epsilon(
        "epsilons",
        convert=_epsilon_text,
        multiple=True,
        default=default,
        callback=_once,
        text="Strength of the regularization; give it several times to compare.",
    )


_TIME_LIMIT = common.time_limit(
    "Time after which each solve ends with the best so far; its job counts as done."
)
# How to run, whatever the experiment.
_run_options = common.gathered(
    "options",
    common.count(
        "--threads",
        "n_threads",
        help="Threads of each job; by default the cores, shared by the jobs.",
    ),
    common.count(
        "--jobs",
        "n_jobs",
        default=1,
        help="Jobs at a time, in processes of their own where there are several.",
    ),
    click.option(
        "--output",
        type=common.PATH,
        metavar="DIR",
        help="Write results.json and pictures there. The same command goes on from"
        " where it was stopped.",
    ),
    click.option(
        "--state",
        type=common.PATH,
        metavar="DIR",
        help="Where finished jobs are kept; by default in --output.",
    ),
    click.option("--again", is_flag=True, help="Do finished jobs once more."),
    click.option("--force", is_flag=True, help="Use --output though it holds other files."),
    common.JSON,
    common.QUIET,
)


@cli.group(invoke_without_command=True)
@click.pass_context
def experiment(context):
    """The paper's experiments, on data that you have.

    Each runs on whatever of its files is there, says what is missing, and prints the
    paper's numbers beside its own. Nothing is downloaded.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _add_table(kind):
    """Make the command of a table."""

    @experiment.command(kind.name, help=kind.help)
    @_folder("Where the files are, under the names they are published with.", required=True)
    @click.option(
        "--pairs",
        type=_pairs,
        metavar="en-es,...",
        help="Directions to run; by default the paper's.",
    )
    @common.gathered(
        "settings",
        common.n_words(5000, least=2),
        common.max_vocab(least=2),
        click.option(
            "--cache",
            is_flag=True,
            help="Keep what was read in FILE.npz beside each file of vectors, which"
            " is read faster the next time.",
        ),
        _epsilons("auto"),
        click.option(
            "--scale-costs",
            "scales",
            type=click.Choice(["none", *STATISTICS]),
            multiple=True,
            default=kind.default_scales,
            callback=_once,
            help="Divide the costs of each side by this statistic of them; give it"
            " several times to compare.",
        ),
        common.count("--refine", "rounds", default=5, help="Rounds of refinement, at most."),
        common.convention(kind.default_convention),
        common.SEED,
        _TIME_LIMIT,
    )
    @_run_options
    def table(folder, pairs, settings, options):
        run(kind(folder, pairs or kind.default_directions, settings), options)


_add_table(Table1)
_add_table(Table2)


@experiment.command()
@click.argument("files", metavar="[SRC TGT]", type=common.FILE, nargs=-1)
@_folder("Instead of SRC and TGT: files in the layout of MUSE, of which --pairs are traced.")
@click.option("--dictionary", type=common.FILE, help="For SRC and TGT: 'source target' a line.")
@click.option(
    "--pairs", type=_pairs, default="en-fr,en-ru", metavar="en-fr,...", help="Directions to run."
)
@common.gathered(
    "settings",
    common.n_words(2000, least=2),
    _epsilons("2.5%", "auto", "1.25%", "0.5%"),
    click.option(
        "--init",
        type=click.Choice(["product", "profile", "random", "auto"]),
        default="profile",
        help="Where to start: the paper starts from product. With auto the race of the"
        " starts is not shown.",
    ),
    common.count("--max-outer", default=1000, help="Limit of outer iterations."),
    common.convention("gwfast"),
    common.SEED,
    _TIME_LIMIT,
)
@_run_options
def dynamics(files, folder, dictionary, pairs, settings, options):
    """Objective and accuracy after every iteration, for several epsilons.

    On two files of vectors, or on all --pairs that --data has files of.
    """
    if len(files) not in (0, 2) or bool(files) == bool(folder):
        raise click.UsageError("give either SRC and TGT, or --data")
    if bool(files) != bool(dictionary):
        raise click.UsageError("--dictionary goes with SRC and TGT")
    if folder:
        found, absent = MUSE.find(folder, pairs, "train")
    else:
        source, target = files
        names = [source.stem, target.stem]
        if names[0] == names[1]:  # word2vec.es and word2vec.en
            names = [source.name, target.name]
        pair = {"source": source, "target": target, "dictionary": dictionary}
        found, absent = {"-".join(names): pair}, {}
    run(Dynamics(found, absent, folder, settings), options)


@experiment.command()
@click.argument("files", metavar="[NAME=FILE]...", nargs=-1, callback=_files)
@_folder("Compare all wiki.xx.vec there as well.")
@click.option(
    "--languages", type=_names, metavar="en,...", help="Those of --data to compare; by default all."
)
@common.gathered(
    "settings",
    common.n_words(2000, least=2),
    common.epsilon(
        convert=_epsilon_text, text="Of the entropic plans that matchings are made from."
    ),
    common.scale_costs("language"),
    common.SEED,
    _TIME_LIMIT,
)
@_run_options
def distances(files, folder, languages, settings, options):
    """Distances between languages, on their most frequent words.

    On any files of vectors, each with a name to call it, and on those of --data.
    """
    settings.normalize = list(NORMALIZE)
    wanted = ()
    if folder:
        wanted = languages or published.DISTANCES_LANGUAGES
        for name in languages or MUSE.languages(folder):
            path = first_file(folder, MUSE.vectors_names(name))
            if path is not None:
                files.setdefault(name, path)
    run(Distances(files, wanted, folder, settings), options)
