"""PASTE2 on slices of tissue that overlap in part, with the body of its
``partial_fused_gromov_wasserstein`` replaced.

Its default dissimilarity takes longer than all that follows it, and is left out.
"""

from gwfast import pot

from .paste import correlation
from .slices import REGIONS, annotated, breast_cancer, simulated, swapped_row, within

NAME, INSTALL, LINES = "PASTE2", "paste2", 2
SPOTS, SHARE = 700, 0.75


def rows(repeats):
    first, second = breast_cancer()
    for kind in ("kl", "pca"):
        problem = f"two slices of breast cancer, {kind}"
        options = {"s": 0.7, "dissimilarity": kind}
        quality = "correlation of matched spots"
        score = correlation(first[1], second[1])
        yield row(problem, [first, second], quality, score, options, repeats)
    slices, layers = simulated(SPOTS, SHARE)
    problem = f"simulated, {' x '.join(str(len(one)) for one in layers)} spots"
    # What both have of what one has.
    options = {"s": (2 * SHARE - 1) / SHARE, "dissimilarity": "euclidean"}
    yield row(problem, slices, REGIONS, within(layers), options, repeats)


def row(problem, slices, quality, score, options, repeats):
    """PASTE2's `partial_pairwise_align`, with its defaults but for some options."""
    from paste2 import PASTE2

    slices = [annotated(*one) for one in slices]
    return swapped_row(
        problem,
        lambda: PASTE2.partial_pairwise_align(*slices, verbose=False, **options),
        PASTE2, "partial_fused_gromov_wasserstein", solver, quality, score, repeats,
    )  # fmt: skip


def solver(M, C1, C2, p, q, alpha, m=None, G0=None, loss_fun="square_loss", **_):
    """PASTE2's function with its body replaced."""
    plan, log = pot.partial_fused_gromov_wasserstein(
        M, C1, C2, p, q, m, loss_fun, alpha=alpha, G0=G0, log=True
    )
    return plan, {**log, "partial_fgw_cost": log["partial_fgw_dist"]}
