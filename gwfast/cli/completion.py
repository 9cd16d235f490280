"""``gwfast completion``: what a shell runs to complete commands, options and files."""

import click
from click.shell_completion import get_completion_class

from .menu import cli

# Where click looks for the shell that asks, in the environment of ``gwfast``.
_VARIABLE = "_GWFAST_COMPLETE"


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context, shell):
    """Print what makes a shell complete commands, options and files.

    \b
    bash, in ~/.bashrc:  eval "$(gwfast completion bash)"
    zsh, in ~/.zshrc:    eval "$(gwfast completion zsh)"
    fish:  gwfast completion fish > ~/.config/fish/completions/gwfast.fish
    """
    program = context.find_root()
    made = get_completion_class(shell)(program.command, {}, "gwfast", _VARIABLE)
    click.echo(made.source())
