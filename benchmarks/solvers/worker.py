"""One solver on one problem, in a process of its own."""

import gc
import importlib
import os
import time

from ..common.footprint import Footprint
from ..common.processes import let_threads_sleep
from ..common.worker import solving, work
from . import contenders, problems

# Seconds after which a solver is not run once more.
BUDGET = 60


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
    with solving(tell):
        run = contender.solver(problem, job["threads"], **options)
    for k in range(-contender.warmups, rounds):
        with solving(tell):
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


if __name__ == "__main__":
    work({"solve": solve})
