"""Fixtures of the tests of the solvers."""

import pytest
from helpers.variants import VARIANTS


@pytest.fixture(params=VARIANTS)
def options(request):
    return VARIANTS[request.param]


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    return request.param
