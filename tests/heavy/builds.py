"""Builds of the kernels that find what a usual build does not, each with all their tests.

`python tests/heavy/builds.py KIND [ARGUMENT OF PYTEST ...]` copies the tree to a temporary folder,
builds the extensions as KIND says, and runs all tests of tests/kernels and tests/linear there in
one process. It exits with the status of the tests; a finding of a sanitizer is a failure. The
environment variable CC names another compiler.
"""

import argparse
import dataclasses
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from mutations import copy_of

ROOT = Path(__file__).resolve().parents[2]
TESTS = ["tests/kernels", "tests/linear"]
COMMON = ["-m", "", "-n", "0", "-q", "--no-header", "-p", "no:cacheprovider"]
# Use OpenMP although the program with which setup.py probes for it would not link or run.
NO_PROBE, OWN_OPENMP = {"GWFAST_NO_OPENMP": "1"}, ("-fopenmp", "-g")
# Show at once what a sanitizer prints: a process that it ends prints no more.
SHOWN = "--capture=sys"
# Warnings of code that Cython writes; .ci/run compiles csrc without these exceptions.
CYTHONS = "unused-parameter unused-but-set-variable maybe-uninitialized".split()
CLANGS = tuple(f"-Wno-error={name}" for name in CYTHONS[:2])
OF_CYTHON = tuple(f"-Wno-error={name}" for name in CYTHONS)


@dataclasses.dataclass(frozen=True)
class Build:
    """A way to build, and to run what was built.

    In values of `build` and `run`, ``{name}`` stands for the compiler's path of a library, and
    ``{gcc name}`` for GCC's path.
    """

    text: str
    compiler: str = "cc"
    flags: tuple[str, ...] = ()  # to compile and to link
    build: dict[str, str] = dataclasses.field(default_factory=dict)  # environment variables
    run: dict[str, str] = dataclasses.field(default_factory=dict)  # environment variables
    change: Callable[[Path], None] | None = None  # of the copied sources
    arguments: tuple[str, ...] = ()  # of pytest
    forces_isas: bool = False  # run once for each instruction set


def narrow_avx512(folder):
    """Compile the kernels for AVX-512 to AVX2, and let any processor with AVX2 run them."""
    path = folder / "csrc" / "dispatch.c"
    text = path.read_text()
    target = r'"avx2,fma,avx512[^"]*" GWF_WHOLE_VECTORS'
    text, n_targets = re.subn(target, '"avx2,fma"', text)
    asked = r'__builtin_cpu_supports\("avx512\w+"\)'
    text, n_asked = re.subn(asked, '__builtin_cpu_supports("avx2")', text)
    if (n_targets, n_asked) != (1, 4):
        raise SystemExit("csrc/dispatch.c no longer has what is to be changed")
    path.write_text(text)


BUILDS = {
    "address": Build(
        "AddressSanitizer and UndefinedBehaviorSanitizer of GCC.",
        "gcc",
        ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", *OWN_OPENMP),
        NO_PROBE,
        run={
            "LD_PRELOAD": "{libasan.so} {libubsan.so}",
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
            "UBSAN_OPTIONS": "print_stacktrace=1",
            "PYTHONMALLOC": "malloc",
            "GWFAST_TEST_NOT_VECTORIZED": "1",
        },
        arguments=(SHOWN,),
    ),
    "threads": Build(
        # LLVM's OpenMP tells it (by Archer) what barriers order; GCC's does not.
        "ThreadSanitizer with Clang and LLVM's OpenMP.",
        "clang",
        ("-fsanitize=thread", *OWN_OPENMP),
        NO_PROBE,
        run={
            # GCC's is the same runtime; Clang 14's may start after libstdc++, which it intercepts.
            "LD_PRELOAD": "{gcc libtsan.so}",
            "OMP_TOOL_LIBRARIES": "{libarcher.so}",
            "TSAN_OPTIONS": "ignore_noninstrumented_modules=1",
            "GWFAST_TEST_NOT_VECTORIZED": "1",
        },
        # It follows no fork, and takes more address space than limits of processes allow.
        arguments=("-m", "not process", "-k", "not beyond_two_to_the_31", SHOWN),
    ),
    "debug": Build("Bounds checks in the loops.", build={"GWFAST_DEBUG": "1"}),
    "warnings": Build("Every warning of -Wall -Wextra is an error.", flags=("-Werror", *OF_CYTHON)),
    "clang": Build(
        "Clang, with LLVM's OpenMP; its warnings are errors.",
        "clang",
        # It warns of sums and maxima that it does not vectorize.
        ("-Werror", "-Wno-error=pass-failed", *CLANGS),
    ),
    "isas": Build("Each instruction set of this processor, forced from outside.", forces_isas=True),
    "wide": Build(
        "The kernels for AVX-512, compiled for AVX2.",
        change=narrow_avx512,
        run={"GWFAST_TEST_NOT_VECTORIZED": "1"},
    ),
    "arm64": Build(
        "Cross-compiled, with Debian's packages for arm64 unpacked in ROOT and wheels in WHEELS: "
        "--interpreter 'env PYTHONPATH=WHEELS qemu-aarch64 -L ROOT ROOT/usr/bin/python3'.",
        "aarch64-linux-gnu-gcc",
        OWN_OPENMP,
        NO_PROBE | {"LDSHARED": "{CC} -shared", "SETUPTOOLS_EXT_SUFFIX": ".so"},
        arguments=("-m", "not process"),
    ),
}


