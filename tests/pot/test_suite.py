"""POT's published tests pass on the functions of gwfast, but for known exceptions.

They are not part of an installed POT: set GWFAST_POT_TESTS to the folder `test` of a
checkout of https://github.com/PythonOT/POT, at the tag of the installed version. What
runs them is tested without.
"""

import os
from collections import Counter
from pathlib import Path

import pytest
from helpers import pot_suite

# By a pattern in the id of tests that need not pass: the message that they end with
# instead, and why that is as it should be.
EXCEPTIONS = {
    r"test_BAPG_(gromov|fgw)\[": (
        "DID NOT WARN",
        "expects POT to divide by zero and to warn; gwfast's plan there is finite (of "
        "the fused problem it meets its marginals). The test ends there",
    ),
    r"test_(gromov|fgw)_integer_warnings\[": (
        "Mismatched elements",
        "expects plans for integer costs to be cut down to integers, which are zeros; "
        "gwfast returns float64",
    ),
    r"test_partial_(fused_)?gromov_wasserstein\[": (
        "dtype\\('float64'\\) == dtype\\('int64'\\)",
        "as above; the test ends there, after all else",
    ),
    r"test_gromov_device_tf": (
        "tf not installed",
        "of TensorFlow, whose arrays the plugin leaves out",
    ),
}


@pytest.fixture
def ot():
    return pytest.importorskip("ot", reason="POT is not installed")


@pytest.mark.process
def test_pot_own_tests_pass(ot, tmp_path, capsys):
    folder = os.environ.get("GWFAST_POT_TESTS")
    if not folder:
        pytest.skip("GWFAST_POT_TESTS does not name a folder of POT's tests")
    outcomes = pot_suite.run(Path(folder).resolve(), tmp_path)
    found = pot_suite.complaints(outcomes, EXCEPTIONS)
    counts = Counter(outcome for outcome, _ in outcomes.values())
    with capsys.disabled():
        total = ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items()))
        print(f"\nPOT {ot.__version__}'s own tests on gwfast: {total};")
        print(f"not as expected: {len(found)}")
    assert not found, "\n".join(found)


OUTCOMES = {f"{file}::test_entropic[numpy]": ("passed", "") for file in pot_suite.FILES}


def test_exceptions_do_not_rot_and_every_file_must_have_tests():
    exceptions = {r"partial.*entropic\[": ("", "fixed"), "no_such": ("", "renamed")}
    passes, unmatched = pot_suite.complaints(OUTCOMES, exceptions)
    assert passes.startswith("gromov/test_partial.py::test_entropic[numpy]: passes")
    assert unmatched == "exception 'no_such' matches no test"
    found = pot_suite.complaints({}, {})
    assert found == [f"{file}: no test collected" for file in pot_suite.FILES]


CONFTEST = """
import pytest

@pytest.fixture(params=["numpy"])
def nx(request):
    return request.param
"""
TESTS = """
import ot
import pytest
from ot.gromov import entropic_gromov_wasserstein

def test_{stem}_swapped(nx):
    assert ot.gromov.entropic_gromov_wasserstein is entropic_gromov_wasserstein
    assert entropic_gromov_wasserstein.__module__.startswith("gwfast.")
    assert ot.solve_gromov.__module__.startswith("gwfast.")

def test_{stem}_fails():
    raise ValueError("of two\\nlines")

def test_{stem}_skips():
    pytest.skip("not here")

@pytest.fixture
def broken():
    raise KeyError("setting up")

def test_{stem}_errs(broken):
    pass

@pytest.mark.parametrize("x", [
    pytest.param(0, marks=pytest.mark.xfail(raises=ValueError)),
    pytest.param(1, marks=pytest.mark.xfail(raises=ValueError)),
])
def test_{stem}_xfails(x):
    if not x:
        raise ValueError

def test_of_something_else():
    pass
"""


@pytest.fixture
def checkout(tmp_path):
    """A folder laid out like POT's, whose tests end in all ways that there are."""
    folder = tmp_path / "test"
    (folder / "gromov").mkdir(parents=True)
    (folder / "conftest.py").write_text(CONFTEST)
    for file in pot_suite.FILES:
        stem = "solve_gromov" if "solvers" in file else "entropic"
        (folder / file).write_text(TESTS.format(stem=stem))
    return folder


@pytest.mark.slow
@pytest.mark.process
def test_plugin_swaps_chooses_and_records(ot, checkout, tmp_path):
    outcomes = pot_suite.run(checkout, tmp_path)
    file = "gromov/test_semirelaxed.py"
    assert {test: end for test, end in outcomes.items() if test.startswith(file)} == {
        f"{file}::test_entropic_swapped[numpy]": ("passed", ""),
        f"{file}::test_entropic_fails": ("failed", "ValueError: of two lines"),
        f"{file}::test_entropic_skips": ("skipped", "Skipped: not here"),
        f"{file}::test_entropic_errs": ("failed", "KeyError: 'setting up'"),
        f"{file}::test_entropic_xfails[0]": ("xfailed", ""),
        f"{file}::test_entropic_xfails[1]": ("xpassed", ""),
        # The whole file is about what is swapped, of others only some tests are.
        f"{file}::test_of_something_else": ("passed", ""),
    }
    assert "test_solvers.py::test_of_something_else" not in outcomes
    assert outcomes["test_solvers.py::test_solve_gromov_swapped[numpy]"][0] == "passed"
    assert not list(checkout.rglob("__pycache__"))


def test_functions_that_are_not_swapped_are_noticed(ot):
    with pytest.raises(pytest.UsageError, match="entropic_gromov_wasserstein"):
        pot_suite.require_swapped()
