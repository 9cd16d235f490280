"""Random problems of all kinds: each must end in a named error, or in a finite plan with a true
status, which `gwfast.verify` checks.
"""

import warnings

import numpy as np
from helpers.problems import settings

import gwfast

SIZES = [*range(1, 10), *(15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 500)]
WEIGHTS = np.array([1.0 / (1 + n) ** 0.9 for n in SIZES])
KINDS = "distances", "squared", "similarities", "asymmetric", "duplicates", "rank one"
KINDS += "constant", "integers", "zero but one", "huge outlier"


def cost(kind, n, rng):
    """Return a matrix of costs of order one."""
    x = rng.standard_normal((n, int(rng.integers(1, 5))))
    if kind == "duplicates":
        x = x[rng.integers(0, max(n // 3, 1), n)]
    squared, far = ((x[:, None] - x) ** 2).sum(axis=2), np.where(np.arange(n) > 0, 1.0, 1e6)
    costs = {
        "squared": lambda: squared,
        "similarities": lambda: x @ x.T,
        "asymmetric": lambda: rng.random((n, n)),
        "rank one": lambda: np.abs(np.outer(x[:, 0], x[:, 0])),
        "constant": lambda: np.full((n, n), rng.random() + 0.1),
        "integers": lambda: rng.integers(0, 4, (n, n)),
        "zero but one": lambda: np.outer(np.eye(n)[0], np.eye(n)[-1]),
        "huge outlier": lambda: np.sqrt(squared) * np.outer(far, far),
    }
    return costs.get(kind, lambda: np.sqrt(squared))()


def masses(n, rng):
    """Return None, or masses that may be zero, tiny or very uneven."""
    kind = rng.choice(["none", "uniform", "zeros", "tiny", "uneven", "denormal"])
    if kind == "none":
        return None
    weights = rng.random(n) + 0.1
    some = rng.random(n) < 0.3
    some[rng.integers(n)] = False
    if kind == "uneven":
        weights = 10.0 ** rng.uniform(-8, 0, n)
    elif kind == "denormal":
        weights[some] = 10.0 ** -rng.uniform(20, 45)
    elif kind != "uniform":
        weights[some] = {"zeros": 0.0, "tiny": 1e-12}[kind]
    return weights / weights.sum()


def sides(rng):
    """Return two costs in one unit, matrices or point clouds, and the unit."""
    sizes = rng.choice(SIZES, 2, p=WEIGHTS / WEIGHTS.sum())
    unit = 10.0 ** rng.uniform(-12, 12) if rng.random() < 0.5 else 1.0
    if rng.random() < 0.25:
        metric = rng.choice(["cosine", "sqeuclidean", "dot"])
        points = [rng.standard_normal((n, 3)) for n in sizes]
        if rng.random() < 0.3:
            points = [x[rng.integers(0, max(len(x) // 3, 1), len(x))] for x in points]
        if rng.random() < 0.2:
            points[0] += 1e3
        root = 1.0 if metric == "cosine" else np.sqrt(unit)
        return [gwfast.PointCloud(root * x, str(metric)) for x in points], root**2
    kinds = rng.choice(KINDS, 2) if rng.random() < 0.5 else [rng.choice(KINDS)] * 2
    made = [unit * cost(kind, n, rng) for kind, n in zip(kinds, sizes, strict=True)]
    if rng.random() < 0.2:
        offset = 1e6 if rng.random() < 0.5 else 1e6 * unit
        made = [x + offset for x in made]
    if rng.random() < 0.3:
        made = [x.astype(np.float32) for x in made]
    return made, unit


def case(seed):
    """Return the sides, the problem and the options of a case."""
    rng = np.random.default_rng(seed)
    (x, y), unit = sides(rng)
    is_dense = isinstance(x, np.ndarray)
    n, m = (len(z) if is_dense else z.n for z in (x, y))
    problem = dict(p=masses(n, rng), q=masses(m, rng))
    rule = str(rng.choice(["balanced", "semirelaxed", "partial"], p=[0.6, 0.2, 0.2]))
    problem["marginals"] = rule
    if rule == "semirelaxed":
        problem["q"] = None
    if rule == "partial":
        mass = float(rng.choice([1e-6, 0.01, 0.5, 0.9, 0.999999, 1.0]))
        problem["marginals"] = gwfast.Partial(mass)
    negative = is_dense and min(x.min(), y.min()) < 0
    if rng.random() < 0.25 and (not negative or rng.random() < 0.1):
        problem["loss"] = "kl"
    if rng.random() < 0.25:
        problem["linear_cost"] = unit**2 * rng.random((n, m))
        problem["alpha"] = float(rng.choice([0.0, 1e-6, 0.3, 0.5, 1.0]))
    size = float(10.0 ** rng.uniform(-8, 2))
    options = dict(
        epsilon=gwfast.Epsilon(relative=size),
        init=str(rng.choice(["product", "profile", "random", "auto"])),
        dtype=str(rng.choice(["float32", "float64"], p=[0.7, 0.3])),
        max_iter=int(rng.choice([1, 3, 30, 100])),
        max_inner=int(rng.choice([1, 30, 300])),
        tol=float(rng.choice([1e-3, 1e-5])),
        marginal_tol=float(rng.choice([1e-3, 1e-5])),
    )
    if not is_dense:
        options["dtype"] = "float32"
    if (kind := rng.random()) < 0.2:
        options["epsilon"] = size * unit**2 if kind < 0.1 else "auto"
    options["method"] = str(rng.choice(["pgd", "ppa", "bapg"], p=[0.6, 0.2, 0.2]))
    if options["method"] == "bapg" and rule != "balanced":
        options["method"] = "ppa"
    if rule == "partial":  # of slow iterations, in Python, at small epsilon
        options["max_iter"] = min(options["max_iter"], 30)
        options["max_inner"] = min(options["max_inner"], 100)
    return (x, y), problem, options


def solve(seed):
    """Return how a case ended, and a list of faults."""
    given, of_problem, options = case(seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # Random costs are of any scale.
        warnings.filterwarnings("ignore", "the .* term of the fused|the plan avoids linear_cost")
        try:
            result = gwfast.gromov_wasserstein(*given, **of_problem, **settings(**options))
        except (ValueError, MemoryError) as error:
            return f"{type(error).__name__}: {str(error).split(',')[0][:40]}", []
    wrong = [str(x.message) for x in caught if x.category is not gwfast.ConvergenceWarning]
    warned = len(caught) > len(wrong)
    if warned == (result.status == "converged"):
        wrong.append(f"warned is {warned} with status {result.status}")
    problem = gwfast.QuadraticProblem(*given, **of_problem)
    names = "gw_cost", "reg_cost", "marginal_error", "linear_cost", "left_out"
    wrong += [f"{name} is not finite" for name in names if not np.isfinite(getattr(result, name))]
    for potential, mass in zip(result.potentials, (problem.p, problem.q), strict=True):
        known = mass > 0 if result.status != "degenerate" else potential > -np.inf
        if not np.isfinite(potential[known]).all():
            wrong.append("potentials of points with mass are not finite")
    return str(result.status), wrong + unverified(problem, result, options)


def unverified(problem, result, options):
    """Return the claims of a result that `verify` refutes."""
    tolerances = {name: options[name] for name in ("tol", "marginal_tol")}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = gwfast.verify(problem, result, max_iter=50, **tolerances)
    error, true = result.marginal_error, found.marginals.value
    if options["method"] == "bapg":
        true = found.rows.value + found.cols.value
    right = abs(true - error) <= 1e-5 + 0.01 * error
    wrong = [] if right else [f"marginal_error {error:.3g} is {true:.3g}"]
    failed = {*found.failed} - {"rows", "cols", "mass"}
    if not result.converged:
        # If marginals are far away, the objective means nothing.
        of_value = {"objective", "reg_objective"} if error < 0.5 else set()
        failed &= {"not_finite", "negative", *of_value}
    return wrong + [f"{result.status}, {name}: {found.residuals[name]}" for name in failed]
