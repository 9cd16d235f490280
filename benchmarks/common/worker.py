"""Measurements in a process of its own, whose argument is the job as JSON.

What is found out goes to the standard output, a JSON object a line, as soon as it is
known; the process that began this one keeps the time (`jobs.run`).
"""

import contextlib
import json
import os
import resource
import sys
import warnings

import threadpoolctl

from gwfast.utils import memory

from . import machine


def work(tasks):
    """Do the job: ``tasks[job["task"]](job, tell)``, or say what the machine is."""
    tell = _messages()
    job = json.loads(sys.argv[1])
    free = memory.free_memory()
    if free is not None:
        # A solver that wants more shall see a MemoryError, not what the system does to
        # processes when there is none left.
        most = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (int(free), most))
    # Of limits that were set to be reached, and of deprecations among dependencies.
    warnings.simplefilter("ignore")
    try:
        with threadpoolctl.threadpool_limits(job["threads"]):
            {"machine": _machine, **tasks}[job["task"]](job, tell)
        tell(done=True)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        tell(failed=f"{type(error).__name__}: {reason}".removesuffix(": "))


def _messages():
    """The function that sends; what libraries print goes to the standard error."""
    stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def tell(**message):
        print(json.dumps(message), file=stream, flush=True)

    return tell


def _machine(job, tell):
    tell(machine=machine.describe(job["threads"]))


@contextlib.contextmanager
def solving(tell):
    """Have the time inside counted against the limit."""
    tell(solving=True)
    yield
    tell(solving=False)
