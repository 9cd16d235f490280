"""One table of calls: the functions of `gwfast.pot` return what POT's return.

A row is a function, its arguments and how close results must be to POT's, see `same`. Every public
function of `gwfast.pot` has a row. What is not POT's on purpose is in test_differences.py.
"""

import importlib
import inspect
import re
from importlib.util import find_spec

import numpy as np
import pytest
from helpers.marks import pairwise
from helpers.pot_calls import call, converted, frozen, loss_and_gradient, ours, pots, row, same
from helpers.pot_names import BALANCED, BAPG, ENTROPIC, EXACT, LAYERS, PARTIAL, SEMIRELAXED
from helpers.pot_rows import spaces_rows
from helpers.pot_spaces import GIVEN, PLAIN, batch, between, random_space, spaces

import gwfast.pot
from gwfast.pot import patching, terms

ot = pytest.importorskip("ot", reason="POT is not installed")

C1, C2, M, P, Q, G0 = GIVEN.values()
NOT_CALLS = {"OTResult", "patch", "patched", "report", "unpatch"}
LOSSES = ["square_loss", "kl_loss"]
PLANS = ENTROPIC + EXACT
OTHERS = [name for name in PLANS if name not in SEMIRELAXED]
COSTS = {
    "symmetric": GIVEN,
    "asymmetric": GIVEN | dict(zip(("C1", "C2"), spaces(symmetric=False), strict=False)),
}
# Costs so asymmetric that losses of one orientation get negative.
NUMBERS = {f"C{k}": np.random.default_rng([2, n]).random((n, n)) for k, n in ((1, 12), (2, 9))}
SINGLE = {key: x.astype(np.float32) for key, x in PLAIN.items()}
# Entries of POT's logs of partial plans, of its points for mass without a match.
OF_DUMMIES = "u", "v", "cost", "warning", "result_code"
NOT_UNIQUE = {"u": None, "v": None}


def plan_row(name, arrays=GIVEN, **options):
    """Return a row of a plan, or of its value, with limits that POT reaches in time."""
    one, exact, but = name.removesuffix("2"), name.removesuffix("2") in EXACT, {}
    if one == PARTIAL[1]:
        options["alpha"] = 1.0  # else `M` counts here, and does not in POT
    if one in PARTIAL:
        options = {"numItermax": 3} | options
    if one in BAPG:
        options = {"entropy": 0.5, "max_iter": 100} | options
    if one in SEMIRELAXED:
        options["tol"] = 1e-5
    if not exact:
        but = {"err": 1e-2}  # the first linear problem may be left before its last digit
    return row(
        name,
        close=1e-9 if exact else 1e-6,
        but=but,
        lacks=OF_DUMMIES if exact and "partial" in name else (),
        **call(one, arrays, **{"log": True} | options),
    )


def start_rows():
    """Return rows of starts by name, and of plans that no iteration changes."""
    for name in SEMIRELAXED + EXACT[2:4]:
        for start in ("product", "random_product", "random", "kmeans", "fluid_soft"):
            yield plan_row(name, PLAIN | {"p": P}, G0=start, random_state=5, max_iter=50)
    for arrays in (GIVEN, PLAIN):
        # The loss of `G0` is here with its own marginals.
        yield plan_row(BALANCED[0], arrays, max_iter=0)._replace(but={"err": None, "gw_dist": 0.1})


def solve_gromov_rows():
    """Return rows of all problems of `solve_gromov`."""
    semi, part = {"unbalanced_type": "semirelaxed"}, {"unbalanced_type": "partial"}
    part["unbalanced"] = 0.6
    fused, alone, given = {"M": M}, {"M": M, "alpha": 1}, {"Ca": C1, "Cb": C2, "a": P, "b": Q}
    kl = {"loss": "KL"}
    for options in ({}, {"reg": 0}, kl, {"M": M, "alpha": 0.3}, alone, {"plan_init": G0}):
        yield row("solve_gromov", **given, **options)
    yield row("solve_gromov", lacks=("log", "potentials"), **given, M=M, alpha=0)
    for options in (semi, semi | fused, semi | alone):
        yield row("solve_gromov", **given, **options)
    for options in (part, part | fused, part | alone):
        yield row("solve_gromov", lacks=OF_DUMMIES, **given, **options)
    proximal = {"method": "PPA", "max_iter": 6, "reg": 0.5}
    semi_any, partial = semi | {"method": "any"}, part | {"max_iter": 3}
    for options in ({}, proximal, kl, {"M": M, "alpha": 0.3}, alone, semi_any, partial):
        yield row("solve_gromov", close=1e-6, but={"err": 1e-2}, **given, **{"reg": 0.1} | options)


