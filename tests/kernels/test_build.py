"""Facts about this build: OpenMP, instruction sets, and what the source distribution holds."""

import os
import re
from pathlib import Path

import pytest
from helpers.marks import ISAS
from helpers.processes import run_python

import gwfast

ROOT = Path(__file__).resolve().parents[2]
NAMES = [parameter.values[0] for parameter in ISAS]


def facts(text):
    lines = (line.split("  ", 1) for line in text.strip().splitlines())
    return {name.strip(): fact.strip() for name, fact in lines}


def test_show_config_prints_the_facts_of_a_bug_report(isa, capsys):
    gwfast.show_config()
    found = facts(capsys.readouterr().out)
    assert found["gwfast"] == gwfast.__version__
    assert found["instruction set"].startswith(isa)
    assert "by default" in found["threads"]
    assert found["BLAS"] and found["numpy"] and found["scipy"]
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


def test_source_distribution_holds_all_sources(monkeypatch):
    """Of files that git knows, by the rules of MANIFEST.in."""
    egg_info = pytest.importorskip("setuptools.command.egg_info")
    if not (ROOT / "MANIFEST.in").exists():
        pytest.skip("not in a source tree")
    monkeypatch.chdir(ROOT)
    files = egg_info.FileList()
    # What setuptools puts in by itself wherever the extensions were built.
    files.extend([str(path) for path in Path("gwfast").rglob("*.c")])
    for line in Path("MANIFEST.in").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            files.process_template_line(line)
    shipped = {Path(name).as_posix() for name in files.files}
    patterns = {
        "csrc": ["*.[ch]", "*.inc"],
        "gwfast": ["**/*.py", "**/*.p[xy][dix]", "**/py.typed", "data/*", "cli/templates/*"],
        "tests": ["*.py"],
    }
    needed = {
        path.as_posix()
        for folder, globs in patterns.items()
        for pattern in globs
        for path in Path(folder).glob(pattern)
    }
    assert needed - shipped == set()
    made = r".*\.(so|pyd|pyc)|gwfast/.*\.c"
    assert not [name for name in shipped if re.fullmatch(made, name)]
