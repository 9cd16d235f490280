"""Threads that wait sleep, and importing gwfast leaves the environment as it was."""

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
    "setting", mostly_slow(SETTINGS, fast=SETTINGS[1:4:2]), ids=str
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


def spin_count(**setting):
    return read_as("GOMP_SPINCOUNT", **setting)


@pytest.mark.slow
@pytest.mark.process
def test_openmp_reads_our_patience_unless_the_user_has_his():
    ours = spin_count()
    if ours is None:
        pytest.skip("not GNU's OpenMP")
    assert ours == kernels.PATIENCE["GOMP_SPINCOUNT"]
    assert spin_count(GOMP_SPINCOUNT="12345") == "12345"
    assert int(spin_count(OMP_WAIT_POLICY="active")) > 1_000_000
    assert spin_count(OMP_WAIT_POLICY="passive") == "0"


@pytest.mark.slow
@pytest.mark.process
def test_llvms_openmp_reads_our_patience_unless_the_user_has_his():
    """Which it does when it is first called, not when it is loaded."""
    ours = read_as("KMP_BLOCKTIME")
    if ours is None:
        pytest.skip("not LLVM's OpenMP")
    assert ours == kernels.PATIENCE["KMP_BLOCKTIME"]
    assert read_as("KMP_BLOCKTIME", KMP_BLOCKTIME="7") == "7"


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize("fails", [False, True])
def test_patience_is_there_inside_only(setting, fails, monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)
    try:
        with kernels._patient():
            expected = {**before, **({} if setting else kernels.PATIENCE)}
            assert dict(os.environ) == expected
            if fails:
                raise ImportError
    except ImportError:
        assert fails
    assert dict(os.environ) == before


@pytest.mark.process
@pytest.mark.skipif(not _rows.openmp_version(), reason="built without OpenMP")
def test_kernels_still_run_on_several_threads():
    code = """
import numpy as np
from gwfast.kernels import _kernels
x = np.random.default_rng(0).random((2000, 500), dtype=np.float32)
assert _kernels.entropy(x, 3) == _kernels.entropy(x, 1)
"""
    run_python(code, **UNSET)


@pytest.mark.process
@pytest.mark.skipif(not _rows.openmp_runtime(), reason="OpenMP's library is not known")
@pytest.mark.parametrize("setting", mostly_slow([{}, SETTINGS[3]], fast=[]), ids=str)
def test_config_tells_of_a_library_that_was_loaded_before(setting):
    """As that of PyTorch, whose threads so wait busily."""
    code = """
import ctypes, sys
ctypes.CDLL(sys.argv[1]) if len(sys.argv) > 1 else None
import gwfast
gwfast.show_config()
"""
    first = f"import sys; sys.argv = ['', {_rows.openmp_runtime()!r}]\n"
    advice = "loaded before gwfast: threads wait busily, unless GOMP_SPINCOUNT=1000"
    assert (advice in run_python(first + code, **{**UNSET, **setting}).stdout) is (
        not setting
    )
    assert advice not in run_python(code, **{**UNSET, **setting}).stdout
