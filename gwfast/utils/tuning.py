"""Private settings of a solve: switches of its mechanisms, which `python -m benchmarks.ablation`
turns off one at a time, and the sizes from which on they pay, which tests make smaller.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Tuning:
    """A switch for each mechanism, which stays as long as its mechanism does, and sizes."""

    low_rank_updates: bool = True  # products near a known product by leading eigenvectors
    levels: bool = True  # descents on few points, over leading eigenvectors and in float32 first
    acceleration: bool = True  # Anderson's
    small_descents: bool = True  # descents of small problems in a compiled loop
    newton: bool = True  # Newton's steps and over-relaxation in the linear problem
    few_entries: bool = True  # large plans by samples, or by the entries that carry them
    second_look: bool = True  # after the race, escapes from its winner, and starts from clusters
    # Points a side up to which the compiled loop, on one thread, pays: of 150 points descents took
    # .07 to .5 of the time of the outer loop on two threads, of 250 .6 to 1.4.
    few_points: int = 256
    # Points a side on which starts race: matrices, clouds, and leading eigenvectors of costs.
    race_points: tuple[int, int, int] = 750, 1500, 1000
    # Points of the smaller side from which on products by leading eigenvectors are faster; and
    # conjugate gradients than Cholesky factors in Newton's steps (twice: 25 % more).
    low_rank_from: int = 600
    iterated_from: int = 200
    # Points of the smaller side from which on stored kernels are truncated, and samples of plans
    # pay: 5000 words take .85 of the time, 20,000 take .29.
    truncated_from: int = 1000
    sampled_from: int = 3840
    # Entries from which on a float64 solve begins in float32.
    float32_from: int = 1 << 16


DEFAULT = Tuning()


def without(*names):
    """Return the default with these mechanisms turned off."""
    return dataclasses.replace(DEFAULT, **dict.fromkeys(names, False))
