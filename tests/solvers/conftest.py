"""Fixtures of the tests of the solvers."""

import pytest


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    return request.param
