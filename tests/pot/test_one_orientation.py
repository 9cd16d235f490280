"""`symmetric=True` of costs that are not symmetric: POT believes it, and its gradient
has one orientation of the costs.
"""

import inspect

import numpy as np
import pytest
from helpers.pot_calls import (
    ENTROPIC,
    EXACT,
    EXACT_BARYCENTERS,
    SEMIRELAXED_BARYCENTERS,
    call,
    limit,
    ours,
    pots,
)
from helpers.pot_spaces import spaces

import gwfast.pot

N_SEEDS = 5


def problem(seed):
    """Arrays, with costs that are the less symmetric the higher the seed."""
    names = ("C1", "C2", "M", "p", "q", "G0")
    given = dict(zip(names, spaces(10, 8, seed, symmetric=False), strict=True))
    rng, part = np.random.default_rng(seed), seed / N_SEEDS
    for name in ("C1", "C2"):
        other = rng.uniform(0.1, 1, given[name].shape)
        given[name] = (1 - part) * given[name] + part * other
    if seed % 2 == 0:
        del given["G0"]
    return given


def call_of(name, seed, **options):
    # POT takes the limit of partial problems for that of their linear ones too.
    options |= {"symmetric": True, "log": True, limit(name): 100}
    if "fused" in name:
        options["alpha"] = 0.8
    return call(name, problem(seed), entropy=0.3, mass=0.6, **options)


def same(found, expected, **tolerance):
    """Whether two answers with a log have the same arrays and the same values."""
    *found, found_log = found
    *expected, log = expected
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, **tolerance)
    for key in log:
        if key.endswith(("_dist", "_loss")) or key == "loss":
            np.testing.assert_allclose(found_log[key], log[key], **tolerance)


@pytest.mark.parametrize("loss_fun", ["square_loss", "kl_loss"])
@pytest.mark.parametrize("name", EXACT)
def test_without_entropy(name, loss_fun):
    differs = False
    for seed in range(N_SEEDS):
        options = call_of(name, seed, loss_fun=loss_fun)
        expected = pots(name)(**options)
        found = ours(name)(**options)
        same(found, expected, rtol=1e-8, atol=1e-12)
        both = ours(name)(**options | {"symmetric": False, "log": False})
        differs |= not np.allclose(both, found[0], atol=1e-6)
    assert differs


# POT leaves `M` out of the gradient of the last.
@pytest.mark.parametrize("name", ENTROPIC[:-1])
def test_with_entropy(name):
    for seed in range(2):
        options = call_of(name, seed)
        same(ours(name)(**options), pots(name)(**options), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("criterion", ["barycenter", "loss"])
@pytest.mark.parametrize("name", EXACT_BARYCENTERS + SEMIRELAXED_BARYCENTERS)
def test_barycenters_where_it_is_the_default(name, criterion):
    assert inspect.signature(ours(name)).parameters["symmetric"].default is True
    C1, C2, M, p, q = problem(2).values()
    options = {"N": 6, "Cs": [C1, C2], "ps": [p, q], "max_iter": 10, "log": True}
    options |= {"random_state": 0, "stop_criterion": criterion}
    if "fgw" in name:
        options["Ys"] = [M[:, :2], M.T[:, :2]]
    with np.errstate(divide="ignore"):  # POT's, by points that no mass goes to
        theirs = pots(name)(**options)
    same(ours(name)(**options), theirs, rtol=1e-8, atol=1e-12)


def test_symmetric_costs_go_the_usual_way():
    C1, C2, _, p, q, _ = spaces(10, 8)
    looked, said = (
        gwfast.pot.gromov_wasserstein(C1, C2, p, q, symmetric=symmetric)
        for symmetric in (None, True)
    )
    np.testing.assert_array_equal(looked, said)
