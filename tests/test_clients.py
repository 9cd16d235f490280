"""What users of other programs are told to change, against what it stands in for; and
the programs that ``python -m benchmarks.clients`` writes out.
"""

import importlib
import re
import textwrap
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.distance import cdist, squareform

import gwfast

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "coming-from.md").read_text("utf-8")
pytestmark = pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")


def recipe(program, arguments, returns="", number=0):
    """A function whose body are the lines that the page gives for a program."""
    _, about = PAGE.split(f"\n\n**{program}** ")[-2:]
    blocks = re.findall(r"```{code-block} python\n(.*?)```", about, re.DOTALL)
    body = blocks[number] + (f"return {returns}\n" if returns else "")
    source = f"def made({arguments}):\n" + textwrap.indent(body, "    ")
    namespace = {"gwfast": gwfast, "np": np}
    exec(source, namespace)
    return namespace["made"]


def client(monkeypatch, name):
    """A module of the benchmarks, or a skip where it cannot be imported."""
    if not (ROOT / "benchmarks" / "clients").is_dir():
        pytest.skip("the benchmarks are not there")
    pytest.importorskip("ot", reason="POT is not installed")
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module(f"benchmarks.clients.{name}")


def slices(seed, n=30, m=34):
    """Costs and masses of a fused problem."""
    rng = np.random.default_rng(seed)
    spots = [rng.random((k, 2)) for k in (n, m)]
    costs = [cdist(one, one) for one in spots]
    M = cdist(*(np.hstack([one, rng.random((len(one), 3))]) for one in spots))
    return M, *costs, np.full(n, 1 / n), np.full(m, 1 / m)


def fgw(plan, M, C1, C2, alpha):
    p, q = plan.sum(axis=1), plan.sum(axis=0)
    quadratic = p @ np.square(C1) @ p + q @ np.square(C2) @ q
    quadratic -= 2 * np.vdot(C1 @ plan @ C2, plan)
    return (1 - alpha) * np.vdot(M, plan) + alpha * quadratic


PASTE = "M, C1, C2, p, q, G_init=None, loss_fun='square_loss', alpha=0.5, **_"
PASTE2 = "M, C1, C2, p, q, alpha, m=None, G0=None, loss_fun='square_loss', **_"


