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
    program = client(monkeypatch, "gwtune")
    C1, C2 = program.colors(20)
    start = program.random_plan(np.random.default_rng(0), (20, 20))
    p = np.full(20, 1 / 20)
    given = "C1, C2, p, q, eps, T, self"
    made = recipe("GWTune", given, "T", number=1)
    plan = made(C1, C2, p, p, 0.05, start, SimpleNamespace(max_iter=200))
    np.testing.assert_allclose(plan, program.loop(C1, C2, start, 0.05), atol=1e-7)


def test_gwtune_is_tuned(monkeypatch):
    program = client(monkeypatch, "gwtune")
    costs, limits = program.colors(20), (0.02, 0.2)
    plan = recipe("GWTune", "C1, C2, eps_list", "plan")(*costs, limits)
    np.testing.assert_array_equal(plan, program.tuned(costs, limits, 0))
    row = program.row("", costs, limits, 3, program.tuned, 1)
    assert row.objectives[1] <= row.objectives[0]
    assert 0 <= row.qualities[0] <= row.qualities[1] == 1
    row = program.row("", costs, limits, 3, program.same_search, 1)
    assert row.objectives[1] == pytest.approx(row.objectives[0], rel=1e-5)


def test_scot_ends_at_its_plan(monkeypatch):
    program = client(monkeypatch, "scot")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(25, 6))
    y = np.hstack([x[:, :5] + 0.1 * rng.normal(size=(25, 5)), x[:, :1] ** 2])
    row = program.row("25 cells", x, y, 8, 0.05, 1)
    assert len(row.theirs_s) == len(row.ours_s) > 0
    assert row.objectives[1] == pytest.approx(row.objectives[0], rel=1e-5)
    assert row.qualities[1] == pytest.approx(row.qualities[0], abs=0.02)


def test_paste_and_paste2_are_given_what_the_page_says(monkeypatch):
    paste, paste2 = (client(monkeypatch, name) for name in ("paste", "paste2"))
    problem = slices(0)
    for program, arguments, options in (
        (paste, PASTE, {"alpha": 0.1}),
        (paste2, PASTE2, {"alpha": 0.1, "m": 0.7}),
    ):
        plan, log = recipe(program.NAME, arguments)(*problem, **options)
        other, notes = program.solver(*problem, **options)
        np.testing.assert_array_equal(plan, other)
        assert log.keys() == notes.keys()


def test_what_is_not_installed_is_named(monkeypatch, capsys):
    shown = client(monkeypatch, "__main__")
    module = importlib.import_module("benchmarks.clients.cajal")
    rows = importlib.import_module("benchmarks.clients.rows")

    def missing(repeats):
        raise ImportError("No module named 'cajal'")

    monkeypatch.setattr(module, "rows", missing)
    scot = importlib.import_module("benchmarks.clients.scot")
    one = rows.Row("cells", [3.0, 2.0], [1.0, 1.0], (1.0, 0.9), "right", (0.5, 0.6))
    monkeypatch.setattr(scot, "rows", lambda repeats: iter([one]))
    shown.table(["cajal", "scot"], 1)
    text = capsys.readouterr().out
    assert "| CAJAL | not installed: pip install cajal" in text
    assert "| SCOT | cells | 1 | 2.5 [2] | 1 [1] | 2.50 | 1 | 0.9 | right |" in text
    assert "Median of the ratios, one a program: 2.50" in text


def test_a_plan_is_made_a_coupling(monkeypatch):
    rows = client(monkeypatch, "rows")
    plan = np.random.default_rng(0).random((5, 7)) / 35
    found = rows.coupling(plan)
    np.testing.assert_allclose(found.sum(axis=1), 1 / 5)
    np.testing.assert_allclose(found.sum(axis=0), 1 / 7)
    np.testing.assert_allclose(rows.coupling(found), found)
