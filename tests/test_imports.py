"""What an import takes in, public names, and Python started in a source tree."""

import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.processes import environment, run_python

import gwfast
from gwfast import _api

PACKAGE = Path(gwfast.__file__).parent
ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.process

# --- What an import takes in ----------------------------------------------------------


def imported(code):
    """Names of modules and packages that `code` imports in a new process."""
    show = "\nimport sys\nprint(*sys.modules, file=sys.stderr)"
    return set(run_python(code + show).stderr.split())


def test_gwfast_alone_imports_neither_scipy_nor_its_own_rooms():
    modules = imported("import gwfast")
    assert "gwfast.kernels._rows" in modules  # so that OpenMP is loaded by us
    assert not {"scipy", "threadpoolctl", "matplotlib", "sklearn", "click"} & modules
    own = {name.partition(".")[2] for name in modules if name.startswith("gwfast.")}
    rooms = {name.partition(".")[0] for name in own}
    assert rooms == {"_source_tree", "_version", "kernels"}


def test_a_solver_imports_no_room_above_it():
    modules = imported("import gwfast\ngwfast.gromov_wasserstein")
    others = {"matplotlib", "pandas", "sklearn", "ot", "torch", "rich", "click"}
    assert not others & modules
    assert not {f"gwfast.{name}" for name in ("pot", "words", "plot", "cli")} & modules


def test_the_list_of_commands_needs_nothing_to_solve_with():
    pytest.importorskip("click")
    asked = "main = gwfast.__main__.main; main(['--help']); main(['--version'])"
    modules = imported(f"import gwfast.__main__\n{asked}")
    assert not {"scipy", "matplotlib", "rich"} & modules


# --- Public names ---------------------------------------------------------------------


def test_dir_is_the_public_names():
    names = dir(gwfast)
    assert {"align", "GWResult", "pot", "words", "plot", "__version__"} <= set(names)
    rooms = {"distributed", "gradients", "plot", "pot", "singlecell", "spatial"}
    rooms |= {"words"}
    more = {"GromovWassersteinAligner", "__version__", *rooms}
    assert set(names) == {*_api.__all__, *more}
    for name in names:
        assert getattr(gwfast, name) is getattr(gwfast, name)


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="'gwfast' has no attribute 'aling'"):
        gwfast.aling  # noqa: B018
    assert not hasattr(gwfast, "__wrapped__")


def test_stars_and_dir_leave_out_pictures_where_nothing_draws_them():
    assert set(gwfast.__all__) == set(dir(gwfast)) - {"plot"}
    code = (
        "import sys\nsys.modules['matplotlib'] = None\nimport gwfast\n"
        "from gwfast import *\nalign, pot, words, GromovWassersteinAligner\n"
        "print('plot' in dir(gwfast), 'words' in dir(gwfast))"
    )
    assert run_python(code).stdout == "False True\n"


def test_the_first_name_may_be_asked_for_by_several_threads():
    code = (
        "from concurrent.futures import ThreadPoolExecutor\nimport gwfast\n"
        "with ThreadPoolExecutor(8) as pool:\n"
        "    names = ['align', 'verify', 'GWResult', 'pot'] * 10\n"
        "    print(len(set(pool.map(lambda name: getattr(gwfast, name), names))))"
    )
    assert run_python(code).stdout == "4\n"


# --- In a source tree -----------------------------------------------------------------


@pytest.fixture
def tree(tmp_path):
    """The sources of the package and no kernels, as after a plain installation."""
    no_kernels = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(PACKAGE, tmp_path / "tree" / "gwfast", ignore=no_kernels)
    return tmp_path / "tree"


def start(tree, *arguments, **changes):
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment(**changes),
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_tree_without_kernels_is_the_installed_package(tree):
    show = "import gwfast, gwfast.words; print(gwfast.__file__, gwfast.words.__file__)"
    sample = "print(len(gwfast.words.load_sample()[0]))"
    done = start(tree, "-c", f"{show}; {sample}")
    assert done.stderr == ""
    files = [PACKAGE / "__init__.py", PACKAGE / "words" / "__init__.py"]
    assert done.stdout.split() == [*map(str, files), "2500"]
    pytest.importorskip("click")
    done = start(tree, "-m", "gwfast", "--version")
    assert done.stdout == f"gwfast, version {gwfast.__version__}\n"


def test_pytest_works_in_a_tree_without_kernels(tree):
    tested = "import gwfast\ndef test_it():\n    assert gwfast.cosine_similarity([[1]])"
    (tree / "test_it.py").write_text(tested)
    bare = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # loading plugins takes seconds
    done = start(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", **bare)
    assert "1 passed" in done.stdout


def last_line(done):
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


def test_a_tree_of_another_version_says_what_to_do(tree):
    (tree / "gwfast" / "solvers" / "gromov.py").write_text("# newer\n")
    line = last_line(start(tree, "-c", "import gwfast"))
    assert line.startswith("ImportError: ")
    assert f"in {tree}, of another version" in line
    assert f"installed in {PACKAGE.parent}: leave that folder" in line
    assert "`pip install .`" in line


def test_a_tree_that_is_not_installed_says_what_to_do(tree):
    # -S: without site-packages, where gwfast may be.
    done = start(tree, "-S", "-c", "import gwfast", PYTHONPATH=None)
    line = last_line(done)
    assert f"the gwfast in {tree} has no kernels compiled for Python" in line
    assert "`pip install .`" in line and "`pip install -e .`" in line


# --- What is installed ----------------------------------------------------------------


def test_the_version_is_said_once():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.?\w+)?", gwfast.__version__)
    for name in ("pyproject.toml", "CITATION.cff", ".ci/conda/meta.yaml"):
        text = (ROOT / name).read_text("utf-8")
        assert not re.search(rf"^\s*version *[:=] *\W?{gwfast.__version__}", text, re.M)


def test_what_a_front_end_asks_leaves_nothing_behind(tree):
    pytest.importorskip("setuptools", "77")
    pytest.importorskip("Cython")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, tree)
    shutil.copytree(ROOT / "csrc", tree / "csrc")
    before = sorted(tree.rglob("*"))
    (tree.parent / "metadata").mkdir()
    for hook in (
        "get_requires_for_build_wheel()",
        "prepare_metadata_for_build_wheel('../metadata')",
        "build_sdist('../dist')",
    ):
        done = start(tree, "-c", f"from setuptools import build_meta as x; x.{hook}")
        assert done.returncode == 0, done.stderr
        assert sorted(tree.rglob("*")) == before


@pytest.mark.parametrize("room", [gwfast, gwfast.pot, gwfast.words, gwfast.singlecell])
def test_signatures_can_be_read(room):
    """`help` has the names of types rather than what they are unions of."""
    for name in dir(room):
        thing = getattr(room, name)
        try:
            text = str(inspect.signature(thing))
        except (TypeError, ValueError):
            continue
        assert "_NestedSequence" not in text, name
