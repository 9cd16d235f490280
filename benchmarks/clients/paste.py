"""PASTE on slices of tissue, with the first statement of its
``my_fused_gromov_wasserstein`` replaced.

It needs an old POT, whose line search it calls; gwfast does not mind.
"""

import numpy as np

from gwfast import pot

from .slices import REGIONS, annotated, breast_cancer, resampled, simulated, swapped_row, within

NAME, LINES = "PASTE", 1
INSTALL = '"paste-bio==1.4.0" "POT==0.9.0" "numpy<2" "scipy<1.14" "anndata<0.12" "zarr<3"'
SPOTS = 1200


def rows(repeats):
    first, second = breast_cancer()
    known = [np.arange(len(first[0]))] * 2
    problem = "slice of breast cancer, resampled"
    slices, options = [first, resampled(*first)], {}
    yield row(problem, slices, "mass on true matches", within(known), options, repeats)
    problem = "two slices of breast cancer"
    quality = "correlation of matched spots"
    score = correlation(first[1], second[1])
    yield row(problem, [first, second], quality, score, options, repeats)
    slices, layers = simulated(SPOTS)
    options = {"dissimilarity": "euclidean"}
    problem = f"simulated, {SPOTS} spots"
    yield row(problem, slices, REGIONS, within(layers), options, repeats)


def row(problem, slices, quality, score, options, repeats):
    """PASTE's `pairwise_align`, with its defaults but for some options."""
    from paste import PASTE

    slices = [annotated(*one) for one in slices]
    return swapped_row(
        problem,
        lambda: PASTE.pairwise_align(*slices, gpu_verbose=False, **options),
        PASTE, "my_fused_gromov_wasserstein", solver, quality, score, repeats,
    )  # fmt: skip


def solver(M, C1, C2, p, q, G_init=None, loss_fun="square_loss", alpha=0.5, **_):
    """PASTE's function with its statement replaced."""
    return pot.fused_gromov_wasserstein(M, C1, C2, p, q, loss_fun, alpha=alpha, G0=G_init, log=True)


def correlation(x, y):
    """A function from a plan to the mean correlation of what spots express with what
    those that they are matched to do; spots without a match do not count."""
    x, y = (np.log1p(1e4 * one / one.sum(axis=1, keepdims=True)) for one in (x, y))
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)

    def score(plan):
        kept = plan.any(axis=1)
        pairs = zip(x[kept], plan[kept] @ y, strict=True)
        return np.mean([np.corrcoef(one, other)[0, 1] for one, other in pairs])

    return score