@pytest.mark.parametrize("alpha", [0.1, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_paste_ends_no_higher_than_its_call_of_cg(seed, alpha):
    """PASTE's line search leaves out the linear cost and `alpha`, so that plans may
    differ."""
    ot = pytest.importorskip("ot")
    M, C1, C2, p, q = problem = slices(seed)
    terms = ot.gromov.init_matrix(C1, C2, p, q)

    def line_search(cost, G, step, linear, value, *_, **__):
        return ot.gromov.solve_gromov_linesearch(G, step, value, C1, C2, M=0.0, reg=1.0)

    theirs = ot.optim.cg(
        p, q, (1 - alpha) * M, alpha,
        lambda G: ot.gromov.gwloss(*terms, G),
        lambda G: ot.gromov.gwggrad(*terms, G),
        np.outer(p, q), line_search,
    )  # fmt: skip
    plan, log = recipe("PASTE", PASTE)(*problem, alpha=alpha)
    expected = fgw(theirs, M, C1, C2, alpha)
    assert fgw(plan, M, C1, C2, alpha) <= expected * (1 + 1e-9)
    assert log["fgw_dist"] == pytest.approx(fgw(plan, M, C1, C2, alpha))
    again, _ = recipe("PASTE", PASTE)(*problem, alpha=alpha, G_init=plan)
    np.testing.assert_allclose(again, plan, atol=1e-12)


@pytest.mark.parametrize("mass", [0.5, 0.8, 1.0])
def test_paste2_ends_at_its_plan(mass):
    M, C1, C2, p, q = problem = slices(3)
    plan, log = recipe("PASTE2", PASTE2)(*problem, alpha=0.1, m=mass)
    assert plan.sum() == pytest.approx(mass)
    assert log["partial_fgw_cost"] == pytest.approx(fgw(plan, M, C1, C2, 0.1))
    pots = pytest.importorskip("ot").gromov.partial_fused_gromov_wasserstein
    theirs = pots(M, C1, C2, p, q, mass, alpha=0.1)
    np.testing.assert_allclose(plan, theirs, atol=1e-9)
    if mass < 1:
        program = pytest.importorskip("paste2.PASTE2")
        theirs = program.partial_fused_gromov_wasserstein(*problem, alpha=0.1, m=mass)
        np.testing.assert_allclose(plan, theirs, atol=1e-9)


def test_cajal_gets_its_distances():
    rng = np.random.default_rng(0)
    costs = [cdist(x, x) for x in (rng.random((n, 2)) for n in (9, 12, 12, 15))]
    cells = [(cost, rng.dirichlet(np.ones(len(cost)))) for cost in costs]
    found = recipe("CAJAL", "cells", "distances")(cells)
    pots = pytest.importorskip("ot").gromov.gromov_wasserstein2
    pairs = [(cells[i], cells[j]) for i in range(4) for j in range(i + 1, 4)]
    theirs = [np.sqrt(pots(A, B, a, b)) / 2 for (A, a), (B, b) in pairs]
    np.testing.assert_allclose(found, squareform(theirs), rtol=1e-9)
    program = pytest.importorskip("cajal.run_gw")
    theirs, _ = program.gw_pairwise_parallel(cells, 1)
    np.testing.assert_allclose(found, theirs, rtol=1e-9)


def test_gwtune_keeps_its_trials(monkeypatch):
    program = client(monkeypatch, "spaces")
    C1, C2 = program.colors(20)
    start = program.random_plan(np.random.default_rng(0), (20, 20))
    p = np.full(20, 1 / 20)
    given = "C1, C2, p, q, eps, T, self"
    made = recipe("GWTune", given, "T", number=1)
    plan = made(C1, C2, p, p, 0.05, start, SimpleNamespace(max_iter=200))
    np.testing.assert_allclose(plan, program.loop(C1, C2, start, 0.05), atol=1e-7)


def test_gwtune_is_tuned(monkeypatch):
    program = client(monkeypatch, "spaces")
    costs, limits = program.colors(20), (0.02, 0.2)
    plan = recipe("GWTune", "C1, C2, eps_list", "plan")(*costs, limits)
    np.testing.assert_array_equal(plan, program.tuned(costs, limits, 0))
    theirs = program.search(program.loop, costs, limits, 3)
    same = program.same_search(costs, limits, 3)
    np.testing.assert_allclose(same, theirs, atol=1e-5)
    assert program.quadratic(plan, *costs) <= program.quadratic(theirs, *costs)


def test_paste_and_paste2_are_given_what_the_page_says(monkeypatch):
    program, problem = client(monkeypatch, "slices"), slices(0)
    for name, solver, arguments, options in (
        ("PASTE", program.paste_solver, PASTE, {"alpha": 0.1}),
        ("PASTE2", program.paste2_solver, PASTE2, {"alpha": 0.1, "m": 0.7}),
    ):
        plan, log = recipe(name, arguments)(*problem, **options)
        other, notes = solver(*problem, **options)
        np.testing.assert_array_equal(plan, other)
        assert log.keys() == notes.keys()


@pytest.mark.filterwarnings("ignore:Sinkhorn did not converge")
def test_scot_ends_at_its_plan(monkeypatch):
    program = client(monkeypatch, "cells")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 6))
    y = np.hstack([x[:, :5] + 0.1 * rng.normal(size=(50, 5)), x[:, :1] ** 2])
    monkeypatch.setattr(program.data, "cells", lambda name: (x, y))
    cells, ratios = list(program.scot(1))[1]  # at epsilon 1e-2
    assert min(ratios) > 0
    assert float(cells[6]) == pytest.approx(float(cells[5]), rel=1e-4)
    assert float(cells[9]) == pytest.approx(float(cells[8]), abs=0.02)


def test_what_is_not_installed_is_named(monkeypatch, capsys):
    shown = client(monkeypatch, "__main__")

    def missing(rounds):
        raise ModuleNotFoundError(name="cajal")

    row = ["cells", "2.5 [2]", "1 [1]", "2.50", "4.00", "1", "0.9", "right", "0.5", "0.6"]
    programs = {
        "cajal": shown.PROGRAMS["cajal"]._replace(rows=missing),
        "scot": shown.PROGRAMS["scot"]._replace(rows=lambda rounds: [(row, [2.5, 4.0])]),
    }
    monkeypatch.setattr(shown, "PROGRAMS", programs)
    shown.table(SimpleNamespace(parts=["cajal", "scot"], rounds=1))
    text = capsys.readouterr().out
    assert "| CAJAL | not installed: cajal (pip install cajal) |" in text
    assert "| SCOT | cells | 1 | 2.5 [2] | 1 [1] | 2.50 | 4.00 | 1 | 0.9 | right |" in text
    assert "Median of the ratios, one a program: 2.50, of solvers 4.00" in text


def test_what_a_program_spends_in_its_solver_is_told(monkeypatch):
    rows = client(monkeypatch, "rows")
    solve = rows.timed(lambda: sum(range(10**5)))

    def program():
        return solve() + sum(range(10**6))

    def whole():
        return sum(range(10**5))

    _, (ratio, of_solvers) = rows.compared("numbers", program, whole, float, "right", float, 2)
    assert ratio > of_solvers
    _, ratios = rows.compared("numbers", whole, whole, float, "right", float, 2)
    assert ratios[0] == ratios[1]


def test_a_plan_is_made_a_coupling(monkeypatch):
    rows = client(monkeypatch, "rows")
    plan = np.random.default_rng(0).random((5, 7)) / 35
    found = rows.coupling(plan)
    np.testing.assert_allclose(found.sum(axis=1), 1 / 5)
    np.testing.assert_allclose(found.sum(axis=0), 1 / 7)
    np.testing.assert_allclose(rows.coupling(found), found)


