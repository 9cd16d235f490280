"""Modules that an import loads, public names, and Python started in a source tree."""

import re
import shutil
from pathlib import Path

import pytest
from helpers.processes import run_python

import gwfast

PACKAGE = Path(gwfast.__file__).parent
ROOT = Path(__file__).resolve().parents[1]
HEAVY = {"scipy", "threadpoolctl", "matplotlib", "sklearn", "pandas", "torch", "ot", "click"}
pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    "code, present, absent",
    [
        # OpenMP is loaded by the kernels, before others load theirs.
        ("import gwfast", "gwfast.kernels._rows", {*HEAVY, "gwfast.solvers", "gwfast.utils"}),
        (
            "import gwfast\ngwfast.gromov_wasserstein",
            "gwfast.solvers.gromov",
            {*HEAVY, "rich", "gwfast.pot", "gwfast.words", "gwfast.plot", "gwfast.cli"}
            - {"scipy", "threadpoolctl"},
        ),
        (
            "import gwfast.__main__\nmain = gwfast.__main__.main\nmain(['--help'])",
            "click",
            {"scipy", "matplotlib", "rich"},
        ),
        ("import gwfast.plot", "matplotlib", {"matplotlib.pyplot"}),
    ],
    ids=["package", "solver", "command", "plot"],
)
def test_an_import_loads_little(code, present, absent):
    if not present.startswith("gwfast"):
        pytest.importorskip(present)
    shown = run_python(code + "\nimport sys\nprint(*sys.modules, file=sys.stderr)").stderr
    modules = set(shown.split())
    assert present in modules
    assert not absent & modules


def test_public_names_are_found():
    rooms = {"distributed", "gradients", "plot", "pot", "singlecell", "spatial", "words"}
    names = {*dir(gwfast)}
    assert names >= {*rooms, "align", "GWResult", "GromovWassersteinAligner", "__version__"}
    assert names - {"plot"} == {*gwfast.__all__}
    assert all(getattr(gwfast, name) is getattr(gwfast, name) for name in names)
    with pytest.raises(AttributeError, match="aling"):
        gwfast.aling  # noqa: B018


WITHOUT_EXTRAS = """
import sys
sys.modules |= dict.fromkeys(["click", "gensim", "matplotlib", "rich", "sklearn"])
import gwfast
from gwfast import *
align, pot, words.read_embeddings, GromovWassersteinAligner
print("plot" in dir(gwfast), "words" in dir(gwfast))
for use in (lambda: gwfast.plot, lambda: GromovWassersteinAligner(n_words=3)):
    try:
        use()
    except ImportError as error:
        print(error)
"""


def test_extras_that_are_missing_are_left_out_or_named():
    names, plot, aligner = run_python(WITHOUT_EXTRAS).stdout.splitlines()
    assert names == "False True"
    assert "gwfast-ot[cli]" in plot
    assert aligner.endswith('pip install "gwfast-ot[sklearn]"')


def test_several_threads_may_ask_for_the_first_name():
    code = (
        "from concurrent.futures import ThreadPoolExecutor\nimport gwfast\n"
        "with ThreadPoolExecutor(8) as pool:\n"
        "    names = ['align', 'verify', 'GWResult', 'pot'] * 10\n"
        "    print(len(set(pool.map(lambda name: getattr(gwfast, name), names))))"
    )
    assert run_python(code).stdout == "4\n"


@pytest.fixture
def tree(tmp_path):
    """Return the sources of the package without kernels, as after a plain installation."""
    no_kernels = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(PACKAGE, tmp_path / "tree" / "gwfast", ignore=no_kernels)
    return tmp_path / "tree"


def test_a_tree_without_kernels_is_the_installed_package(tree):
    code = "import gwfast.words; print(gwfast.__file__, gwfast.words.__file__)"
    done = run_python(code, folder=tree)
    files = [PACKAGE / "__init__.py", PACKAGE / "words" / "__init__.py"]
    assert (done.stderr, done.stdout.split()) == ("", [*map(str, files)])


def test_a_tree_that_is_not_the_installed_package_says_what_to_do(tree):
    # -S: without site-packages, where gwfast may be.
    alone = run_python("import gwfast", "-S", folder=tree, check=False, PYTHONPATH=None)
    (tree / "gwfast" / "solvers" / "gromov.py").write_text("# newer\n")
    newer = run_python("import gwfast", folder=tree, check=False)
    for done in (alone, newer):
        assert done.returncode == 1 and "ImportError" in done.stderr
        assert str(tree) in done.stderr and "pip install ." in done.stderr
    assert str(PACKAGE.parent) in newer.stderr


def test_the_version_is_written_once():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.?\w+)?", gwfast.__version__)
    for name in ("pyproject.toml", "CITATION.cff", ".ci/conda/recipe.yaml"):
        text = (ROOT / name).read_text("utf-8")
        assert not re.search(rf"^\s*version *[:=] *\W?{gwfast.__version__}", text, re.M)


@pytest.mark.slow
def test_a_front_end_of_pip_leaves_nothing_behind(tree):
    pytest.importorskip("setuptools", "77")
    pytest.importorskip("Cython")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, tree)
    for name in ("csrc", "licenses"):
        shutil.copytree(ROOT / name, tree / name)
    before = sorted(tree.rglob("*"))
    (tree.parent / "metadata").mkdir()
    for hook in ("prepare_metadata_for_build_wheel('../metadata')", "build_sdist('../dist')"):
        run_python(f"from setuptools import build_meta as x; x.{hook}", folder=tree)
        assert sorted(tree.rglob("*")) == before
