"""Facts about this build: OpenMP, instruction sets, a twin for every kernel, and what
the source distribution holds."""

import inspect
import os
import pkgutil
import re
from importlib import import_module
from importlib.machinery import ExtensionFileLoader
from pathlib import Path

import numpy as np
import pytest
from helpers.kernel_cases import CASES, TERMS, running_terms
from helpers.processes import run_python

import gwfast
from gwfast import kernels
from gwfast.kernels import _products, _rows, _sparse, reference

ROOT = Path(__file__).resolve().parents[2]
ISAS = _rows.supported_isas()

EXTENSIONS = [
    import_module(f"{kernels.__name__}.{found.name}")
    for found in pkgutil.iter_modules(kernels.__path__)
    if isinstance(found.module_finder.find_spec(found.name).loader, ExtensionFileLoader)
]
OWN = [
    (module, name, x)
    for module in EXTENSIONS
    for name, x in vars(module).items()
    if not name.startswith("_") and getattr(x, "__module__", None) == module.__name__
]
# The functions of `_rows` are no kernels, and an array is the twin of its other types.
# The twin of a base is that of its heir. Tests of these know the definition:
UNPAIRED = {"Descent", "FrankWolfe", "Space", "ExactPairs"}
KERNELS = {
    f"sparse_{name}" if module is _sparse else name: x
    for module, name, x in OWN
    if callable(x) and not isinstance(x, type) and module is not _rows
}
TYPES = {
    name: x
    for module, name, x in OWN
    if isinstance(x, type) and name not in ("Rows", "Loop", "Kept")
}


@pytest.mark.skipif(
    os.environ.get("GWFAST_TEST_NO_OPENMP", "0") not in ("", "0"),
    reason="GWFAST_TEST_NO_OPENMP says that this build is meant to be serial",
)
def test_openmp_was_not_lost():
    assert _rows.openmp_version() > 0, (
        "gwfast was built without OpenMP; if that is meant, set GWFAST_TEST_NO_OPENMP=1"
    )


def test_there_are_kernels_to_compare_and_all_are():
    cases = {case.split("-")[0] for case in CASES}
    assert {*KERNELS} == cases
    assert {"Panels", "Product", "Gibbs", "ColumnSums"} <= {*TYPES}


@pytest.mark.parametrize("name", sorted({*KERNELS, *TYPES} - UNPAIRED))
def test_there_is_a_twin_with_the_same_arguments(name):
    """The signature of an extension type is the first line of its docstring."""
    twin = getattr(reference, name, None)
    assert twin is not None, f"gwfast/kernels/reference.py has no {name}"
    theirs = inspect.signature(twin).parameters
    if name in TYPES:
        line = re.sub(r"\[.*?\]", "", TYPES[name].__doc__.split("\n")[0])
        assert [*theirs] == re.findall(r"(\w+)(?:=[^,]*)?[,)]", line)
    else:
        ours = inspect.signature(KERNELS[name]).parameters
        assert [*theirs] == [*ours]
        assert [p.default for p in theirs.values()] == [p.default for p in ours.values()]


def test_no_twin_is_left_without_a_kernel():
    own = {
        name
        for name, x in vars(reference).items()
        if getattr(x, "__module__", None) == reference.__name__ and not name.startswith("_")
    }
    assert own | UNPAIRED == {*KERNELS, *TYPES, "flushed"}


def test_instruction_sets_end_with_the_floor_and_unknown_ones_are_refused():
    assert ISAS[-1] in ("baseline", "neon")
    assert len(set(ISAS)) == len(ISAS)
    former = _rows.current_isa()
    assert former == (os.environ.get("GWFAST_ISA") or ISAS[0])
    with pytest.raises(ValueError, match=r"must be one of .* got 'sse9'"):
        _rows.select_isa("sse9")
    assert _rows.current_isa() == former


def test_kernels_are_those_of_the_instruction_set(isa):
    """Of a vector, all bytes are packed, however few columns there are."""
    bytes_of_a_vector = {"baseline": 16, "neon": 16, "avx2": 32, "avx512": 64}
    for dtype in (np.float32, np.float64):
        panels = _products.Panels(np.ones((1, 1), dtype=dtype))
        assert panels.nbytes == bytes_of_a_vector[isa]


@pytest.mark.skipif(
    os.environ.get("GWFAST_TEST_NOT_VECTORIZED", "0") not in ("", "0"),
    reason="GWFAST_TEST_NOT_VECTORIZED says that the compiler leaves loops as they are",
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_run_in_all_lanes(dtype, isa):
    """Tolerances of other tests allow for sums that do not."""
    assert running_terms(dtype) <= TERMS


@pytest.mark.process
def test_environment_variable_forces_an_instruction_set():
    code = "from gwfast.kernels import _products, _rows; print(_rows.current_isa())"
    done = run_python(code, check=False, GWFAST_ISA=ISAS[-1])
    assert done.stdout.strip() == ISAS[-1], done.stderr
    done = run_python(code, check=False, GWFAST_ISA="avx1024")
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: GWFAST_ISA: ")
    assert "avx1024" in last and all(repr(name) in last for name in ISAS)


def test_show_config_prints_the_facts_of_a_bug_report(isa, capsys):
    gwfast.show_config()
    lines = dict(line.split("  ", 1) for line in capsys.readouterr().out.strip().splitlines())
    facts = {name.strip(): fact.strip() for name, fact in lines.items()}
    assert facts["gwfast"] == gwfast.__version__
    assert facts["instruction set"].startswith(isa)
    has_openmp = bool(_rows.openmp_version())
    assert facts["OpenMP"].startswith("yes" if has_openmp else "NO")
    assert "by default" in facts["threads"]
    assert facts["BLAS"] and facts["numpy"] and facts["scipy"]


def test_source_distribution_holds_all_sources():
    """Of files that git knows, by the rules of MANIFEST.in."""
    egg_info = pytest.importorskip("setuptools.command.egg_info")
    manifest = ROOT / "MANIFEST.in"
    if not manifest.exists():
        pytest.skip("not in a source tree")
    files = egg_info.FileList()
    # What setuptools puts in by itself wherever the extensions were built.
    generated = [path.relative_to(ROOT) for path in (ROOT / "gwfast").rglob("*.c")]
    files.extend(map(str, generated))
    former = Path.cwd()
    os.chdir(ROOT)
    try:
        for line in manifest.read_text().splitlines():
            if line.strip() and not line.startswith("#"):
                files.process_template_line(line)
    finally:
        os.chdir(former)
    shipped = {Path(name).as_posix() for name in files.files}
    patterns = {
        "csrc": ["*.[ch]", "*.inc"],
        "gwfast": ["**/*.py", "**/*.p[xy][dix]", "**/py.typed", "data/*"],
        "gwfast/cli": ["templates/*"],
        "tests": ["*.py"],
    }
    needed = {
        path.relative_to(ROOT).as_posix()
        for folder, some in patterns.items()
        for pattern in some
        for path in (ROOT / folder).glob(pattern)
    }
    assert needed - shipped == set()
    made = r".*\.(so|pyd|pyc)|gwfast/.*\.c"
    assert not [name for name in shipped if re.fullmatch(made, name)]
