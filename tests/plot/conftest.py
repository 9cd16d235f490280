"""Solves to be drawn start as quickly as they can, and pictures are closed."""

import pytest


@pytest.fixture(autouse=True)
def closed_figures():
    """Figures of pyplot stay until they are closed, and it warns of too many."""
    yield
    pytest.importorskip("matplotlib.pyplot").close("all")
