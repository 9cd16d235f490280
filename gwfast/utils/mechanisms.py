"""Switches of the approximations that a solve may use, which `python -m benchmarks.ablation` sets
one at a time to print what each is worth. A field stays as long as its mechanism does.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Mechanisms:
    """A switch for each mechanism; all are on unless an ablation says otherwise."""

    low_rank_updates: bool = True  # products near a known product by leading eigenvectors
    levels: bool = True  # descents on few points, over leading eigenvectors and in float32 first
    acceleration: bool = True  # Anderson's
    small_descents: bool = True  # descents of small problems in a compiled loop
    newton: bool = True  # Newton's steps and over-relaxation in the linear problem
    few_entries: bool = True  # large plans by samples, or by the entries that carry them
    second_look: bool = True  # after the race, escapes from its winner, and starts from clusters


ALL = Mechanisms()


def without(*names):
    """Return all mechanisms but these."""
    return dataclasses.replace(ALL, **dict.fromkeys(names, False))
