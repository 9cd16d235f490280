"""Properties of unbalanced plans; test_calls.py compares plans, values and logs with POT's."""

import numpy as np
import pytest
from helpers.pot_calls import converted, ours, pots, same
from helpers.pot_rows import UNBALANCED, unbalanced

from gwfast import ConvergenceWarning


def test_uniform_masses_and_a_start_are_taken():
    options = unbalanced(wx=None, wy=None, reg_marginals=1.0)
    *plain, log = ours(UNBALANCED)(**options)
    assert log["error"][-1] < options["tol"] < log["error"][-2]
    options |= {"wx": np.full(8, 1 / 8), "wy": np.full(6, 1 / 6), "reg_marginals": [1.0]}
    options |= {"init_pi": np.full((8, 6), 1 / 48), "init_duals": (None, None)}
    same(ours(UNBALANCED)(**options)[:2], plain, 1e-12)


def test_float32_comes_back_as_pots_float64_and_changes_are_printed(capsys):
    options = converted(unbalanced(max_iter=2, verbose=True), lambda x: x.astype(np.float32))
    plan, _, log = ours(UNBALANCED)(**options)
    rows = capsys.readouterr().out.splitlines()
    assert rows == [f"{k:5d}|{x:8e}|" for k, x in enumerate(log["error"], start=1)]
    assert len(rows) == 2
    assert plan.dtype == pots(UNBALANCED)(**options)[0].dtype == np.float64


def test_a_vanished_plan_is_warned_of():
    options = unbalanced(reg_marginals=1e-3, epsilon=0.01, alpha=1.0)
    with pytest.warns(ConvergenceWarning, match="mass"):
        plan, *_ = ours(UNBALANCED)(**options | {"M": options["M"] + 0.5})
    assert not plan.any()
