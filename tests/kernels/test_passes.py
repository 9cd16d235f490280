"""Many Sinkhorn iterations in one call are that many single ones."""

from copy import deepcopy

import numpy as np
import pytest
from helpers.kernel_cases import COMPILED, arguments, assert_same, build, run
from helpers.marks import ISAS, pairwise

from gwfast.kernels import _kernels
from gwfast.kernels._rows import ColumnSums

pytestmark = pytest.mark.usefixtures("one_blas_thread")


@pairwise(omega=[1.0, 1.7], shape=[(5, 3), (129, 65), (2049, 33)], isa=ISAS)
def test_many_passes_are_that_many_single_ones(shape, omega, isa):
    given = arguments("sinkhorn_passes", *shape, seed=11) | {"omega": omega}
    one = build(COMPILED, deepcopy(given))
    errors = []
    for most in range(1, 7):
        error, done = _kernels.sinkhorn_passes(**one)
        assert done == 1
        errors.append(error)
        came = run(COMPILED, "sinkhorn_passes", given, most=most, tol=-1.0, n_threads=2)
        assert_same(came, [one["u"], one["v"], one["work"].values, (error, most)])
    for tol in errors:
        *_, (error, done) = run(COMPILED, "sinkhorn_passes", given, most=9, tol=tol)
        first = next(i for i, x in enumerate(errors) if x <= tol)
        assert (error, done) == (errors[first], first + 1)


def test_no_pass_changes_nothing(isa):
    given = build(COMPILED, arguments("sinkhorn_passes", 9, 7, seed=12))
    u, v = given["u"].copy(), given["v"].copy()
    assert _kernels.sinkhorn_passes(**given, most=0) == (np.inf, 0)
    assert_same([given["u"], given["v"]], [u, v])


@pytest.mark.parametrize(("of_team", "of_one"), [(1.0, 0.9), (0.9, 1.0)])
def test_small_passes_are_made_by_whoever_is_faster(of_team, of_one):
    """Beside other work threads that wait for each other take many times as long."""
    work, made = ColumnSums(300, 300), []
    for _ in range(300):
        made.append(work.prefers_one())
        work.took(made[-1], of_one if made[-1] else of_team)
    slower = of_one > of_team
    assert made.count(slower) < 0.05 * len(made)
    assert made[:4].count(slower) in (0, 4)  # compared at the beginning,
    assert slower in made[8:]  # and again later on


def test_large_passes_are_always_made_by_a_team():
    work = ColumnSums(1024, 1024)
    for _ in range(20):
        assert not work.prefers_one()
        work.took(False, 1.0)


def test_passes_do_not_depend_on_who_made_them(isa):
    given = arguments("sinkhorn_passes", 129, 65, seed=13)
    expected, came = (
        run(COMPILED, "sinkhorn_passes", given, most=600, tol=-1.0, n_threads=threads)
        for threads in (1, 2)
    )
    assert_same(came, expected)
