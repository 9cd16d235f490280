"""Which approximations a solve may use, and which parts of the search.

Private: `python -m benchmarks.ablation` switches them off one at a time, and prints
what each is worth. A field stays as long as its mechanism does.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Mechanisms:
    """A switch for each; all are on but where an ablation says otherwise.

    Attributes
    ----------
    low_rank_products : bool
        Products near a known one by the leading eigenvectors of both cost matrices.
    sampled_products : bool
        What these leave out, only where the plan has most of its mass.
    kept_products : bool
        Earlier products as low-rank updates of one matrix, for extrapolation.
    truncated_plans : bool
        Sparse plans of cost matrices.
    truncated_kernels : bool
        Sparse kernels of point clouds in the dense tier.
    low_rank_start : bool
        A descent over the leading eigenvectors of the costs comes first.
    float32_start : bool
        A float64 solve begins in float32.
    increments : bool
        Float64 products from float32 products of what the plan has changed by.
    extrapolation : bool
        Anderson's acceleration.
    deep_extrapolation : bool
        By more than two steps.
    extrapolation_ahead : bool
        Past saddles, where steps are alike.
    rough_inner : bool
        Early linear problems are solved only as well as the plan still moves.
    damping : bool
        Half as much of each plan where the iterations cycle.
    short_steps : bool
        Many outer iterations of a small problem in one call.
    newton : bool
        Newton's steps in the linear problem.
    over_relaxation : bool
        Over-relaxed Sinkhorn iterations.
    heating : bool
        Epsilon rises a second time for the contestants of a race.
    coarse_levels : bool
        The race is on fewer points than all, or over the leading eigenvectors.
    second_look : bool
        Starts from clusters where the race is not sure.
    """

    low_rank_products: bool = True
    sampled_products: bool = True
    kept_products: bool = True
    truncated_plans: bool = True
    truncated_kernels: bool = True
    low_rank_start: bool = True
    float32_start: bool = True
    increments: bool = True
    extrapolation: bool = True
    deep_extrapolation: bool = True
    extrapolation_ahead: bool = True
    rough_inner: bool = True
    damping: bool = True
    short_steps: bool = True
    newton: bool = True
    over_relaxation: bool = True
    heating: bool = True
    coarse_levels: bool = True
    second_look: bool = True


ALL = Mechanisms()


def without(*names):
    """All mechanisms but these."""
    return dataclasses.replace(ALL, **dict.fromkeys(names, False))
