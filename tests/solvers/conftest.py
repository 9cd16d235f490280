"""Fixtures of the tests of the solvers."""

import importlib.util
import sys
from pathlib import Path

import pytest
from helpers.variants import VARIANTS


@pytest.fixture(params=VARIANTS)
def options(request):
    return VARIANTS[request.param]


@pytest.fixture(scope="session")
def random_problems():
    """The module `tests/heavy/random_problems.py`."""
    path = Path(__file__).parents[1] / "heavy" / "random_problems.py"
    spec = importlib.util.spec_from_file_location("random_problems", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    return request.param
