"""Build of the compiled extensions; everything else is in pyproject.toml.

Environment variables:

GWFAST_REQUIRE_OPENMP=1  fail where OpenMP is missing instead of building without it
GWFAST_NO_OPENMP=1       build without OpenMP
GWFAST_DEBUG=1           bounds checks in the loops, for developers

Where CFLAGS has no ``-g``, nothing for debuggers is kept. What pip calls leaves nothing
here; ``python setup.py build_ext --inplace`` keeps ``build/`` for the next time.

A program with OpenMP is compiled, linked and run before the build. It is linked only if the
build is for another machine: if PYTHON_CROSSENV is set (by crossenv, and so by conda-forge),
or the machine that ``CC -dumpmachine`` names, or the platform that the build is for
(_PYTHON_HOST_PLATFORM, or ``build_ext --plat-name``), is not the one that Python runs on.
"""

import glob
import itertools
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, LinkError

PROBE = r"""
#include <omp.h>
#include <stdio.h>
int main(void) {
    int threads = 0;
    #pragma omp parallel num_threads(2) reduction(+ : threads)
    threads += 1;
    printf("%d", threads);
    return 0;
}
"""

WITHOUT_OPENMP = """
**************************************************************************
* gwfast is being built WITHOUT OpenMP: every kernel will run on ONE core.
* {reason}
* On macOS install libomp and set CFLAGS and LDFLAGS to find it; elsewhere
* use a compiler with OpenMP. GWFAST_REQUIRE_OPENMP=1 makes this an error.
**************************************************************************
"""


def enabled(name):
    return os.environ.get(name, "0") not in ("", "0")


def openmp_flags(compiler):
    """Compile and link flags, by the kind of compiler."""
    if compiler.compiler_type == "msvc":
        return ["/openmp:experimental"], []
    if sys.platform == "darwin":
        return ["-Xpreprocessor", "-fopenmp"], ["-lomp"]
    return ["-fopenmp"], ["-fopenmp"]


# Names of machines at Windows and macOS, and of the same machines at Linux.
MACHINES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64"}


def is_cross(compiler, plat_name):
    """Return whether the build is for another machine than the machine that Python runs on."""
    if os.environ.get("PYTHON_CROSSENV"):  # there platform.machine() is the other one
        return True
    targets = [re.split(r"[-.]", plat_name)[-1]]
    if compiler.compiler_type != "msvc":
        command = itertools.takewhile(lambda word: word[0] != "-", compiler.compiler_so)
        try:
            answer = subprocess.run(
                [*command, "-dumpmachine"], capture_output=True, text=True, check=True
            ).stdout
            targets.append(answer.partition("-")[0])
        except (OSError, subprocess.SubprocessError):
            pass  # not GCC or Clang
    here, *others = (MACHINES.get(x.lower(), x.lower()) for x in (platform.machine(), *targets))
    return any(machine not in (here, "universal2") for machine in others)


