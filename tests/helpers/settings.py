"""Arguments of solvers, written flat."""

import gwfast

RARE = gwfast.SolverOptions.__dataclass_fields__


def settings(**given):
    """Return keyword arguments of a solver: rare settings go into `options`, and the tier is a
    name, or "neighbors" with their number.
    """
    rare = {name: given.pop(name) for name in RARE if name in given}
    return given | {"options": gwfast.SolverOptions(**rare)} if rare else given
