"""Fixtures that several test files use."""

import functools
import os
import pickle
from pathlib import Path

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:
    # The workers share the cores. OpenMP reads this when gwfast is imported.
    os.environ["OMP_NUM_THREADS"] = "1"

from helpers.marks import ISAS, instruction_set, thin
from threadpoolctl import threadpool_limits

import gwfast

# One seed by default; GWFAST_TEST_SEEDS=100 runs the tests that take one with 0..99.
SEEDS = range(int(os.environ.get("GWFAST_TEST_SEEDS", "0"))) or [42]


def pytest_report_header(config):
    if config.option.markexpr == "not slow and not heavy":
        return "slow tests are left out: pytest -m 'not heavy' runs them"
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Add marks before marks choose the tests."""
    for item in items:
        if "shared_data" in item.fixturenames:
            item.add_marker(pytest.mark.data)
    thin(items)


@pytest.fixture(params=ISAS)
def isa(request):
    """Select each instruction set of this processor in turn."""
    with instruction_set(request.param):
        yield request.param


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    return request.param


@pytest.fixture(params=SEEDS)
def seed(request):
    return request.param


@pytest.fixture(scope="module")
def one_blas_thread():
    """As the kernels are called."""
    with threadpool_limits(1, user_api="blas"):
        yield


ALIGNMENTS = {}


@pytest.fixture
def answered(monkeypatch):
    """Solve each alignment once: many examples begin with the alignment of the sample."""
    align = gwfast.align

    @functools.wraps(align)
    def remembered(*arguments, **options):
        key = pickle.dumps((arguments, sorted(options.items())))
        if key not in ALIGNMENTS:
            ALIGNMENTS[key] = align(*arguments, **options)
        return ALIGNMENTS[key]

    monkeypatch.setattr(gwfast, "align", remembered)


@pytest.fixture(scope="session")
def shared_data():
    """Return the folder of the data sets that are too large for the repository."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the data sets are not in ../shared/data beside the repository")
    return folder
