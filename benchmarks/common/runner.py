"""The runner of every program: options, pinned threads, processes, turns and tables."""

import argparse
import importlib.metadata
import json
import os
import platform
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
# Threads of everything: gwfast, NumPy, POT, JAX, PyTorch.
THREADS = int(os.environ.get("GWFAST_BENCH_THREADS", "2"))
# Options that programs share.
OPTIONS = {
    "threads": dict(type=int, default=THREADS, help=f"of every library (default {THREADS})"),
    "rounds": dict(type=int, default=5, help="number of timed turns (default %(default)s)"),
    "sizes": dict(type=int, nargs="+", metavar="N", help="points a side, in place of the usual"),
    "only": dict(nargs="+", default=[], metavar="WORD", help="problems with all of these words"),
    "without": dict(nargs="+", default=[], metavar="SOLVER", help="leave out solvers"),
    "limit": dict(type=float, default=600, help="seconds of a measurement (default %(default)s)"),
    "json": dict(type=Path, metavar="FILE", help="keep results there, and go on from them"),
}


def parse(program, doc, parts, *names, argv=None, **defaults):
    """Return the options of a program: its parts, then these of `OPTIONS` and the threads."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {program.removesuffix('.__main__')}",
        description=doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    listed = ", ".join(parts)
    if parts:
        parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {listed}; default: all")
    for name in ("threads", *names):
        parser.add_argument(f"--{name}", **OPTIONS[name])
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.set_defaults(**defaults)
    options = parser.parse_intermixed_args(argv)
    options.parts = getattr(options, "parts", None) or list(parts)
    for part in options.parts:
        if part not in parts:
            parser.error(f"PART must be one of {listed}, got {part}")
    if options.threads < 1:
        parser.error(f"--threads must be at least 1, got {options.threads}")
    options.program, options.argv = program, sys.argv[1:] if argv is None else list(argv)
    return options


# --- Processes ------------------------------------------------------------------------


def environment(threads):
    """Return environment variables that pin the threads of every library.

    OpenMP and BLAS read them when they are loaded; XLA obeys NPROC alone.
    """
    names = "OMP", "OPENBLAS", "MKL", "VECLIB_MAXIMUM", "NUMEXPR"
    pinned = {f"{name}_NUM_THREADS": str(threads) for name in names}
    pinned |= {"NPROC": str(threads), "GWFAST_BENCH_THREADS": str(threads), "JAX_PLATFORMS": "cpu"}
    pinned["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={str(threads > 1).lower()}"
    return {**os.environ, **pinned}


def command(module, *arguments):
    """Return the command that runs a module as ``python -m`` does, with this folder last on the
    path: an installed gwfast is measured, not sources without compiled kernels.
    """
    start = (
        f"import runpy, sys; path = [*filter(None, sys.path)]; root = {str(ROOT)!r};"
        f" sys.path = [root, *path]; import {__package__}; sys.path = [*path, root];"
        f" runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    )
    return [sys.executable, "-c", start, *map(str, arguments)]


def make_tables(options, tables, packages=()):
    """Make each table in a process of its own, ``tables[name](options)``, and print what it was
    measured on below the last. A table whose data or packages are missing is left out.
    """
    if options.serve:
        warnings.simplefilter("ignore")
        try:
            tables[options.serve](options)
        except (FileNotFoundError, ImportError) as error:
            print(f"({options.serve} left out: {reason(error)})")
        return
    for name in options.parts:
        call = command(options.program, *options.argv, "--serve", name)
        if subprocess.run(call, env=environment(options.threads), check=False).returncode:
            sys.exit(f"{name} failed, see above")
    print(facts(packages, options.threads))


def ask(program, job, threads=THREADS, limit=None):
    """Return what a program says of a job, in a process of its own with pinned threads.

    The result is the job with all that `serve` told; its ``runs`` are a list, ``failed`` is why
    it did not come to its end, ``exceeded`` its limit of seconds.
    """
    label = " ".join(str(x) for x in (job.get("solver", ""), *job.get("problem", {}).values()))
    print(f"{job['task']} {label} ...", file=sys.stderr, flush=True)
    call = command(program, "--serve", json.dumps(job))
    result, code = {**job, "runs": []}, None
    try:
        done = subprocess.run(
            call, stdout=subprocess.PIPE, env=environment(threads), timeout=limit, check=False
        )
        said, code = done.stdout, done.returncode
    except subprocess.TimeoutExpired as error:
        said, result["exceeded"] = error.stdout or b"", limit
    for line in said.rpartition(b"\n")[0].splitlines():
        message = json.loads(line)
        if "run" in message:
            result["runs"].append(message.pop("run"))
        result.update(message)
    if code:
        killed = "killed, most likely for want of memory"
        result.setdefault("failed", killed if code == -9 else f"exit status {code}")
    return result


def measured(job, options, **more):
    """Return what `ask` does, from the file of kept results if it has the job."""
    known = kept(options.json, [])
    found = next((result for result in known if job.items() <= result.items()), None)
    if found is None:
        found = ask(options.program, {**job, **more}, options.threads, options.limit)
        keep(options.json, [*known, found])
    return found


def outcome(result):
    """Return why a measurement has no numbers."""
    if "exceeded" in result:
        return f"> {result['exceeded']:g} s"
    return result.get("failed", "?").replace("|", "/")


def serve(tasks, job):
    """Do a job, ``tasks[job["task"]](job, tell)``, and print what it tells as lines of JSON."""
    job, stream = json.loads(job), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print

    def tell(**message):
        print(json.dumps(message), file=stream, flush=True)

    if hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
        # A solver that wants more shall see a MemoryError.
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(
            resource.RLIMIT_DATA, (free, resource.getrlimit(resource.RLIMIT_DATA)[1])
        )
    warnings.simplefilter("ignore")
    try:
        tasks[job["task"]](job, tell)
        tell(done=True)
    except Exception as error:
        tell(failed=reason(error))


def reason(error):
    """Return why something could not be measured, in a few words."""
    if isinstance(error, ModuleNotFoundError):
        return f"not installed: {error.name}"
    if isinstance(error, FileNotFoundError):
        return f"no data: {error.filename or error}"
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}".removesuffix(": ")


def kept(path, default):
    """Return what is in a JSON file, or the default if there is none."""
    return json.loads(path.read_text()) if path and path.exists() else default


def keep(path, data):
    """Write a JSON file, if there is a path."""
    if path:
        written = path.with_name(path.name + ".new")
        written.write_text(json.dumps(data))
        written.replace(path)


# --- Turns ----------------------------------------------------------------------------


def in_turns(functions, rounds=5, budget=60.0):
    """Return the seconds of each call by function, and what the last calls returned.

    The first turn, which may load or compile something, does not count if there is another. There
    are no more turns once all calls have taken `budget` seconds; turns that take less than half a
    second go on.
    """
    seconds, spent = [[] for _ in functions], 0.0
    while not spent or (spent < budget and len(seconds[0]) <= rounds) or spent < 0.5:
        results = []
        for function, taken in zip(functions, seconds, strict=True):
            began = time.perf_counter()
            results.append(function())
            taken.append(time.perf_counter() - began)
            spent += taken[-1]
            if taken[-1] > 0.02:
                # Threads of BLAS go on looking for work for as long.
                time.sleep(0.1)
    if len(seconds[0]) > 1:
        seconds = [taken[1:] for taken in seconds]
    return seconds, results


def shown(seconds, factor=1.0):
    """Return the median and the minimum as text."""
    return f"{factor * median(seconds):.3g} [{factor * min(seconds):.3g}]"


def ratio(seconds, others):
    """Return the ratio of two medians as text."""
    return f"{median(seconds) / median(others):.2f}"


# --- Tables ---------------------------------------------------------------------------


def show(title, heads, rows):
    """Print a Markdown table under its title; columns but the first align to the right."""
    rule = [":--"] + ["--:"] * (len(heads) - 1)
    lines = (" | ".join(map(str, row)) for row in (heads, rule, *rows))
    text = "\n".join(f"| {line} |" for line in lines)
    print(f"\n**{title}**\n\n{text}\n", flush=True)


def facts(packages, threads):
    """Return commit, processor, versions, threads, settings of BLAS and load as text."""
    said = [f"commit {commit()}", processor(), f"{threads} threads"]
    said.append(f"Python {platform.python_version()}")
    for name in ("numpy", "scipy", *packages):
        try:
            said.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            said.append(f"{name} not installed")
    for name, value in os.environ.items():
        if name.startswith(("OPENBLAS_", "MKL_", "BLIS_")) and not name.endswith("_NUM_THREADS"):
            said.append(f"{name}={value}")
    return f"{'; '.join(said)}; load {os.getloadavg()[0]:.1f}; {time.strftime('%Y-%m-%d')}."


def commit():
    call = ["git", "-C", ROOT, "describe", "--always", "--dirty"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def processor():
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
