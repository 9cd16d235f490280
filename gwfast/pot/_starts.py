"""Plans to start from that POT has names for, with POT's random numbers."""

import numpy as np

from .arrays import pots_choice

# Names of the plans that are made here, and of the plans that POT makes by clustering a space into
# a part for each point of the other.
STARTS = ("product", "random_product", "random")
PARTITIONS = ("fluid", "fluid_soft", "spectral", "spectral_soft", "kmeans", "kmeans_soft")


def random_generator(seed):
    """Return the generator of POT's `random_state`: NumPy's global one for None."""
    if seed is None:
        return np.random.mtrand._rand
    if isinstance(seed, np.random.RandomState):
        return seed
    return np.random.RandomState(seed)


def named_plan(call, method, random_state, use_target):
    """Return the plan of POT's `semirelaxed_init_plan`."""
    name, p, (n, m) = call.name("G0"), call.p, call.shape
    pots_choice(method, name, STARTS + PARTITIONS)
    if method in PARTITIONS:
        try:
            from ot.gromov import semirelaxed_init_plan
        except ImportError as error:
            raise ImportError(f"{name}={method!r} needs POT (pip install POT)") from error
        features = call.M, call.alpha, method, use_target, random_state
        return semirelaxed_init_plan(call.x.matrix, call.y.matrix, p, *features)
    if method == "product":
        plan = np.outer(p, np.full(m, 1 / m))
    elif method == "random_product":
        q = random_generator(random_state).uniform(0, m, size=m)
        plan = np.outer(p, q / q.sum())
    else:
        plan = random_generator(random_state).uniform(0, n * m, (n, m))
        plan *= (p / plan.sum(axis=1))[:, None]
    if call.M is None:
        return plan
    # Points with the same features are equally near but for rounding.
    rounding = 16 * np.finfo(call.M.dtype).eps * call.M.max()
    least = call.M <= call.M.min(axis=1, keepdims=True) + rounding
    nearest = least * (p / least.sum(axis=1))[:, None]
    return call.alpha * plan + (1 - call.alpha) * nearest


def feature_centers(features, n, random_state):
    """Return the features that POT begins with if plans cluster."""
    try:
        from sklearn.cluster import KMeans
    except ImportError as error:
        raise ImportError("G0 without init_X needs the package scikit-learn") from error
    return KMeans(n_clusters=n, random_state=random_state, n_init=1).fit(features).cluster_centers_
