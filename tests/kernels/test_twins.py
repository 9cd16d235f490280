"""Every compiled kernel does what its float64 twin says, on every instruction set, at
awkward sizes, with any number of threads, on matrices of either type."""

import numpy as np
import pytest
from helpers.kernel_cases import (
    CASES,
    COMPILED,
    SHAPES,
    WIDE_TOLERANCES,
    arguments,
    assert_close,
    assert_same,
    run,
    run_twin,
    widened,
)

pytestmark = pytest.mark.usefixtures("one_blas_thread")


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_kernel_agrees_with_its_twin(case, shape, isa, seed):
    given = arguments(case, *shape, seed)
    assert_close(case, run(COMPILED, case, given), run_twin(case, *shape, seed))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
@pytest.mark.parametrize("case", WIDE_TOLERANCES)
def test_kernel_of_float64_agrees_with_its_twin(case, shape, isa, seed):
    given = widened(arguments(case, *shape, seed))
    came, expected = run(COMPILED, case, given), run_twin(case, *shape, seed, wide=True)
    assert_close(case, came, expected, WIDE_TOLERANCES)


# They take no threads.
ALONE = "absorb", "deviation", "drift", "rescale_columns"
THREADED = [
    (case, wide)
    for wide, cases in ((False, CASES), (True, WIDE_TOLERANCES))
    for case in cases
    if not case.startswith(ALONE)
]


@pytest.mark.parametrize("shape", [(5, 3), (129, 65), (2049, 33), (4100, 7)])
@pytest.mark.parametrize("case, wide", THREADED)
def test_kernel_gives_the_same_bits_on_any_number_of_threads(case, wide, shape, isa):
    given = arguments(case, *shape, seed=1)
    given = widened(given) if wide else given
    alone = run(COMPILED, case, given, n_threads=1)
    for n_threads in (2, 3, 5):
        assert_same(run(COMPILED, case, given, n_threads=n_threads), alone)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", ["exp", "log", "gibbs_kernel"])
def test_kernel_in_place_gives_the_same_bits(name, wide, isa):
    given = arguments(name, 97, 129, seed=2)
    given = widened(given) if wide else given
    apart = run(COMPILED, name, given)
    source = "cost" if "cost" in given else "x"
    shared = given[source].copy()
    given |= {source: shared, "out": shared}
    returned = getattr(COMPILED, name)(**given, n_threads=2)
    np.testing.assert_array_equal(shared, apart[0])
    assert returned == (apart[1] if name == "gibbs_kernel" else None)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", ["exp", "log"])
def test_elementwise_kernel_does_not_care_where_an_entry_stands(name, wide, isa):
    given = arguments(name, 1, 1000, seed=3)
    given = widened(given) if wide else given
    (whole,) = run(COMPILED, name, given)
    for start in range(20):
        part = {"x": given["x"][start:], "out": given["out"][start:]}
        np.testing.assert_array_equal(run(COMPILED, name, part)[0], whole[start:])
