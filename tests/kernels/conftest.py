"""Fixtures of the tests of the kernels."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(scope="module")
def one_blas_thread():
    """As the kernels are called."""
    with threadpool_limits(1, user_api="blas"):
        yield
