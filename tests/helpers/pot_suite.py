"""A plugin of pytest that runs POT's own tests on the functions of gwfast."""

import re

import pytest

import gwfast.pot

GROMOV = ("fugw", "bregman", "gw", "semirelaxed", "partial", "dictionary")
FILES = (*(f"gromov/test_{name}.py" for name in GROMOV), "test_coot.py", "test_solvers.py")
# Other tests of the last file are of other functions.
OTHERS = r"test_solvers\.py::(?!test_solve_gromov)"
EXCEPTIONS = (
    # POT divides by zero and warns; the plan here is finite.
    r"test_BAPG_(gromov|fgw)\[",
    # POT cuts plans for integer costs down to integers, which are zeros.
    r"test_(gromov|fgw)_integer_warnings\[",
    r"test_partial_(fused_)?gromov_wasserstein\[",
)


def pytest_configure():
    """Swap POT's functions before POT's tests import them."""
    gwfast.pot.patch()


def pytest_collection_modifyitems(items):
    left_out = re.compile("|".join([OTHERS, *EXCEPTIONS]))
    items[:] = [item for item in items if not left_out.search(item.nodeid)]


def pytest_sessionfinish():
    if len(gwfast.pot.report()) < 30:
        raise pytest.UsageError(f"POT's tests ran on {gwfast.pot.report()} of gwfast")
