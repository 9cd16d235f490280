"""Running an experiment: a list of jobs, what is kept of them, and how it is shown."""

import contextlib
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from .._version import __version__
from ..kernels.threads import resolve_n_threads
from ..utils.atomic_files import check_folder
from ..utils.config import versions
from ..utils.parallel import in_parallel
from ..utils.progress import ProgressEvent, ProgressListener, console, log, reporting_on_terminal
from .data import MUSE
from .store import Store, as_json, plain, write_json

RESULTS = "results.json"
JOBS = "jobs"


@dataclass(frozen=True)
class Job:
    """What can be computed, kept and computed again by itself.

    `function` is of a module, and called with `n_threads` and `progress` after its arguments.
    """

    label: str
    key: dict[str, Any]  # all that the result depends on, in JSON's types
    function: Callable[..., dict[str, Any]]
    arguments: tuple[Any, ...]


class Experiment(ABC):
    """A list of jobs, and how to show what they give."""

    name: str  # as a command
    title: str
    needs = "the files of one direction"  # to run
    layout = MUSE
    paper: Any  # what it printed
    settings: SimpleNamespace
    folder: Path | None  # where files were looked for
    absent: Any  # names of files that are missing, by what needs them

    @abstractmethod
    def jobs(self) -> Iterable[Job]:
        """What files are there says which."""

    def job(self, label, function, arguments, **key):
        key = {"experiment": self.name, "gwfast": __version__, **key}
        return Job(label, key, function, arguments)

    def missing(self) -> list[str]:
        """Lines of prose on what is not run as files are missing, and where to get
        them; empty where nothing is."""
        return self.layout.describe_absent(self.folder, self.absent)

    @abstractmethod
    def collect(self, jobs: list[Job], results: list[dict[str, Any]]) -> Any:
        """What jobs and their results amount to: what the methods below are given."""

    @abstractmethod
    def show(self, found: Any, out: Console) -> None:
        """Print tables to a console."""

    def draw(self, found: Any, folder: Path) -> list[str]:
        """Write pictures; returns the names of their files."""
        return []

    def summary(self, found: Any) -> dict[str, Any]:
        """What goes into ``results.json`` beside the jobs."""
        return {"settings": vars(self.settings), "missing": self.absent, "paper": self.paper}


def _check(options):
    """Refuse folders that cannot be written or hold something else."""
    for option, folder in (("--output", options.output), ("--state", options.state)):
        if folder is not None:
            check_folder(folder, option)
    folder = options.output
    if folder is not None and folder.is_dir() and not options.force:
        ours = (folder / RESULTS).exists() or (folder / JOBS).exists()
        if any(folder.iterdir()) and not ours:
            raise ValueError(
                f"--output must be empty, or of an earlier run, without --force, got {folder}"
            )


def run(experiment: Experiment, options: SimpleNamespace) -> None:
    """Do the jobs that have not been done, show all results, and write them.

    `options` are those of the command that are the same for all experiments.
    """
    _check(options)
    out, err = console(), console(stderr=True)
    jobs, missing = list(experiment.jobs()), experiment.missing()
    if not jobs:
        for line in missing:
            err.print(line, soft_wrap=True)
        raise ValueError(f"{experiment.name} must have {experiment.needs} to run on, got too few")
    store = Store(options.state)
    if options.state is None and options.output is not None:
        store = Store(options.output / JOBS)
    for folder in (options.output, store.folder):
        if folder is not None:
            folder.mkdir(exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass  # better now than after an hour
    results = _results(jobs, store, options, err)
    for job, result in zip(jobs, results, strict=True):
        for warning in result.get("warnings", ()):
            err.print(f"gwfast: warning: {job.label}: {warning}", soft_wrap=True)
    found = experiment.collect(jobs, results)
    content = plain({
        "experiment": experiment.name,
        "versions": versions(),
        **experiment.summary(found),
        "jobs": [
            {"label": job.label, "key": job.key, "result": result}
            for job, result in zip(jobs, results, strict=True)
        ],
    })  # fmt: skip
    if not options.as_json:
        experiment.show(found, out)
        if missing:
            out.print("", *missing, sep="\n")
    if options.output is not None:
        pictures = experiment.draw(found, options.output)
        write_json(options.output / RESULTS, content)
        if not options.as_json:
            written = ", ".join([RESULTS, *pictures])
            out.print(f"\nwritten to {options.output}: {written}", soft_wrap=True)
    if options.as_json:
        print(as_json(content))


def _results(jobs, store, options, err):
    """Of every job, as it was kept, or made now and kept."""
    results = [None if options.again else store.get(job.key) for job in jobs]
    pending = [number for number, result in enumerate(results) if result is None]
    total, done = len(jobs), len(jobs) - len(pending)
    if not options.quiet and done:
        err.print(f"{done} of {total} jobs were done before: {store.folder}")
    try:
        with reporting_on_terminal(_line, total, quiet=options.quiet) as report_progress:
            for number, result in _make(jobs, pending, options, report_progress):
                store.put(jobs[number].key, result)
                results[number] = result
                done += 1
                text = f"{jobs[number].label} ({result['seconds']:.1f} s)"
                log.info("%s of %s jobs done: %s", done, total, text)
                report_progress(ProgressEvent("finished", text, done, done, total))
    except KeyboardInterrupt:
        if store.folder is not None:
            err.print(
                f"{done} of {total} jobs are kept in {store.folder}: the same"
                " command goes on from there"
            )
        raise
    return results


def _line(event):
    finished = event.stage == "finished"
    return f"{event.done} of {event.total}: {event.text}" if finished else None


def _make(jobs, pending, options, report_progress):
    """Numbers and results of jobs, as they end."""
    if options.n_jobs == 1:
        for done, number in enumerate(pending, start=len(jobs) - len(pending)):
            job = jobs[number]
            log.info("job begins: %s", job.label)
            begun = ProgressEvent("job", job.label, done + 1, done, len(jobs))
            report_progress(begun)

            def report(event, begun=begun):
                text = f"{begun.text}: {event.text}"
                report_progress(begun._replace(text=text))

            yield number, _timed(job, options.n_threads, ProgressListener(report))
        return
    # Jobs side by side share the cores.
    n_threads = options.n_threads
    if n_threads is None:
        n_threads = max(1, resolve_n_threads() // options.n_jobs)
    calls = [(jobs[number], n_threads) for number in pending]
    for place, result in in_parallel(_timed, calls, options.n_jobs):
        yield pending[place], result


def _timed(job, n_threads, progress=False):
    began = time.perf_counter()
    try:
        result = job.function(*job.arguments, n_threads=n_threads, progress=progress)
    except (ValueError, MemoryError) as error:
        # The message alone would not say which of many.
        with contextlib.suppress(TypeError):
            error = type(error)(f"{job.label}: {error}")
        raise error from None
    return plain(result | {"seconds": time.perf_counter() - began})
