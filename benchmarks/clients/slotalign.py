"""SLOTAlign (Tang et al., ICDE 2023): nodes of two graphs with features, whose costs
are mixtures, learned on the way, of adjacency and similarities of features.

It is on GitHub alone, and for a GPU; its steps are written out here in torch. The graphs are those
of neighbors of real cells and, as in the paper, a copy with other edges and fewer features.
"""

import numpy as np

import gwfast

from ..common import pairs
from .rows import SOLVER, compared, quadratic

NAME, INSTALL, LINES = "SLOTAlign", "torch scikit-learn", 2
# Nodes, neighbors, and mixed matrices: adjacency, features, and these of neighbors.
N_NODES, NEIGHBORS, BASES = 400, 10, 3
# Shares of the edges that are others in the copy, and of the features that it lacks.
PROBLEMS = ((0.1, 0.2), (0.1, 0.4), (0.2, 0.4))
# Its defaults: steps that learn, steps in all, and of the mixtures and the plan.
LEARNING, STEPS, STEP, BETA = 100, 1000, 0.1, 0.01
QUALITY = "share right (Hit@1)"


def rows(repeats):
    import torch

    torch.set_num_threads(1)
    for edges, features in PROBLEMS:
        bases, others, truth = graphs(edges, features)
        yield compared(
            f"{N_NODES} cells, {edges:.0%} of edges, {features:.0%} of features off",
            lambda x=bases, y=others: aligned(x, y, proximal),
            lambda x=bases, y=others: aligned(x, y, exact),
            lambda found: quadratic(found[0], *found[1:]),
            QUALITY,
            lambda found, truth=truth: (found[0].argmax(axis=1) == truth).mean(),
            repeats,
        )


def exact(A, B, plan, steps, inner):
    """In place of the last of its calls of `proximal`."""
    import torch

    found = gwfast.gromov_wasserstein(A.numpy(), B.numpy(), init=plan.numpy(), epsilon=0)
    return torch.from_numpy(found.plan)


def aligned(bases, others, last):
    """Its plan and costs, with a function that makes the last steps of the plan."""
    import torch

    n, m = len(bases), len(others)
    plan = torch.full((n, m), 1 / (n * m))
    mixtures = [np.full(BASES, 1 / BASES, dtype=np.float32) for _ in range(2)]
    for _ in range(LEARNING):
        weights = [torch.tensor(one, requires_grad=True) for one in mixtures]
        A, B = bases @ weights[0], others @ weights[1]
        loss = (A**2).mean() + (B**2).mean() - torch.trace(A @ plan @ B @ plan.T)
        gradients = torch.autograd.grad(loss, weights)
        mixtures = [
            on_simplex((one - STEP * by).detach().numpy())
            for one, by in zip(weights, gradients, strict=True)
        ]
        A, B = A.detach(), B.detach()
        plan = proximal(A, B, plan, 1, 50)
    plan = SOLVER.timed(last)(A, B, plan, STEPS - LEARNING, 20)
    return plan.numpy(), A.numpy(), B.numpy()


def proximal(A, B, plan, steps, inner):
    """Steps of the plan: kernels times the last one, scaled to uniform masses."""
    import torch

    p, q = (torch.full((size, 1), 1 / size, dtype=A.dtype) for size in plan.shape)
    for _ in range(steps):
        before, u = plan, p
        kernel = torch.exp(2 / BETA * (A @ plan @ B.T)) * plan
        for _ in range(inner):
            v = q / (kernel.T @ u)
            last, u = u, p / (kernel @ v)
            if ((u - last).abs().sum() / last.abs().sum()) < 1e-10:
                break
        plan = u * kernel * v.T
        if (plan - before).abs().sum() / before.abs().sum() < 1e-10:
            break
    return plan


def on_simplex(weights):
    """The nearest weights that are none below zero and sum to one."""
    falling = np.sort(weights)[::-1]
    excess = (np.cumsum(falling) - 1) / np.arange(1, len(weights) + 1)
    return (weights - excess[falling > excess][-1]).clip(0).astype(weights.dtype)


def graphs(edges, features):
    """Mixed matrices (n, n, bases) of the cells and of their shuffled copy, and where
    each cell is in it.
    """
    from sklearn.neighbors import kneighbors_graph

    rng = np.random.default_rng(0)
    cells = pairs.cells("PBMC")[0]
    cells = cells[rng.permutation(len(cells))[:N_NODES]]
    graph = kneighbors_graph(cells, NEIGHBORS).toarray() > 0
    graph |= graph.T
    rows, columns = np.triu_indices(N_NODES, 1)
    copied = graph[rows, columns]
    moved = rng.permutation(np.flatnonzero(copied))[: round(edges * copied.sum())]
    copied[moved] = False
    copied[rng.choice(len(copied), len(moved), replace=False)] = True
    copy = np.zeros_like(graph)
    copy[rows, columns] = copy[columns, rows] = copied
    kept = rng.permutation(cells.shape[1])[round(features * cells.shape[1]) :]
    order = rng.permutation(N_NODES)
    found = (mixed(graph, cells), mixed(copy[np.ix_(order, order)], cells[order][:, kept]))
    return *found, np.argsort(order)


def mixed(graph, features):
    """Adjacency and the cosine similarities of features, then of their means over
    neighbors."""
    import torch

    loops = graph + np.eye(len(graph))
    degrees = np.sqrt(loops.sum(axis=1))
    made, features = [graph.astype(float)], features - features.mean(axis=0)
    for _ in range(BASES - 1):
        units = features / np.linalg.norm(features, axis=1, keepdims=True)
        made.append(units @ units.T)
        features = loops / np.outer(degrees, degrees) @ features
    return torch.from_numpy(np.stack(made, axis=2).astype(np.float32))