def pamonas(C1, C2, p, q, m, epsilon):
    """Pamona's steps with one virtual cell on each side, without it and its share."""
    ot = pytest.importorskip("ot")
    left = [max(one.sum() - m, 1e-15) for one in (q, p)]
    ends = [np.append(p, left[0]), np.append(q, left[1])]
    ends = [one / one.sum() for one in ends]
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


@pytest.mark.filterwarnings("ignore:Sinkhorn did not converge")
@pytest.mark.parametrize("n, m, shared", [(15, 15, 15), (15, 12, 12), (15, 12, 9)])
def test_pamona_ends_at_its_plan_or_near(n, m, shared):
    rng = np.random.default_rng(0)
    x = rng.random((n, 3)) * [3, 2, 1]
    costs = [cdist(one, one) for one in (x, x[:m] + 0.05 * rng.random((m, 3)))]
    C1, C2 = (cost / cost.max() for cost in costs)
    p, q, mass = np.full(n, 1 / n), np.full(m, 1 / n), shared / n
    made = recipe("Pamona", "self, C1, C2, p, q, m")
    plan = made(SimpleNamespace(epsilon=0.05), C1, C2, p, q, mass)
    theirs = pamonas(C1, C2, p, q, mass, 0.05)
    assert plan.sum() == pytest.approx(mass)
    if shared == n:
        np.testing.assert_allclose(plan, theirs, atol=1e-6)
        return
    # Pamona counts the entropy of what is left over, too.
    assert abs(plan / plan.sum() - theirs / theirs.sum()).sum() / 2 < 0.1


def graph_mixtures(torch, n=20, seed=0):
    """Adjacency and similarities (n, n, 2) of a graph, and of its shuffled copy."""
    rng = np.random.default_rng(seed)
    points, order = rng.standard_normal((n, 4)), rng.permutation(n)
    made = []
    for x in (points, points[order] + 0.1 * rng.standard_normal((n, 4))):
        units = x / np.linalg.norm(x, axis=1, keepdims=True)
        near = cdist(x, x) < np.quantile(cdist(x, x), 0.3)
        made.append(torch.tensor(np.stack([near, units @ units.T], axis=2)))
    return made


def test_slotaligns_last_steps_end_no_lower():
    torch = pytest.importorskip("torch")
    A, B = (one.sum(dim=2) / 2 for one in graph_mixtures(torch))
    start = torch.full((20, 20), 1 / 400.0).double()
    plan = recipe("SLOTAlign", "A, B, X, torch", "X")(A, B, start, torch)
    expected = gwfast.gromov_wasserstein(A.numpy(), B.numpy(), init=start.numpy(), epsilon=0)
    np.testing.assert_array_equal(plan.numpy(), expected.plan)


def test_gradients_in_slotaligns_mixtures():
    torch = pytest.importorskip("torch")
    bases = graph_mixtures(torch)
    found, held = ([torch.full((2,), 0.5).double() for _ in bases] for _ in range(2))
    for one in (*found, *held):
        one.requires_grad_()
    A, B = (one @ weights for one, weights in zip(bases, found, strict=True))
    loss, log = gwfast.pot.gromov_wasserstein2(A, B, log=True)
    loss.backward()
    plan = torch.as_tensor(log["T"]).detach()
    A, B = (one @ weights for one, weights in zip(bases, held, strict=True))
    value = (A**2).mean() + (B**2).mean() - 2 * torch.trace(A @ plan @ B @ plan.T)
    value.backward()
    assert loss.item() == pytest.approx(value.item())
    for one, other in zip(found, held, strict=True):
        torch.testing.assert_close(one.grad, other.grad)


def test_moscot_goes_on_from_the_plan():
    modality = pytest.importorskip("moscot.problems.cross_modality")
    anndata, pandas = pytest.importorskip("anndata"), pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    x = rng.standard_exponential((30, 3)) * [1, 2, 3]
    sides = []
    for name, values in (("src", x), ("tgt", x[::-1, ::-1])):
        sides.append(anndata.AnnData(values.copy(), obsm={"X_pca": values.copy()}))
        sides[-1].obs_names = [f"{name}-{i}" for i in range(len(values))]
    problem = modality.TranslationProblem(*sides)
    problem = problem.prepare(src_attr="X_pca", tgt_attr="X_pca")
    recipe("moscot", "problem, e, cdist")(problem, 0.01, cdist)
    moved = np.asarray(problem.translate(source="src", target="tgt", forward=True))
    plan = np.asarray(problem["src", "tgt"].solution.transport_matrix)
    weights = plan / plan.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(moved, weights @ x[::-1, ::-1], rtol=1e-4)
    problem.solve(alpha=1, epsilon=0.01, threshold=1e-6, max_iterations=500)
    theirs = np.asarray(problem["src", "tgt"].solution.transport_matrix)
    assert abs(plan - theirs).sum() / 2 < 0.02
    named = pandas.DataFrame(plan, *(one.obs_names for one in sides))
    problem["src", "tgt"].set_solution(named, overwrite=True)