def openmp_problem(compiler, compile_flags, link_flags, runs):
    """Return None if a program with OpenMP compiles, links and, if it ``runs`` here, counts its
    threads; else the reason.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text(PROBE)
        try:
            objects = compiler.compile(
                [str(source)], output_dir=folder, extra_postargs=compile_flags
            )
            compiler.link_executable(objects, str(Path(folder, "probe")), extra_postargs=link_flags)
        except (CompileError, LinkError) as error:
            return f"A test program did not compile and link: {error}"
        if not runs:
            return None
        program = next(p for p in Path(folder).glob("probe*") if p.suffix in ("", ".exe"))
        try:
            answer = subprocess.run(
                [program], capture_output=True, text=True, timeout=60, check=True
            ).stdout
        except (OSError, subprocess.SubprocessError) as error:
            return f"A test program did not run: {error}"
        if not answer.isdigit() or int(answer) < 1:
            return f"A test program printed {answer!r} instead of its threads."
    return None


class BuildExt(build_ext):
    """Writes the C of the modules beside their objects, adds the flags that depend on
    the compiler, and compiles modules side by side.
    """

    def finalize_options(self):
        super().finalize_options()
        if self.parallel is None:
            self.parallel = os.cpu_count()

    def build_extensions(self):
        made = cythonize(
            self.extensions,
            build_dir=os.path.join(self.build_temp, "cython"),
            compiler_directives=directives,
            shared_utility_qualified_name=SHARED,
        )
        for extension, in_c in zip(self.extensions, made, strict=True):
            extension.sources, extension.depends = in_c.sources, in_c.depends
        compile_flags, link_flags = openmp_flags(self.compiler)
        if enabled("GWFAST_NO_OPENMP"):
            reason = "GWFAST_NO_OPENMP is set."
        else:
            runs = not is_cross(self.compiler, self.plat_name)
            reason = openmp_problem(self.compiler, compile_flags, link_flags, runs)
        if reason is not None:
            if enabled("GWFAST_REQUIRE_OPENMP"):
                raise CompileError(f"GWFAST_REQUIRE_OPENMP is set. {reason}")
            print(WITHOUT_OPENMP.format(reason=reason), file=sys.stderr, flush=True)
            compile_flags, link_flags = [], []
        if self.compiler.compiler_type == "msvc":
            arithmetic = ["/O2", "/std:c11"]
        else:
            # errno and trapping floating point keep the compiler from vectorizing
            # selects and calls; neither is used. This is as far as it goes towards
            # -ffast-math, which breaks exp and enables flush-to-zero.
            arithmetic = ["-std=gnu11", "-O3", "-fno-math-errno", "-fno-trapping-math"]
            arithmetic += ["-fopenmp-simd", "-Wall", "-Wextra", "-Wno-unused-function"]
            if not ("-g" in os.environ.get("CFLAGS", "").split() or checked):
                # What Python was built with asks for it: two thirds of a wheel.
                arithmetic.append("-g0")
                if sys.platform != "darwin":  # whose linker has no such thing
                    link_flags = [*link_flags, "-s"]
        for extension in self.extensions:
            extension.extra_compile_args = arithmetic + compile_flags
            extension.extra_link_args = link_flags
        super().build_extensions()


def description(folder):
    """README.md as PyPI shows it, where relative links are dead: they lead to this version in
    the ``Repository`` of [project.urls], or name the page, without pictures, if there is none.
    """
    text, project, version = (
        Path(folder, name).read_text("utf-8")
        for name in ("README.md", "pyproject.toml", "gwfast/_version.py")
    )
    repository = re.search(r'^Repository = "(.+?)/?"', project, re.M)
    version = re.search('"(.+)"', version)[1]

    def link(found):
        is_picture, words, target = found.groups()
        if repository is None:
            return "" if is_picture else words if words == target else f"{words} (`{target}`)"
        kind = "raw" if is_picture else "blob"
        return f"{is_picture}[{words}]({repository[1]}/{kind}/v{version}/{target})"

    return re.sub(r"(!?)\[([^]]*)\]\((?!https?:|#)([^)]+)\)", link, text)


checked = enabled("GWFAST_DEBUG")
directives = {
    "language_level": 3,
    "boundscheck": checked,
    "initializedcheck": checked,
    "wraparound": False,
    "cdivision": True,
    "embedsignature": True,
    # What the modules change after their import belongs to one object, one thread or
    # one call, but for the instruction set, a pointer.
    "freethreading_compatible": True,
}

# Where Cython puts what its modules have in common, its memoryviews above all: a third
# of their size.
SHARED = "gwfast.kernels._cython"

sources = {
    "_rows": ["csrc/dispatch.c"],
    "_exponentials": [],
    "_kernels": [],
    "_costs": [],
    "_judge": [],
    "_descent": [],
    "_products": [],
    "_sparse": [],
    "_transport": ["csrc/network_simplex.c"],
    "_frank_wolfe": [],
    "_exact_pairs": [],
}
modules = {f"gwfast.kernels.{name}": more for name, more in sources.items()}
modules["gwfast.words.files._text"] = []
extensions = [
    Extension(
        module,
        [f"{module.replace('.', '/')}.pyx", *more],
        include_dirs=["csrc", np.get_include()],
        depends=sorted(glob.glob("csrc/*")),
    )
    for module, more in modules.items()
]
extensions.append(Extension(SHARED, [f"{SHARED.replace('.', '/')}.c"]))


# What pip and build call: their wheel is of the sources and nothing else, such as what
# another version has left in build/lib, and they leave nothing here.
FRONTENDS = {"bdist_wheel", "dist_info", "editable_wheel", "egg_info", "sdist"}


def main():
    found = set(glob.glob("*.egg-info"))
    with tempfile.TemporaryDirectory() as scratch:
        called = not FRONTENDS.isdisjoint(sys.argv)
        setup(
            ext_modules=extensions,
            cmdclass={"build_ext": BuildExt},
            options={"build": {"build_base": scratch}} if called else {},
            long_description=description(Path(__file__).parent),
            long_description_content_type="text/markdown",
        )
        for folder in set(glob.glob("*.egg-info")) - found if called else ():
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