def linear_rows():
    """Return rows of optimal transport, also of points without mass and of other totals."""
    sinkhorn = {"method": "sinkhorn_log", "stopThr": 1e-11, "numItermax": 10_000}
    # Scalings up to factors, and errors of other iterations.
    but = dict.fromkeys(["err", "niter", "u", "v", "log_u", "log_v"])
    for number, (n, m) in enumerate([(9, 12), (1, 4), (5, 1), (2, 3), (40, 40)]):
        total, center_dual, reg = [1.0, 3.0][number % 2], number != 4, [1.0, 0.1, 0.02][number % 3]
        a, b = (total * random_space(size, number)[1] for size in (n, m))
        given = {"a": a, "b": b, "M": between(n, m, 0) - 0.3, "log": True}
        yield row("emd", but=NOT_UNIQUE, center_dual=center_dual, **given)
        yield row("emd2", but=NOT_UNIQUE, return_matrix=True, **given)
        yield row("sinkhorn", but=but, reg=reg, **sinkhorn, **given)


def term_rows():
    """Return rows of the terms of losses."""
    sizes = (12, 9), (12, 9), (1, 4), (5, 2)
    for (n, m), loss_fun, dtype in zip(sizes, LOSSES * 2, ["f8", "f4", "f4", "f8"], strict=True):
        given = [COSTS["asymmetric"][name].astype(dtype) for name in ("C1", "C2", "p", "q", "G0")]
        x, y, p, q, T = given[0][:n, :n], given[1][:m, :m], given[2][:n], given[3][:m], given[4]
        close, space = 1e-12 if dtype == "f8" else 1e-5, {"C1": x, "C2": y, "p": p}
        yield row("init_matrix", close=close, **space, q=q, loss_fun=loss_fun)
        yield row("init_matrix_semirelaxed", close=close, **space, loss_fun=loss_fun)
        terms = dict(
            zip(("constC", "hC1", "hC2"), pots("init_matrix")(x, y, p, q, loss_fun), strict=True)
        )
        for name in ("tensor_product", "gwloss", "gwggrad"):
            yield row(name, close=close, **terms, T=T[:n, :m])


def exact_search(cost, G, deltaG, Mi, cost_G, df_G, **kwargs):
    """Return the best step of a quadratic objective, from its values: POT's own is rough."""
    half, end = cost(G + deltaG / 2), cost(G + deltaG)
    a, b = 2 * (cost_G + end - 2 * half), 4 * half - end - 3 * cost_G
    step = ot.optim.solve_1d_linesearch_quad(a, b)
    return step, 1, cost_G + (a * step + b) * step


def loop_rows():
    """Return rows of conditional gradient for a loss and its gradient."""
    for loss_fun in LOSSES:
        f, df = loss_and_gradient(gwfast.pot.init_matrix(C1, C2, P, Q, loss_fun))
        given = {"a": P, "b": Q, "f": f, "df": df, "line_search": exact_search, "log": True}
        for linear, reg in ((0.3 * M, 0.7), (0, 1.0), (M, 3.0)):
            yield row("cg", M=linear, reg=reg, G0=G0, **given)


