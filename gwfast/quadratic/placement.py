"""Where kernels of point clouds are kept: in this process, or wherever the `Placement`
in force says. The room `distributed` has one; nothing here knows of it. A solve asks
once which is in force, where its options are made, and passes it down.
"""

import contextlib
from contextvars import ContextVar

_IN_FORCE: ContextVar = ContextVar("placement", default=None)


class Placement:
    """Keeps the kernels of some problems elsewhere."""

    def takes(self, problem):
        """Whether it keeps those of this problem, which has factors."""

    def linearize(self, problem, n_threads, tier):
        """A `Linearization` of a problem that it takes, its state yet to be set."""

    def nbytes(self, shape):
        """Bytes that a solve of that many points takes in this process."""


@contextlib.contextmanager
def placing(placement):
    """A block in which a `Placement` is in force, in this thread."""
    token = _IN_FORCE.set(placement)
    try:
        yield
    finally:
        _IN_FORCE.reset(token)


def in_force():
    """The `Placement` in force in this thread, or None."""
    return _IN_FORCE.get()
