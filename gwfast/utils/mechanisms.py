"""Switches of the approximations that a solve may use.

Private: `python -m benchmarks.ablation` switches them off one at a time, and prints what each is
worth. A field stays as long as its mechanism does.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Mechanisms:
    """A switch for each mechanism; all are on unless an ablation says otherwise."""

    # Products near a known one by the leading eigenvectors of both cost matrices.
    low_rank_updates: bool = True
    # Descents on few points, over the leading eigenvectors of the costs, and in float32 come first.
    levels: bool = True
    acceleration: bool = True  # Anderson's
    small_descents: bool = True  # descents of small problems in a compiled loop
    newton: bool = True  # Newton's steps and over-relaxation in the linear problem
    # Large plans of point clouds by samples of them, or by the entries that carry them.
    few_entries: bool = True
    # After the race, escapes from its winner, and starts from clusters if it is not sure.
    second_look: bool = True


ALL = Mechanisms()


def without(*names):
    """Return all mechanisms but these."""
    return dataclasses.replace(ALL, **dict.fromkeys(names, False))
