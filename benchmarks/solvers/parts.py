"""What is measured: the parts of the report, each a function that yields results."""

import os

from ..common import settings
from .contenders import CONTENDERS, DEFAULT, REFERENCE

WORDS = {"kind": "words", "pair": "es-en", "n": settings.WORDS, "epsilon": 1e-3}
LARGE = {"kind": "words", "pair": "es-fr", "n": settings.LARGE, "epsilon": 3e-4}
GRAPHS = (
    {"kind": "graph", "pair": "es-en", "n": settings.WORDS // 2},
    {"kind": "hops", "cells": "scGEM", "k": 10},
)
ALL = [name for name in CONTENDERS if name != DEFAULT]
# Those that are worth their time on thousands of points.
FAST = [REFERENCE, "gwfast loose", "POT 100", "OTT-JAX tight", "TorchGW"]
GROWING = [REFERENCE, "POT 100", "POT defaults", "OTT-JAX tight", "TorchGW"]
# Outer iterations after which a solver that exceeded the limit is stopped, to say how
# long one takes.
FEW = 2
# Points of a graph from which a solve is not repeated.
FEW_ROUNDS = 3000
# Parts that take long, and are made where they are named.
LONG = ("large_graphs",)


class Runner:
    """Runs jobs for the parts.

    Parameters
    ----------
    run : callable
        ``run(job, limit=None)`` returns its result, see `jobs.run`.
    without : sequence of str
        What names of contenders to leave out begin with.
    """

    def __init__(self, run, without=()):
        self.run, self._without = run, tuple(without)

    def wanted(self, names):
        return [n for n in names if n == REFERENCE or not n.startswith(self._without)]

    def solve(self, problem, name, threads=settings.THREADS, rounds=None, **options):
        """The result of a contender; of one that exceeds the limit also what a few
        outer iterations take.
        """
        job = {"task": "solve", "problem": problem, "contender": name}
        job |= {"threads": threads, "options": options}
        job |= {"rounds": rounds or CONTENDERS[name].rounds}
        result = self.run(job)
        if "exceeded" in result and not result["runs"]:
            few = {**options, "max_iter": FEW}
            short = self.run({**job, "options": few, "rounds": 1})
            if short["runs"]:
                result["few"] = short["runs"][0]
        return result

    def compare(self, problem, names, rounds=None):
        """Results of all of them, or of the first only, if that could not even load the problem."""
        for name in self.wanted(names):
            result = self.solve(problem, name, rounds=rounds)
            yield result
            if name == REFERENCE and "name" not in result:
                return


def words(runner):
    return runner.compare(WORDS, [REFERENCE, DEFAULT, *ALL[1:]])


def large(runner):
    return runner.compare(LARGE, FAST)


def graphs(runner):
    for problem in GRAPHS:
        yield from runner.compare(problem, ALL)


def growth(runner):
    """Each contender up to the largest size that it can do within the limit."""
    for name in runner.wanted(GROWING):
        options = {"tier": "dense"} if name == REFERENCE else {}
        if CONTENDERS[name].seeded:
            options["rounds"] = 1  # the spread over seeds is in other tables
        for n in settings.GROWTH:
            problem = {**LARGE, "n": n, "raw": False}
            result = runner.solve(problem, name, **options)
            yield result
            if not result["runs"]:
                break


def large_graphs(runner):
    """Matrices of costs of ever more words; a solve of thousands is not repeated."""
    for n in settings.GRAPHS:
        problem = {"kind": "graph", "pair": LARGE["pair"], "n": n}
        yield from runner.compare(problem, FAST, None if n < FEW_ROUNDS else 1)


def threads(runner):
    """gwfast with 1, 2, 4, ... threads and with all."""
    most = os.cpu_count() or 1
    counts = {1 << k for k in range(most.bit_length())} | {most}
    for problem in (WORDS, LARGE):
        for count in sorted(counts):
            yield runner.solve(problem, REFERENCE, count)


PARTS = {
    "words": words,
    "large": large,
    "graphs": graphs,
    "growth": growth,
    "large_graphs": large_graphs,
    "threads": threads,
}
