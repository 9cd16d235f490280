"""Builds of the kernels that find what a usual one does not, each with all their tests.

    python tests/heavy/builds.py KIND [ARGUMENT OF PYTEST ...]

copies the tree (what git tracks, and new files that it does not ignore) to a temporary folder,
builds the extensions there as KIND says, and runs the tests of tests/kernels and tests/linear,
slow ones too, in one process; arguments such as ``-k NAME`` choose some of them. It exits with the
status of the tests; a finding of a sanitizer is a failure. The tests run in the interpreter that
it is called with, which needs their packages; the tree stays as it is. CC says another compiler.
"""

import argparse
import dataclasses
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ["tests/kernels", "tests/linear"]
COMMON = ["-m", "", "-n", "0", "-q", "--no-header", "-p", "no:cacheprovider"]
# Where the program that setup.py probes OpenMP with would not link or run: OpenMP all the same.
NO_PROBE, OWN_OPENMP = {"GWFAST_NO_OPENMP": "1"}, ("-fopenmp", "-g")
# What a sanitizer says is not kept from the terminal, and lost with the process.
SHOWN = "--capture=sys"
# What compilers do not like of what Cython writes; .ci/run compiles csrc without these.
CYTHONS = "unused-parameter unused-but-set-variable maybe-uninitialized".split()
CLANGS = tuple(f"-Wno-error={name}" for name in CYTHONS[:2])
OF_CYTHON = tuple(f"-Wno-error={name}" for name in CYTHONS)


@dataclasses.dataclass(frozen=True)
class Build:
    """A way to build, and to run what was built."""

    text: str  # What it shows.
    compiler: str = "cc"  # Unless CC says another.
    flags: tuple[str, ...] = ()  # More of them, to compile and to link.
    # Environment of either. Of a value ``{name}`` is where the compiler has the library
    # of that name, ``{gcc name}`` where GCC has it.
    build: dict[str, str] = dataclasses.field(default_factory=dict)
    run: dict[str, str] = dataclasses.field(default_factory=dict)
    change: Callable[[Path], None] | None = None  # Of the sources, copied to a folder.
    arguments: tuple[str, ...] = ()  # Of pytest.
    # Once for each instruction set of the processor, forced from outside.
    forces_isas: bool = False


def narrow_avx512(folder):
    """Let the kernels for AVX-512 be compiled for AVX2, their vectors of 64 bytes in
    two halves, and take any processor with that for one that has them.
    """
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
        "AddressSanitizer and UndefinedBehaviorSanitizer of GCC: reads and writes "
        "outside of buffers, and what C leaves undefined.",
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
        "ThreadSanitizer with Clang and LLVM's OpenMP, which tells it (by Archer) what "
        "its barriers order; GCC's does not, and every loop would be a finding.",
        "clang",
        ("-fsanitize=thread", *OWN_OPENMP),
        NO_PROBE,
        run={
            # GCC's is the same runtime. That of Clang 14 may be started after
            # libstdc++, which calls what it intercepts: no program starts then.
            "LD_PRELOAD": "{gcc libtsan.so}",
            "OMP_TOOL_LIBRARIES": "{libarcher.so}",
            "TSAN_OPTIONS": "ignore_noninstrumented_modules=1",
            "GWFAST_TEST_NOT_VECTORIZED": "1",
        },
        # It does not follow a fork of several threads, takes more address space than
        # any limit, and has all that is untouched of 8.7 GB, four times, in memory.
        arguments=("-m", "not process", "-k", "not beyond_two_to_the_31", SHOWN),
    ),
    "debug": Build("Bounds checks in the loops.", build={"GWFAST_DEBUG": "1"}),
    "warnings": Build("Every warning of -Wall -Wextra is an error.", flags=("-Werror", *OF_CYTHON)),
    "clang": Build(
        "Clang, with LLVM's OpenMP; its warnings are errors.",
        "clang",
        # Of sums and maxima that it leaves to one lane, and says so.
        ("-Werror", "-Wno-error=pass-failed", *CLANGS),
    ),
    "isas": Build("Each instruction set of this processor, forced from outside.", forces_isas=True),
    "wide": Build(
        "The kernels for AVX-512, compiled for AVX2: right for a processor that lacks "
        "it in all but the instructions themselves.",
        change=narrow_avx512,
        run={"GWFAST_TEST_NOT_VECTORIZED": "1"},  # not in all 16 lanes
    ),
    "arm64": Build(
        "A cross compiler's, for the interpreter of --interpreter, such as one of that "
        "machine in QEMU; without tests that start others. With Debian's packages for "
        "arm64 unpacked in ROOT and wheels for it in WHEELS: --interpreter 'env "
        "PYTHONPATH=WHEELS qemu-aarch64 -L ROOT ROOT/usr/bin/python3'.",
        "aarch64-linux-gnu-gcc",
        OWN_OPENMP,
        NO_PROBE | {"LDSHARED": "{CC} -shared", "SETUPTOOLS_EXT_SUFFIX": ".so"},
        arguments=("-m", "not process"),
    ),
}


def run(command, folder, **changes):
    """The exit status of a command in a folder, shown."""
    shown = [*(f"{name}={shlex.quote(x)}" for name, x in changes.items()), *command]
    print("+", *shown, flush=True)
    return subprocess.run(command, cwd=folder, env=os.environ | changes).returncode


def copy_tree(folder):
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout
    for name in filter(None, names.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def library(compiler, name):
    """Where a compiler has a library: where it links from, or LLVM's beside Clang's."""

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
    """Values with what stands in braces looked up."""

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
    """Build in a folder and test; the exit status."""
    build, interpreter = BUILDS[given.kind], shlex.split(given.interpreter)
    compiler, flags = os.environ.get("CC", build.compiler), " ".join(build.flags)
    began = time.perf_counter()
    copy_tree(folder)
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
    parser.add_argument(
        "--folder", type=Path, help="to build in and keep, in place of a temporary one"
    )
    given, arguments = parser.parse_known_args()
    if given.folder:
        return check(given, arguments, given.folder)
    with tempfile.TemporaryDirectory(prefix=f"gwfast-{given.kind}-") as folder:
        return check(given, arguments, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
