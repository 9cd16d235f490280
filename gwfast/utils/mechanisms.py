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
    low_rank_updates : bool
        Products near a known one by the leading eigenvectors of both cost matrices.
    low_rank_start : bool
        A descent over the leading eigenvectors of the costs comes first.
    float32_start : bool
        A float64 solve begins in float32.
    increments : bool
        Float64 products from float32 products of what the plan has changed by.
    acceleration : bool
        Anderson's acceleration.
    samples : bool
        Descents on samples of large plans of point clouds.
    rough_inner : bool
        Early linear problems are solved only as well as the plan still moves.
    damping : bool
        Half as much of each plan where the iterations cycle.
    small_descents : bool
        Descents of small problems in a compiled loop.
    newton : bool
        Newton's steps in the linear problem.
    over_relaxation : bool
        Over-relaxed Sinkhorn iterations.
    truncation : bool
        Kernels of point clouds keep the entries that carry the plan.
    coarse_levels : bool
        The race is on fewer points than all, or over the leading eigenvectors.
    second_look : bool
        After the race escapes from its winner, and where it is not sure starts from clusters.
    """

    low_rank_updates: bool = True
    low_rank_start: bool = True
    float32_start: bool = True
    increments: bool = True
    acceleration: bool = True
    samples: bool = True
    rough_inner: bool = True
    damping: bool = True
    small_descents: bool = True
    newton: bool = True
    over_relaxation: bool = True
    truncation: bool = True
    coarse_levels: bool = True
    second_look: bool = True


ALL = Mechanisms()


def without(*names):
    """All mechanisms but these."""
    return dataclasses.replace(ALL, **dict.fromkeys(names, False))
