"""The list of commands, which is shown without importing them."""

from gwfast.__main__ import main
from gwfast.cli.menu import SUMMARIES, cli


def test_every_command_has_a_line(capsys):
    for name in SUMMARIES:
        assert cli.get_command(None, name).name == name
    assert set(SUMMARIES) == set(cli.commands)
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for name, summary in SUMMARIES.items():
        assert f"  {name} " in shown and summary in shown


def test_a_command_that_is_not_there(capsys):
    assert main(["aling"]) == 2
    assert capsys.readouterr().err.startswith("gwfast: error: No such command 'aling'")


def test_completion_names_commands_and_options():
    with cli.make_context("gwfast", [], resilient_parsing=True) as context:
        found = {item.value: item.help for item in cli.shell_complete(context, "co")}
        options = {item.value for item in cli.shell_complete(context, "--")}
    assert found.items() <= SUMMARIES.items() and {"config", "convert"} <= set(found)
    assert {"--help", "--version"} <= options
