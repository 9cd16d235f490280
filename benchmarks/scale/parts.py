"""What is measured: the parts, each a list of jobs (`measures`) and their sizes."""

import dataclasses

from gwfast.quadratic.linearize import TIERS

from ..common import settings
from . import tables

# As far as the matches are worth it.
LOOSE = {"epsilon": 3e-4, "tol": 1e-4, "marginal_tol": 1e-3}
# Without a stored kernel each iteration makes it anew: a few, and roughly.
ROUGH = {"tol": 1e-3, "marginal_tol": 1e-2, "max_iter": 6}
CLOUDS = {"tier": "tiled", "memory_limit": "4GB", "init": "auto", **ROUGH}
# A plan so narrow that 32 neighbors of each point hold all but a hundredth of it.
NARROW = {"tier": "neighbors", "init": "auto", **ROUGH}
NARROW |= {"epsilon": "0.25%", "max_iter": 12}
MILLION = {**NARROW, "memory_limit": "10GB"}
MILLION_DIMENSIONS = 50
# As bent tissue is matched best; and a fused problem of the same.
SLICES = {"alpha": 0.03}
TISSUE = {"memory_limit": "3GB"}
GROWTH = {"epsilon": "1.75%", "tol": 1e-3, "marginal_tol": 1e-2}
# With which low-rank plans are compared: the default, and a plan as sharp as one that
# has no entropy.
FUSED = {}, {**NARROW, "epsilon": "0.2%"}
RANKS = 50, 200
# So many iterations reach the largest size that a solve takes.
MEMORY = {"max_iter": 6, "max_inner": 20}


@dataclasses.dataclass(frozen=True)
class Part:
    """Jobs of every size, and the table that is made of their results.

    Attributes
    ----------
    jobs : callable
        ``jobs(n, options)`` yields jobs without their threads; `options` are those of
        the command.
    sizes : tuple of int
    table : callable
        ``table(results, sgemm)``, with the rate of SGEMM in GFLOP/s.
    """

    jobs: callable
    sizes: tuple
    table: callable = tables.solved

    def results(self, run, options):
        for n in options.sizes or self.sizes:
            for job in self.jobs(n, options):
                yield run({"options": {}, "threads": settings.THREADS, **job})


def words(n, options):
    problem = {"kind": "words", "n": n}
    tiled = {**LOOSE, "tol": 1e-3, "marginal_tol": 1e-2, "tier": "tiled"}
    for chosen in ({}, LOOSE, tiled):
        yield {"task": "solve", "problem": problem, "options": chosen}


def clouds(n, options):
    problem = {"kind": "clouds", "n": n}
    for chosen in (CLOUDS, {**NARROW, "memory_limit": CLOUDS["memory_limit"]}):
        yield {"task": "solve", "problem": problem, "options": chosen}


def million(n, options):
    if MILLION["tier"] not in TIERS:
        print(f"(left out: gwfast has no tier {MILLION['tier']!r})")
        return
    problem = {"kind": "clouds", "n": n, "d": MILLION_DIMENSIONS, "synthetic": True}
    yield {"task": "solve", "problem": problem, "options": MILLION}


def tissue(n, options):
    yield {"task": "slices", "problem": {"n": n}, "options": SLICES}


def growth(n, options):
    problem = {"kind": "clouds", "n": n, "synthetic": True}
    yield {"task": "solve", "problem": problem, "options": GROWTH}


def low_rank(n, options):
    problem = {"kind": "tissue", "n": n}
    for chosen in FUSED:
        chosen = {**TISSUE, **chosen}
        yield {"task": "solve", "problem": problem, "options": chosen, "judged": True}
    for rank in RANKS:
        for initializer in options.initializers:
            chosen = {"rank": rank, "initializer": initializer}
            chosen["max_iterations"] = options.iterations
            yield {"task": "ott", "problem": problem, "options": chosen}


def memory(n, options):
    for kind in ("clouds", "tissue"):
        problem = {"kind": kind, "n": n}
        for tier in TIERS:
            for init in ("product", "auto"):
                chosen = {"tier": tier, "init": init, **MEMORY}
                yield {"task": "memory", "problem": problem, "options": chosen}


PARTS = {
    "words": Part(words, (10_000, 20_000)),
    "clouds": Part(clouds, (100_000,)),
    "million": Part(million, (100_000, 300_000, 1_000_000), tables.grown),
    "tissue": Part(tissue, (5000, 20_000, 50_000), tables.matched),
    "growth": Part(growth, (1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000), tables.grown),
    "low_rank": Part(low_rank, (10_000, 50_000), tables.judged),
    "memory": Part(memory, (2000, 5000, 10_000, 20_000), tables.memory),
}
