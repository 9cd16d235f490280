"""Solves to be drawn start as quickly as they can, and pictures are closed."""

import pytest
from helpers.races import few_random_starts  # noqa: F401  an autouse fixture


@pytest.fixture(autouse=True)
def closed_figures():
    """Figures of pyplot stay until they are closed, and it warns of too many."""
    yield
    pytest.importorskip("matplotlib.pyplot").close("all")
