"""The README's examples run as they stand."""

import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)


def test_there_are_examples():
    assert len(BLOCKS) == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    "block", BLOCKS, ids=["align", "gromov_wasserstein", "exact", "pot"]
)
def test_example_runs(block, capsys):
    exec(compile(block, str(README), "exec"), {})
    printed = capsys.readouterr().out
    assert "converged" in printed
    assert "False" not in printed


def test_set_up_commands_stand_first():
    commands = 'pip install ".[cli]" && gwfast demo\npip install ".[test]" && pytest\n'
    assert f"```sh\n{commands}```" in README.read_text("utf-8")