ROWS = [
    *(plan_row(f"{name}{two}") for two in ("", "2") for name in PLANS),
    *(plan_row(name, entropy=0.5, solver="PPA", max_iter=6) for name in BALANCED),
    *(plan_row(name, warmstart=True) for name in BALANCED),
    *(plan_row(f"{name}2", SINGLE, log=False)._replace(close=1e-4) for name in EXACT),
    *(plan_row(name, GIVEN | NUMBERS, mass=0.5, symmetric=True) for name in OTHERS),
    # Steps go round here: POT leaves that at last, ours are damped, and stop a little sooner.
    *(plan_row(name, GIVEN | NUMBERS, symmetric=True)._replace(close=1e-3) for name in SEMIRELAXED),
    *start_rows(),
    *solve_gromov_rows(),
    *linear_rows(),
    *term_rows(),
    *loop_rows(),
    *(
        row("solve_gromov_batch", close=1e-6, lacks=("log", "potentials"), **batch(**arrays))
        for arrays in ({}, {"fused": False}, {"starts": False, "symmetric": False})
    ),
    *spaces_rows(),
]


def check(row):
    """Compare a call here, of arrays that cannot be written to, with POT's."""
    with np.errstate(divide="ignore", invalid="ignore"):  # POT's, of masses that are zero
        theirs = pots(row.name)(**row.arguments)
    found = ours(row.name)(**converted(row.arguments, frozen))
    same(found, theirs, row.close, row.but, row.lacks)
    pairs = zip(found, theirs, strict=True) if isinstance(theirs, tuple) else [(found, theirs)]
    for one, other in pairs if not hasattr(theirs, "plan") else ():
        assert type(one) is type(other)


@pytest.mark.filterwarnings("ignore:Both structures have the same size")
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_calls_are_pots(row):
    check(row)


def test_every_function_has_a_row_and_no_more_is_swapped():
    names = {*gwfast.pot.__all__} - NOT_CALLS
    assert {row.name for row in ROWS} == names - {*LAYERS}  # which have test_templates.py
    assert {*patching.FUNCTIONS} == names - {*terms.__all__}


def numbers(result):
    """Return the arrays and numbers of a result that are of the caller's library."""
    if hasattr(result, "plan"):
        return [result.plan, result.value]
    if isinstance(result, dict):
        keys = result.keys() - {"niter", "backend", "loss_batches", "loss_epochs", "result_code"}
        return [x for key in sorted(keys) for x in numbers(result[key])]
    if isinstance(result, list | tuple):
        return [x for part in result for x in numbers(part)]
    return [result] if hasattr(result, "dtype") else []


def library(kind):
    """Return the types of arrays of a library, and a function that makes such an array."""
    if kind in ("list", "float32"):
        return np.ndarray | np.generic, np.ndarray.tolist if kind == "list" else np.float32
    module = importlib.import_module(kind)
    if kind == "torch":
        return module.Tensor, module.tensor
    return module.Array, module.numpy.asarray


FIRST_ROWS = {row.name: row for row in reversed(ROWS)}
DTYPES = {"list": "float64", "float32": "float32"}
DTYPES |= {x: y for x, y in {"torch": "float64", "jax": "float32"}.items() if find_spec(x)}
# Spaces in a list must be arrays, and functions of `cg` refer to arrays of the row. Unbalanced
# plans of NumPy's float32 are float64, as in POT.
APART = {"list": "barycenters|dictionary_learning", "float32": "unbalanced|cg"}


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
@pytest.mark.parametrize("name", FIRST_ROWS)
def test_results_are_of_the_library_and_dtype_of_the_arguments(name):
    arguments = FIRST_ROWS[name].arguments
    right = numbers(ours(name)(**arguments))
    if arguments.get("log"):
        plain = numbers(ours(name)(**arguments | {"log": False}))
        assert all(map(np.array_equal, plain, right))
    for kind, dtype in DTYPES.items():
        if re.search(APART.get(kind, "cg"), name):
            continue
        arrays, convert = library(kind)
        found = numbers(ours(name)(**converted(arguments, convert)))
        for one in found:
            assert isinstance(one, arrays) and str(one.dtype).endswith(dtype)
        if name != "emd2":  # the cost is a float of Python, if arrays are of NumPy
            close = 1e-12 if dtype == "float64" else 1e-4
            same(np.asarray(found[0], dtype=np.float64), right[0], close)


