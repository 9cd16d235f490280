"""Programs for slices of tissue: PASTE, PASTE2 and novoSpaRc."""

import contextlib
import io
from unittest import mock

import numpy as np

import gwfast
from gwfast import pot

from ..common import data
from ..common.simulated import two_slices
from .rows import Program, compared, entropy, quadratic, timed


def breast_cancer():
    """Return coordinates and counts of two neighboring slices."""
    return [(side["xy"].astype(float), side["counts"].astype(float)) for side in data.slices()]


def resampled(spots, counts):
    """Return the same slice, turned, with its counts drawn anew, as PASTE's authors simulate
    slices whose spots are known.
    """
    chances = (counts + 1) / (counts + 1).sum(axis=1, keepdims=True)
    drawn = np.random.default_rng(0).multinomial(counts.sum(axis=1).astype(int), chances)
    return spots @ [[0.0, 1.0], [-1.0, 0.0]], drawn.astype(float)


def simulated(n, share=1.0):
    """Return two slices of a simulated tissue, and a score: the share of mass between spots of the
    same layer; with a share below one each slice lacks a side of the tissue.
    """
    slices, layers = [], []
    for side, sign in zip(two_slices(n), (1, -1), strict=False):
        along = sign * side.places[:, 0]
        kept = along <= np.quantile(along, share)
        slices.append((side.spots[kept], side.features[kept]))
        layers.append(side.layers[kept])
    return slices, within(layers)


def within(labels):
    """Return a function of a plan: its share of mass between spots of the same label."""
    same = np.equal.outer(*labels)
    return lambda plan: plan[same].sum() / plan.sum()


def correlation(x, y):
    """Return a function of a plan: the mean correlation of the expression of spots with the
    expression of their matches; spots without a match do not count.
    """
    x, y = (data.log_normalized(counts) for counts in (x, y))
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)

    def score(plan):
        kept = plan.any(axis=1)
        pairs = zip(x[kept], plan[kept] @ y, strict=True)
        return np.mean([np.corrcoef(*pair)[0, 1] for pair in pairs])

    return score


def swapped(problem, module, align, name, solver, slices, how, quality, score, rounds):
    """Return the row of a function of a module, beside the same with a function that it calls
    replaced by ``solver(M, C1, C2, ..., alpha)``.
    """
    from anndata import AnnData

    tables = [AnnData(table, obsm={"spatial": spots}) for spots, table in slices]
    seen, before = {}, timed(getattr(module, name))

    @timed
    def noting(M, C1, C2, *args, alpha, **options):
        seen["problem"] = M, C1, C2, alpha
        return solver(M, C1, C2, *args, alpha=alpha, **options)

    def run(function):
        silent = contextlib.redirect_stdout(io.StringIO())
        with silent, mock.patch.object(module, name, function):
            return getattr(module, align)(*tables, **how)

    def objective(plan):
        M, C1, C2, alpha = seen["problem"]
        return (1 - alpha) * np.vdot(M, plan) + alpha * quadratic(plan, C1, C2)

    calls = (lambda: run(before)), (lambda: run(noting))
    return compared(problem, *calls, objective, quality, score, rounds)


REGIONS, MATCHED = "mass within one region", "correlation of matched spots"


def paste(rounds):
    """Compare PASTE's `pairwise_align`. It needs an old POT, whose line search it calls."""
    from paste import PASTE

    first, second = breast_cancer()
    same = within([np.arange(len(first[0]))] * 2)
    copies = [first, resampled(*first)]
    slices, layers = simulated(1200)
    correlated = correlation(first[1], second[1])
    for problem, sides, quality, score, how in (
        ("slice of breast cancer, resampled", copies, "mass on true matches", same, {}),
        ("two slices of breast cancer", (first, second), MATCHED, correlated, {}),
        ("simulated, 1200 spots", slices, REGIONS, layers, {"dissimilarity": "euclidean"}),
    ):
        function = "pairwise_align", "my_fused_gromov_wasserstein", paste_solver
        how = {"gpu_verbose": False, **how}
        yield swapped(problem, PASTE, *function, sides, how, quality, score, rounds)


def paste_solver(M, C1, C2, p, q, G_init=None, loss_fun="square_loss", alpha=0.5, **_):
    """Stand in for PASTE's function."""
    return pot.fused_gromov_wasserstein(M, C1, C2, p, q, loss_fun, alpha=alpha, G0=G_init, log=True)


