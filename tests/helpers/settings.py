"""Arguments of solvers, written flat."""

import gwfast

RARE = gwfast.SolverOptions.__dataclass_fields__


def settings(**given):
    """Return keyword arguments of a solver, the rare settings among them in `options`."""
    rare = {name: given.pop(name) for name in RARE if name in given}
    return given | {"options": gwfast.SolverOptions(**rare)} if rare else given
