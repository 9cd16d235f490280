"""Every compiled kernel does what its float64 twin says, on every instruction set, at
awkward sizes, with any number of threads, on matrices of either type."""

import numpy as np
import pytest
from helpers.kernel_cases import (
    CASES,
    COMPILED,
    SHAPES,
    arguments,
    assert_close,
    assert_same,
    run,
    widened,
)
from helpers.marks import ISAS, pairwise

from gwfast.kernels import reference

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
ALONE = "absorb", "deviation", "drift", "rescale_columns"
THREADED = [case for case in CASES if not case.startswith(ALONE)]


@pairwise(
    case=THREADED,
    shape=[(5, 3), (129, 65), (2049, 33), (4100, 7)],
    dtype=DTYPES,
    isa=ISAS,
)
def test_kernel_gives_the_same_bits_on_any_number_of_threads(case, shape, dtype, isa):
    given = given_to(case, dtype, shape, seed=1)
    alone = run(COMPILED, case, given, n_threads=1)
    for n_threads in (2, 3, 5):
        assert_same(run(COMPILED, case, given, n_threads=n_threads), alone)


@pairwise(name=["exp", "log", "gibbs_kernel"], dtype=DTYPES, isa=ISAS)
def test_kernel_in_place_gives_the_same_bits(name, dtype, isa):
    given = given_to(name, dtype, (97, 129), seed=2)
    apart = run(COMPILED, name, given)
    source = "cost" if "cost" in given else "x"
    shared = given[source].copy()
    given |= {source: shared, "out": shared}
    returned = getattr(COMPILED, name)(**given, n_threads=2)
    np.testing.assert_array_equal(shared, apart[0])
    assert returned == (apart[1] if name == "gibbs_kernel" else None)


@pairwise(name=["exp", "log"], dtype=DTYPES, isa=ISAS)
def test_elementwise_kernel_does_not_care_where_an_entry_stands(name, dtype, isa):
    given = given_to(name, dtype, (1, 1000), seed=3)
    (whole,) = run(COMPILED, name, given)
    for start in range(20):
        part = {"x": given["x"][start:], "out": given["out"][start:]}
        np.testing.assert_array_equal(run(COMPILED, name, part)[0], whole[start:])
