"""What is measured of a problem, each in a process of its own."""

import importlib
import os
import time

import numpy as np

import gwfast
from gwfast.solvers.search.levels import needs
from gwfast.spatial import pairwise_align

from ..common import tissue
from ..common.footprint import Footprint
from ..common.processes import let_threads_sleep
from ..common.settings import solver_arguments
from ..common.worker import solving
from . import cases, judge, low_rank

# Points and outer iterations of a solve before memory is measured, after which threads
# and BLAS have what they keep.
WARM_UP = {"n": 300, "max_iter": 2}


def solve(job, tell):
    """Solve the problem, and say how fast that went and what was found; of a fused one
    that is to be ``judged`` what `judge` says of its plan, too.
    """
    case = _case(job, tell)
    footprint = Footprint()
    with solving(tell):
        began = time.perf_counter()
        result = case.solve(n_threads=job["threads"], **job["options"])
        seconds = time.perf_counter() - began
        footprint.look()
        right = float(case.right(result.match()))
    tell(seconds=seconds, form=result.coupling.form, right=right, **facts(result))
    tell(operations=case.operations, seconds_a_product=seconds_a_product(result))
    tell(levels=levels(result, seconds), **_memory(footprint))
    if job.get("judged"):
        tell(**judge.judged(judge.Whole(result.coupling), case))


def slices(job, tell):
    """`gwfast.spatial.pairwise_align` of two slices of the tissue: by its plan which spots are
    right, best matches and means, beside what is nearest by expression alone and the best rigid
    motion of the true places, above which no rigid registration can come.
    """
    first, second, truth = tissue.two_slices(**job["problem"])
    _say(job, tell, f"{len(first.spots)} x {len(second.spots)} spots")
    given = [(one.spots, one.features) for one in (first, second)]
    kind = dict(dissimilarity="euclidean", blur=2.0, n_threads=job["threads"])
    footprint = Footprint()
    with solving(tell):
        began = time.perf_counter()
        result = pairwise_align(*given, **kind, **job["options"]).gw
        seconds = time.perf_counter() - began
        footprint.look()
    moved = result.transform(second.spots)
    alone, rigid = tissue.nearest_by_expression(first, second), tissue.rigidly
    pairs = (result.match(), moved), (alone, rigid(first.spots, truth))
    shares = [tissue.shares_right(first, second, truth, *pair) for pair in pairs]
    names = "right", "right_mean", "expression", "rigid"
    tell(**dict(zip(names, np.ravel(shares).tolist(), strict=True)))
    tell(seconds=seconds, form=result.coupling.form, **facts(result))
    tell(levels=levels(result, seconds), **_memory(footprint))


def facts(result):
    """Return the facts about a result that tables show."""
    names = "gw_cost", "epsilon", "marginal_error", "n_iter", "status", "left_out"
    told = {name: getattr(result, name) for name in names}
    return told | {"n_inner": sum(step.n_inner for step in result.history)}


def seconds_a_product(result):
    """Seconds of a product of 2 n m d operations, on all points.

    A pass makes the kernel anew, which is one; taking the plan from it makes it once
    more and multiplies it by the points, which are two. What else an outer iteration
    does is in it. This holds where the kernel is not stored.
    """
    history = result.history
    return history[-1].seconds / sum(step.n_inner + 2 for step in history)


def levels(result, seconds):
    """Points a side of every level, with the seconds and the outer iterations of all
    candidates there; with 0 points what is in none of them.
    """
    made = {}
    for one in result.candidates:
        spent, outer = made.get(one.n_points, (0.0, 0))
        made[one.n_points] = spent + one.seconds, outer + one.n_iter
    if not made:
        made[max(result.coupling.shape)] = result.history[-1].seconds, result.n_iter
    made[0] = seconds - sum(spent for spent, _ in made.values()), 0
    return [[size, *spent] for size, spent in made.items()]


def memory(job, tell):
    """What a solve asks for up front, and what it takes at most beyond the problem, if
    it may have no more.
    """
    few = cases.make(**{**job["problem"], "n": WARM_UP["n"]})
    few.solve(n_threads=job["threads"], init="product", max_iter=WARM_UP["max_iter"])
    problem = _case(job, tell).problem()
    options = {"n_threads": job["threads"], **job["options"]}
    races = options.get("init", "auto") == "auto"
    asked = needs(problem, job["threads"], races=races)[options["tier"]]
    tell(asked=asked / 1e6)
    footprint = Footprint()
    with solving(tell):
        result = gwfast.gromov_wasserstein(
            problem, memory_limit=asked, **solver_arguments(**options)
        )
        footprint.look()
    tell(form=result.coupling.form, n_iter=result.n_iter, **_memory(footprint))


def ott(job, tell):
    """OTT-JAX's low-rank solver on the same."""
    try:
        importlib.import_module(low_rank.MODULE)
    except ModuleNotFoundError:
        return tell(failed="not installed")
    case = _case(job, tell)
    footprint = Footprint()
    with solving(tell):
        began = time.perf_counter()
        run = low_rank.prepared(case, **job["options"])
        tell(compiling=time.perf_counter() - began)
        let_threads_sleep()
        began = time.perf_counter()
        plan, iterations, own = run()
        seconds = time.perf_counter() - began
    footprint.look()
    tell(seconds=seconds, n_iter=iterations, own=own, **_memory(footprint))
    tell(**judge.judged(plan, case))


def _case(job, tell):
    case = cases.make(**job["problem"])
    _say(job, tell, case.name)
    return case


def _say(job, tell, name):
    shown = ", ".join(f"{name}={value}" for name, value in job["options"].items())
    tell(name=name, settings=shown or "defaults", load=os.getloadavg()[0])


def _memory(footprint):
    return {"peak": footprint.above, "process": footprint.process}
