"""Families of matching problems with known matches, some of which the default search
solves, and some not. Data that are not there are left out.
"""

from . import cells, clouds, digits, graphs, languages, molecules, shapes, slices

MODULES = graphs, molecules, shapes, clouds, cells, digits, slices, languages


def problems(only=""):
    """Every `Problem` whose family or name has this text."""
    for module in MODULES:
        for one in module.problems():
            if only in f"{one.family}: {one.name}":
                yield one
