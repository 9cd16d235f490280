"""POT's own tests on the functions of gwfast: a plugin of pytest, and a function that runs it."""

import os
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path

import pytest
from helpers.processes import environment

import gwfast.pot

# Files of POT's folder of tests; of the last one only tests of `solve_gromov`.
GROMOV = ("fugw", "bregman", "gw", "semirelaxed", "partial", "dictionary")
FILES = (*(f"gromov/test_{name}.py" for name in GROMOV), "test_coot.py", "test_solvers.py")
# Swapping is for arrays of NumPy and torch; POT reads these variables when it is imported.
NO_OTHER_BACKENDS = {f"POT_BACKEND_DISABLE_{name}": "1" for name in ("JAX", "CUPY", "TENSORFLOW")}


def pytest_configure():
    """Swap POT's functions before POT's tests import them."""
    gwfast.pot.patch()


def pytest_collection_modifyitems(items):
    items[:] = [x for x in items if x.path.name != FILES[-1] or "solve_gromov" in x.name]


def pytest_sessionfinish():
    if sum(gwfast.pot.report().values()) < 100:
        raise pytest.UsageError("POT's tests did not run on gwfast")


def run(folder, work):
    """Return the messages of POT's tests in a folder by names, empty of tests that passed.

    `work` is an empty folder for files of the run; `folder` is only read.
    """
    # Settings of neither POT nor gwfast.
    (work / "pytest.ini").write_text("[pytest]\n")
    base = environment(PYTEST_ADDOPTS=None, PYTEST_PLUGINS=None, **NO_OTHER_BACKENDS)
    path = os.pathsep.join([base["PYTHONPATH"], str(Path(__file__).parents[1])])
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "helpers.pot_suite", "-p", "no:cacheprovider"]
        + ["-c", "pytest.ini", f"--rootdir={folder}", "--junitxml=outcomes.xml"]
        + [str(folder / file) for file in FILES if (folder / file).exists()],
        env={**base, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=work,
        capture_output=True,
        text=True,
        timeout=3600,
    )
    if finished.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(f"{finished.stdout[-4000:]}{finished.stderr[-4000:]}")
    messages = {}
    for case in xml.etree.ElementTree.parse(work / "outcomes.xml").iter("testcase"):
        bad = [*case.iter("failure"), *case.iter("error")]
        name = f"{case.get('classname')}::{case.get('name')}"
        messages[name] = " ".join(x.get("message") for x in bad)
    return messages
