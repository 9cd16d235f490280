"""`gwfast.pot.solve_gromov_batch` against POT, and against single problems."""

import numpy as np
import pytest
from helpers.pot_calls import pots
from helpers.pot_spaces import between, costs, start, weights

from gwfast import ConvergenceWarning, pot
from gwfast.pot import _solve
from gwfast.results.status import Ending

SIZE, N, M = 4, 7, 5
# Linear problems to the last digit, so that steps are POT's.
TIGHT = {"reg": 0.1, "max_iter_inner": 1000, "tol_inner": 1e-10}


def batch(n=N, m=M, size=SIZE, *, fused=True, starts=True, symmetric=True):
    made = {
        "Ca": [costs(n, k, symmetric=symmetric) for k in range(size)],
        "Cb": [costs(m, k + size, symmetric=symmetric) for k in range(size)],
        "a": [weights(n, k) for k in range(size)],
        "b": [weights(m, k) for k in range(size)],
    }
    if fused:
        made["M"] = [between(n, m, k) for k in range(size)]
    if starts:
        pairs = zip(made["a"], made["b"], range(size), strict=True)
        made["T_init"] = [start(*pair) for pair in pairs]
    arrays = {name: np.array(x) for name, x in made.items()}
    return arrays | ({"alpha": 0.7} if fused else {})


def same(found, expected, **tolerance):
    for name in ("plan", "value", "value_linear", "value_quad"):
        pair = (getattr(one, name) for one in (found, expected))
        np.testing.assert_allclose(*pair, **tolerance)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("starts", [True, False])
@pytest.mark.parametrize("fused", [True, False])
def test_steps_are_pots(fused, starts, symmetric):
    options = batch(fused=fused, starts=starts, symmetric=symmetric) | TIGHT
    options |= {"max_iter": 3, "tol": 0.0}
    found = pot.solve_gromov_batch(**options)
    same(found, pots("solve_gromov_batch")(**options), atol=1e-6)
    np.testing.assert_allclose(found.marginal_a, options["a"], atol=1e-9)
    np.testing.assert_allclose(found.marginal_b, options["b"], atol=1e-9)
    assert found.log == {"n_iter": 3, "status": ["max_iter"] * SIZE}
    assert found.status == "max_iter"


def test_fixed_points_are_pots():
    """A step of POT leads nowhere from there, but for the error of its marginals."""
    options = batch() | TIGHT | {"max_iter": 300, "tol": 1e-10}
    found = pot.solve_gromov_batch(**options)
    assert found.status == "converged"
    assert found.log["status"] == ["converged"] * SIZE
    options |= {"T_init": found.plan, "max_iter": 1}
    same(found, pots("solve_gromov_batch")(**options), atol=1e-5)


@pytest.mark.parametrize("n, m", [(1, 1), (1, 3), (2, 2), (9, 4)])
def test_each_is_solved_as_by_itself(n, m):
    rng = np.random.default_rng([n, m])
    Ca, Cb = rng.uniform(size=(3, n, n)), rng.uniform(size=(3, m, m))
    found = pot.solve_gromov_batch(Ca, Cb, reg=0.2, max_iter=20)
    for k in range(3):
        one = pot.solve_gromov_batch(Ca[k : k + 1], Cb[k : k + 1], reg=0.2, max_iter=20)
        np.testing.assert_array_equal(one.plan[0], found.plan[k])
        assert one.value[0] == found.value[k]


def test_a_step_is_one_of_the_function_for_one_problem():
    options = batch(fused=False) | TIGHT | {"max_iter": 15, "tol": 1e-8}
    found = pot.solve_gromov_batch(**options)
    for k in range(SIZE):
        Ca, Cb, a, b, G0 = (options[name][k] for name in ("Ca", "Cb", "a", "b", "T_init"))
        how = {"solver": "PPA", "max_iter": 15, "tol": 1e-8 * np.sqrt(N * M)}
        how |= {"numItermax": 1000, "stopThr": 1e-10, "epsilon": 0.1, "G0": G0}
        plan, log = pot.entropic_gromov_wasserstein(Ca, Cb, a, b, log=True, **how)
        np.testing.assert_allclose(found.plan[k], plan, rtol=1e-12, atol=1e-15)
        assert found.value[k] == pytest.approx(log["gw_dist"], rel=1e-12)


