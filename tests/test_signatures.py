"""The size of the public interface: names, parameters, documentation."""

import dataclasses
import inspect
import pkgutil
from importlib import import_module

import pytest

import gwfast
import gwfast.singlecell

MODULES = [module.name for module in pkgutil.iter_modules(gwfast.__path__)]
ROOMS = ["gwfast", *(f"gwfast.{name}" for name in MODULES if not name.startswith("_"))]
PARAMETERS = {"gromov_wasserstein": 21, "align": 19}
LINES = 90


def names_of(room):
    return getattr(import_module(room), "__all__", [])


def public():
    """Pairs of a name and what users call, of rooms whose names are not POT's."""
    for room in ROOMS:
        if room not in ("gwfast.pot", "gwfast.cli"):
            for name in names_of(room):
                value = getattr(import_module(room), name)
                if callable(value) and not (
                    inspect.isclass(value) and issubclass(value, Exception | Warning)
                ):
                    yield pytest.param(value, id=f"{room}.{name}")


def test_there_are_few_names():
    assert len([name for name in gwfast.__all__ if not name.startswith("__")]) <= 30
    assert sum(len(names_of(room)) for room in ROOMS) <= 120


@pytest.mark.parametrize("function", list(public()))
def test_parameters_are_few_and_the_help_fits_on_two_screens(function):
    most = PARAMETERS.get(function.__name__, 16)
    if function is gwfast.singlecell.align:
        most = 16
    assert len(inspect.signature(function).parameters) <= most
    assert len(inspect.getdoc(function).splitlines()) <= LINES
    if inspect.isclass(function):
        for name, member in inspect.getmembers(function, inspect.isfunction):
            if not name.startswith("_"):
                assert len((inspect.getdoc(member) or "").splitlines()) <= LINES


@pytest.mark.parametrize("function", list(public()))
def test_no_keyword_arguments_are_passed_through(function):
    kinds = [each.kind for each in inspect.signature(function).parameters.values()]
    assert inspect.Parameter.VAR_KEYWORD not in kinds


def test_results_have_sixteen_fields_and_seven_statuses():
    assert len(dataclasses.fields(gwfast.GWResult)) <= 16
    status = gwfast.gromov_wasserstein([[0.0]], [[0.0]]).status
    assert len(type(status)) == 7
