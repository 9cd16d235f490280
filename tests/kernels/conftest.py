"""Fixtures of the tests of the kernels."""

import pytest
from helpers.kernel_cases import CASES

from gwfast.kernels.threads import single_threaded_blas


@pytest.fixture(scope="module")
def one_blas_thread():
    """As the kernels are called."""
    with single_threaded_blas():
        yield


@pytest.fixture(params=CASES)
def case(request):
    return request.param
