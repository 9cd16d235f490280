"""One problem on the workers of a Dask cluster: ``python -m benchmarks.distributed``.

`words`: Spanish and French, in one process and on two workers of one thread each.
`faults`: a cloud and its rotation; undisturbed, with a worker killed and another added
in the middle, and with all processes killed and gone on from the checkpoint.
`large`: ten iterations on clouds of many points, on workers of 4 GB.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from statistics import median

import numpy as np

import gwfast
from gwfast.distributed import cluster
from gwfast.distributed.team import Team
from gwfast.solvers import checkpoint

from ..common import pairs
from ..common.clouds import pair_of_clouds
from ..common.markdown import show
from ..common.processes import command

MEMORY = "4GB"


@contextlib.contextmanager
def workers(n, n_threads=1, memory="auto"):
    """A `Client` of that many local processes."""
    from distributed import Client, LocalCluster

    options = dict(n_workers=n, threads_per_worker=n_threads, memory_limit=memory)
    with LocalCluster(**options, dashboard_address=":0") as found:
        with Client(found) as client:
            client.wait_for_workers(n)
            yield client


@contextlib.contextmanager
def timed():
    """Seconds of questions to all shards, by method, in a dict of lists."""
    ask, seconds = Team.ask, {}

    def asked(team, method, *args, **kwargs):
        began = time.perf_counter()
        try:
            return ask(team, method, *args, **kwargs)
        finally:
            seconds.setdefault(method, []).append(time.perf_counter() - began)

    Team.ask = asked
    try:
        yield seconds
    finally:
        Team.ask = ask


def solved(x, y, **options):
    """The result, and the seconds that it took."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gwfast.ConvergenceWarning)
        result = gwfast.gromov_wasserstein(x, y, **options)
    return result, time.perf_counter() - began


def words(arguments):
    n = arguments.n or 20_000
    spaces = [one.vectors[:n] for one in pairs.language_pair("es-fr")[:2]]
    rows, options = [], dict(tol=1e-4, n_threads=2)

    def aligned():
        began = time.perf_counter()
        found = gwfast.align(*spaces, **options).gw
        return found, time.perf_counter() - began

    here, seconds = aligned()
    rows.append(("one process, 2 threads", *_told(here, seconds, here, seconds)))
    with workers(2) as client, cluster(client, min_points=n // 2):
        there, took = aligned()
    rows.append(("2 workers, 1 thread each", *_told(there, took, here, seconds)))
    again, once_more = aligned()
    rows.append(("one process again", *_told(again, once_more, here, seconds)))
    titles = "where", "s", "times", "gw_cost", "differs by", "outer", "inner", "status"
    show(f"Spanish and French, {n} x {n}", titles, rows)


def _told(result, seconds, first, its_seconds):
    off = abs(result.gw_cost / first.gw_cost - 1)
    return (
        f"{seconds:.1f}",
        f"{seconds / its_seconds:.2f}",
        f"{result.gw_cost:.8f}",
        f"{off:.1e}",
        result.n_iter,
        sum(step.n_inner for step in result.history),
        result.status,
    )


def faults(arguments):
    n = arguments.n or 10_000
    _, x, y, _ = pair_of_clouds(n)
    clouds = gwfast.PointCloud(x), gwfast.PointCloud(y)
    options, rows = dict(init="product", tol=1e-4), []
    with workers(2) as client, cluster(client, min_points=n // 2):

        def kill(step):
            if step.iteration == 3:
                found = client.run(os.getpid)
                os.kill(found[min(found)], signal.SIGKILL)
                client.cluster.scale(3)

        quiet, seconds = solved(*clouds, **options)
        rows.append(("undisturbed", *_told(quiet, seconds, quiet, seconds)))
        killed, took = solved(*clouds, callback=kill, **options)
        rows.append(("a worker killed", *_told(killed, took, quiet, seconds)))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kept"
        given = command(__spec__.name, "killed", "--n", n, "--file", file)
        subprocess.run(given, start_new_session=True, check=False)
        if not file.is_file():
            sys.exit("nothing was kept")
        with workers(2) as client, cluster(client, min_points=n // 2):
            resumed, took = solved(*clouds, checkpoint=file, **options)
    rows.append(("all killed, resumed", *_told(resumed, took, quiet, seconds)))
    titles = "what", "s", "times", "gw_cost", "differs by", "outer", "inner", "status"
    show(f"Clouds of {n} points", titles, rows)


def killed(arguments):
    """What `faults` kills."""
    checkpoint.MAX_SHARE = np.inf
    n = arguments.n
    _, x, y, _ = pair_of_clouds(n)
    clouds = gwfast.PointCloud(x), gwfast.PointCloud(y)

    def die(step):
        if step.iteration == 3:
            os.killpg(0, signal.SIGKILL)

    with workers(2) as client, cluster(client, min_points=n // 2):
        options = dict(init="product", tol=1e-4, checkpoint=arguments.file)
        solved(*clouds, callback=die, **options)


def large(arguments):
    n = arguments.n or 200_000
    _, x, y, _ = pair_of_clouds(n)
    clouds = gwfast.PointCloud(x), gwfast.PointCloud(y)
    limits = dict(
        max_iter=1, options=gwfast.SolverOptions(max_inner=10, tier="tiled"), init="product"
    )
    with workers(2, memory=MEMORY) as client:
        with timed() as seconds, cluster(client, n_shards=2, min_points=n // 2):
            solved(*clouds, epsilon=gwfast.Epsilon(relative=0.05), **limits)
        found = client.run(_peak)
    names = {"Sinkhorn iteration": "iterate", "linearization": "contract"}
    rows = [(what, n, f"{median(seconds[name]):.3f}") for what, name in names.items()]
    show(f"Clouds on 2 workers of {MEMORY}", ("what", "points", "s"), rows)
    print(f"most memory of a worker: {max(found.values()) / 1e9:.2f} GB")


def _peak():
    import resource

    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.distributed")
    runs = dict(words=words, faults=faults, large=large, killed=killed)
    parser.add_argument("what", choices=runs)
    parser.add_argument("--n", type=int, help="points a side")
    parser.add_argument("--file", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    runs[arguments.what](arguments)


if __name__ == "__main__":
    main()