def paste2(rounds):
    """Compare PASTE2's `partial_pairwise_align` on slices that overlap in part; its default
    dissimilarity takes longer than all that follows it, and is left out.
    """
    from paste2 import PASTE2

    function = "partial_pairwise_align", "partial_fused_gromov_wasserstein", paste2_solver
    first, second = breast_cancer()
    score = correlation(first[1], second[1])
    for kind in ("kl", "pca"):
        problem, how = f"two slices of breast cancer, {kind}", {"s": 0.7, "dissimilarity": kind}
        how = {"verbose": False, **how}
        yield swapped(problem, PASTE2, *function, (first, second), how, MATCHED, score, rounds)
    slices, score = simulated(700, 0.75)
    problem = f"simulated, {' x '.join(str(len(spots)) for spots, _ in slices)} spots"
    # The overlap, as a share of a slice.
    how = {"s": (2 * 0.75 - 1) / 0.75, "dissimilarity": "euclidean", "verbose": False}
    yield swapped(problem, PASTE2, *function, slices, how, REGIONS, score, rounds)


def paste2_solver(M, C1, C2, p, q, alpha, m=None, G0=None, loss_fun="square_loss", **_):
    """Stand in for PASTE2's function."""
    plan, log = pot.partial_fused_gromov_wasserstein(
        M, C1, C2, p, q, m, loss_fun, alpha=alpha, G0=G0, log=True
    )
    return plan, {**log, "partial_fgw_cost": log["partial_fgw_dist"]}


def novosparc(rounds):
    """Compare places of cells in a tissue, from how genes vary over it and from an atlas of some.

    The counts of each spot of a real slice are split by chance: one half are the cells, the other
    half gives the atlas, and what is found for the other genes is compared with it.
    """
    import anndata
    import novosparc as program
    from novosparc.reconstruction import _GWadjusted as module

    n_genes, rng, slice1 = 200, np.random.default_rng(0), data.slices()[0]
    counts = slice1["counts"].astype(np.int64)
    counts = counts[:, np.argsort(-counts.mean(axis=0))[:n_genes]]
    first = rng.binomial(counts, 0.5)
    first, second = (data.log_normalized(x, slice1["total"]) for x in (first, counts - first))
    cells = anndata.AnnData(first[np.random.default_rng(1).permutation(len(first))])
    markers = np.arange(0, n_genes, 5)
    others = np.setdiff1d(np.arange(n_genes), markers)
    name = "gromov_wasserstein_adjusted_norm"
    solvers = timed(getattr(module, name)), timed(novosparc_solver)

    def objective(tissue):
        """Return what its fixed point is stationary for, with the plan's entropy."""
        plan, a = np.asarray(tissue.gw, dtype=np.float64), tissue.alpha_linear
        C1, C2, M = (tissue.costs[key] for key in ("expression", "locations", "markers"))
        terms = a * np.vdot(M / M.max(), plan) - (1 - a) / 2 * np.vdot(C1 @ plan @ C2, plan)
        return terms - tissue.epsilon * entropy(plan)

    def score(tissue):
        found = tissue.sdge / tissue.gw.sum(axis=0)
        return np.mean([np.corrcoef(found[gene], second[:, gene])[0, 1] for gene in others])

    # The last epsilon is the default.
    for weight, epsilon in ((0.2, 5e-3), (0.5, 5e-3), (0.5, 5e-4)):

        def run(solver, weight=weight, epsilon=epsilon):
            silent = contextlib.redirect_stdout(io.StringIO())
            with silent, mock.patch.object(module, name, solver):
                tissue = program.cm.Tissue(cells, slice1["xy"].astype(float))
                tissue.setup_reconstruction(markers, second[:, markers])
                tissue.reconstruct(weight, epsilon)
            return tissue

        yield compared(
            f"tissue, alpha_linear={weight}, epsilon={epsilon:g}",
            lambda run=run: run(solvers[0]),
            lambda run=run: run(solvers[1]),
            objective,
            "correlation of other genes",
            score,
            rounds,
        )


def novosparc_solver(cost_mat, C1, C2, alpha_linear, p, q, loss_fun, epsilon, verbose, random_ini):
    """Stand in for `gromov_wasserstein_adjusted_norm`."""
    a, M = alpha_linear, cost_mat / cost_mat.max()
    terms = dict(linear_cost=4 * a / (1 - a) * M, alpha=0.5, epsilon=epsilon / (1 - a))
    return gwfast.gromov_wasserstein(C1, C2, p=p, q=q, init="product", **terms).plan


OLD = '"paste-bio==1.4.0" "POT==0.9.0" "numpy<2" "scipy<1.14" "anndata<0.12" "zarr<3"'
PROGRAMS = {
    "paste": Program("PASTE", OLD, 1, paste),
    "paste2": Program("PASTE2", "paste2", 2, paste2),
    "novosparc": Program("novoSpaRc", "novosparc", 5, novosparc),
}
