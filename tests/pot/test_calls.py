"""One table of calls: the functions of `gwfast.pot` return what POT's return.

A row is a function, its arguments and how close results must be to POT's, see `same`. Every public
function of `gwfast.pot` has a row. What is not POT's on purpose is in test_differences.py.
"""

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.pot_calls import (
    BAPG,
    ENTROPIC,
    EXACT,
    GIVEN,
    PARTIAL,
    SEMIRELAXED,
    M,
    P,
    Q,
    call,
    converted,
    frozen,
    ours,
    pots,
    row,
    same,
)
from helpers.pot_rows import SPACES_ROWS
from helpers.pot_spaces import spaces

pytest.importorskip("ot", reason="POT is not installed")

LOSSES = ["square_loss", "kl_loss"]
# Rows of all functions of one plan, with and without entropy, by `pairwise`.
PLANS = ENTROPIC + EXACT
COSTS = {
    "symmetric": GIVEN,
    "asymmetric": GIVEN | dict(zip(("C1", "C2"), spaces(symmetric=False), strict=False)),
}
COSTS["believed"] = COSTS["asymmetric"] | {"symmetric": True}


def plan_row(name, arrays=GIVEN, **options):
    """A row of a function of a plan, or of its value, with limits that POT reaches in time."""
    one, but, close, lacks = name.removesuffix("2"), {}, 1e-9, ()
    exact = one in EXACT
    if one == PARTIAL[1]:
        options["alpha"] = 1.0  # else `M` counts here, and does not in POT
    if one in PARTIAL:
        options["numItermax"] = 11
    if one in BAPG:
        options |= {"entropy": 0.5, "max_iter": 100}
    if one in SEMIRELAXED:
        options["tol"] = 1e-5
    if exact and "partial" in name:
        lacks = ("u", "v", "cost", "warning", "result_code")
    if not exact:
        # The first linear problem may be left before its last digit.
        close, but = 1e-6, {"err": 1e-2}
    return row(name, close=close, but=but, lacks=lacks, **call(one, arrays, log=True, **options))


ROWS = [
    *(plan_row(f"{name}2") for name in PLANS),
    *(row(name, a=P, b=Q, M=M, log=True) for name in ("emd", "emd2")),
    *SPACES_ROWS,
]


def check(row):
    """Compare a call here, of arrays that cannot be written to, with POT's."""
    with np.errstate(divide="ignore", invalid="ignore"):  # POT's, of masses that are zero
        theirs = pots(row.name)(**row.arguments)
    found = ours(row.name)(**converted(row.arguments, frozen))
    same(found, theirs, row.close, row.but, row.lacks)
    for one, other in zip(found, theirs, strict=True) if isinstance(theirs, tuple) else ():
        assert type(one) is type(other)
    return found


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_calls_are_pots(row):
    check(row)


@pairwise(
    name=PLANS, loss_fun=LOSSES, costs=COSTS, masses=["given", "uniform"], start=[True, False]
)
def test_plans_are_pots(name, loss_fun, costs, masses, start):
    left = ("p", "q", "G0") if masses == "uniform" else () if start else ("G0",)
    arrays = {key: x for key, x in COSTS[costs].items() if key not in left}
    symmetric = arrays.pop("symmetric", None)
    row = plan_row(name, arrays, loss_fun=loss_fun, symmetric=symmetric)
    # Potentials between equal masses are not unique.
    unique = masses == "given" or name not in EXACT
    check(row if unique else row._replace(but={"u": None, "v": None}))
