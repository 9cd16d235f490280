"""A training step of a network whose layer is distances to template graphs (TFGW,
Vincent-Cuaz et al., NeurIPS 2022): many small fused problems, and gradients of all, by
the function that POT's layer calls and by one call for each problem.
"""

import functools
import importlib.util
import warnings
from statistics import median

import numpy as np

from ..common.markdown import show
from .calls import OURS
from .random_problems import shortest_paths
from .timings import in_turns

N_GRAPHS, N_NODES, N_TEMPLATES, TEMPLATE_NODES, N_FEATURES = 100, 20, 8, 10, 4
LEARNED = "costs", "features", "masses", "alpha"
LAYER = "costs", "features of graphs", "features", "masses", "alpha"


def training_table(pot, ours):
    """Seconds of a step in both modules, its loss, and how far gradients differ."""
    if importlib.util.find_spec("torch") is None:
        print("(training left out: needs PyTorch)")
        return
    if importlib.util.find_spec("torch_geometric") is None:
        print("(layer left out: POT's needs torch_geometric)")
    else:
        import ot.gnn

        _compare("layer", LAYER, _layer_step, (ot.gnn, ours), _batch())
    _compare("one call each", LEARNED, _step, (pot, ours), _data())


def _compare(title, learned, step, modules, given):
    calls = [functools.partial(step, module, *given) for module in modules]
    seconds, results = in_turns(calls)
    rows = []
    for name, times, (loss, _) in zip(("POT", OURS), seconds, results, strict=True):
        ratio = median(seconds[0]) / median(times)
        shown = f"{median(times):.3f} [{min(times):.3f}]", f"{ratio:.1f}"
        rows.append((name, *shown, f"{loss:.9g}"))
    title = (
        f"training step, {title}: {N_GRAPHS} graphs of {N_NODES} nodes, {N_TEMPLATES} "
        f"templates of {TEMPLATE_NODES}"
    )
    show(title, ("module", "s, median [min]", "ratio", "loss"), rows)
    apart = [
        (name, f"{np.abs(x - y).max() / np.abs(x).max():.1e}")
        for name, x, y in zip(learned, *(one for _, one in results), strict=True)
    ]
    show("gradients differ, of the largest", ("in", "by"), apart)


def _batch():
    """Arguments of a layer: edges, features of nodes, the graph of each, templates, and
    unequal masses of these, as equal ones have ties.
    """
    rng = np.random.default_rng(0)
    joined = np.triu(rng.random((N_GRAPHS, N_NODES, N_NODES)) < 6 / N_NODES, 1)
    graph, rows, cols = (joined | joined.swapaxes(1, 2)).nonzero()
    edges = N_NODES * graph + np.array([rows, cols])
    made = rng.random((N_TEMPLATES, TEMPLATE_NODES, TEMPLATE_NODES))
    features = rng.standard_normal((N_GRAPHS * N_NODES, N_FEATURES))
    of_templates = rng.standard_normal((N_TEMPLATES, TEMPLATE_NODES, N_FEATURES))
    masses = 1 + 0.1 * rng.random((N_TEMPLATES, TEMPLATE_NODES))
    masses /= masses.sum(axis=1, keepdims=True)
    learned = made + made.swapaxes(1, 2), features, of_templates, masses, np.array(0.5)
    return edges, np.repeat(np.arange(N_GRAPHS), N_NODES), learned


def _layer_step(module, edges, batch, learned):
    """The mean of all distances, and its gradients in `LAYER`."""
    import torch

    torch.set_num_threads(1)
    edges, batch = map(torch.from_numpy, (edges, batch))
    *learned, alpha = (torch.tensor(x).float().requires_grad_() for x in learned)
    given = *learned, alpha, False, batch
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, on sparse tensors of POT
        loss = module.FGW_distance_to_templates(edges, *given).mean()
    loss.backward()
    return loss.item(), [x.grad.numpy() for x in (*learned, alpha)]


def _data():
    """Graphs and templates: costs, features and masses of each."""
    rng = np.random.default_rng(0)
    made = []
    for count, nodes in ((N_GRAPHS, N_NODES), (N_TEMPLATES, TEMPLATE_NODES)):
        costs = np.array([shortest_paths(rng, nodes) for _ in range(count)])
        # Costs that are being learned are no whole numbers, which have ties.
        noise = 0.1 * rng.random(costs.shape)
        costs += noise + noise.swapaxes(1, 2)
        masses = 1 + 0.1 * rng.random((count, nodes))
        features = rng.standard_normal((count, nodes, N_FEATURES))
        made.append((costs, features, masses / masses.sum(axis=1, keepdims=True)))
    return made


def _step(module, graphs, templates):
    """The mean of all distances, and its gradients in `LEARNED`."""
    import torch

    # Small tensors, and one thread, as the solvers have here.
    torch.set_num_threads(1)
    graphs = [torch.from_numpy(x) for x in graphs]
    learned = [torch.from_numpy(x).requires_grad_() for x in templates]
    alpha = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    values = [
        module.fused_gromov_wasserstein2(
            torch.cdist(features, of) ** 2, costs, own, masses, q, alpha=alpha
        )
        for costs, features, masses in zip(*graphs, strict=True)
        for own, of, q in zip(*learned, strict=True)
    ]
    loss = torch.stack(values).mean()
    loss.backward()
    costs, features, masses = (x.grad.numpy() for x in learned)
    return loss.item(), (costs, features, masses, alpha.grad.numpy())
