"""A cloud of any size, and the same rotated, with noise, in another order."""

import numpy as np

from gwfast import words

from . import pairs

DIMENSIONS, CLUSTERS, NOISE = 100, 1000, 0.1


def pair_of_clouds(n, seed=0, d=DIMENSIONS, synthetic=False):
    """Name, both clouds, and the right column of every row.

    Principal components of word vectors, where there are as many and they are not to be
    `synthetic`, else a mixture of skewed clusters whose spectrum decays: clouds that
    are like their mirror image have more than one best plan.
    """
    rng, vectors = np.random.default_rng(seed), ()
    if not synthetic:
        try:
            vectors = words.read_embeddings(pairs.FOLDER / "eltec" / "es.npz").vectors
        except FileNotFoundError:
            pass
    if len(vectors) >= n:
        name, x = "word vectors", principal_components(vectors[:n], d)
    else:
        name, x = "mixture of clusters", mixture(n, d, rng)
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
