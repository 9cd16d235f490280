"""``gwfast translate`` and ``gwfast map``: what a folder of results is good for."""

import json
import sys
from pathlib import Path

import click
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from .. import words
from ..alignment.aligned import Alignment
from ..utils.progress import console
from ..words.files.writing import write_text
from .menu import cli
from .options import FILE, JSON, SPACE, reader_options
from .outputs import TRANSLATIONS, field, word_of
from .plain import json_line
from .reading import check_target, read, report_file
from .terminal import literal, print_fields

_FOLDER = click.Path(exists=True, path_type=Path)
# What the plan says of a pair of words, by the columns of a table: the share of the
# word's mass, or the mass in tables that earlier versions wrote.
_FORMER = tuple(name.replace("_share", "_score") for name in TRANSLATIONS)
_OF_PLAN = {TRANSLATIONS: "share", _FORMER: "mass"}


@cli.command()
@click.argument("folder", metavar="DIR", type=_FOLDER)
@click.argument("asked", metavar="WORD...", nargs=-1, required=True)
@click.option(
    "-k", "--count", "k", type=click.IntRange(1, 10), default=5,
    help="Translations of each word.",
)  # fmt: skip
@JSON
def translate(folder, asked, k, as_json):
    """Translate words of the source by a saved result.

    DIR is what `gwfast align --output` wrote; what it holds of each WORD is shown: the
    best translations by CSLS with their scores, those of the plan with the share of
    the word's mass that goes there, and whether the first one is mutual. A word that
    was not there is told on stderr, and the exit status is 1.
    """
    path = folder / "translations.tsv"
    if not path.is_file():
        raise click.UsageError(
            f"DIR must be what gwfast align --output wrote, got {folder} without {path.name}"
        )
    names, found, alike = _look_up(path, asked)
    for word in asked:
        if word not in found:
            more = f"; there is {alike[word]!r}" if word in alike else ""
            message = f"gwfast: {literal(word)!r} is not among the source words{more}"
            click.echo(message, err=True)
    chosen = {word: found[word][:k] for word in asked if word in found}
    if as_json:
        click.echo(json_line(_as_object(chosen, _OF_PLAN[names])))
    elif chosen:
        _show(chosen, names)
    return int(len(chosen) < len(set(asked)))


def _look_up(path, asked):
    """The names of the columns, rows of the table by word, and words that differ by
    case only from others that were asked for."""
    wanted = {field(word): word for word in asked}
    folded = {}
    for key, word in wanted.items():
        folded.setdefault(key.casefold(), []).append(word)
    found, alike = {}, {}
    with open(path, encoding="utf-8", newline="\n") as stream:
        header = tuple(stream.readline().rstrip("\n").split("\t"))
        if header not in _OF_PLAN:
            raise click.UsageError(f"{path} must begin with the columns {', '.join(TRANSLATIONS)}")
        for line in stream:
            key = line.partition("\t")[0]
            if key in wanted:
                row = line.rstrip("\n").split("\t")
                if len(row) != len(TRANSLATIONS):
                    raise click.UsageError(f"{path} is damaged: {line[:60]!r}")
                found.setdefault(wanted[key], []).append(row)
            for word in folded.get(key.casefold(), ()):
                alike.setdefault(word, word_of(key))
    return header, found, alike


def _as_object(chosen, of_plan):
    """Of each word, in JSON's types; `of_plan` is what the plan says of a pair."""
    return {
        word: {
            "mutual": rows[0][6] == "yes",
            "csls": [{"word": word_of(row[2]), "score": json.loads(row[3])} for row in rows],
            "coupling": [
                {"word": word_of(row[4]), of_plan: json.loads(row[5])} for row in rows if row[4]
            ],
        }
        for word, rows in chosen.items()
    }


def _show(chosen, names):
    out = console()
    if not out.is_terminal:
        lines = (row for rows in chosen.values() for row in rows)
        print_fields(out, [names, *lines])
        return

    def share(row):
        return f" {float(row[5]):.2f}" if _OF_PLAN[names] == "share" else ""

    table = Table(box=SIMPLE_HEAD)
    for name in ("word", "CSLS", "coupling", "mutual"):
        table.add_column(name, overflow="fold")
    for rows in chosen.values():
        csls = (f"{literal(row[2])} {float(row[3]):.2f}" for row in rows)
        plan = (f"{literal(row[4])}{share(row)}" for row in rows if row[4])
        cells = literal(rows[0][0]), ", ".join(csls), ", ".join(plan), rows[0][6]
        table.add_row(*map(Text, cells))
    out.print(table)


@cli.command("map")
@click.argument("folder", metavar="DIR", type=_FOLDER)
@click.argument("source", metavar="FILE", type=FILE)
@reader_options(default=None)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write there, in the format that the name says, as `gwfast convert` does.",
    show_default="stdout, as word2vec text",
)
@click.option(
    "--side",
    type=click.Choice(["source", "target"]),
    default="source",
    help="Of which space the vectors are.",
)
@SPACE
@click.option("--force", is_flag=True, help="Replace --output.")
@JSON
def map_vectors(folder, source, reading, output, side, space, force, as_json):
    """Map vectors by a saved result.

    DIR is a folder of `gwfast align --output`, or a file of Alignment.save. The
    vectors of FILE are normalized as the vectors of their side were, and taken to the space
    where both sides are comparable.
    """
    if output is None and as_json:
        raise click.UsageError("--json needs --output")
    if output is not None:
        check_target(output, force, "--output")
    spaces = Alignment.load(folder)
    embeddings = read(source, reading)
    mapped = spaces.transform if side == "source" else spaces.transform_target
    try:
        vectors = mapped(embeddings.vectors)
    except ValueError as error:
        raise click.ClickException(f"{source}: {error}") from error
    made = words.Embeddings(embeddings.words, vectors)
    if output is not None:
        words.write_embeddings(output, made, space=space)
        report_file(output, made, as_json)
        return
    write_text(sys.stdout.buffer, made, space=space)
