"""Two clouds that are too large for their plan: a cloud, and the same rotated, with
noise, in another order. No peer is here, as none can hold it.
"""

import os
import time
import warnings

import numpy as np

import gwfast
from gwfast import words

from ..common import pairs
from ..common.footprint import Footprint

DIMENSIONS, CLUSTERS, NOISE = 100, 1000, 0.1
OPTIONS = {
    "tier": "tiled",
    "memory_limit": "4GB",
    "init": "auto",
    "tol": 1e-3,
    "marginal_tol": 1e-2,
    "max_outer": 6,
}


def measure(job, tell, solving):
    """Solve it, and say how fast that went and what was found."""
    n, n_threads = job["n"], job["threads"]
    name, x, y, right = pair_of_clouds(n)
    settings = ", ".join(f"{key}={value}" for key, value in OPTIONS.items())
    tell(name=f"{name}, {n} x {n} x {x.shape[1]}", settings=settings)
    tell(load=os.getloadavg()[0], n=n, d=x.shape[1])
    footprint = Footprint()
    with solving(tell), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # max_outer, which is in the table
        began = time.perf_counter()
        spaces = gwfast.PointCloud(x), gwfast.PointCloud(y)
        result = gwfast.gromov_wasserstein(*spaces, n_threads=n_threads, **OPTIONS)
        seconds = time.perf_counter() - began
        footprint.look()
        best = result.coupling.topk(1).indices[:, 0]
    tell(
        seconds=seconds,
        seconds_a_product=seconds_a_product(result.history),
        peak=footprint.above,
        process=footprint.process,
        accuracy=float(np.mean(best == right)),
        gw_cost=result.gw_cost,
        epsilon=result.epsilon,
        marginal_error=result.marginal_error,
        outer=result.n_outer,
        inner=result.n_inner,
        status=result.status,
    )


def seconds_a_product(history):
    """Seconds of a product of 2 n m d operations, on all points.

    A pass makes the kernel anew, which is one; taking the plan from it makes it once
    more and multiplies it by the points, which are two. What else an outer iteration
    does is in it.
    """
    return history[-1].seconds / sum(step.n_inner + 2 for step in history)


def pair_of_clouds(n, seed=0):
    """Name, both clouds, and the right column of every row.

    Principal components of word vectors, where there are as many, else a mixture of
    skewed clusters whose spectrum decays: clouds that are like their mirror image have
    more than one best plan.
    """
    rng = np.random.default_rng(seed)
    try:
        vectors = words.read_embeddings(pairs.FOLDER / "eltec" / "es.npz").vectors
    except FileNotFoundError:
        vectors = ()
    if len(vectors) >= n:
        name, x = "word vectors", principal_components(vectors[:n], DIMENSIONS)
    else:
        name, x = "mixture of clusters", mixture(n, DIMENSIONS, rng)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    d = x.shape[1]
    rotation = np.linalg.qr(rng.standard_normal((d, d)))[0]
    order = rng.permutation(n)
    y = x[order] @ rotation.astype(np.float32)
    y += NOISE / np.sqrt(d) * rng.standard_normal(y.shape, dtype=np.float32)
    y /= np.linalg.norm(y, axis=1, keepdims=True)
    return f"{name}, rotated with noise", x, y, np.argsort(order)


def principal_components(x, d):
    x = x - x.mean(axis=0)
    _, vectors = np.linalg.eigh(x.T @ x)
    return x @ vectors[:, ::-1][:, :d]


def mixture(n, d, rng):
    scales = np.sqrt(1.0 / np.arange(1, d + 1)).astype(np.float32)
    centers = rng.standard_exponential((CLUSTERS, d), dtype=np.float32) - 1
    x = 0.5 * rng.standard_normal((n, d), dtype=np.float32)
    x += centers[rng.integers(CLUSTERS, size=n)]
    x *= scales
    return x
