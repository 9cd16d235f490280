"""novoSpaRc (Moriel et al., Nature Protocols 2021): places of cells in a tissue, from
how genes vary over it and from an atlas of a few of them.

The counts of each spot of a real slice are split by chance: one half are the cells, the
other half gives the atlas, and what is found for the other genes is compared with it.
"""

import contextlib
import io
import warnings

import numpy as np

import gwfast

from ..common import pairs
from .rows import SOLVER, compared

NAME, INSTALL, LINES = "novoSpaRc", "novosparc", 5
# Weights of the atlas, and epsilon; the last one is the default.
PROBLEMS = ((0.2, 5e-3), (0.5, 5e-3), (0.5, 5e-4))
# Genes, and every how many of them is in the atlas.
N_GENES, EVERY = 200, 5
QUALITY = "correlation of other genes"


def rows(repeats):
    import anndata
    from novosparc.reconstruction import _GWadjusted as module

    first, second, places = halves()
    order = np.random.default_rng(1).permutation(len(first))
    cells, markers = anndata.AnnData(first[order]), np.arange(0, N_GENES, EVERY)
    others = np.setdiff1d(np.arange(N_GENES), markers)
    before = module.gromov_wasserstein_adjusted_norm
    solvers = SOLVER.timed(before), SOLVER.timed(gwfasts)

    def score(tissue):
        found = tissue.sdge / tissue.gw.sum(axis=0)
        return np.mean([np.corrcoef(found[g], second[:, g])[0, 1] for g in others])

    for weight, epsilon in PROBLEMS:

        def run(solver, weight=weight, epsilon=epsilon):
            module.gromov_wasserstein_adjusted_norm = solver
            try:
                return reconstructed(cells, places, second[:, markers], markers, weight, epsilon)
            finally:
                module.gromov_wasserstein_adjusted_norm = before

        yield compared(
            f"tissue, alpha_linear={weight}, epsilon={epsilon:g}",
            lambda run=run: run(solvers[0]),
            lambda run=run: run(solvers[1]),
            objective,
            QUALITY,
            score,
            repeats,
        )


def gwfasts(cost_mat, C1, C2, alpha_linear, p, q, loss_fun, epsilon, verbose, random_ini):
    """In place of `gromov_wasserstein_adjusted_norm`."""
    a, M = alpha_linear, cost_mat / cost_mat.max()
    with warnings.catch_warnings():  # of terms that differ by much, as they do here
        warnings.simplefilter("ignore")
        return gwfast.gromov_wasserstein(
            C1, C2, p=p, q=q, linear_cost=4 * a / (1 - a) * M, alpha=0.5,
            epsilon=epsilon / (1 - a), init="product",
        ).plan  # fmt: skip


def halves():
    """Logarithms of both halves of the counts, and places of the spots."""
    rng, slice1 = np.random.default_rng(0), np.load(pairs.FOLDER / "tissue/slice1.npz")
    counts = slice1["counts"].astype(np.int64)
    counts = counts[:, np.argsort(-counts.mean(axis=0))[:N_GENES]]
    first = rng.binomial(counts, 0.5)
    logs = (np.log1p(1e4 * x / slice1["total"][:, None]) for x in (first, counts - first))
    return *logs, slice1["xy"].astype(float)


def reconstructed(cells, places, atlas, markers, weight, epsilon):
    """What novoSpaRc's users write, costs of cells and places included."""
    import novosparc

    with contextlib.redirect_stdout(io.StringIO()):
        tissue = novosparc.cm.Tissue(cells, places)
        tissue.setup_reconstruction(markers, atlas)
        tissue.reconstruct(weight, epsilon)
    return tissue


def objective(tissue):
    """What its fixed point is stationary for, with the plan's entropy."""
    plan, a = np.asarray(tissue.gw, dtype=np.float64), tissue.alpha_linear
    C1, C2, M = (tissue.costs[key] for key in ("expression", "locations", "markers"))
    terms = a * np.vdot(M / M.max(), plan) - (1 - a) / 2 * np.vdot(C1 @ plan @ C2, plan)
    some = plan[plan > 0]
    return terms + tissue.epsilon * np.vdot(some, np.log(some))
