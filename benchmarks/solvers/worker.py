"""One measurement, in a process of its own, whose argument is the job as JSON.

What is found out goes to the standard output, a JSON object a line, as soon as it is
known; the process that began this one keeps the time (`jobs.run`).
"""

import contextlib
import gc
import importlib
import json
import os
import resource
import sys
import time

import threadpoolctl

from gwfast.utils import memory

from ..common import machine
from ..common.footprint import Footprint
from ..common.processes import let_threads_sleep
from . import contenders, problems, tiled

# Seconds after which a solver is not run once more.
BUDGET = 60


def main():
    tell = _messages()
    job = json.loads(sys.argv[1])
    free = memory.free_memory()
    if free is not None:
        # A solver that wants more shall see a MemoryError, not what the system does to
        # processes when there is none left.
        most = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (int(free), most))
    contenders.quiet()
    try:
        with threadpoolctl.threadpool_limits(job["threads"]):
            TASKS[job["task"]](job, tell)
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


def solve(job, tell):
    """Run a contender on a problem."""
    contender = contenders.CONTENDERS[job["contender"]]
    options = contender.options | job.get("options", {})
    tell(settings=contenders.settings(options))
    try:
        for module in contender.imports:
            importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != contender.imports[0]:
            raise
        return tell(failed="not installed")
    problem = problems.make(**job["problem"])
    tell(name=problem.name, accuracy=problem.accuracy, load=os.getloadavg()[0])
    rounds, spent = job["rounds"], 0.0
    budget = job["limit"] if contender.seeded else BUDGET
    footprint = Footprint()
    with _solving(tell):
        run = contender.solver(problem, job["threads"], **options)
    for k in range(-contender.warmups, rounds):
        with _solving(tell):
            began = time.perf_counter()
            plan, n_outer = run(max(k, 0))
            seconds = time.perf_counter() - began
        if k == -contender.warmups or footprint.forgets:
            footprint.look()
        if k >= 0:
            spent += seconds
            tell(run={"seconds": seconds, "outer": n_outer} | problem.evaluate(plan))
        tell(peak=footprint.above, process=footprint.process)
        del plan
        gc.collect()
        let_threads_sleep()
        if spent > budget:
            break
        footprint.begin()


@contextlib.contextmanager
def _solving(tell):
    """Have the time inside counted against the limit."""
    tell(solving=True)
    yield
    tell(solving=False)


TASKS = {
    "solve": solve,
    "tiled": lambda job, tell: tiled.measure(job, tell, _solving),
    "machine": lambda job, tell: tell(machine=machine.describe(job["threads"])),
}


if __name__ == "__main__":
    main()
