"""Deadlines that do not depend on how busy a machine is."""

import numpy as np

from gwfast.utils.deadline import Deadline


class AfterLooks(Deadline):
    """Has passed when it has been looked at so many times."""

    def __init__(self, looks):
        self.looks = looks

    @property
    def at(self):
        self.looks -= 1
        return np.inf if self.looks >= 0 else -np.inf

    def stop(self):
        self.looks = 0