def test_float32_and_totals_other_than_one():
    options = batch() | {"max_iter": 5, "reg": 0.1}
    right = pot.solve_gromov_batch(**options)
    single = {
        name: x.astype(np.float32) if isinstance(x, np.ndarray) else x
        for name, x in options.items()
    }
    found = pot.solve_gromov_batch(**single)
    same(found, right, atol=1e-4)
    assert {found.plan.dtype, found.value.dtype} == {np.dtype(np.float32)}
    for name in ("a", "b"):
        options[name] = 2 * options[name]
    options |= TIGHT
    found = pot.solve_gromov_batch(**options)
    same(found, pots("solve_gromov_batch")(**options), atol=1e-6)
    np.testing.assert_allclose(found.plan.sum(axis=(1, 2)), 2.0)


def test_problems_that_end_badly_are_one_warning(monkeypatch):
    real = _solve.Answer.of.__func__

    def of(cls, *given):
        answer = real(cls, *given)
        answer.ending = Ending.CYCLE
        return answer

    monkeypatch.setattr(_solve.Answer, "of", classmethod(of))
    message = "'stalled': 4 of 4 problems, the first is number 0"
    with pytest.warns(ConvergenceWarning, match=message):
        assert pot.solve_gromov_batch(**batch(), reg=0.1).status == "stalled"


def test_patched_pot_runs_on_ours_and_has_the_rest():
    ot = pytest.importorskip("ot")
    plain = batch(fused=False, starts=False) | {"reg": 0.1}
    right = pot.solve_gromov_batch(**plain)
    several = {name: plain[name][..., None] ** [1, 2] for name in ("Ca", "Cb")}
    left = [several, several | {"loss": "kl", "logits": False}]
    left += [batch() | {"alpha": 0.0, "max_iter": 3}]
    theirs = [ot.solve_gromov_batch(**one).plan for one in left]
    with pot.patched() as calls:
        found = ot.solve_gromov_batch(**plain)
        assert ot.batch.solve_gromov_batch is ot.solve_gromov_batch
        assert calls == {"solve_gromov_batch": 1}
        for one, plan in zip(left, theirs, strict=True):
            np.testing.assert_array_equal(ot.solve_gromov_batch(**one).plan, plan)
        assert calls == {"solve_gromov_batch": 1}
    assert type(found) is ot.utils.OTResult
    same(found, right, rtol=0)
    for one, name in zip(left, ("Ca must be 3-D", "Ca must be 3-D", "alpha must be"), strict=True):
        with pytest.raises(NotImplementedError, match=name):
            pot.solve_gromov_batch(**one)


GOOD = batch()
BAD = [
    ({"Ca": GOOD["Ca"][0]}, r"Ca must have shape \(B, n, n\)"),
    ({"Cb": GOOD["Cb"][:, 1:]}, r"Cb must have shape \(B, m, m\)"),
    ({"Cb": GOOD["Cb"][1:]}, r"Cb must have shape \(4, 5, 5\)"),
    ({"a": GOOD["a"][0]}, r"a must have shape \(4, 7\)"),
    ({"M": GOOD["M"][:, :, 1:]}, r"M must have shape \(4, 7, 5\)"),
    ({"T_init": GOOD["a"]}, r"T_init must have shape \(4, 7, 5\)"),
    ({"Ca": GOOD["Ca"] * np.array([1, 1, np.nan, 1])[:, None, None]}, r"Ca\[2\]"),
    ({"b": 2 * GOOD["b"]}, r"b\[0\] must have the same total as a\[0\]"),
    ({"M": None}, "M must be given where alpha is"),
    ({"alpha": None}, "alpha must be given where M is"),
    ({"alpha": 2.0}, "alpha must be between 0 and 1"),
    ({"reg": 0.0}, "reg must be"),
    ({"tol": -1.0}, "tol must"),
    ({"max_iter": 0}, "max_iter must be positive"),
    ({"max_iter_inner": 0}, "max_iter_inner must be positive"),
    ({"loss": "l1"}, "loss='l1'"),
    ({"grad": "all"}, "grad='all'"),
]


@pytest.mark.parametrize("bad, message", BAD)
def test_errors(bad, message):
    with pytest.raises(ValueError, match=message):
        pot.solve_gromov_batch(**GOOD | bad)


def test_no_problems_are_an_error():
    with pytest.raises(ValueError, match="Ca must have a problem at least"):
        pot.solve_gromov_batch(np.ones((0, 3, 3)), np.ones((0, 2, 2)))
