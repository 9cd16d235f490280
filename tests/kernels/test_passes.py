"""Many Sinkhorn iterations in one call are that many single ones."""

from copy import deepcopy

import numpy as np
import pytest
from helpers.kernel_cases import COMPILED, arguments, assert_same, build, run

from gwfast.kernels import (
    _kernels,
)

pytestmark = pytest.mark.usefixtures("one_blas_thread")


@pytest.mark.parametrize("omega", [1.0, 1.7])
@pytest.mark.parametrize("shape", [(5, 3), (129, 65), (2049, 33)])
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
