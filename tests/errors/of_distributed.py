"""Refusals of clusters."""

from types import SimpleNamespace

from gwfast.distributed import cluster

CLIENT = SimpleNamespace(scheduler_info=None, asynchronous=False)
ASYNCHRONOUS = SimpleNamespace(scheduler_info=None, asynchronous=True)
ROWS = [
    (lambda: cluster("tcp://here:8786").__enter__(), "client", "str", TypeError),
    (lambda: cluster(ASYNCHRONOUS).__enter__(), "client", "asynchronous"),
    (lambda: cluster(CLIENT, n_shards=0).__enter__(), "n_shards", 0),
    (lambda: cluster(CLIENT, min_points=1.5).__enter__(), "min_points", "integer", TypeError),
]
