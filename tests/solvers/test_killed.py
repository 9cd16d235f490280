"""Processes that are killed for real while they solve with a checkpoint."""

import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.processes import kill_once_written, run_python

pytestmark = [pytest.mark.slow, pytest.mark.process]

SCRIPT = """
import sys, warnings
import numpy as np, gwfast
from gwfast.solvers import checkpoint
checkpoint.MAX_SHARE = 1.0
warnings.simplefilter("ignore")
kept, out, kind = sys.argv[1:]
rng = np.random.default_rng(0)
x = rng.standard_exponential((150, 5)) * np.arange(1, 6)
y = x[rng.permutation(150)] + 0.01 * rng.standard_normal((150, 5))
options = dict(epsilon=gwfast.Epsilon(relative=0.01), n_threads=1)
if kind == "clouds":
    sides = gwfast.PointCloud(x), gwfast.PointCloud(y)
else:
    sides = (np.linalg.norm(one[:, None] - one, axis=2) for one in (x, y))
    options |= dict(dtype="float64", init="profile", tol=1e-7, marginal_tol=1e-7)
result = gwfast.gromov_wasserstein(*sides, checkpoint=kept, **options)
numbers = [step.iteration for step in result.history]
tried = sorted({one.start for one in result.candidates})
np.savez(out, plan=result.plan, gw_cost=result.gw_cost, status=str(result.status),
         numbers=numbers, tried=tried)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("kind", ["clouds", "costs"])
def test_a_killed_process_ends_at_the_same_optimum(kind, tmp_path):
    here = Path(__file__).parent
    kept, made, plain = (tmp_path / name for name in ("kept", "made.npz", "plain.npz"))
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    uninterrupted = [str(script), str(tmp_path / "other"), str(plain), kind]
    run_python(f"import runpy, sys; sys.argv = {uninterrupted}; runpy.run_path("
               f"{str(script)!r})")  # fmt: skip
    rng, n_killed = np.random.default_rng(1), 0
    arguments = [str(script), str(kept), str(made), kind]
    for pause in rng.uniform(0.0, 0.1, 2):
        status = kill_once_written(kept, arguments, cwd=here, pause=pause)
        n_killed += status == -signal.SIGKILL
        if status:  # perhaps half written
            made.unlink(missing_ok=True)
    run_python(f"import runpy, sys; sys.argv = {arguments}; runpy.run_path("
               f"{str(script)!r})")  # fmt: skip
    assert n_killed > 0
    with np.load(plain) as expected, np.load(made) as found:
        for name in ("status", "tried"):
            np.testing.assert_array_equal(found[name], expected[name])
        np.testing.assert_allclose(found["gw_cost"], expected["gw_cost"], rtol=1e-4)
        assert np.abs(found["plan"] - expected["plan"]).sum() < 0.02
        numbers = found["numbers"]
        np.testing.assert_array_equal(numbers, np.arange(1, len(numbers) + 1))
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"kept", "other", "made.npz", "plain.npz", "script.py"}
