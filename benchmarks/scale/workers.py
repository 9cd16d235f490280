"""One problem on the workers of a Dask cluster of local processes."""

import contextlib
import os
import signal
import time

import gwfast
from gwfast.distributed import cluster

from ..common import data, runner
from ..common.simulated import pair_of_clouds


@contextlib.contextmanager
def clients(n_points):
    """Have two workers of one thread solve problems from half of these points on."""
    from distributed import Client, LocalCluster

    how = dict(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    with LocalCluster(**how) as local, Client(local) as client:
        client.wait_for_workers(2)
        with cluster(client, min_points=n_points // 2):
            yield client


def solved(call, *arguments, **options):
    """Return a result and the seconds it took."""
    began = time.perf_counter()
    result = call(*arguments, **options)
    return getattr(result, "gw", result), time.perf_counter() - began


def show(title, found):
    """Print a row for each result and its seconds, by label, in terms of the first."""
    (first, first_seconds), *_ = found.values()
    rows = []
    for label, (result, seconds) in found.items():
        row = [label, f"{seconds:.1f}", f"{seconds / first_seconds:.2f}", f"{result.gw_cost:.8f}"]
        row += [f"{abs(result.gw_cost / first.gw_cost - 1):.1e}", result.n_iter]
        rows.append([*row, sum(step.n_inner for step in result.history), result.status])
    heads = "where", "s", "times", "gw_cost", "differs by", "outer", "inner", "status"
    runner.show(title, heads, rows)


def workers(options):
    """Print solves of Spanish and French in one process and on two workers."""
    n = (options.sizes or [20_000])[0]
    spaces = [side.vectors[:n] for side in data.language_pair("es-fr")[:2]]
    how = dict(tol=1e-4, n_threads=2)
    found = {"one process, 2 threads": solved(gwfast.align, *spaces, **how)}
    with clients(n):
        found["2 workers, 1 thread each"] = solved(gwfast.align, *spaces, **how)
    found["one process again"] = solved(gwfast.align, *spaces, **how)
    show(f"Spanish and French, {n} x {n}", found)


def faults(options):
    """Print solves of a cloud and its rotation undisturbed, and with a worker killed in the third
    iteration and another added.
    """
    n = (options.sizes or [10_000])[0]
    _, x, y, _ = pair_of_clouds(n)
    how, found = dict(init="product", tol=1e-4), {}
    sides = gwfast.PointCloud(x), gwfast.PointCloud(y)
    with clients(n) as client:

        def kill(step):
            if step.iteration == 3:
                pids = client.run(os.getpid)
                os.kill(pids[min(pids)], signal.SIGKILL)
                client.cluster.scale(3)

        call = gwfast.gromov_wasserstein
        found["undisturbed"] = solved(call, *sides, **how)
        found["a worker killed"] = solved(call, *sides, callback=kill, **how)
    show(f"clouds of {n} points", found)
