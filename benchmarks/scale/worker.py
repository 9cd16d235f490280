"""One measurement, in a process of its own."""

from ..common.worker import work
from . import measures

if __name__ == "__main__":
    tasks = measures.solve, measures.slices, measures.memory, measures.ott
    work({task.__name__: task for task in tasks})
