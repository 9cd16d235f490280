"""Where an objective rises, and what is said of it."""

from types import SimpleNamespace

import pytest

from gwfast.experiments.dynamics import Dynamics, _cell, _here
from gwfast.experiments.rises import Rise, rise_to_the_end, rises
from gwfast.experiments.runner import Job


def steps(costs, errors=None):
    pairs = zip(costs, errors or [0.1] * len(costs), strict=True)
    return [SimpleNamespace(gw_cost=cost, marginal_error=error) for cost, error in pairs]


def test_rises_are_found():
    found = rises(steps([5.0, 3.0, 2.0, 2.1, 2.5, 2.4, 2.4000001, 2.0, 2.2]))
    assert [(rise.first, rise.last) for rise in found] == [(3, 5), (8, 9)]
    assert found[0].costs == (2.0, 2.5)
    for costs in ([], [1.0], [3.0, 2.0, 1.0], [0.0, 0.0]):
        assert rises(steps(costs)) == []


def test_where_it_ends_above_where_it_was():
    rise = rise_to_the_end(steps([0.02, 0.5, 0.3, 0.025], [1e-2, 1e-3, 1e-4, 1e-6]))
    assert rise == Rise(1, 4, (0.02, 0.025), (1e-2, 1e-6))
    assert str(rise) == (
        "from 0.02 at iteration 1 to 0.025 at 4 (marginal error 1.0e-02, then 1.0e-06)"
    )
    assert rise_to_the_end(steps([0.5, 0.3, 0.2])) is None
    assert rise_to_the_end([]) is None


def test_the_reason_is_that_of_the_marginals_where_they_tell_it():
    missed = Rise(1, 2, (1.0, 1.1), (1e-2, 1e-5))
    assert "misses its marginals" in missed.reason
    assert "entropy" in Rise(1, 2, (1.0, 1.1), (1e-5, 1e-5)).reason


def test_rises_too_small_for_the_usual_digits_are_told_apart():
    rise = Rise(1, 2, (1.0, 1.00002), (1e-2, 1e-5))
    assert str(rise).startswith("from 1 at iteration 1 to 1.00002 at 2 ")


@pytest.mark.parametrize("rising", [False, True])
def test_what_is_said_below_the_table(rising):
    costs = [0.5, 0.2, 0.3 if rising else 0.1, float("nan")]
    history = steps(costs, [1.0, 0.1, 0.01, 0.001])
    first, *lines = _here({"en-fr": {"2%": {"history": history}}})
    assert ("falls monotonically as well" in first) != rising
    if rising:
        reason, line = lines
        assert reason.endswith("cheaper than any that has them:")
        assert line.startswith("  en-fr, epsilon 2%: from 0.2 at iteration 2 to 0.3 at 3")


def test_a_plan_without_a_number_is_shown():
    result = {"history": [{"iteration": 1, "gw_cost": None, "accuracy": 0.5}]}
    job = Job("one", {"pair": "en-fr", "epsilon": "2%"}, print, ())
    experiment = Dynamics({"en-fr": {}}, {}, None, SimpleNamespace())
    (step,) = experiment.collect([job], [result])["en-fr"]["2%"]["history"]
    assert _cell(step).split() == ["nan", "50.0"]