@pairwise(
    name=PLANS, loss_fun=LOSSES, costs=COSTS, masses=["given", "uniform"], start=[True, False]
)
def test_plans_are_pots(name, loss_fun, costs, masses, start):
    left = ("p", "q", "G0") if masses == "uniform" else () if start else ("G0",)
    arrays = {key: x for key, x in COSTS[costs].items() if key not in left}
    row = plan_row(name, arrays, loss_fun=loss_fun)
    # Potentials between equal masses are not unique.
    unique = masses == "given" or name not in EXACT
    check(row if unique else row._replace(but=NOT_UNIQUE))


@pairwise(name=EXACT + BALANCED, seed=range(8), loss_fun=LOSSES)
def test_plans_of_any_sizes_and_masses_are_pots(name, seed, loss_fun):
    sizes = [(1, 4), (2, 4), (3, 5), (7, 7), (20, 35), (40, 12), (9, 1), (16, 16)][seed]
    n_empty = int(name in EXACT)  # Sinkhorn of POT divides by masses
    both = (random_space(n, seed + k, n_empty=n_empty) for k, n in enumerate(sizes))
    (cost_x, p), (cost_y, q) = both
    arrays = {"C1": cost_x, "C2": cost_y, "M": between(*sizes, seed), "p": p, "q": q}
    fused = {"alpha": (0.1, 0.5, 0.9)[seed % 3]} if "fused" in name else {}
    entropy = (0.3 + cost_x.mean()) * (0.3 + cost_y.mean())
    row = plan_row(name, arrays, loss_fun=loss_fun, entropy=entropy, mass=0.6, **fused)
    check(row._replace(but=row.but | NOT_UNIQUE))
    plan, log = ours(name)(**row.arguments)
    assert log["status"] == "converged"
    if "partial" in name:
        assert (plan.sum(axis=1) <= p).all() and (plan.sum(axis=0) <= q).all()
        assert plan.sum() == pytest.approx(0.6, rel=1e-14)


@pytest.mark.parametrize("name", [*BALANCED, *BAPG, *SEMIRELAXED, *EXACT[:4]])
def test_tables_are_pots(name, capsys):
    exact = name in EXACT
    options = call(name, entropy=0.6, verbose=True)
    options |= {} if exact else {"max_iter": 231, "tol": 0.0}
    tables = []
    for function in (ours(name), pots(name)):
        function(**options)
        tables.append(capsys.readouterr().out.splitlines())
    assert tables[0][:2] == tables[1][:2]
    assert min(map(len, tables)) >= 3
    # A solver may stop where nothing changes at all, POT does not.
    assert all(our[:6] == their[:6] for our, their in zip(*tables, strict=False))
    for line in (2, 3) if exact else (2,):
        rows = [list(map(float, table[line].strip("|").split("|"))) for table in tables]
        np.testing.assert_allclose(*rows, rtol=1e-5 if exact else 1e-2)


@pytest.mark.parametrize("name", [*patching.FUNCTIONS, *terms.__all__])
def test_signatures_are_pots(name):
    theirs, one = dict(inspect.signature(pots(name)).parameters), name.removesuffix("2")
    theirs.pop("kwargs_solve", None)
    parameters = inspect.signature(ours(name)).parameters.values()
    kinds = inspect.Parameter
    plain = [(x.name, x.default) for x in parameters if x.kind != kinds.KEYWORD_ONLY]
    assert plain == [(x.name, x.default) for x in theirs.values() if x.kind != kinds.VAR_KEYWORD]
    # Keywords that POT hands on to its linear solver have names here.
    expected, spaces = {}, re.match("gromov_bary|fgw_bary|.*(dictionary|unmixing)", name)
    if one in EXACT[:4]:
        expected["verbose"] = False
    if one in EXACT[:2] or spaces:
        expected["numItermaxEmd"] = 100_000
    if one in BALANCED or re.match("entropic.*barycenters", name):
        expected = {"numItermax": 1000, "stopThr": 1e-9, "warn": True}
    if re.match("entropic.*barycenters", name):
        expected |= {"solver": "PGD", "warmstart": False}
    assert expected == {x.name: x.default for x in parameters if x.kind == kinds.KEYWORD_ONLY}
