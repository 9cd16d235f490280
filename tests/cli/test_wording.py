"""Advice of the library in the options of the command."""

import pytest

from gwfast.cli.wording import as_options
from gwfast.results.status import Ending

# Other methods and plans that are not balanced are not in reach of the command.
ENDINGS = [ending for ending in Ending if ending != Ending.MISSED_ROWS]


@pytest.mark.parametrize("ending", ENDINGS, ids=str)
def test_advice_names_no_argument_of_python(ending):
    advice = as_options(ending.advice)
    for argument in ("SolverOptions", "init=", "_tol", "_limit", "max_inner"):
        assert argument not in advice
    for name in ("tol", "epsilon"):
        assert f"larger {name}" not in advice and f"or {name}" not in advice
