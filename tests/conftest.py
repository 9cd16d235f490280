"""Fixtures that several test files use."""

import os
from pathlib import Path

import pytest

from gwfast.kernels import _rows

# One seed by default; GWFAST_TEST_SEEDS=100 runs the tests that take one with 0..99.
SEEDS = range(int(os.environ.get("GWFAST_TEST_SEEDS", "0"))) or [42]


@pytest.fixture(params=_rows.supported_isas())
def isa(request):
    """Every instruction set that this processor has, in turn."""
    former = _rows.current_isa()
    _rows.select_isa(request.param)
    yield request.param
    _rows.select_isa(former)


@pytest.fixture(params=SEEDS)
def seed(request):
    return request.param


@pytest.fixture(scope="session")
def shared_data():
    """The folder of the data sets that are too large for the repository."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the data sets are not in ../shared/data beside the repository")
    return folder
