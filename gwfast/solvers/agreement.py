"""How sure a race can be of the optimum that won it: by how many starts came there that
know nothing of one another, or by how far everything else is above it.

`CLEAR` is measured: of 52 problems (``python -m benchmarks.search ladders``) a race of
fewer starts missed the optimum of 15, all of them won by one kind of start, with
everything else at most 10 % above; that of today misses seven, and says of none of them
that it is sure.
"""

# Relative difference of objectives from the winner to everything else at which a single
# start is enough.
CLEAR = 0.2
FRESH = "fresh "
# What labels have in common of starts that begin with the same profiles, and may err
# together.
ALIKE = "profile"


def is_sure(candidates):
    """Whether the winner of a race need not be doubted.

    Parameters
    ----------
    candidates : sequence of Candidate

    Returns
    -------
    bool
        False also where nothing raced, or nothing has won.
    """
    won = [row for row in candidates if row.fate == "won"]
    if not won:
        return False
    group = _followers(candidates, won[-1].start)
    met = len({kind_of(label) for label in group}) > 1
    return met or _gap(candidates, group) >= CLEAR


def _followers(candidates, winner):
    """Labels of all that came to the optimum of the winner."""
    group, pairs = {winner}, []
    for row in candidates:
        _, _, other = row.fate.partition("same as ")
        if other:
            pairs.append({row.start, other})
    while pairs:
        joined = [pair for pair in pairs if pair & group]
        if not joined:
            break
        group.update(*joined)
        pairs = [pair for pair in pairs if pair not in joined]
    return group


def kind_of(label):
    """What starts share that are not independent of one another, on the same points."""
    fresh, name = label.startswith(FRESH), label.removeprefix(FRESH)
    # Of the same clusters all starts are alike.
    name, _, _ = name.partition(",")
    return fresh, ALIKE if ALIKE in name else name


def _gap(candidates, group):
    """Relative difference from the best of these to the best of the others, on the last
    level that has both.
    """
    for size in sorted({row.n_points for row in candidates}, reverse=True):
        level = [row for row in candidates if row.n_points == size]
        ours = [row.gw_cost for row in level if row.start in group]
        others = [row.gw_cost for row in level if row.start not in group]
        if ours and others:
            least = min(ours)
            return (min(others) - least) / abs(least) if least else float("inf")
    return 0.0
