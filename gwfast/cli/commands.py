"""The commands, which import the library as they run, and errors as one line."""

import contextlib
import functools
import json
import sys
from types import SimpleNamespace

import click

import gwfast

from . import options


class Command(click.Command):
    """A command whose errors are a `ClickException` in terms of its options."""

    def invoke(self, context):
        try:
            return super().invoke(context)
        except BrokenPipeError:
            raise
        except (ImportError, MemoryError, OSError, ValueError) as error:
            message = str(error) or "out of memory"
            if getattr(error, "filename", None):
                message = f"{error.filename}: {error.strerror}"
            raise click.ClickException(options.as_options(message)) from error
        except KeyboardInterrupt:
            kept = context.params.get("checkpoint")
            if kept is None or not kept.is_file():
                raise
            message = f"kept in {kept}: the same command goes on from there"
            raise KeyboardInterrupt(message) from None


@click.group(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    epilog='Completion in bash (or zsh, fish): eval "$(_GWFAST_COMPLETE=bash_source gwfast)"',
)
@click.version_option(gwfast.__version__, prog_name="gwfast")
@click.pass_context
def cli(context):
    """Align two word-embedding spaces by Gromov-Wasserstein optimal transport.

    Exit status: 0; 1 if a word is missing or output is closed; 2 after an error; 130 after Ctrl-C.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


cli.command_class = Command


def main(argv=None):
    """Run the command line, and return its exit status; an error is one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # letters that the encoding lacks become escapes
            stream.reconfigure(errors="backslashreplace")
    if sys.stdout is None:  # closed by the caller, as >&- does
        click.echo("gwfast: error: standard output is closed", err=True)
        return 1
    try:
        return cli.main(argv, prog_name="gwfast", standalone_mode=False) or 0
    except click.Abort as error:  # click's name for Ctrl-C
        why = f"; {error.__cause__}" if str(error.__cause__ or "") else ""
        click.echo(f"gwfast: interrupted{why}", err=True)
        return 130
    except click.ClickException as error:
        message = options.single_backslashes(error.format_message().replace("\n", " "))
        click.echo(f"gwfast: error: {message}", err=True)
        return 2


def emit(as_json, value, text, title=""):
    """Print a result, as one line of JSON that any encoding can hold or as text; see `show`."""
    from .terminal import show

    if as_json:
        click.echo(json.dumps(value, allow_nan=False))
    else:
        show(text, title)


def read(path, settings):
    """Return the embeddings of a file."""
    read_embeddings = gwfast.words.read_embeddings
    return read_embeddings(path, **options.arguments_of(read_embeddings, settings))


def read_dictionaries(settings):
    """Return the word lists of the options, joined, and translations to start from."""
    from ..words.dictionaries import merge
    from ..words.evaluation import CONVENTIONS

    first_only = CONVENTIONS[settings.convention].first_only
    rules = {"first_only": first_only, "max_bytes": settings.max_bytes}
    read_list = functools.partial(gwfast.words.read_dictionary, **rules)
    lists = [read_list(path) for path in settings.dictionary]
    lists += [read_list(path, reverse=True) for path in settings.reverse_dictionary]
    return merge(*lists), settings.seeds and read_list(settings.seeds)


def read_side(path, counts, settings):
    """Return `NamedEmbeddings` of a file of vectors and perhaps a file of counts."""
    from .outcome import NamedEmbeddings

    embeddings = read(path, settings)
    if embeddings.vectors.shape[1] == 1:
        raise ValueError(f"{path}: vectors have one column: is this an embedding file?")
    zero = ~embeddings.vectors.any(axis=1)
    if zero.any():
        word, share = embeddings.words[int(zero.argmax())], f"{zero.sum():,} of {len(zero):,} rows"
        raise ValueError(
            f"{path}: expected vectors with a direction, got 0 for {word!r} ({share});"
            " --bad-rows skip leaves such rows out"
        )
    if counts is not None:
        counts_of_words = gwfast.words.read_counts(counts, max_bytes=settings.max_bytes)
        try:
            embeddings = embeddings.with_counts(counts_of_words)
        except ValueError as error:
            raise ValueError(f"{counts}: {error}") from error
    return NamedEmbeddings(str(path), embeddings)


