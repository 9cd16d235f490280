"""Alignments of few points start as quickly as they can."""

from helpers.races import few_random_starts  # noqa: F401  an autouse fixture
