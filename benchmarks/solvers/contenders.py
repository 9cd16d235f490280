"""The solvers that are compared, each as it is called and with what it is given.

A solver is ``solver(problem, n_threads, **options)``: it converts, untimed, and returns the
function that is timed. That is called with the number of the run and returns a plan and the outer
iterations made (None where they are not known). All solve the same problem: product start, uniform
marginals, float32 or float64 as each does by default. Every solver takes ``max_iter``.

POT hands Sinkhorn the whole gradient, twice ours, so its epsilon is twice ours. OTT's
and TorchGW's is ours.
"""

import dataclasses

import numpy as np

from ..common.settings import solver_arguments


def gwfast_solver(problem, n_threads, **options):
    """``align`` from the raw vectors, if the problem has them, normalization and mapping included;
    else, or with a limit of iterations, ``gromov_wasserstein`` of points or costs.
    """
    import gwfast

    options = solver_arguments(epsilon=problem.epsilon, n_threads=n_threads, **options)

    def solve(run):
        if problem.raw is not None and "max_iter" not in options:
            n_words = problem.shape[0]
            gw = gwfast.align(*problem.raw, n_words=n_words, **options).gw
        elif problem.points is not None:
            spaces = map(gwfast.PointCloud, problem.points)
            gw = gwfast.gromov_wasserstein(*spaces, **options)
        else:
            gw = gwfast.gromov_wasserstein(*problem.costs, **options)
        return gw.plan, len(gw.history)

    return solve


def pot_solver(problem, n_threads, *, max_iter=1000, **options):
    """POT on the dense matrices, whose making is not timed."""
    import ot

    matrices = problem.matrices()
    # Its log has an entry for every tenth iteration, and costs one product more.
    module = ot.gromov._bregman
    inner = module.sinkhorn = _Counted(module.sinkhorn)

    def solve(run):
        inner.calls = 0
        plan = ot.gromov.entropic_gromov_wasserstein(
            *matrices,
            loss_fun="square_loss",
            epsilon=2 * problem.epsilon,
            max_iter=max_iter,
            **options,
        )
        return plan, inner.calls

    return solve


