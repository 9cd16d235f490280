"""Measurements in processes of their own: their peak of memory is their own, and what
goes wrong in one, or takes too long, stays there.
"""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time

from . import settings
from .processes import command

# Seconds for all that is not solving, such as loading and evaluating.
PATIENCE = 3600


def run(worker, job, limit):
    """Have a worker do it.

    Parameters
    ----------
    worker : str
        A module that calls `worker.work`.
    job : dict
        Its ``task`` is one of the worker's; ``threads`` is what every library gets.
    limit : float
        Seconds for each run of a solver.

    Returns
    -------
    dict
        The job, what the worker has told, its runs as a list, and, where it did not
        come to its end, ``failed``, the reason, or ``exceeded``, the limit.
    """
    job = {**job, "limit": limit}
    result = {**job, "runs": []}
    environment = {**os.environ, **settings.environment(job["threads"])}
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command(worker, json.dumps(job)), stdout=subprocess.PIPE, stderr=errors, env=environment
        )
        try:
            _listen(process, result, limit)
        finally:
            process.kill()
            process.wait()
        if not result.keys() & {"done", "failed", "exceeded"}:
            errors.seek(0)
            result["failed"] = _reason(process.returncode, errors.read())
    return result


def _listen(process, result, limit):
    """Take in what is told, until the end or the limit."""
    lines = queue.Queue()

    def read():
        for line in process.stdout:
            lines.put(line)
        process.wait()
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    seconds = PATIENCE
    while True:
        try:
            line = lines.get(timeout=seconds)
        except queue.Empty:
            result["exceeded"] = seconds
            return
        if line is None:
            return
        message = json.loads(line)
        if "solving" in message:
            seconds = limit if message.pop("solving") else PATIENCE
        if "run" in message:
            result["runs"].append(message.pop("run"))
        result.update(message)


def _reason(code, errors):
    """Why a process ended without a word."""
    lines = errors.decode(errors="replace").strip().splitlines()
    last = lines[-1].strip() if lines else ""
    if code == -9:
        return "killed, most likely for want of memory"
    if code < 0:
        return f"signal {-code}: {last}".removesuffix(": ")
    return last or f"exit status {code}"


def telling(worker, default):
    """A function ``run(job, limit=None)`` that tells how it goes on the standard error;
    a job without a limit of its own has the `default`.
    """

    def told(job, limit=None):
        problem = " ".join(str(x) for x in job.get("problem", {}).values())
        label = f"{job.get('contender', job['task'])} ({problem})"
        print(f"{label} ...", end=" ", file=sys.stderr, flush=True)
        began = time.monotonic()
        result = run(worker, job, limit or default)
        outcome = result.get("failed") or (
            f"more than {result['exceeded']:g} s" if "exceeded" in result else "done"
        )
        took = time.monotonic() - began
        print(f"{outcome}, {took:.0f} s in all", file=sys.stderr)
        return result

    return told
