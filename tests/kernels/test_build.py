"""Facts about this build: OpenMP and instruction sets."""

import os
import re

import pytest
from helpers.marks import ISAS
from helpers.processes import run_python

import gwfast

NAMES = [parameter.values[0] for parameter in ISAS]


def facts(text):
    return dict(re.split("  +", line, maxsplit=1) for line in text.strip().splitlines())


def test_show_config_prints_the_facts_of_a_bug_report(isa, capsys):
    gwfast.show_config()
    found = facts(capsys.readouterr().out)
    assert found["gwfast"] == gwfast.__version__
    assert found["instruction set"].startswith(isa)
    assert all(found[name] for name in ("BLAS", "numpy", "scipy", "threads"))
    is_serial = os.environ.get("GWFAST_TEST_NO_OPENMP", "0") not in ("", "0")
    assert found["OpenMP"].startswith("NO" if is_serial else "yes"), (
        "gwfast was built without OpenMP; if that is meant, set GWFAST_TEST_NO_OPENMP=1"
    )


@pytest.mark.process
def test_environment_variable_forces_an_instruction_set():
    assert NAMES[-1] in ("baseline", "neon") and len(set(NAMES)) == len(NAMES)
    forced = run_python("import gwfast; gwfast.show_config()", GWFAST_ISA=NAMES[-1])
    assert facts(forced.stdout)["instruction set"].startswith(NAMES[-1])
    refused = run_python("import gwfast", check=False, GWFAST_ISA="avx1024")
    last = refused.stderr.strip().splitlines()[-1]
    assert refused.returncode != 0 and last.startswith("ImportError: GWFAST_ISA")
    assert all(repr(name) in last for name in (*NAMES, "avx1024"))
