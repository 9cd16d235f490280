"""The tier "neighbors": the plans of the dense tier, and what they lack."""

import sys

import numpy as np
import pytest
from helpers.problems import rotated_pair
from helpers.processes import run_python
from helpers.settings import settings

import gwfast
from gwfast import CrossCost, PointCloud

N, M = 350, 400
RULES = {
    "balanced": "balanced",
    "semirelaxed": "semirelaxed",
    "partial": gwfast.Partial(0.7),
    "unbalanced": gwfast.Unbalanced(0.05),
}


def clouds(metric="cosine"):
    x, y, _ = rotated_pair(M, 6, 0, noise=0.05)
    return PointCloud(x[:N], metric), PointCloud(y, metric)


def solve(x, y, p=None, q=None, **options):
    return gwfast.gromov_wasserstein(x, y, p, q, **settings(**options))


def features():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((M, 3))
    return CrossCost(x[:N], x)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_plans_are_those_of_the_dense_tier(rule, fused):
    given = dict(marginals=RULES[rule], epsilon="0.5%")
    if fused:
        given |= dict(linear_cost=features(), alpha=0.7)
    dense = solve(*clouds(), tier="dense", **given)
    few = solve(*clouds(), tier="neighbors", n_neighbors=80, **given)
    assert few.converged and few.coupling.form == "sparse"
    assert few.gw_cost == pytest.approx(dense.gw_cost, rel=1e-4)
    assert few.reg_cost == pytest.approx(dense.reg_cost, rel=1e-4)
    assert few.marginal_error <= max(1e-5, few.left_out)
    assert (few.match() == dense.match()).mean() > 0.99
    outside = dense.plan.copy()
    outside[few.coupling.csr.nonzero()] = 0.0
    assert outside.sum() <= few.left_out * dense.mass and few.left_out < 0.005


@pytest.mark.filterwarnings("ignore::gwfast.ConvergenceWarning")
def test_what_is_left_out_is_bounded_and_told():
    (x, y), last = clouds(), 1.0
    dense, (p, q) = solve(x, y, tier="dense", epsilon="1%"), (np.full(n, 1 / n) for n in (N, M))
    for k in (6, 12, 24, 48):
        few = solve(x, y, tier="neighbors", n_neighbors=k, epsilon="1%", max_iter=40)
        plan = few.coupling.csr
        # With the potentials of the plan itself.
        f, g = few.potentials
        cost = -2 * x.scale * y.scale * (x.features @ x.signature @ _state(x, y, plan))
        cost = cost @ (y.signature @ y.features.T)
        rows, cols = (x.scale**2 * x.square_times(p), y.scale**2 * y.square_times(q))
        exponent = (f - rows)[:, None] + (g - cols) - cost
        whole = np.exp((exponent - exponent.max(1, keepdims=True)) / few.epsilon)
        outside = whole.copy()
        outside[plan.nonzero()] = 0.0
        truth = p @ (outside.sum(1) / whole.sum(1))
        assert 0.5 * few.left_out - 0.005 < truth < few.left_out < last
        last = few.left_out
        if few.left_out > 0.01:
            assert not few.converged and "larger n_neighbors" in few.advice
        if few.status == "degenerate":
            assert few.left_out > 0.01
    lacking = dense.plan.copy()
    lacking[plan.nonzero()] = 0.0
    assert lacking.sum() < few.left_out


def _state(x, y, plan):
    return x.features.T.astype(float) @ (plan @ y.features.astype(float))


def test_a_solve_ends_with_the_neighbors_of_its_own_plan():
    """Wherever it came from: from a plan alone others are chosen first."""
    given = dict(tier="neighbors", n_neighbors=30, epsilon="0.5%")
    result = solve(*clouds(), **given)
    again = solve(*clouds(), init=result.plan, **given)
    assert result.converged and again.converged
    assert again.gw_cost == pytest.approx(result.gw_cost, rel=1e-4)
    kept, same = (one.coupling.csr.copy() for one in (result, again))
    kept.data[:] = same.data[:] = 1.0
    assert kept.multiply(same).sum() > 0.97 * max(kept.nnz, same.nnz)


def test_points_without_mass_have_no_entries():
    p, q = np.ones(N), np.ones(M)
    p[::9] = q[3::7] = 0.0
    given = dict(tier="neighbors", epsilon="0.5%")
    result = solve(*clouds(), p / p.sum(), q / q.sum(), **given)
    csr = result.coupling.csr
    assert not csr[::9].nnz and not csr[:, 3::7].nnz
    assert result.marginal_error <= max(1e-5, result.left_out)


@pytest.mark.parametrize("k, error", [(0, ValueError), (2.5, TypeError), ("9", TypeError)])
def test_bad_numbers_of_neighbors_are_refused(k, error):
    with pytest.raises(error, match="n_neighbors must be"):
        gwfast.SolverOptions(n_neighbors=k)


LARGE = """
import numpy as np, gwfast, warnings
warnings.simplefilter("ignore")
rng, n = np.random.default_rng(0), 30_000
x = (rng.standard_exponential((n, 8)) * np.arange(1, 9)).astype("f4")
x /= np.linalg.norm(x, axis=1, keepdims=True)
y = x[::-1] @ np.linalg.qr(rng.standard_normal((8, 8)))[0].astype("f4")
def peak():
    text = open("/proc/self/status").read()
    return int(text.split("VmHWM:")[1].split()[0]) * 1024
before = peak()
result = gwfast.gromov_wasserstein(
    gwfast.PointCloud(x), gwfast.PointCloud(y), epsilon="0.2%", memory_limit="0.6GB", max_iter=6,
    tol=1e-3, options=gwfast.SolverOptions(tier="neighbors", marginal_tol=1e-2),
)
print(peak() - before, (result.match() == np.arange(n)[::-1]).mean())
"""


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux tells a process's own peak"
)
def test_many_points_take_little_memory():
    peak, right = map(float, run_python(LARGE, OMP_NUM_THREADS="2").stdout.split())
    assert peak < 6e8 and right > 0.95  # of 3.6 GB that the dense kernel takes
