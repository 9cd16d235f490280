"""The paper's figure of the training dynamics: objective and accuracy as they go."""

import itertools
from types import SimpleNamespace

import numpy as np

import gwfast

from ..plot import plot_dynamics
from ..problems.epsilon import as_epsilon
from ..utils.progress import ProgressEvent, reporting
from ..words import gold_standard
from . import published
from .alignments import NORMALIZE, read, read_pairs, recorded_warnings
from .rises import rises
from .runner import Experiment
from .show import percent, print_columns
from .store import identity

# Of a step of the history, in results.json.
_NUMBERS = ("gw_cost", "epsilon", "change", "marginal_error")
# Iterations that the table shows: each is about this many times the one before.
_GROWTH = 1.5


class Dynamics(Experiment):
    """Objective and accuracy after every outer iteration, for several epsilons.

    Of a benchmark it takes the training fold of the dictionaries: its words are the
    frequent ones, which take part in the transport.
    """

    name = "dynamics"
    title = "Training dynamics"
    paper = published.DYNAMICS

    def __init__(self, pairs, absent, folder, settings):
        self.pairs, self.absent, self.folder = pairs, absent, folder
        self.settings = settings

    def jobs(self):
        settings = dict(vars(self.settings))
        epsilons = settings.pop("epsilons")
        for (name, pair), epsilon in itertools.product(self.pairs.items(), epsilons):
            yield self.job(
                f"{name}, epsilon {epsilon}",
                trace,
                (pair, self.settings, epsilon),
                pair=name,
                files={part: identity(path) for part, path in pair.items()},
                epsilon=epsilon,
                **settings,
            )

    def collect(self, jobs, results):
        """Results by epsilon, by pair."""
        found = {name: {} for name in self.pairs}
        for job, result in zip(jobs, results, strict=True):
            steps = [
                # Of a number JSON has null.
                SimpleNamespace(
                    **{name: np.nan if one is None else one for name, one in step.items()}
                )
                for step in result["history"]
            ]
            trace = result | {"history": steps}
            found[job.key["pair"]][job.key["epsilon"]] = trace
        return found

    def show(self, found, out):
        for name, traces in found.items():
            longest = max(len(trace["history"]) for trace in traces.values())
            cells = {number: {} for number in _shown(longest)}
            ends = {"stopped": {}, "at iteration": {}, "epsilon": {}, "seconds": {}}
            for epsilon, trace in traces.items():
                history = trace["history"]
                for step in history[:-1]:
                    if step.iteration in cells:
                        cells[step.iteration][epsilon] = _cell(step)
                if history:  # there was time for a first
                    cells.setdefault("last", {})[epsilon] = _cell(history[-1])
                ends["stopped"][epsilon] = trace["status"]
                ends["at iteration"][epsilon] = str(len(history))
                ends["epsilon"][epsilon] = f"{trace['epsilon']:.3g}"
                ends["seconds"][epsilon] = f"{trace['seconds']:.1f}"
            rows = [(str(row), texts) for row, texts in (cells | ends).items() if texts]
            queries, words = (traces[epsilon][part] for part in ("queries", "words"))
            dictionary = self.pairs[name]["dictionary"].name
            print_columns(
                out,
                f"{self.title} of {name}: gw_cost, and P@1 in percent, by epsilon",
                ("iteration",),
                list(traces),
                rows,
                note=(
                    f"{self.settings.n_words:,} words of each side at most, from the"
                    f" {self.settings.init} start. P@1 is of the plan, on {queries:,}"
                    f" of {words:,} words of {dictionary}, which the solver never sees."
                ),
            )
            out.print()
        out.print(f"The paper: {self.paper}")
        for line in _here(found):
            out.print(line)

    def draw(self, found, folder):
        made = []
        for name, traces in found.items():
            histories, accuracies = {}, {}
            for epsilon, trace in traces.items():
                if not trace["history"]:
                    continue
                label = f"epsilon {epsilon}"
                histories[label] = trace["history"]
                accuracies[label] = [step.accuracy for step in trace["history"]]
            if not histories:  # no solve had time for an iteration
                continue
            file = f"dynamics-{name}.png"
            plot_dynamics(histories, accuracy_history=accuracies, path=folder / file)
            made.append(file)
        return made


def _here(found):
    """Lines of prose on whether the objective falls in what was run, and if not why."""
    lines = {}  # by reason
    for name, traces in found.items():
        for epsilon, trace in traces.items():
            for rise in rises(trace["history"]):
                line = f"  {name}, epsilon {epsilon}: {rise}"
                lines.setdefault(rise.reason, []).append(line)
    if not lines:
        return ["Here: the objective, gw_cost, falls monotonically as well."]
    told = ["Here: the objective, gw_cost, does not fall throughout."]
    for reason, places in lines.items():
        told += [f"It rises in these places, as {reason}:", *places]
    return told


def _cell(step):
    return f"{step.gw_cost:.5f} {percent(step.accuracy):>5}"


def _shown(longest):
    """Numbers of iterations, dense at first."""
    made, at = [], 1.0
    while at < longest:
        made.append(round(at))
        at = max(at + 1, at * _GROWTH)
    return made


def trace(pair, settings, epsilon, *, n_threads, progress):
    """Solve, and look at the plan of every outer iteration.

    Returns a step for each iteration with its accuracy, and how the solve ended.
    """
    x, y = (read(pair[side], settings.n_words) for side in ("source", "target"))
    dictionary = read_pairs(pair["dictionary"], settings.convention)
    gold = gold_standard(dictionary, x.words, y.words, convention=settings.convention)
    if not len(gold):
        raise ValueError(
            f"{pair['dictionary']}: no pair is among the {settings.n_words:,} most"
            " frequent words of both sides"
        )
    queries, right = gold.rows, gold.targets
    accuracy = []

    def score(step):
        best = step.coupling.topk(1, queries).indices[:, 0].tolist()
        hits = sum(at in wanted for at, wanted in zip(best, right, strict=True))
        accuracy.append(hits / len(queries))
        text = f"iteration {step.iteration}, P@1 {accuracy[-1]:.1%}"
        report_progress(ProgressEvent("iteration", text, step.iteration))

    with recorded_warnings() as messages, reporting(progress) as report_progress:
        gw = gwfast.align(
            x.vectors,
            y.vectors,
            normalize=NORMALIZE,
            epsilon=as_epsilon(epsilon),
            init=settings.init,
            max_outer=settings.max_outer,
            seed=settings.seed,
            time_limit=settings.time_limit,
            n_threads=n_threads,
            callback=score,
        ).gw
    return {
        "history": [
            {
                "iteration": step.iteration,
                **{name: getattr(step, name) for name in _NUMBERS},
                "n_inner": step.n_inner,
                "accuracy": fraction,
            }
            for step, fraction in zip(gw.history, accuracy, strict=True)
        ],
        "status": gw.status,
        "epsilon": gw.epsilon,
        "queries": len(gold),
        "words": gold.n_words,
        "warnings": messages,
    }
