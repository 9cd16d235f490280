"""Plans to start from that POT has names for, with POT's random numbers."""

import numpy as np

from .arrays import pots_choice

# Names of plans to start from: those made here, and those that POT makes by clustering
# one space into as many parts as the other has points.
STARTS = ("product", "random_product", "random")
PARTITIONS = tuple(
    f"{name}{end}" for name in ("fluid", "spectral", "kmeans") for end in ("", "_soft")
)


def random_generator(seed):
    """The generator of POT's `random_state`: NumPy's global one for None."""
    if seed is None:
        return np.random.mtrand._rand
    if isinstance(seed, np.random.RandomState):
        return seed
    return np.random.RandomState(seed)


def named_plan(problem, method, random_state, use_target):
    """What POT's `semirelaxed_init_plan` makes."""
    pots_choice(method, problem.name("G0"), STARTS + PARTITIONS)
    if method in PARTITIONS:
        return _partition_plan(problem, method, random_state, use_target)
    p, shape = problem.p, problem.shape
    if method == "product":
        plan = np.outer(p, np.full(shape[1], 1 / shape[1]))
    elif method == "random_product":
        q = random_generator(random_state).uniform(0, shape[1], size=shape[1])
        plan = np.outer(p, q / q.sum())
    else:
        plan = random_generator(random_state).uniform(0, shape[0] * shape[1], shape)
        plan *= (p / plan.sum(axis=1))[:, None]
    if problem.M is None:
        return plan
    # Points with the same features are equally near but for rounding.
    rounding = 16 * np.finfo(problem.M.dtype).eps * problem.M.max()
    least = problem.M <= problem.M.min(axis=1, keepdims=True) + rounding
    nearest = least * (p / least.sum(axis=1))[:, None]
    return problem.alpha * plan + (1 - problem.alpha) * nearest


def _partition_plan(problem, method, random_state, use_target):
    try:
        from ot.gromov import semirelaxed_init_plan
    except ImportError as error:
        raise ImportError(
            f"{problem.name('G0')}={method!r} needs POT, which makes it (pip install "
            f"POT); without there are {', '.join(STARTS)}, or a plan of your own"
        ) from error
    costs = problem.x.matrix, problem.y.matrix
    arguments = *costs, problem.p, problem.M, problem.alpha, method
    return semirelaxed_init_plan(*arguments, use_target, random_state)


def feature_centers(features, n, random_state):
    """The features that POT begins with where plans cluster."""
    try:
        from sklearn.cluster import KMeans
    except ImportError as error:
        raise ImportError(
            "features to start from need scikit-learn where G0 clusters (pip install "
            "scikit-learn); without, give init_X"
        ) from error
    found = KMeans(n_clusters=n, random_state=random_state, n_init=1).fit(features)
    return found.cluster_centers_
