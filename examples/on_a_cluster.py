"""
Pairs on a cluster
==================

Distances between all pairs of many spaces are many solves that know nothing of one another. joblib
shares them out, and Dask gives it workers: processes of this machine here, or of a cluster with
another address.

The spaces are clouds of points made here, of four families. It prints (and how long it
took)::

    24 clouds of 40 to 63 points, 276 pairs
    solved by 2 workers; as without them: True
    the nearest cloud is of the same family for 24 of 24
"""

import argparse
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import gwfast

try:
    import joblib
    from dask.distributed import Client, LocalCluster
except ImportError:
    raise SystemExit('on_a_cluster.py needs Dask: pip install joblib "dask[distributed]"') from None

# %%
# Spaces
# ------
# Balls, discs, rods and rings, each with its own number of points, sizes and noise.
# What is sent to the workers are their costs, each once.

N_OF_EACH = 6


def made_clouds(rng):
    clouds, families = [], []
    stretches = {"ball": (1, 1, 1), "disc": (1, 1, 0.1), "rod": (1, 0.1, 0.1)}
    for family in [*stretches, "ring"]:
        for number in range(N_OF_EACH):
            n_points = 40 + len(clouds)
            points = rng.standard_normal((n_points, 3))
            if family != "ring":
                points /= np.linalg.norm(points, axis=1, keepdims=True)
                points *= rng.random((n_points, 1)) ** (1 / 3) * stretches[family]
            else:
                points[:, 2] = 0
                points /= np.linalg.norm(points, axis=1, keepdims=True)
            points += 0.03 * rng.standard_normal(points.shape)
            clouds.append(points * rng.uniform(0.9, 1.1))
            families.append(f"{family} {number + 1}")
    return clouds, families


# %%
# Workers
# -------
# A cluster that runs already is ``Client("tcp://scheduler:8786")``. Its workers need
# gwfast, joblib and NumPy, in the same versions, and one thread each: a pair is solved
# by one, and as many pairs at a time as there are workers. Inside `parallel_config`,
# `n_jobs` says how many are asked for, -1 for all.


def distances(costs, n_jobs=None):
    return gwfast.pairwise_gromov_wasserstein(costs, n_starts=1, n_jobs=n_jobs)


def solved_by_dask(costs):
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as own,
        Client(own) as client,
        joblib.parallel_config(backend="dask"),
    ):
        n_workers = len(client.scheduler_info(n_workers=-1)["workers"])
        return distances(costs, n_jobs=-1), n_workers


# %%
# A picture
# ---------
# The distances as they came, families side by side.


def draw(found, names, path):
    figure, axes = plt.subplots(figsize=(6.6, 5.6), layout="compressed")
    image = axes.imshow(found.distances, cmap="viridis")
    centers = np.arange(0, len(names), N_OF_EACH) + (N_OF_EACH - 1) / 2
    families = [name.split()[0] for name in names[::N_OF_EACH]]
    axes.set_xticks([])
    axes.set_yticks(centers, families)
    axes.set_title("Gromov-Wasserstein distances", loc="left", fontsize="medium")
    figure.colorbar(image, ax=axes)
    figure.savefig(path, dpi=150)


# %%
# The guard
# ---------
# Workers that are processes import this file to find its functions: what is to be done
# once, and above all starting workers, stands below ``if __name__ == "__main__":``.
# Without it every worker would start workers.


def main():
    parser = argparse.ArgumentParser(description="Pairs on a cluster.")
    parser.add_argument("--output", type=Path, default=Path("pictures"))
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)
    clouds, names = made_clouds(np.random.default_rng(0))
    costs = [gwfast.PointCloud(points, "euclidean").to_dense() for points in clouds]
    n_pairs = len(clouds) * (len(clouds) - 1) // 2
    sizes = [len(points) for points in clouds]
    print(f"{len(clouds)} clouds of {min(sizes)} to {max(sizes)} points, {n_pairs} pairs")

    began = time.perf_counter()
    found, n_workers = solved_by_dask(costs)
    seconds = time.perf_counter() - began
    same = np.array_equal(found.costs, distances(costs).costs)
    print(f"solved by {n_workers} workers; as without them: {same}")
    print(f"in {seconds:.1f} s, with starting the workers")

    nearest = found.nearest(1).indices[:, 0]
    alike = sum(names[i].split()[0] == names[j].split()[0] for i, j in enumerate(nearest))
    print(f"the nearest cloud is of the same family for {alike} of {len(names)}")
    draw(found, names, output / "on_a_cluster.png")


if __name__ == "__main__":
    main()