def run(command, folder, **changes):
    """Return the exit status of a command in a folder."""
    shown = [*(f"{name}={shlex.quote(x)}" for name, x in changes.items()), *command]
    print("+", *shown, flush=True)
    return subprocess.run(command, cwd=folder, env=os.environ | changes).returncode


def library(compiler, name):
    """Return where a compiler has a library: where it links from, or LLVM's beside Clang's."""

    def said(*options):
        command = [*compiler, *options]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        return Path(found.stdout.strip())

    linked, own = said(f"--print-file-name={name}"), said("-print-resource-dir")
    for path in (linked, own.parents[1] / name if len(own.parents) > 1 else own):
        if path.is_absolute() and path.is_file():
            return str(path)
    raise SystemExit(f"{shlex.join(compiler)} has no {name}")


def filled(values, compiler):
    """Return values with the paths that braces stand for."""

    def look_up(match):
        if match[1] == "CC":
            return compiler
        *other, name = match[1].split()
        return library(shlex.split(compiler) if not other else other, name)

    return {name: re.sub(r"\{(.+?)\}", look_up, x) for name, x in values.items()}


def supported_isas(interpreter, folder, variables):
    code = "from gwfast.kernels import _rows; print(*_rows.supported_isas())"
    made = subprocess.run(
        [*interpreter, "-c", code], cwd=folder, env=os.environ | variables,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return made.stdout.split()


def check(given, arguments, folder):
    """Build in a folder and test; return the exit status."""
    build, interpreter = BUILDS[given.kind], shlex.split(given.interpreter)
    compiler, flags = os.environ.get("CC", build.compiler), " ".join(build.flags)
    began = time.perf_counter()
    copy_of(ROOT, folder)
    if build.change:
        build.change(folder)
    variables = {"CC": compiler, **filled(build.build, compiler)}
    if flags:
        variables |= {"CFLAGS": flags, "LDFLAGS": flags}
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    if run(command, folder, **variables):
        return 1
    built, variables = time.perf_counter(), filled(build.run, compiler)
    command = [*interpreter, "-m", "pytest", *COMMON, *build.arguments, *TESTS]
    rounds = [([], {})]
    if build.forces_isas:
        isas = supported_isas(interpreter, folder, variables)
        rounds = [
            (["-k", " and ".join(f"not {x}" for x in isas if x != isa)], {"GWFAST_ISA": isa})
            for isa in isas
        ]
    codes = [
        run([*command, *chosen, *arguments], folder, **variables, **forced)
        for chosen, forced in rounds
    ]
    ended = time.perf_counter()
    print(
        f"{given.kind}: {'failed' if any(codes) else 'passed'}; built in "
        f"{built - began:.0f} s, tests {ended - built:.0f} s"
    )
    return max(codes)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.partition("\n")[0],
        epilog="; ".join(f"{name}: {one.text}" for name, one in BUILDS.items()),
    )
    parser.add_argument("kind", choices=BUILDS)
    parser.add_argument("--interpreter", default=sys.executable, help="command that runs the tests")
    given, arguments = parser.parse_known_args()
    with tempfile.TemporaryDirectory(prefix=f"gwfast-{given.kind}-") as folder:
        return check(given, arguments, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
