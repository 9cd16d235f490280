"""Change one line of the package at a time and see whether the fast tests notice.

`python tests/heavy/mutations.py` copies the tree into a temporary folder, builds it, and applies
each row of `MUTATIONS` there by itself: a sign, a bound, an index or a term of the kernels, the
marginal rules, the outer loop, the search or POT's functions. A change is caught if the fast tests
fail with it. Tests of the changed part run first, and then all others. With `--tests DIR` the tests
of another tree run, which shows what an older suite of tests caught on the same places.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from shutil import copytree, ignore_patterns

HERE = Path(__file__).resolve().parents[2]
SECONDS = 600  # after which a run counts as caught: a changed loop may not end

# A file and the tests to try first; below them, the only place of the file that reads like a row,
# with the text before and after the change in braces.
MUTATIONS = """
csrc/row_kernels.inc: tests/kernels
    (h - c[j] {+ => -} g[j]) * inverse
    h[b] = b {<= => <} last ? GWF_NAME(finite)(f[i])
    return {sum > 0.0 ? (real)GWF_LESSER(s, GWF_MOST) : 0 => (real)s}
csrc/descent_linear.inc: tests/quadratic/test_mechanisms.py
    epsilon * {(log(side->masses[i]) - d->sums[i]) => log(side->masses[i])}
    {(real)gwf_min(side->scaling[i], side->caps[i]) => side->scaling[i]}
gwfast/kernels/_kernels.pyx: tests/kernels
    while done {< => <=} most and not total <= tol:
    cdef double power = {ruled.row_power if ruled else omega => omega}
gwfast/kernels/_frank_wolfe.pyx: tests/solvers/test_exact.py
    self.gap = {2 * (self.at_plan - at_vertex) => self.at_plan - at_vertex}
    -slope / {(2 * curved) => curved}
gwfast/problems/losses.py: tests/problems
    h2=lambda b: {2.0 => 1.9} * b
gwfast/problems/geometry.py: tests/problems
    block = {squares[rows, None] + squares => squares} - 2.0 * products
gwfast/linear/rules.py: tests/linear tests/solvers/test_fused.py tests/conformance
    excess + abs(rows.sum() - {self.mass => 1.0})
    return gw_cost - {2 * epsilon => epsilon} * entropy
    power = 1.0 / (1.0 + {epsilon / rho => rho / epsilon})
    divergence = relative_entropy(sums, masses) {- mass + => + mass -} reference
    p, q = p{ * (self.p.sum() / p.sum()) => }, q *
    sums, masses = ({cols, self.q => rows, self.p}) if self.side
gwfast/linear/sinkhorn_solver.py: tests/linear tests/conformance
    if {omega != 1.0 and n_iter + n_next == max_iter => False}:
    error <= aim{ and (given or n_iter > 1) => },
    if problem.drift() > {limit => 4 * limit}:
    x *= np.exp((wanted - np.log(mass)) / {2 => 3})
gwfast/linear/log_domain.py: tests/linear
    moved = eps * ({rows - total => total - rows}) / terms.rate
    for level in range(n_levels, {-1 => 0}, -1):
gwfast/linear/newton.py: tests/linear
    residual = residual {- => +} length * image
gwfast/quadratic/judge.py: tests/quadratic/test_judge.py
    if last.error {> => <} last.change:
    tol = {max => min}(limits.tol, last.floor) if rounds
    if settled{ and last.error <= max(limits.marginal_tol, last.least_error) => }:
    if len(history) {>= => >} limits.max_outer else None
    damping={(1.0 + before.damping) / 2.0 => 0.0} if damps
    return before {<= => >=} min(recent) and
