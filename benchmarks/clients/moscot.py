"""moscot (Klein et al., Nature 2025): cells of two modalities, or of two slices, by
OTT-JAX; gwfast's plan is set as the solution of its problem.

Its times have compilation, which comes with every call of its ``solve``. Plans are
judged once they have their marginals, which OTT-JAX's Sinkhorn iterations miss.
"""

import logging

import numpy as np

import gwfast

from ..common import pairs
from .rows import compared, coupling, quadratic

NAME, INSTALL, LINES = "moscot", "moscot", 5
# Of the translation, whose costs are squared distances, and epsilon.
TRANSLATIONS = (("scGEM", 1e-2), ("scGEM", 1e-3))
# Of the alignment of slices, whose features and places both count: alpha and epsilon.
ALIGNMENTS = ((0.5, 1e-2), (0.5, 1e-3))


def rows(repeats):
    logging.getLogger("moscot").setLevel(logging.ERROR)
    for name, epsilon in TRANSLATIONS:
        problem, score = translation(name)
        yield row(
            f"{name}, epsilon={epsilon:g}", problem, 1.0, epsilon,
            "FOSCTTM, lower is better", score, repeats,
        )  # fmt: skip
    for alpha, epsilon in ALIGNMENTS:
        problem, score = alignment()
        yield row(
            f"slices of tissue, alpha={alpha:g}, epsilon={epsilon:g}", problem, alpha,
            epsilon, "correlation of genes", score, repeats,
        )  # fmt: skip


def row(name, problem, alpha, epsilon, quality, score, repeats):
    """Both on one of moscot's problems, which is prepared."""
    (one,) = problem.problems.values()

    def theirs():
        problem.solve(alpha=alpha, epsilon=epsilon)
        return np.asarray(one.solution.transport_matrix)

    def ours():
        solve(one, alpha, epsilon)
        return one.solution.transport_matrix

    def objective(plan):
        plan = coupling(plan)
        C1, C2, M = costs(one)
        linear, some = 0.0 if M is None else np.vdot(M, plan), plan[plan > 0]
        entropy = 2 * epsilon * np.vdot(some, np.log(some))
        return quadratic(plan, C1, C2) + 2 * (1 - alpha) / alpha * linear + entropy

    def scored(plan):
        one.set_solution(plan, overwrite=True)
        return score(problem)

    return compared(name, theirs, ours, objective, quality, scored, repeats)


def solve(one, alpha, epsilon):
    """In place of moscot's own, for one of its problems. In OTT-JAX the linear cost
    joins half of the gradient of the other term, and so counts twice."""
    C1, C2, M = costs(one)
    alpha = alpha / (2 - alpha)
    terms = {} if M is None else {"linear_cost": M, "alpha": alpha}
    found = gwfast.gromov_wasserstein(
        C1, C2, p=one.a, q=one.b, epsilon=alpha * epsilon, init="product",
        **terms,
    )  # fmt: skip
    one.set_solution(found.plan, cost=found.gw_cost, overwrite=True, is_linear=False)


def costs(one):
    """Squared distances within both spaces and, if there are any, between them, each
    divided by its mean as moscot does."""
    C1, C2 = (squared(x.data_src, x.data_src) for x in (one.x, one.y))
    M = None if one.xy is None else squared(one.xy.data_src, one.xy.data_tgt)
    return C1, C2, M


def squared(x, y):
    from scipy.spatial.distance import cdist

    found = cdist(x, y, "sqeuclidean")
    return found / found.mean()


def table(name, values, **more):
    import anndata

    found = anndata.AnnData(values.astype(np.float32), **more)
    found.obs_names = [f"{name}-{i}" for i in range(len(values))]
    return found


def translation(name):
    from moscot.problems.cross_modality import TranslationProblem

    from gwfast.singlecell import foscttm

    sides = [
        table(side, x, obsm={"X_pca": x.astype(np.float32)})
        for side, x in zip(("src", "tgt"), pairs.cells(name)[:2], strict=True)
    ]
    problem = TranslationProblem(*sides)
    problem = problem.prepare(src_attr="X_pca", tgt_attr="X_pca")

    def score(problem):
        moved = problem.translate(source="src", target="tgt", forward=True)
        return foscttm(moved, sides[1].X)

    return problem, score


def alignment():
    import anndata
    from moscot.problems.space import AlignmentProblem

    slices = []
    for k in (1, 2):
        data = np.load(pairs.FOLDER / f"tissue/slice{k}.npz")
        logs = np.log1p(1e4 * data["counts"] / data["total"][:, None])
        places = {"spatial": data["xy"].astype(np.float32)}
        slices.append(table(f"s{k}", logs, obsm=places))
    both = anndata.concat(slices, label="slice", keys=["1", "2"])
    problem = AlignmentProblem(both).prepare(batch_key="slice", policy="sequential")

    def score(problem):
        plan = np.asarray(problem["1", "2"].solution.transport_matrix)
        moved = plan @ slices[1].X / plan.sum(axis=1, keepdims=True)
        x, y = (one - one.mean(axis=0) for one in (slices[0].X, moved))
        return np.mean((x * y).sum(0) / np.sqrt((x**2).sum(0) * (y**2).sum(0) + 1e-9))

    return problem, score
