"""The list of commands, which is shown without importing them, and completion."""

import pytest
from helpers.cli import main


def test_every_command_has_a_line(capsys):
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for name in ("align", "completion", "config", "convert", "demo", "map", "translate"):
        assert f"  {name} " in shown
        assert main([name, "--help"]) == 0 and capsys.readouterr().out


def test_a_command_that_is_not_there(capsys):
    assert main(["aling"]) == 2
    assert capsys.readouterr().err.startswith("gwfast: error: No such command 'aling'")


def test_completion_is_a_script(capsys):
    for shell in ("bash", "zsh", "fish"):
        assert main(["completion", shell]) == 0
        assert f"_GWFAST_COMPLETE={shell}_complete" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words, expected",
    [
        ("gwfast tr", "translate"),
        ("gwfast --ver", "--version"),
        ("gwfast align --di", "--dictionary"),
    ],
)
def test_commands_and_options_are_completed(monkeypatch, capsys, words, expected):
    monkeypatch.setenv("_GWFAST_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().out == f"plain,{expected}\n"
