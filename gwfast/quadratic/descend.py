from .linearize import State
from .outer_loop import OuterLoop


class Descent:
    def __init__(self, linearization, loop, epsilons, solution=None, status=None):
        self.linearization, self.loop, self.epsilons, self.solution, self._status = (
            linearization,
            loop,
            epsilons,
            solution,
            status,
        )

    @classmethod
    def at(cls, linearization, state, epsilons, after=None, change=1.0):
        loop = OuterLoop(
            state.fork,
            epsilons,
            state.objective,
            potentials=state.potentials,
            method=linearization.method,
            after=after and after.solution,
        )
        if after is None:
            loop.change = change
        return cls(linearization, loop, epsilons)

    @property
    def state(self):
        return State(self.loop.linearization, self.loop.gw_cost, self.loop.potentials)

    @property
    def status(self):
        return self._status or (self.solution and self.solution.status)

    gw_cost = property(lambda s: s.loop.gw_cost)
    history = property(lambda s: s.loop.history)
    seconds = property(lambda s: s.loop.seconds)
    update_seconds = property(lambda s: s.loop.update_seconds)

    def start_for(self, linearization, epsilon=0.0):
        if hasattr(self.loop.linearization, "_store"):
            from .judge import Limits

            self.solution = self.loop.run(
                Limits(len(self.history) + 1, 1000, tol=1e-3, marginal_tol=1e-3)
            )
        pot = self.solution.potentials_for(linearization.whole) if self.solution else None
        old = self.loop.linearization
        if hasattr(old, "_store"):
            plan = self.solution.coupling
        else:
            plan = self.loop.linearization.state
        return linearization.initial(plan, potentials=pot)

    def __getattr__(self, name):
        if name == "solution":
            raise AttributeError
        return getattr(self.solution, name)

    def __copy__(self):
        return self

    def export(self):
        s = self.state
        return dict(plan=s.plan)

    @classmethod
    def restored(cls, linearization, saved):
        raise ValueError("x")


def descend(linearization, start, epsilons, limits, *, callback=None, save=None, after=None):
    start.loop.linearization._is_fork = not limits.damps
    solution = start.loop.run(limits, callback, save and (lambda: save(start)))
    return Descent(linearization, start.loop, epsilons, solution)
