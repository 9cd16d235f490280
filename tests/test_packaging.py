"""The build, the description at PyPI, the conda recipe and the workflows of the package."""

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = (ROOT / "pyproject.toml").read_text("utf-8")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
# The lines of CONTRIBUTING.md ("Once there is a repository"), filled in.
FILLED_IN = {
    "pyproject.toml": (
        "[project.urls]\n",
        "[project.urls]\n"
        + "".join(
            f'{name} = "https://example.org/gwfast"\n'
            for name in ("Repository", "Documentation", "Issues", "Changelog")
        ),
    ),
    "CITATION.cff": ("license: MIT\n", 'repository-code: "https://example.org/gwfast"\n'),
    "SECURITY.md": ("repository.", "repository (<https://example.org/gwfast/security>)."),
    ".ci/conda/recipe.yaml": (
        "about:\n",
        "extra:\n  recipe-maintainers:\n    - someone\nabout:\n  homepage: https://example.org\n",
    ),
}


@pytest.fixture(scope="module")
def setup():
    """Return the names in setup.py."""
    pytest.importorskip("setuptools", "77")
    pytest.importorskip("Cython")
    return runpy.run_path(str(ROOT / "setup.py"))


@pytest.fixture
def described(tmp_path):
    """Return a folder with the files that describe the project."""
    for name in (*FILLED_IN, "README.md", "gwfast/_version.py", ".ci/places"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def fill_in(folder):
    for name, (old, new) in FILLED_IN.items():
        text = (folder / name).read_text("utf-8")
        assert text.count(old) == 1, name
        (folder / name).write_text(text.replace(old, new), "utf-8")


@pytest.mark.parametrize("has_repository", [False, True])
def test_the_readme_at_pypi_has_no_dead_link(setup, described, has_repository):
    markdown = pytest.importorskip("readme_renderer.markdown")
    if has_repository:
        fill_in(described)
    page = markdown.render(setup["description"](described))
    links = re.findall(r'(?:href|src)="([^"#][^"]*)"', page)
    assert all(link.startswith("https://") for link in links)
    of_files = [link for link in links if link.startswith("https://example.org/gwfast/")]
    if not has_repository:
        assert links and "<img" not in page
        return
    assert of_files and "<img" in page
    for link in of_files:
        kind, file = re.fullmatch(
            r"https://example.org/gwfast/(\w+)/v[^/]+/([^#]+).*", link
        ).groups()
        assert (ROOT / file).is_file() and kind == ("raw" if file.endswith(".png") else "blob")


def test_a_release_needs_the_places_of_the_project(described):
    command = [sys.executable, described / ".ci" / "places"]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode == 1
    contributing = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = contributing.partition("Once there is a repository")[2].partition("\n## ")[0]
    for name in FILLED_IN:
        assert name in refused.stdout and f"`{name}`" in section
    fill_in(described)
    subprocess.run(command, check=True)
    assert subprocess.run([ROOT / ".ci" / "places"], capture_output=True).returncode == 1
    for name in FILLED_IN:
        assert not re.search("OWNER|PLACEHOLDER", (ROOT / name).read_text("utf-8"))


@pytest.mark.parametrize("machine, plat_name, variables, expected", [
    ("x86_64", "linux-x86_64", {}, False),
    ("aarch64", "linux-x86_64", {}, True),
    ("x86_64", "linux-aarch64", {}, True),
    ("x86_64", "macosx-11.0-arm64", {}, True),
    ("x86_64", "macosx-10.13-universal2", {}, False),
    ("x86_64", "linux-x86_64", {"PYTHON_CROSSENV": "1"}, True),
    ("", "linux-x86_64", {}, False),  # a compiler that does not know -dumpmachine
])  # fmt: skip
@pytest.mark.skipif(sys.platform == "win32", reason="a compiler that is a shell script")
def test_setup_knows_builds_for_other_machines(
    setup, tmp_path, monkeypatch, machine, plat_name, variables, expected
):
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.delenv("PYTHON_CROSSENV", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    cc = tmp_path / "cc"
    cc.write_text(
        f'#!/bin/sh\ntest "$*" = -dumpmachine -a "{machine}" && echo {machine}-linux-gnu\n'
    )
    cc.chmod(0o755)
    compiler = FakeCompiler()
    compiler.compiler_so = [str(cc), "-O2"]
    assert setup["is_cross"](compiler, plat_name) == expected


class FakeCompiler:
    """A compiler that compiles and links nothing that would run."""

    compiler_type = "unix"

    def compile(self, sources, **_):
        return sources

    def link_executable(self, objects, target, **_):
        Path(target).write_text("")


def test_the_openmp_probe_is_linked_but_not_run_for_another_machine(setup):
    problem = setup["openmp_problem"]
    assert problem(FakeCompiler(), [], [], runs=False) is None
    assert "did not run" in problem(FakeCompiler(), [], [], runs=True)


@pytest.mark.parametrize("build, target", [
    ("linux-64", "linux-64"),
    ("linux-64", "linux-aarch64"),
    ("osx-64", "osx-arm64"),
    ("win-64", "win-64"),
])  # fmt: skip
def test_the_conda_recipe_renders(build, target):
    rattler_build = pytest.importorskip("rattler_build")
    recipe = rattler_build.Stage0Recipe.from_file(ROOT / ".ci" / "conda" / "recipe.yaml")
    platform = rattler_build.PlatformConfig(
        build_platform=build, host_platform=target, target_platform=target, experimental=True
    )
    variants = {"python": ["3.13.* *_cp313"], "c_stdlib": ["c"], "c_stdlib_version": ["1"]}
    rendered = recipe.render(
        rattler_build.VariantConfig(variants), rattler_build.RenderConfig(platform)
    )
    assert len(rendered) == 1
    facts = rendered[0].recipe.to_dict()
    names = {
        part: {str(need).split()[0] for need in needs}
        for part, needs in facts["requirements"].items()
    }
    cross = {f"cross-python_{target}", "python", "cython", "numpy"}
    assert cross & names["build"] == (cross if build != target else set())
    required = re.search(r"^dependencies = \[(.*)\]", PROJECT, re.M)[1]
    required = {re.match(r"\w+", need)[0] for need in re.findall('"(.+?)"', required)}
    assert names["run"] == {"python", *required}
    assert names["run_constraints"] == {"gwfast"}
    version = (ROOT / "gwfast" / "_version.py").read_text("utf-8").split('"')[1]
    assert facts["package"] == {"name": "gwfast-ot", "version": version}


@pytest.mark.skipif(not WORKFLOWS, reason="no workflows are there")
def test_actions_are_pinned_and_workflows_call_what_is_there():
    yaml = pytest.importorskip("yaml")
    for path in WORKFLOWS:
        text = path.read_text("utf-8")
        for line in re.findall(r"uses: (.*)", text):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line
        for job in yaml.safe_load(text)["jobs"].values():
            assert "runs-on" in job and job["steps"]
        for file in re.findall(r"(?<![\w./])(?:tests|\.ci)/[\w./]+", text):
            assert (ROOT / file).exists(), file


def test_versions_of_linters_are_the_same_everywhere():
    yaml = pytest.importorskip("yaml")
    pinned = {*re.findall(r'"([\w-]+==[\d.]+)"', PROJECT)}
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"][0][
        "hooks"
    ]
    used = {need for hook in hooks for need in hook["additional_dependencies"] if "==" in need}
    assert used == pinned and len(pinned) == 4


def test_wheels_carry_the_licences_of_the_runtimes_in_them():
    [line] = re.findall(r"^license-files = \[(.*)\]", PROJECT, re.M)
    patterns = re.findall('"(.+?)"', line)
    files = [path.relative_to(ROOT).as_posix() for x in patterns for path in ROOT.glob(x)]
    assert sorted(files) == [
        "LICENSE",
        *(f"licenses/{x}.txt" for x in ("libgomp", "libomp", "vcomp")),
    ]


def test_problems_that_asv_watches_are_in_the_list(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")  # as asv does
    from watch import speed

    problems = speed.problems
    assert {*speed.LISTED} <= {name for name, *_ in problems.PROBLEMS}
    assert len(speed.Solve.params) > 20
    watched = speed.Solve()
    watched.setup("graphs 0 1")
    watched.time_solve("graphs 0 1")
