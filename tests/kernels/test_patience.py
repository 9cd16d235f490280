"""Threads that wait sleep, and importing gwfast leaves the environment as it was."""

import contextlib
import json
import os
import re

import pytest
from helpers.marks import mostly_slow
from helpers.processes import run_python

from gwfast import kernels
from gwfast.kernels import _rows

NAMES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
UNSET = dict.fromkeys(NAMES)
SETTINGS = [
    {},
    {"OMP_WAIT_POLICY": "active"},
    {"OMP_WAIT_POLICY": "passive"},
    {"GOMP_SPINCOUNT": "12345"},
    {"KMP_BLOCKTIME": "7"},
    {"GOMP_SPINCOUNT": ""},
]

IMPORT = """
import json, os
before = dict(os.environ)
import gwfast
assert dict(os.environ) == before, set(os.environ.items()) ^ set(before.items())
import subprocess, sys
code = "import json, os; print(json.dumps(dict(os.environ)))"
print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                     check=True).stdout)
"""


@pytest.mark.process
@pytest.mark.parametrize(
    "setting", mostly_slow([{}, SETTINGS[1], {"GOMP_SPINCOUNT": ""}], fast=[{}]), ids=str
)
def test_environment_after_the_import_is_that_before(setting):
    child = json.loads(run_python(IMPORT, **{**UNSET, **setting}).stdout)
    # What the C library has, which children inherit, too.
    assert {name: child[name] for name in NAMES if name in child} == setting


def read_as(name, **setting):
    """What OpenMP says it has read, None where it knows of no such setting."""
    options = {**UNSET, "OMP_DISPLAY_ENV": "verbose", **setting}
    said = run_python("import gwfast", **options).stderr
    found = re.search(rf"{name} ?= ?'(\w+)'", said)
    return found and found[1]


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("name", kernels.PATIENCE)
def test_openmp_reads_our_patience_unless_the_user_has_his(name):
    """GNU's when it is loaded, LLVM's when it is first called."""
    ours = read_as(name)
    if ours is None:
        pytest.skip("an OpenMP of another kind")
    assert ours == kernels.PATIENCE[name]
    assert read_as(name, **{name: "12345"}) == "12345"


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_patience_is_there_inside_only(setting, monkeypatch):
    """Also where nothing can be imported; where it can, a process has shown above."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)
    with contextlib.suppress(ImportError), kernels._patient():
        assert dict(os.environ) == before | ({} if setting else kernels.PATIENCE)
        raise ImportError
    assert dict(os.environ) == before


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(not _rows.openmp_runtime(), reason="OpenMP's library is not known")
def test_config_tells_of_a_library_that_was_loaded_before():
    """As that of PyTorch, whose threads so wait busily."""
    load = f"import ctypes; ctypes.CDLL({_rows.openmp_runtime()!r})\n"
    code = "import gwfast; gwfast.show_config()"
    advice = "loaded before gwfast: threads wait busily, unless GOMP_SPINCOUNT=1000"
    assert advice in run_python(load + code, **UNSET).stdout
    assert advice not in run_python(code, **UNSET).stdout
    patient = {**UNSET, "GOMP_SPINCOUNT": "12345"}
    assert advice not in run_python(load + code, **patient).stdout
