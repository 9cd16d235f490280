"""Fixtures that several test files use."""

import functools
import inspect
import os
import pickle
from pathlib import Path

import pytest

if "PYTEST_XDIST_WORKER" in os.environ:
    # The workers share the cores. OpenMP reads this when gwfast is imported.
    os.environ["OMP_NUM_THREADS"] = "1"

from helpers.marks import ISAS, instruction_set, thin

import gwfast

# One seed by default; GWFAST_TEST_SEEDS=100 runs the tests that take one with 0..99.
SEEDS = range(int(os.environ.get("GWFAST_TEST_SEEDS", "0"))) or [42]

N_LEFT_OUT = pytest.StashKey[int]()


def pytest_configure(config):
    config.stash[N_LEFT_OUT] = 0


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Marks that follow from what a test takes, before marks choose the tests."""
    for item in items:
        if "shared_data" in item.fixturenames:
            item.add_marker(pytest.mark.data)
    thin(items)


def pytest_deselected(items):
    for item in items:
        if item.get_closest_marker("slow"):
            item.config.stash[N_LEFT_OUT] += 1


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):  # of pytest-xdist
        session.config.workeroutput["n_left_out"] = session.config.stash[N_LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Every worker has left out the same tests."""
    made = getattr(node, "workeroutput", {})
    node.config.stash[N_LEFT_OUT] = made.get("n_left_out", 0)


def pytest_terminal_summary(terminalreporter, config):
    n_left_out = config.stash[N_LEFT_OUT]
    if n_left_out and config.option.markexpr == "not slow":
        terminalreporter.write_line(
            f"{n_left_out} slow tests left out: pytest -m '' runs all", yellow=True
        )


@pytest.fixture(params=ISAS)
def isa(request):
    """Every instruction set that this processor has, in turn."""
    with instruction_set(request.param):
        yield request.param


@pytest.fixture(params=SEEDS)
def seed(request):
    return request.param


@pytest.fixture(scope="session")
def answers():
    return {}


@pytest.fixture
def answered(answers, monkeypatch):
    """Functions that take seconds answer at once what they have been asked before: many
    examples begin with one alignment of the sample, or with one distance between its
    languages."""

    def once(function):
        signature = inspect.signature(function)

        @functools.wraps(function)
        def asked(*arguments, **options):
            bound = signature.bind(*arguments, **options)
            bound.apply_defaults()
            key = pickle.dumps((function.__qualname__, bound.arguments))
            if key not in answers:
                answers[key] = function(*arguments, **options)
            return answers[key]

        return asked

    monkeypatch.setattr(gwfast, "align", once(gwfast.align))


@pytest.fixture(scope="session")
def shared_data():
    """The folder of the data sets that are too large for the repository."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the data sets are not in ../shared/data beside the repository")
    return folder
