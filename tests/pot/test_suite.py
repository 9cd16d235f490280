"""POT's published tests pass on the functions of gwfast, but for EXCEPTIONS.

They are not part of an installed POT: they are in ../shared/pot, or in the folder `test` of a
checkout of POT at the tag of the installed version, which GWFAST_POT_TESTS names. This file is the
plugin of their pytest, too.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.processes import environment

import gwfast.pot

HERE = Path(__file__).resolve()
GROMOV = ("fugw", "bregman", "gw", "semirelaxed", "partial", "dictionary")
FILES = (*(f"gromov/test_{name}.py" for name in GROMOV), "test_coot.py", "test_solvers.py")
EXCEPTIONS = (
    # The other tests of this file are of other functions.
    r"test_solvers\.py::(?!test_solve_gromov)",
    # POT divides by zero and warns; the plan here is finite.
    r"test_BAPG_(gromov|fgw)\[",
    # POT cuts plans for integer costs down to integers, which are zeros.
    r"test_(gromov|fgw)_integer_warnings\[",
    r"test_partial_(fused_)?gromov_wasserstein\[",
)
# Swapping is for arrays of NumPy and torch; POT reads these variables when it is imported.
NO_OTHER_BACKENDS = {f"POT_BACKEND_DISABLE_{name}": "1" for name in ("JAX", "CUPY", "TENSORFLOW")}


def pytest_configure():
    """Swap POT's functions before POT's tests import them."""
    gwfast.pot.patch()


def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if not re.search("|".join(EXCEPTIONS), item.nodeid)]


def pytest_sessionfinish():
    if len(gwfast.pot.report()) < 30:
        raise pytest.UsageError(f"POT's tests ran on {gwfast.pot.report()} of gwfast")


@pytest.mark.slow
@pytest.mark.process
def test_pots_own_tests_pass(tmp_path):
    pytest.importorskip("ot", reason="POT is not installed")
    beside = HERE.parents[3] / "shared" / "pot" / "test"
    folder = Path(os.environ.get("GWFAST_POT_TESTS", beside)).resolve()
    if not folder.is_dir():
        pytest.skip("POT's tests are neither in ../shared/pot nor in GWFAST_POT_TESTS")
    # Settings of neither POT nor gwfast.
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    variables = environment(PYTEST_ADDOPTS=None, PYTHONDONTWRITEBYTECODE="1", **NO_OTHER_BACKENDS)
    variables["PYTHONPATH"] += f"{os.pathsep}{HERE.parents[1]}"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "pot.test_suite"]
    command += ["-p", "no:cacheprovider", "-c", "pytest.ini", f"--rootdir={folder}"]
    command += [str(folder / file) for file in FILES if (folder / file).exists()]
    ended = subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-1000:]
