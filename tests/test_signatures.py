"""The size of the public interface: names, parameters, documentation."""

import dataclasses
import inspect
import pkgutil
from importlib import import_module

import pytest

import gwfast

MODULES = [module.name for module in pkgutil.iter_modules(gwfast.__path__)]
ROOMS = ["gwfast", *(f"gwfast.{name}" for name in MODULES if not name.startswith("_"))]
MOST_PARAMETERS = {"gwfast.gromov_wasserstein": 21, "gwfast.align": 19}
MOST_LINES = 90


def names_of(room):
    return getattr(import_module(room), "__all__", [])


def public():
    """Return callables of the rooms whose names are not POT's, by their names."""
    rooms = [room for room in ROOMS if room not in ("gwfast.pot", "gwfast.cli")]
    names = [(room, name) for room in rooms for name in names_of(room)]
    values = {f"{room}.{name}": getattr(import_module(room), name) for room, name in names}
    errors = {name for name, x in values.items() if inspect.isclass(x) and issubclass(x, Exception)}
    return {name: x for name, x in values.items() if callable(x) and name not in errors}


def test_there_are_few_names():
    assert len([name for name in gwfast.__all__ if not name.startswith("__")]) <= 30
    assert sum(len(names_of(room)) for room in ROOMS) <= 120


@pytest.mark.parametrize("name, function", public().items(), ids=public())
def test_parameters_are_few_and_the_help_fits_on_two_screens(name, function):
    parameters = inspect.signature(function).parameters.values()
    assert len(parameters) <= MOST_PARAMETERS.get(name, 16)
    # `help` has names of types rather than the unions that they stand for.
    assert "_NestedSequence" not in str(inspect.signature(function))
    assert inspect.Parameter.VAR_KEYWORD not in [each.kind for each in parameters]
    methods = inspect.getmembers(function, inspect.isfunction) if inspect.isclass(function) else []
    documented = [function, *(method for name, method in methods if not name.startswith("_"))]
    for each in documented:
        assert len((inspect.getdoc(each) or "").splitlines()) <= MOST_LINES


def test_results_have_sixteen_fields_and_seven_statuses():
    assert len(dataclasses.fields(gwfast.GWResult)) <= 16
    status = gwfast.gromov_wasserstein([[0.0]], [[0.0]]).status
    assert len(type(status)) == 7
