"""Every compiled kernel does what its float64 twin says, on every instruction set, at
awkward sizes, with any number of threads, on matrices of either type; and many Sinkhorn
iterations in one call are that many single ones."""

from copy import deepcopy

import numpy as np
import pytest
from helpers.kernel_cases import (
    CASES,
    COMPILED,
    SHAPES,
    arguments,
    assert_close,
    assert_same,
    build,
    run,
    widened,
)
from helpers.marks import ISAS, pairwise

from gwfast.kernels import _kernels, reference
from gwfast.kernels._rows import ColumnSums

pytestmark = pytest.mark.usefixtures("one_blas_thread")
DTYPES = [np.float32, np.float64]


def given_to(case, dtype, shape, seed):
    """Arguments of a kernel, of float64 where it takes them and is to."""
    given = arguments(case, *shape, seed)
    return widened(given) if takes(case, dtype) is np.float64 else given


def takes(case, dtype):
    return dtype if CASES[case].wide else np.float32


@pairwise(case=CASES, shape=SHAPES, dtype=DTYPES, isa=ISAS)
def test_kernel_agrees_with_its_twin(case, shape, dtype, isa, seed):
    given = given_to(case, dtype, shape, seed)
    came, expected = (run(module, case, given) for module in (COMPILED, reference))
    assert_close(case, came, expected, takes(case, dtype))


# They take no threads.
ALONE = ("absorb", "drift", "extent", "kept", "mass_entropy", "rescale_columns")
THREADED = [case for case in CASES if not case.startswith(ALONE)]


@pairwise(case=THREADED, shape=[(5, 3), (129, 65), (2049, 33), (4100, 7)], dtype=DTYPES, isa=ISAS)
def test_kernel_gives_the_same_bits_on_any_number_of_threads(case, shape, dtype, isa):
    given = given_to(case, dtype, shape, seed=1)
    alone = run(COMPILED, case, given, n_threads=1)
    for n_threads in (2, 3, 5):
        assert_same(run(COMPILED, case, given, n_threads=n_threads), alone)


@pairwise(dtype=DTYPES, isa=ISAS)
def test_kernel_in_place_gives_the_same_bits(dtype, isa):
    given = given_to("gibbs_kernel", dtype, (97, 129), seed=2)
    apart, peak = run(COMPILED, "gibbs_kernel", given)
    shared = given["cost"].copy()
    assert COMPILED.gibbs_kernel(**given | {"cost": shared, "out": shared}, n_threads=2) == peak
    np.testing.assert_array_equal(shared, apart)


# --- Passes ---------------------------------------------------------------------------


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