gwfast/quadratic/descend.py: tests/quadratic tests/solvers
    Potentials(scale * scaled.f {+ => -} row_cost,
    return of_rows + of_cols {- => +} self.entropy,
    may_move={len(at.steps) + 1 < limits.max_outer => True}
gwfast/quadratic/acceleration.py: tests/quadratic/test_acceleration.py
    weights = {-basis => basis} @ np.linalg.solve
    after = left {- => +} slope @ left
gwfast/quadratic/factored.py: tests/conformance
    made[: x.rank, : y.rank] = {self._weight * inside => inside}
    column_cost {+= => -=} self._half * between.col
gwfast/quadratic/dense.py: tests/conformance
    self.linear += {losses.T @ p[rows] => losses @ p}
    {offset**2 => offset} * float(self.masses.sum())
gwfast/quadratic/certificate.py: tests/solvers/test_verification.py tests/gradients
    made += {(1.0 - self._weight) / 2 * self._linear[rows] => self._linear[rows]}
gwfast/quadratic/low_rank.py: tests/quadratic/test_low_rank.py
    error = {error_over(plan[rows], wrong - part.rows(rows)) => 0.0}
gwfast/solvers/search/portfolio.py: tests/solvers/test_search.py
    sorted(field, key=lambda one: {one.gw_cost => -one.gw_cost})
    keep = {max => min}(len(left) // 2, min(n_close, 2))
    return LOST if one.is_late or one.gw_cost {> => <} best.gw_cost
gwfast/solvers/search/confidence.py: tests/quadratic/test_judge.py tests/solvers/test_search.py
    gap = min(above / abs(least){ / 0.1 => }, 1.0)
    back=sum(back) / (len(back) + {1 => 2})
gwfast/solvers/search/seeds.py: tests/solvers/test_starts.py tests/alignment
    weights = {np.sqrt(problem.p[rows] * problem.q[cols]) => problem.p[rows]}
    first_x[x], first_y[{y => x}]) for x, y in pairs
gwfast/solvers/search/isomorphism.py: tests/solvers/test_exact.py tests/solvers/test_search.py
    free = linear {<= => >=} ROUNDING * linear.max()
    bool(np.abs(plan - other).sum() > {0.5 * plan.sum() => 0})
gwfast/solvers/search/levels.py: tests/quadratic/test_mechanisms.py tests/solvers
    ranked[np.argsort({-masses[ranked] => masses[ranked]}, kind="stable")]
gwfast/pot/_solve.py: tests/pot
    Epsilon(epsilon / {(2.0 * call.total) => call.total})
    (1 - call.alpha) * {total**2 => total}
gwfast/pot/exact.py: tests/pot
    u, v = ({2 * call.total => call.total} * x for
    shift /= p.sum(){ + q.sum() => }
gwfast/pot/terms.py: tests/pot
    [:, None] {+ => -} loss.f2(y) @ masses[1]
gwfast/pot/barycenters.py: tests/pot
    {(self._lambdas * masses.T) => masses.T} @ masses
gwfast/pot/coot.py: tests/pot
    value += float(samp.penalty() {+ => -} feat
gwfast/pot/dictionary.py: tests/pot
    mean = self._mean{ / (1 - 0.9**self._n_steps) => }
gwfast/pot/unbalanced.py: tests/pot
    {+ => -} (of_a - of_m) * (of_b - of_m)
"""


def mutations(words):
    """Yield the path, the old and the new text, and the first tests of each row, if `words` are
    empty or one is in the path.
    """
    for line in MUTATIONS.strip().splitlines():
        if not line.startswith(" "):
            path, *first = line.replace(":", "").split()
        elif not words or any(word in path for word in words):
            old, new = (
                re.sub(r"\{(.*?) => (.*?)\}", side, line.strip()) for side in (r"\1", r"\2")
            )
            yield path, old, new, first


def succeeds(folder, *arguments):
    """Return whether Python succeeds in time with these arguments."""
    try:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def build(folder, change):
    if not succeeds(folder, "setup.py", "build_ext", "--inplace", "-j2"):
        raise SystemExit(f"the package must compile (packages: .[dev]) with: {change}")


def passes(folder, first, only_first):
    """Return whether the fast tests pass; the tests in `first` run before all others, or alone."""
    pytest = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    paths = [path for path in first if (folder / path).exists()]
    if paths and not succeeds(folder, *pytest, "-n", "0", *paths):
        return False
    return only_first or succeeds(folder, *pytest)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="parts of paths: only mutations of these files")
    parser.add_argument("--tests", type=Path, default=HERE, metavar="DIR", help="tree of the tests")
    parser.add_argument("--first", action="store_true", help="run only tests of the changed part")
    options = parser.parse_args()
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    chosen, n_caught = [*mutations(options.words)], 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "gwfast")
        copytree(HERE, folder, ignore=ignore_patterns(".git", ".venv", "tests", "__pycache__"))
        copytree(options.tests / "tests", folder / "tests")
        build(folder, "no change")
        for first in {tuple(first) for *_, first in chosen} if options.first else [()]:
            if not passes(folder, first, options.first):
                raise SystemExit(f"the tests must pass without a change: {first}")
        for number, (path, old, new, first) in enumerate(chosen, 1):
            began, file = time.perf_counter(), folder / path
            text = file.read_text()
            if text.count(old) != 1:
                raise SystemExit(f"{path} must have this text once: {old}")
            file.write_text(text.replace(old, new))
            build(folder, new)
            is_caught = not passes(folder, first, options.first)
            file.write_text(text)
            n_caught += is_caught
            seconds = time.perf_counter() - began
            word = "caught" if is_caught else "MISSED"
            print(f"{number:3} {word} {seconds:5.0f} s  {path}: {new}", flush=True)
    print(f"{n_caught} of {len(chosen)} caught")


if __name__ == "__main__":
    main()
