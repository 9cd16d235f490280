"""Fixtures of the tests of the kernels."""

import pytest

from gwfast.kernels.threads import single_threaded_blas


@pytest.fixture(scope="module")
def one_blas_thread():
    """As the kernels are called."""
    with single_threaded_blas():
        yield