@cli.command()
@click.argument("source", metavar="SRC", type=options.file)
@click.argument("target", metavar="TGT", type=options.file)
@options.reader(200_000)
@options.dictionaries
@options.weights
@options.solver
def align(source, target, **settings):
    """Align two files of vectors, and score the translations.

    SRC and TGT are aligned with no dictionary. Files are word2vec or fastText text or word2vec
    binary, plain or compressed (gzip, bzip2, xz), .npz with arrays "words" and "vectors", .npy with
    a word list in the same folder, or .kv and .model files of gensim, if it is installed.
    """
    from . import outputs

    settings = SimpleNamespace(**settings)
    counts = settings.source_counts, settings.target_counts
    if any((path is None) == (settings.marginals == "counts") for path in counts):
        raise ValueError("--marginals counts, --source-counts and --target-counts go together")
    if settings.seeds is not None and settings.init != "auto":
        raise ValueError("--seeds and --init do not go together")
    lists = *settings.dictionary, *settings.reverse_dictionary
    outputs.check_output(settings, source, target, *lists, settings.seeds, *counts)
    # The small files first: a mistake in them shows before a minute of reading.
    dictionary, seeds = read_dictionaries(settings)
    sides = [read_side(*pair, settings) for pair in zip((source, target), counts, strict=True)]
    run(*sides, dictionary, settings, seeds)


@cli.command()
@options.solver
def demo(**settings):
    """Align the bundled sample of Spanish and French words."""
    from . import outcome, outputs

    settings = SimpleNamespace(**settings, marginals="uniform", seeds=None)
    outputs.check_output(settings)
    source, target, dictionary = gwfast.words.load_sample()
    sides = (
        outcome.NamedEmbeddings("Spanish sample", source),
        outcome.NamedEmbeddings("French sample", target),
    )
    run(*sides, dictionary, settings)


def run(source, target, dictionary, settings, seeds=None):
    """Align two sides, write all files of `settings.output` or none, and show the result."""
    from . import outcome, outputs, page

    with contextlib.ExitStack() as stack:
        if settings.scheduler is not None:
            from distributed import Client

            try:
                client = stack.enter_context(Client(settings.scheduler, timeout=30))
            except (OSError, ValueError) as error:
                raise ValueError(f"--scheduler {settings.scheduler}: {error}") from error
            stack.enter_context(gwfast.distributed.cluster(client))
        aligned = outcome.align(source, target, dictionary, settings, seeds)
        facts = outputs.summary(aligned)
        if settings.output is not None:
            with outputs.staged(settings.output) as folder:
                outputs.write(aligned, facts, folder)
    text = page.rendered("result.txt", **facts, entries=aligned.entries(aligned.shown))
    emit(settings.as_json, facts, text)
    if settings.output is None and not settings.as_json and not settings.quiet:
        click.echo("nothing was written: --output DIR keeps words, maps and a report", err=True)


def tell_status(gw, folder):
    """Say on stderr if the `gw` of a saved result, which may be None, has not converged."""
    if gw is not None and not gw.converged:
        why = f"the alignment ended as {str(gw.status)!r}: {gw.status.meaning}"
        click.echo(f"gwfast: warning: {folder}: {why}", err=True)


@cli.command()
@options.folder
@options.dictionaries
@options.scoring("nn,csls")
@options.max_bytes
@options.as_json
def evaluate(folder, as_json, **settings):
    """Score the translations of a saved result.

    DIR is a folder of `gwfast align --output`, or a file of Alignment.save. It lacks the plan, and
    so the methods plan and barycentric.
    """
    from . import outcome, outputs, page

    settings, told = SimpleNamespace(**settings, seeds=None), []
    dictionary, _ = read_dictionaries(settings)
    if not dictionary:
        raise ValueError("--dictionary or --reverse-dictionary is missing")
    rules = {"methods": settings.methods, "convention": settings.convention}
    with outcome.shown_warnings(told):
        alignment = gwfast.Alignment.load(folder)
        tell_status(alignment._gw, folder)
        precision = alignment.evaluate(dictionary, **rules)
        n_queries = max(score.n_queries for score in precision.values())
        outcome.check_fit(n_queries, dictionary, f"the vocabularies of {folder}")
    facts = {"accuracy": outputs.accuracy(precision), "warnings": told}
    emit(as_json, facts, page.rendered("accuracy.txt", **facts))


