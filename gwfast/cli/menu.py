"""The command line as ``gwfast --help`` shows it, and errors as one line.

The commands themselves, and with them SciPy and matplotlib, are imported where one of
them is called.
"""

import sys
from importlib import import_module

import click
from click.shell_completion import CompletionItem

from .._version import __version__

# What the list of commands says of each.
SUMMARIES = {
    "align": "Align two files of vectors, and score the translations.",
    "completion": "Print what makes a shell complete commands, options and files.",
    "config": "Show how gwfast was built and what it runs on.",
    "convert": "Write vectors in another format.",
    "demo": "Align the bundled sample of Spanish and French.",
    "map": "Map vectors by a saved result.",
    "translate": "Translate words of the source by a saved result.",
}
# Their modules, where these are not ``commands``, which takes as long to import as a
# small alignment takes.
_HOMES = {"completion": "completion", "map": "saved", "translate": "saved"}


class Menu(click.Group):
    """Commands by name; the module of each is imported when it is called."""

    def list_commands(self, context):
        return list(SUMMARIES)

    def get_command(self, context, name):
        import_module(f".{_HOMES.get(name, 'commands')}", __package__)
        return super().get_command(context, name)

    def format_commands(self, context, formatter):
        with formatter.section("Commands"):
            formatter.write_dl(list(SUMMARIES.items()))

    def shell_complete(self, context, incomplete):
        commands = [
            CompletionItem(name, help=text)
            for name, text in SUMMARIES.items()
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, context, incomplete)


@click.group(
    cls=Menu,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__, prog_name="gwfast")
@click.pass_context
def cli(context):
    """Align two word-embedding spaces by Gromov-Wasserstein optimal transport.

    The exit status is 0, 1 where some of the words asked for are not there, or output
    was closed, 2 after an error, 130 after Ctrl-C.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(argv: list[str] | None = None) -> int:
    """Run the command line; an error is one line on stderr, never a traceback.

    Returns the exit status, see `gwfast.__main__.main`.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # words that the encoding lacks become ?
            stream.reconfigure(errors="replace")
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
        message = error.format_message()
    except OSError as error:
        message = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    except MemoryError as error:
        message = str(error) or "out of memory"
    except ValueError as error:  # gwfast's own say which argument or which file
        message = str(error)
    message = message.replace("; max_bytes sets", "; --max-bytes sets")
    click.echo("gwfast: error: " + message.replace("\n", " "), err=True)
    return 2
