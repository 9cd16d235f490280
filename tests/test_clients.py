"""The changes that docs/coming-from.md asks for in other programs, against what they replace."""

import functools
import re
import textwrap
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.distance import cdist, squareform

import gwfast

ot = pytest.importorskip("ot", reason="POT is not installed")
PAGE = (Path(__file__).resolve().parents[1] / "docs" / "coming-from.md").read_text("utf-8")
pytestmark = pytest.mark.filterwarnings(
    "ignore::gwfast.ConvergenceWarning", "ignore:Sinkhorn did not converge"
)
PASTE = "M, C1, C2, p, q, G_init=None, loss_fun='square_loss', alpha=0.5"
PASTE2 = "M, C1, C2, p, q, alpha, m=None, G0=None, loss_fun='square_loss'"


def recipe(program, parameters, returns="", number=0):
    """Return a function whose body is a block of code that the page gives for a program."""
    about = PAGE.split(f"\n\n**{program}** ")[-1]
    blocks = re.findall(r"```python\n(.*?)```", about, re.DOTALL)
    body = blocks[number] + (f"return {returns}\n" if returns else "")
    namespace = {"gwfast": gwfast, "np": np}
    exec(f"def recipe({parameters}):\n" + textwrap.indent(body, "    "), namespace)
    return namespace["recipe"]


def slices(seed, n=30, m=34):
    """Return costs and masses of a fused problem."""
    rng = np.random.default_rng(seed)
    spots = [rng.random((k, 2)) for k in (n, m)]
    costs = [cdist(x, x) for x in spots]
    M = cdist(*(np.hstack([x, rng.random((len(x), 3))]) for x in spots))
    return M, *costs, np.full(n, 1 / n), np.full(m, 1 / m)


def two_clouds(n, m, noise):
    """Return distances in a cloud and in its first points, moved a little, at most 1."""
    rng = np.random.default_rng(0)
    x = rng.random((n, 3)) * [3, 2, 1]
    costs = [cdist(z, z) for z in (x, x[:m] + noise * rng.random((m, 3)))]
    return [cost / cost.max() for cost in costs]


def objective(plan, C1, C2, M=0.0, alpha=1.0):
    p, q = plan.sum(axis=1), plan.sum(axis=0)
    quadratic = p @ np.square(C1) @ p + q @ np.square(C2) @ q
    quadratic -= 2 * np.vdot(C1 @ plan @ C2, plan)
    return (1 - alpha) * np.sum(M * plan) + alpha * quadratic


@pytest.mark.parametrize("alpha", [0.1, 0.5])
def test_paste_ends_no_higher_than_its_call_of_cg(seed, alpha):
    M, C1, C2, p, q = problem = slices(seed)
    terms = ot.gromov.init_matrix(C1, C2, p, q)

    def line_search(cost, G, step, linear, value, *_, **__):
        # PASTE leaves out the linear cost and `alpha`, so that plans may differ.
        return ot.gromov.solve_gromov_linesearch(G, step, value, C1, C2, M=0.0, reg=1.0)

    loss = (functools.partial(x, *terms) for x in (ot.gromov.gwloss, ot.gromov.gwggrad))
    theirs = ot.optim.cg(p, q, (1 - alpha) * M, alpha, *loss, np.outer(p, q), line_search)
    plan, log = recipe("PASTE", PASTE)(*problem, alpha=alpha)
    value = objective(plan, C1, C2, M, alpha)
    assert value <= objective(theirs, C1, C2, M, alpha) * (1 + 1e-9)
    assert log["fgw_dist"] == pytest.approx(value)
    again, _ = recipe("PASTE", PASTE)(*problem, alpha=alpha, G_init=plan)
    np.testing.assert_allclose(again, plan, atol=1e-12)


@pytest.mark.parametrize("mass", [0.5, 0.8, 1.0])
def test_paste2_ends_at_its_plan(mass):
    problem = M, C1, C2, *_ = slices(3)
    plan, log = recipe("PASTE2", PASTE2)(*problem, alpha=0.1, m=mass)
    assert plan.sum() == pytest.approx(mass)
    assert log["partial_fgw_cost"] == pytest.approx(objective(plan, C1, C2, M, 0.1))
    theirs = ot.gromov.partial_fused_gromov_wasserstein(*problem, mass, alpha=0.1)
    np.testing.assert_allclose(plan, theirs, atol=1e-9)


