"""Which of many parameters the fast suite takes."""

import pytest


def mostly_slow(values, fast):
    """Parameters of a test or a fixture; those that are not in `fast` are slow."""
    return [
        pytest.param(value, marks=() if value in fast else pytest.mark.slow)
        for value in values
    ]
