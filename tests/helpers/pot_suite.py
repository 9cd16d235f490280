"""POT's own tests on the functions of gwfast: a pytest plugin, and who runs it.

As a plugin, in a fresh process, it swaps POT's functions before POT's tests are
imported, keeps the tests of what was swapped, and writes how each of them ended.
"""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.processes import environment

# The files of POT's folder of tests, and what the names of their tests must have in
# them to be about what is swapped.
FILES = {
    "gromov/test_fugw.py": "",
    "gromov/test_bregman.py": "",
    "gromov/test_gw.py": "",
    "gromov/test_semirelaxed.py": "",
    "gromov/test_partial.py": "",
    "gromov/test_dictionary.py": "",
    "test_coot.py": "",
    "test_solvers.py": "solve_gromov",
}
# Swapping is for arrays of NumPy and torch; POT reads these when it is imported.
NO_OTHER_BACKENDS = {f"POT_BACKEND_DISABLE_{name}": "1" for name in ("JAX", "CUPY", "TENSORFLOW")}
GOOD = ("passed", "xfailed")


def pytest_addoption(parser):
    parser.addoption("--outcomes", type=Path, help="the file to write outcomes to")


def pytest_configure(config):
    from gwfast import pot

    pot.patch()
    require_swapped()
    config.pluginmanager.register(Recorder(config.getoption("outcomes")))


def require_swapped():
    """Stop the run unless POT's functions are those of gwfast."""
    from gwfast.pot.patching import FUNCTIONS as NAMES
    from gwfast.pot.patching import HOMES

    homes = [importlib.import_module(home) for home in HOMES]
    own = [
        f"{home.__name__}.{name}"
        for home in homes
        for name in NAMES  # versions of POT lack some
        if hasattr(home, name) and getattr(home, name).__module__.split(".")[0] != "gwfast"
    ]
    if own:
        raise pytest.UsageError(f"these are POT's own functions still: {own}")


class Recorder:
    """Chooses the tests, and writes how they ended when they all have."""

    def __init__(self, path):
        self.path, self.outcomes = path, {}

    def pytest_collection_modifyitems(self, config, items):
        chosen = [item for item in items if wanted(item.nodeid)]
        config.hook.pytest_deselected(items=[item for item in items if not wanted(item.nodeid)])
        items[:] = chosen

    def pytest_runtest_logreport(self, report):
        outcome = report.outcome
        if hasattr(report, "wasxfail"):
            outcome = "xfailed" if report.skipped else "xpassed"
        former, _ = self.outcomes.get(report.nodeid, ("passed", ""))
        # Setting up and tearing down pass in silence where the test itself says more.
        if report.when == "call" or (former in GOOD and outcome != "passed"):
            self.outcomes[report.nodeid] = outcome, reason(report)

    def pytest_sessionfinish(self):
        require_swapped()
        self.path.write_text(json.dumps(self.outcomes))


def wanted(test):
    """Whether the test of that id is about what is swapped."""
    file, _, name = test.partition("::")
    return file in FILES and re.search(FILES[file], name.partition("[")[0]) is not None


def reason(report):
    """Why a test did not pass, in one line."""
    if report.passed:
        return ""
    if report.skipped:
        return str(report.longrepr[-1]) if isinstance(report.longrepr, tuple) else ""
    crash = getattr(report.longrepr, "reprcrash", None)
    message = str(report.longrepr) if crash is None else crash.message
    return " ".join(message.split())[:200]


def run(folder, work):
    """How POT's tests in `folder` ended on gwfast: {id: (outcome, reason)}.

    `work` is an empty folder for what the run writes; `folder` is only read.
    """
    # Of neither POT nor gwfast: what fails must not depend on whose settings are found.
    (work / "pytest.ini").write_text("[pytest]\n")
    here = Path(__file__).parents[1]
    base = environment(PYTEST_ADDOPTS=None, PYTEST_PLUGINS=None, **NO_OTHER_BACKENDS)
    path = os.pathsep.join([base["PYTHONPATH"], str(here)])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "helpers.pot_suite"]
    command += ["-p", "no:cacheprovider", "-c", str(work / "pytest.ini")]
    command += [f"--rootdir={folder}", f"--outcomes={work / 'outcomes.json'}"]
    finished = subprocess.run(
        command + [str(folder / file) for file in FILES],
        env={**base, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=work,
        capture_output=True,
        text=True,
        timeout=3600,
    )
    if finished.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(
            f"pytest on {folder} ended with {finished.returncode}:\n"
            f"{finished.stdout[-4000:]}{finished.stderr[-4000:]}"
        )
    outcomes = json.loads((work / "outcomes.json").read_text())
    return {test: tuple(outcome) for test, outcome in outcomes.items()}


def complaints(outcomes, exceptions):
    """What is wrong with `outcomes`, a list of lines; none where nothing is.

    `exceptions` are pairs by pattern, of another pattern and a reason: tests whose id
    has the first in it must fail with a message that has the second. An exception that
    matches nothing, and a test that passes all the same, is wrong too.
    """
    found = [
        f"{file}: no test collected"
        for file in FILES
        if not any(test.startswith(f"{file}::") for test in outcomes)
    ]
    excepted = set()
    for pattern, (message, _) in exceptions.items():
        matched = {test for test in outcomes if re.search(pattern, test)}
        if not matched:
            found.append(f"exception {pattern!r} matches no test")
        for test in sorted(matched):
            outcome, why = outcomes[test]
            if outcome in GOOD:
                found.append(f"{test}: passes, but is excepted by {pattern!r}")
            elif re.search(message, why):
                excepted.add(test)
    return found + [
        f"{test}: {outcome}: {why}"
        for test, (outcome, why) in outcomes.items()
        if outcome not in GOOD and test not in excepted
    ]
