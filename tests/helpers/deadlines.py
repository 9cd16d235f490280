"""Deadlines that do not depend on how busy a machine is."""

import numpy as np

from gwfast.utils.deadline import Deadline


class AfterLooks(Deadline):
    """A deadline that has passed after a number of looks."""

    def __init__(self, looks):
        self.looks = looks

    @property
    def at(self):
        self.looks -= 1
        return np.inf if self.looks >= 0 else -np.inf

    def stop(self):
        self.looks = 0


def end_after(monkeypatch, looks):
    """Have all solves end after a number of looks at their deadline."""
    monkeypatch.setattr(Deadline, "after", lambda time_limit: AfterLooks(looks))


def end_at_will(monkeypatch):
    """The deadline of the next solves, which passes when it is told to `stop`."""
    deadline = Deadline()
    monkeypatch.setattr(Deadline, "after", lambda time_limit: deadline)
    return deadline
