"""How sure a race is of its winner: by how many independent starts lead to that
optimum, or by how far every other objective is above it.

`CLEAR` is measured: on 52 problems (``python -m benchmarks.search ladders``) a race of
fewer starts misses the lowest optimum of 15; the winner of each of these comes from one
kind of start, with another objective at most 10 % above. The race of the default starts
misses seven, and is sure of none of them.
"""

# Relative difference from the winner's objective to every other at which one start is
# enough.
CLEAR = 0.2


def is_sure(candidates):
    """Whether the winner among a race's candidates need not be doubted; False also if
    nothing raced, or nothing has won.
    """
    won = [row for row in candidates if row.fate == "won"]
    if not won:
        return False
    # The winner and all candidates that came to its optimum, also by way of others.
    group, size, pairs = {won[-1].start}, 0, []
    for row in candidates:
        _, _, other = row.fate.partition("same as ")
        if other:
            pairs.append({row.start, other})
    while len(group) > size:
        size = len(group)
        group.update(*(pair for pair in pairs if pair & group))
    kinds = {_kind(label) for label in group}
    return costs_nothing(won) or len(kinds) > 1 or _gap(candidates, group) >= CLEAR


def costs_nothing(candidates):
    """Whether the winner is from a plan that costs nothing: no plan is below zero."""
    won = (row.start for row in candidates if row.fate == "won")
    return any(start.startswith("isomorphism") for start in won)


def _kind(label):
    """The same for starts that may err together: profiles of the same points, and
    starts from the same clusters.
    """
    name, _, _ = label.removeprefix("fresh ").partition(",")
    return label.startswith("fresh "), "profile" if "profile" in name else name


def _gap(candidates, group):
    """Relative difference from the lowest objective of a group to the lowest of the
    others, on the last level that has both.
    """
    for size in sorted({row.n_points for row in candidates}, reverse=True):
        level = [row for row in candidates if row.n_points == size]
        ours = [row.gw_cost for row in level if row.start in group]
        others = [row.gw_cost for row in level if row.start not in group]
        if ours and others:
            least = min(ours)
            return (min(others) - least) / abs(least) if least else float("inf")
    return 0.0
