"""How far plans are apart where POT converges, and what comes where it fails."""

import collections
import warnings

import numpy as np

from ..common.markdown import show
from .calls import OURS
from .random_problems import attempt, difference, random_problem

N_PROBLEMS = 200
# Plans further apart than this are shown one by one.
EQUAL = 1e-5
# Kinds of problems that the differences are summed up for.
GROUPS = {
    "all": lambda problem: True,
    "square": lambda problem: problem.loss == "square_loss",
    "KL": lambda problem: problem.loss == "kl_loss",
    "fused": lambda problem: problem.linear_cost is not None,
    "asymmetric": lambda problem: not problem.is_symmetric,
}


def agreement_table(pot, ours, n=N_PROBLEMS):
    """Solve random problems by both modules."""
    apart, errors, distant, invalid = {}, [], [], []
    failures = collections.Counter()
    for seed in range(n):
        problem = random_problem(seed)
        found = attempt(problem, pot)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                plan, loss, _ = problem.solve(ours)
        except (ArithmeticError, ValueError, MemoryError) as error:
            invalid.append([seed, problem.name, found.failure, repr(error)])
            continue
        if found.failure:
            failures[found.failure] += 1
            errors.append(problem.marginal_error(plan))
        if not problem.is_valid(plan, loss):
            wrong = f"marginal error {problem.marginal_error(plan):.1e}, loss {loss:g}"
            invalid.append([seed, problem.name, found.failure, wrong])
        if found.failure:
            continue
        apart[seed] = difference(found.plan, plan)
        if not apart[seed] <= EQUAL:
            row = [seed, problem.name, f"{apart[seed]:.1e}"]
            distant.append([*row, *objectives(problem, pot, found, plan, loss)])
    print(f"POT converges on {len(apart)} of {n} problems. Of the others it says:")
    for reason, count in failures.most_common():
        print(f"- {count} times: {reason}")
    show_apart(apart, distant)
    if errors:
        some = [f"{value:.1e}" for value in np.quantile(errors, (0.5, 0.9, 1.0))]
        print(f"Where it fails, marginal errors of {OURS}: {', '.join(some)} (median,")
        print("90 %, largest).")
    heads = ["seed", "problem", "POT", "ours"]
    show(f"{len(invalid)} have no valid plan with a finite loss", heads, invalid)


def objectives(problem, pot, found, plan, loss):
    """Cells with both objectives, and how far POT gets from our plan: nowhere, if it is
    another optimum."""
    values = problem.objective(found.plan, found.loss), problem.objective(plan, loss)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        moved = difference(plan, problem.solve(pot, G0=plan)[0])
    cells = [f"{value:.10g}" for value in values]
    return [*cells, f"{values[1] - values[0]:.1e}", f"{moved:.1e}"]


def show_apart(apart, distant):
    """Tables of the differences by seed, and of the large ones."""
    rows = []
    for name, belongs in GROUPS.items():
        some = [apart[seed] for seed in apart if belongs(random_problem(seed))]
        quantiles = np.quantile(some, (0.5, 0.9, 0.99, 1.0))
        rows.append([name, len(some), *(f"{value:.1e}" for value in quantiles)])
    heads = ["problems", "converged", "median", "90 %", "99 %", "largest"]
    show("relative L1 difference of the plans, where POT converges", heads, rows)
    heads = ["seed", "problem", "difference", "objective, POT", OURS, "ours - POT's"]
    heads += ["POT moves ours by"]
    show(f"{len(distant)} differ by more than {EQUAL:g}", heads, distant)