def test_cajal_gets_its_distances():
    rng = np.random.default_rng(0)
    costs = [cdist(x, x) for x in (rng.random((n, 2)) for n in (9, 12, 12, 15))]
    cells = [(cost, rng.dirichlet(np.ones(len(cost)))) for cost in costs]
    found = recipe("CAJAL", "cells", "distances")(cells)
    pairs = [(cells[i], cells[j]) for i in range(4) for j in range(i + 1, 4)]
    theirs = [ot.gromov.gromov_wasserstein2(A, B, a, b) for (A, a), (B, b) in pairs]
    np.testing.assert_allclose(found, squareform(np.sqrt(theirs)) / 2, rtol=1e-9)


def test_gwtune_is_tuned_and_its_trials_are_kept():
    C1, C2 = two_clouds(20, 20, noise=0.1)
    p = np.full(20, 1 / 20)
    start = ot.sinkhorn(p, p, np.random.default_rng(0).random((20, 20)), 0.1)
    options = dict(epsilon=0.05, max_iter=200)
    theirs = ot.gromov.entropic_gromov_wasserstein(C1, C2, p, p, G0=start, **options)
    trial = recipe("GWTune", "C1, C2, p, q, eps, T, self", "T", number=1)
    plan = trial(C1, C2, p, p, 0.05, start, SimpleNamespace(max_iter=200))
    np.testing.assert_allclose(plan, theirs, atol=1e-6)
    tuned = recipe("GWTune", "C1, C2, eps_list", "plan")(C1, C2, (0.02, 0.2))
    assert objective(tuned, C1, C2) <= objective(theirs, C1, C2)


def pamonas(C1, C2, p, q, m, epsilon):
    """Return the plan of Pamona's steps, which have a virtual cell on each side, without these."""
    left = [max(masses.sum() - m, 1e-15) for masses in (q, p)]
    ends = [np.append(p, left[0]), np.append(q, left[1])]
    ends = [masses / masses.sum() for masses in ends]
    plan = np.outer(p, q)
    for _ in range(200):
        before, masses = plan, (plan.sum(axis=1), plan.sum(axis=0))
        cost = np.square(C1) @ masses[0][:, None] + masses[1] @ np.square(C2)
        cost = (cost - 2 * C1 @ plan @ C2) * (2 if m == 1 else 1)
        cost = np.pad(cost, (0, 1))
        cost[-1, -1] = 100 * cost.max()
        plan = ot.sinkhorn(*ends, cost, epsilon, numItermax=10**4)[:-1, :-1]
        if abs(plan - before).max() < 1e-9:
            break
    return plan


@pytest.mark.parametrize("n, m, shared", [(15, 15, 15), (15, 12, 12), (15, 12, 9)])
def test_pamona_ends_at_its_plan_or_near(n, m, shared):
    problem = *two_clouds(n, m, noise=0.05), np.full(n, 1 / n), np.full(m, 1 / n), shared / n
    plan = recipe("Pamona", "self, C1, C2, p, q, m")(SimpleNamespace(epsilon=0.05), *problem)
    theirs = pamonas(*problem, 0.05)
    assert plan.sum() == pytest.approx(shared / n)
    # Unless all cells are matched, Pamona counts the entropy of the unmatched mass, too.
    distance = abs(plan / plan.sum() - theirs / theirs.sum()).sum() / 2
    assert distance < (1e-4 if shared == n else 0.1)


def test_slotaligns_last_steps_end_at_the_exact_plan():
    torch = pytest.importorskip("torch")
    A, B = map(torch.tensor, two_clouds(20, 20, noise=0.1))
    start = torch.full((20, 20), 1 / 400.0).double()
    plan = recipe("SLOTAlign", "A, B, X, torch", "X")(A, B, start, torch)
    expected = gwfast.gromov_wasserstein(A.numpy(), B.numpy(), init=start.numpy(), epsilon=0)
    np.testing.assert_array_equal(plan.numpy(), expected.plan)
