import numpy as np

from .factory import TIERS, WHOLE_TIERS, Tier, is_factored, is_placed, nbytes, tiers, work  # noqa
from .factory import linearize as _linearize
from .placement import Placement, in_force, placing  # noqa


class State:
    def __init__(self, fork, objective, potentials=None):
        self.fork, self.objective, self.potentials = fork, objective, potentials

    @property
    def plan(self):
        return self.fork.state


class Bridge:
    def __init__(self, whole):
        self.whole = whole

    def __getattr__(self, name):
        return getattr(self.whole, name)

    def magnitude(self, state):
        return self.whole.magnitude

    def initial(self, plan=None, *, potentials=None, epsilon=0.0):
        fork = self.whole.fork()
        if hasattr(plan, "toarray") and not is_factored(self.problem):
            plan = plan.toarray()
        cost = fork.start(plan)
        return State(fork, cost, potentials)

    def extended(self, state, coarse, rows, cols, epsilon=0.0):
        fork = self.whole.fork()
        cost = fork.start_from(state.fork, rows, cols)
        potentials = state.potentials and fork.extend_potentials(
            state.potentials, rows, cols, epsilon
        )
        return State(fork, cost, potentials)

    def deviation(self, state):
        return np.linalg.norm(state.fork.deviation())

    def apart(self, a, b):
        return a.fork.apart(b.fork)


def linearize(*a, **k):
    return Bridge(_linearize(*a, **k))