class _Counted:
    """A function that counts its calls."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *args, **options):
        self.calls += 1
        return self.function(*args, **options)


def ott_function(*, max_inner, inner_tol, tol, max_iter=200):
    """A function of an OTT `QuadraticProblem` and epsilon, to be compiled."""
    import jax.numpy as jnp
    from ott.solvers.linear import sinkhorn
    from ott.solvers.quadratic import gromov_wasserstein

    linear_solver = sinkhorn.Sinkhorn(
        threshold=inner_tol, max_iterations=max_inner, inner_iterations=10
    )

    def solve(problem, epsilon):
        solver = gromov_wasserstein.GromovWasserstein(
            linear_solver,
            epsilon=epsilon,
            warm_start=True,
            threshold=tol,
            min_iterations=min(5, max_iter),
            max_iterations=max_iter,
        )
        out = solver(problem)
        # One more solves the first linearization, before the loop.
        return out.matrix, 1 + jnp.sum(out.costs != -1)

    return solve


def ott_solver(problem, n_threads, **options):
    """OTT-JAX on the points where there are any, compiled.

    ``|x - y|^2 = 1 - cos`` for rows of length ``2^(-1/2)``, and a squared Euclidean
    `PointCloud` is what OTT is fastest on, as it too never forms these costs.
    """
    import jax
    from ott.geometry import geometry, pointcloud
    from ott.problems.quadratic import quadratic_problem

    kind = geometry.Geometry if problem.points is None else pointcloud.PointCloud
    function = ott_function(**options)

    @jax.jit
    def compiled(x, y):
        given = quadratic_problem.QuadraticProblem(kind(x), kind(y))
        return function(given, problem.epsilon)

    if problem.points is None:
        spaces = problem.costs
    else:
        spaces = (np.sqrt(0.5) * points for points in problem.points)
    spaces = [jax.device_put(space.astype(np.float32)) for space in spaces]

    def solve(run):
        plan, n_outer = jax.block_until_ready(compiled(*spaces))
        return plan, int(n_outer)

    return solve


def torchgw_solver(problem, n_threads, *, m_anchors=400, max_iter=500, **options):
    """TorchGW on the dense matrices, whose making is not timed; the number of the run is its seed.

    It divides each space's sampled columns by their largest entry, and lets epsilon decay tenfold
    but not below 5e-4. Costs only matter up to a shift and a sign, so they are shifted to have a
    diagonal of `unit`, the largest entry of every column: then both are divided by `unit`, and
    epsilon, which is ours, by its square, which is chosen such that there is no decay.
    """
    import torch
    from torchgw import sampled_gw

    torch.set_num_threads(n_threads)
    unit = max(1.0, (problem.epsilon / 5e-4) ** 0.5)
    spaces = []
    for cost in problem.matrices(np.float32):
        own = float(cost[0, 0])
        sign = 1 if own >= cost[0].max() else -1
        cost -= own
        cost *= sign
        cost += unit
        spaces.append(torch.from_numpy(cost))

    def solve(run):
        torch.manual_seed(run)
        plan, log = sampled_gw(
            dist_source=spaces[0],
            dist_target=spaces[1],
            distance_mode="precomputed",
            epsilon=problem.epsilon / unit**2,
            M=m_anchors,
            max_iter=max_iter,
            device=torch.device("cpu"),
            log=True,
            **options,
        )
        return plan.numpy(), log["n_iter"]

    return solve


@dataclasses.dataclass(frozen=True)
class Contender:
    """A solver with its settings, and how often it is run.

    Attributes
    ----------
    solver : callable
    imports : tuple of str
        Modules that are loaded before anything is measured, that of the package first.
    options : dict
    rounds : int
        Timed runs, fewer where they take long.
    warmups : int
        Untimed runs before, for a solver that compiles or loads something.
    seeded : bool
        Whether runs differ by their seed, and not only by chance.
    """

    solver: callable
    imports: tuple
    options: dict
    rounds: int
    warmups: int = 0
    seeded: bool = False


def settings(options):
    """Options as text."""
    made = ", ".join(f"{name}={value}" for name, value in options.items())
    return made or "defaults"


def _gwfast(rounds=7, **options):
    options = {"init": "product", **options}
    return Contender(gwfast_solver, ("gwfast",), options, rounds, warmups=1)


def _pot(rounds=3, **options):
    return Contender(pot_solver, ("ot",), options, rounds)


def _ott(**options):
    modules = "geometry.pointcloud", "solvers.quadratic.gromov_wasserstein"
    imports = "ott", *(f"ott.{module}" for module in modules)
    return Contender(ott_solver, imports, options, rounds=3, warmups=1)


def _torchgw(**options):
    imports = "torchgw", "torch"
    return Contender(torchgw_solver, imports, options, rounds=3, seeded=True)


# The others are compared with the first.
REFERENCE, DEFAULT = "gwfast", "gwfast, the default call"
CONTENDERS = {
    REFERENCE: _gwfast(),
    # What `align` does where nothing is asked for: the search over starts, and an
    # epsilon of its own, so that its objective is another one.
    DEFAULT: _gwfast(init="auto", epsilon="auto"),
    # With marginals met, and an objective found, as loosely as by OTT's fast setting.
    "gwfast loose": _gwfast(tol=1e-3, marginal_tol=2e-3),
    # Cut short after 30 inner iterations POT is fast and misses the marginals by
    # percents, which makes the objective smaller than any coupling's; 100 is about the
    # least with an objective within 0.5 %.
    "POT 30": _pot(numItermax=30, tol=1e-5),
    "POT 100": _pot(numItermax=100, tol=1e-5),
    "POT defaults": _pot(),
    # The fastest found with an objective within 0.5 %, and with a marginal error of
    # 1e-4. Its own defaults (threshold=1e-3) stop too early to compare.
    "OTT-JAX": _ott(max_inner=10, inner_tol=1e-3, tol=1e-4),
    "OTT-JAX tight": _ott(max_inner=100, inner_tol=1e-4, tol=1e-4),
    # It samples columns of the costs; the mean over iterations samples more of them.
    "TorchGW": _torchgw(),
    "TorchGW tight": _torchgw(lambda_ema_beta=0.1),
}
