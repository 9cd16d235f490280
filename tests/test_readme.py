"""The README's examples run as they stand."""

import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
# What each of them prints, in their order.
PRINTED = {
    "align": "converged",
    "gromov_wasserstein": "converged",
    "exact": "True\nTrue\n",
    "unbalanced": "converged",
    "pairwise": "190 solved, 0 skipped",
    "pot": "converged",
}


def test_there_are_examples():
    assert len(BLOCKS) == len(PRINTED)


@pytest.mark.slow
@pytest.mark.parametrize(
    "block, printed", list(zip(BLOCKS, PRINTED.values(), strict=False)), ids=PRINTED
)
def test_example_runs(block, printed, capsys):
    exec(compile(block, str(README), "exec"), {})
    assert printed in capsys.readouterr().out


def test_set_up_commands_stand_first():
    commands = 'pip install ".[cli]" && gwfast demo\npip install ".[test]" && pytest\n'
    assert f"```sh\n{commands}```" in README.read_text("utf-8")
