"""Builds of the kernels that find what a usual build does not, each with all their tests.

A test copies the tree to a temporary folder, builds the extensions as its row of `BUILDS` says, and
runs all tests of tests/kernels and tests/linear there in one process; a finding of a sanitizer is a
failure. These variables change it: CC names another compiler, GWFAST_TEST_INTERPRETER a command
that runs the tests, GWFAST_TEST_ARGUMENTS more arguments of pytest.
"""

import os
import subprocess
import sys
from pathlib import Path
from shutil import copytree, ignore_patterns, which
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.heavy
ROOT = Path(__file__).resolve().parents[2]
PYTEST = "-m pytest -m '' -n 0 -q --no-header -p no:cacheprovider"
# Setup.py adds no flags for OpenMP: the program with which it probes would not link or run.
OWN_OPENMP = "-fopenmp -g"
# Show at once what a sanitizer prints: a process that it ends prints no more.
SHOWN = "--capture=sys"
# Warnings of code that Cython writes; .ci/run compiles csrc without these exceptions.
CLANGS = "-Wno-error=unused-parameter -Wno-error=unused-but-set-variable"
OF_CYTHON = f"{CLANGS} -Wno-error=maybe-uninitialized"


class Build(NamedTuple):
    """A way to build, and to run what was built."""

    text: str
    compiler: str = "cc"
    flags: str = ""  # to compile and to link
    build: str = ""  # shell commands before the build
    run: str = ""  # shell commands before the tests
    arguments: str = ""  # of pytest


BUILDS = {
    "address": Build(
        "AddressSanitizer and UndefinedBehaviorSanitizer of GCC.",
        "gcc",
        f"-fsanitize=address,undefined -fno-sanitize-recover=all {OWN_OPENMP}",
        run="""
            export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1
            export UBSAN_OPTIONS=print_stacktrace=1 PYTHONMALLOC=malloc GWFAST_TEST_NOT_VECTORIZED=1
            ubsan=$($CC -print-file-name=libubsan.so)
            export LD_PRELOAD="$($CC -print-file-name=libasan.so) $ubsan"
        """,
        arguments=SHOWN,
    ),
    "threads": Build(
        # LLVM's OpenMP tells it (by Archer) what barriers order; GCC's does not.
        "ThreadSanitizer with Clang and LLVM's OpenMP.",
        "clang",
        f"-fsanitize=thread {OWN_OPENMP}",
        # GCC's is the same runtime; Clang 14's may start after libstdc++, which it intercepts.
        run="""
            export TSAN_OPTIONS=ignore_noninstrumented_modules=1 GWFAST_TEST_NOT_VECTORIZED=1
            export OMP_TOOL_LIBRARIES="$(realpath -e $($CC -print-resource-dir)/../../libarcher.so)"
            export LD_PRELOAD="$(gcc -print-file-name=libtsan.so)"
        """,
        # It follows no fork, and takes more address space than limits of processes allow.
        arguments=f"-m 'not process' -k 'not beyond_two_to_the_31' {SHOWN}",
    ),
    "debug": Build("Bounds checks in the loops.", build="export GWFAST_DEBUG=1"),
    "warnings": Build("Every warning of -Wall -Wextra is an error.", flags=f"-Werror {OF_CYTHON}"),
    "clang": Build(
        "Clang, with LLVM's OpenMP; its warnings are errors.",
        "clang",
        # It warns of sums and maxima that it does not vectorize.
        f"-Werror -Wno-error=pass-failed {CLANGS}",
    ),
    "isas": Build("Each instruction set of this processor, forced from outside."),
    "wide": Build(
        "The kernels for AVX-512, compiled for AVX2, on any processor with AVX2.",
        build=r"""
            test "$(grep -c '[",]avx512' csrc/dispatch.c)" = 3
            sed -Ei 's/"avx2,fma,avx512.*" GWF_WHOLE_VECTORS/"avx2,fma"/' csrc/dispatch.c
            sed -Ei 's/"avx512\w+"/"avx2"/g' csrc/dispatch.c
            test "$(grep -c '[",]avx512' csrc/dispatch.c)" = 0
        """,
        run="export GWFAST_TEST_NOT_VECTORIZED=1",
    ),
    "arm64": Build(
        "Cross-compiled, with Debian's packages for arm64 unpacked in ROOT and wheels in WHEELS: "
        "GWFAST_TEST_INTERPRETER='env PYTHONPATH=WHEELS qemu-aarch64 -L ROOT ROOT/usr/bin/python3'",
        "aarch64-linux-gnu-gcc",
        OWN_OPENMP,
        'export LDSHARED="$CC -shared" SETUPTOOLS_EXT_SUFFIX=.so',
        arguments="-m 'not process'",
    ),
}


@pytest.mark.parametrize("kind", BUILDS)
def test_kernels_pass_their_tests(kind, tmp_path):
    build = BUILDS[kind]
    interpreter = os.environ.get("GWFAST_TEST_INTERPRETER")
    if kind == "arm64" and interpreter is None:
        pytest.skip("GWFAST_TEST_INTERPRETER does not name a Python for arm64")
    # The other pytest is no worker of xdist, even if this process is.
    variables = {name: x for name, x in os.environ.items() if not name.startswith("PYTEST_")}
    variables.setdefault("CC", build.compiler)
    if which(variables["CC"].split()[0]) is None:
        pytest.skip(f"{variables['CC']} is not installed")
    if build.flags:
        variables |= {"CFLAGS": build.flags, "LDFLAGS": build.flags}
    if OWN_OPENMP in build.flags:
        variables["GWFAST_NO_OPENMP"] = "1"
    tests = f"{interpreter or sys.executable} {PYTEST} {build.arguments} tests/kernels tests/linear"
    rounds = [f"{tests} {os.environ.get('GWFAST_TEST_ARGUMENTS', '')}"]
    if kind == "isas":
        from gwfast.kernels import _rows  # which the other builds do not need

        isas = _rows.supported_isas()
        others = {isa: " and ".join(f"not {x}" for x in isas if x != isa) for isa in isas}
        rounds = [f"GWFAST_ISA={isa} {rounds[0]} -k '{others[isa]}'" for isa in isas]
    setup = f"{sys.executable} setup.py -q build_ext --inplace"
    script = "\n".join(["set -ex", build.build, setup, build.run, *rounds])
    ignored = ignore_patterns(".git", ".venv", "build", "*.so")
    copytree(ROOT, tmp_path / "gwfast", ignore=ignored)
    subprocess.run(["bash", "-c", script], cwd=tmp_path / "gwfast", env=variables, check=True)