@cli.command()
@options.folder
@click.argument("words", metavar="WORD...", nargs=-1, required=True)
@options.translating
def translate(folder, words, k, direction, as_json):
    """Translate words by a saved result.

    DIR is a folder of `gwfast align --output`. Each WORD has its best translations by CSLS with
    their scores, whether the first is mutual, and, forward, translations by the plan with their
    shares of the word's mass. If a word is missing, stderr says so, and the exit status is 1.
    """
    from ..alignment.saving import read_gw
    from . import outputs, terminal

    side, find = "source", outputs.translations
    if direction == "backward":
        side, find = "target", outputs.translations_back
    entries, words = find(folder, words), dict.fromkeys(words)
    with contextlib.suppress(OSError, ValueError):  # translations do not need this file
        tell_status(read_gw(folder), folder)
    for word in words:
        if word not in entries:
            message = f"gwfast: '{terminal.literal(word)}' is not among the {side} words"
            click.echo(message, err=True)
    entries = {word: entries[word][:k] for word in words if word in entries}
    rows = [outputs.COLUMNS, *(row.values() for rows in entries.values() for row in rows)]
    if entries or as_json:
        as_objects = {word: outputs.as_object(rows) for word, rows in entries.items()}
        emit(as_json, as_objects, "".join("\t".join(row) + "\n" for row in rows), "translations\n")
    return int(len(entries) < len(words))


def check_target(path, force, name):
    """Refuse a file that vectors cannot be written to, or that exists without --force."""
    suffixes = ".vec", ".txt", ".bin", ".npz", ".vec.gz", ".txt.gz", ".bin.gz"
    if not path.name[1:].endswith(suffixes):
        raise ValueError(f"{name} must end in .vec, .txt, .bin (or with .gz) or .npz, got {path}")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"{name} must be in an existing folder, got {path}")
    if path.exists() and not force:
        raise ValueError(f"{name} must not exist without --force, got {path}")


def write(path, embeddings, space, as_json):
    """Write a file of vectors, and print its name and size."""
    from . import outputs, page

    gwfast.words.write_embeddings(path, embeddings, space=space)
    facts = {"output": str(path), **outputs.counted(embeddings)}
    emit(as_json, facts, page.rendered("size.txt", file=facts))


@cli.command("map")
@options.folder
@click.argument("source", metavar="FILE", type=options.file)
@options.reader()
@options.mapping
def map_vectors(folder, source, output, side, space, force, as_json, **settings):
    """Map vectors by a saved result.

    DIR is a folder of `gwfast align --output`, or a file of Alignment.save. The vectors of FILE are
    normalized as the vectors of their side were, and mapped to the space where both sides are
    comparable.
    """
    if output is None and as_json:
        raise ValueError("--json needs --output")
    if output is not None:
        check_target(output, force, "--output")
    alignment = gwfast.Alignment.load(folder)
    tell_status(alignment._gw, folder)
    embeddings = read(source, SimpleNamespace(**settings))
    use = alignment.transform if side == "source" else alignment.transform_target
    try:
        mapped = gwfast.words.Embeddings(embeddings.words, use(embeddings))
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error
    if output is not None:
        write(output, mapped, space, as_json)
        return
    from ..words.files.writing import write_text

    write_text(sys.stdout.buffer, mapped, space=space)


@cli.command()
@click.argument("source", metavar="SRC", type=options.file)
@click.argument("target", metavar="DST", type=options.new_file)
@options.reader()
@options.space
@click.option("--force", is_flag=True, help="Replace DST.")
@options.as_json
def convert(source, target, space, force, as_json, **settings):
    """Write vectors in another format.

    The vectors of SRC are written to DST in the format of its name: .vec and .txt are word2vec
    text, .bin is word2vec binary, .npz is read fastest; with .gz after it each of the first three
    is compressed.
    """
    check_target(target, force, "DST")
    write(target, read(source, SimpleNamespace(**settings)), space, as_json)


@cli.command()
@options.as_json
def config(as_json):
    """Show how gwfast was built and what it runs on."""
    from ..utils.config import config as facts

    if as_json:
        emit(as_json, facts(), "")
    else:
        gwfast.show_config()
