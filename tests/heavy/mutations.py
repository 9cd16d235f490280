"""Change one line of the package at a time and see whether the fast tests notice.

`python tests/heavy/mutations.py` copies the tree into a temporary folder, builds it, and applies
each row of `MUTATIONS` there by itself: a sign, a bound, an index or a term of the kernels, the
marginal rules, the outer loop, the search or POT's functions. A change is caught if the fast tests
fail with it. Tests of the changed part run first, and then all others. With `--tests DIR` the tests
of another tree run, which shows what an older suite of tests caught on the same places.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 600  # after which a run counts as caught: a changed loop may not end


class Mutation(NamedTuple):
    """A change of the only place where a text stands in a file, and tests to try first."""

    path: str
    old: str
    new: str
    first: str


def mutations(path, first, *changes):
    """Return the mutations of one file."""
    return [Mutation(path, old, new, first) for old, new in changes]


MUTATIONS = [
    *mutations(
        "csrc/row_kernels.inc",
        "tests/kernels",
        ("(h - c[j] + g[j]) * inverse", "(h - c[j] - g[j]) * inverse"),
        ("h[b] = b <= last ? GWF_NAME(finite)(f[i])", "h[b] = b < last ? GWF_NAME(finite)(f[i])"),
        ("return sum > 0.0 ? (real)GWF_LESSER(s, GWF_MOST) : 0", "return (real)s"),
    ),
    *mutations(
        "csrc/descent_linear.inc",
        "tests/quadratic/test_small_descent.py",
        ("epsilon * (log(side->masses[i]) - d->sums[i])", "epsilon * log(side->masses[i])"),
        ("(real)gwf_min(side->scaling[i], side->caps[i])", "side->scaling[i]"),
    ),
    *mutations(
        "gwfast/kernels/_kernels.pyx",
        "tests/kernels",
        ("while done < most and not total <= tol:", "while done <= most and not total <= tol:"),
        ("cdef double power = ruled.row_power if ruled else omega", "cdef double power = omega"),
    ),
    *mutations(
        "gwfast/kernels/_frank_wolfe.pyx",
        "tests/solvers/test_exact.py",
        ("self.gap = 2 * (self.at_plan - at_vertex)", "self.gap = self.at_plan - at_vertex"),
        ("-slope / (2 * curved)", "-slope / curved"),
    ),
    *mutations(
        "gwfast/problems/losses.py",
        "tests/problems",
        ("h2=lambda b: 2.0 * b", "h2=lambda b: 1.9 * b"),
    ),
    *mutations(
        "gwfast/problems/geometry.py",
        "tests/problems",
        (
            "block = squares[rows, None] + squares - 2.0 * products",
            "block = squares - 2.0 * products",
        ),
    ),
    *mutations(
        "gwfast/linear/rules.py",
        "tests/linear tests/solvers/test_unbalanced.py tests/conformance",
        ("excess + abs(rows.sum() - self.mass)", "excess + abs(rows.sum() - 1.0)"),
        ("return gw_cost - 2 * epsilon * entropy", "return gw_cost - epsilon * entropy"),
        ("power = 1.0 / (1.0 + epsilon / rho)", "power = 1.0 / (1.0 + rho / epsilon)"),
        (
            "divergence = relative_entropy(sums, masses) - mass + reference\n            total",
            "divergence = relative_entropy(sums, masses) + mass - reference\n            total",
        ),
        ("p, q = p * (self.p.sum() / p.sum()), q *", "p, q = p, q *"),
        (
            "sums, masses = (cols, self.q) if self.side",
            "sums, masses = (rows, self.p) if self.side",
        ),
    ),
    *mutations(
        "gwfast/linear/sinkhorn_solver.py",
        "tests/linear tests/conformance",
        ("if omega != 1.0 and n_iter + n_next == max_iter:", "if False:"),
        ("error <= aim and (given or n_iter > 1),", "error <= aim,"),
        ("if problem.drift() > limit:", "if problem.drift() > 4 * limit:"),
        ("x *= np.exp((wanted - np.log(mass)) / 2)", "x *= np.exp((wanted - np.log(mass)) / 3)"),
    ),
    *mutations(
        "gwfast/linear/log_domain.py",
        "tests/linear",
        ("moved = eps * (rows - total) / terms.rate", "moved = eps * (total - rows) / terms.rate"),
        ("for level in range(n_levels, -1, -1):", "for level in range(n_levels, 0, -1):"),
    ),
    *mutations(
        "gwfast/linear/newton.py",
        "tests/linear",
        ("residual = residual - length * image", "residual = residual + length * image"),
    ),
    *mutations(
        "gwfast/quadratic/judge.py",
        "tests/quadratic/test_judge.py",
        ("if last.error > last.change:", "if last.error < last.change:"),
        (
            "tol = max(limits.tol, last.floor) if rounds",
            "tol = min(limits.tol, last.floor) if rounds",
        ),
        ("if settled and last.error <= max(limits.marginal_tol, last.least_error):", "if settled:"),
        (
            "if len(history) >= limits.max_outer else None",
            "if len(history) > limits.max_outer else None",
        ),
        ("damping=(1.0 + before.damping) / 2.0 if damps", "damping=0.0 if damps"),
        ("return before <= min(recent) and", "return before >= min(recent) and"),
    ),
    *mutations(
        "gwfast/quadratic/descend.py",
        "tests/quadratic tests/solvers",
        ("Potentials(scale * scaled.f + row_cost,", "Potentials(scale * scaled.f - row_cost,"),
        ("return of_rows + of_cols - self.entropy,", "return of_rows + of_cols + self.entropy,"),
        ("may_move=len(at.steps) + 1 < limits.max_outer", "may_move=True"),
    ),
    *mutations(
        "gwfast/quadratic/acceleration.py",
        "tests/quadratic/test_acceleration.py",
        ("weights = -basis @ np.linalg.solve", "weights = basis @ np.linalg.solve"),
        ("after = left - slope @ left", "after = left + slope @ left"),
    ),
    *mutations(
        "gwfast/quadratic/factored.py",
        "tests/conformance",
        ("made[: x.rank, : y.rank] = self._weight * inside", "made[: x.rank, : y.rank] = inside"),
        ("column_cost += self._half * between.col", "column_cost -= self._half * between.col"),
    ),
    *mutations(
        "gwfast/quadratic/dense.py",
        "tests/conformance",
        ("self.linear += losses.T @ p[rows]", "self.linear += losses @ p"),
        ("offset**2 * float(self.masses.sum())", "offset * float(self.masses.sum())"),
    ),
    *mutations(
        "gwfast/quadratic/certificate.py",
        "tests/solvers/test_verification.py tests/gradients",
        ("made += (1.0 - self._weight) / 2 * self._linear[rows]", "made += self._linear[rows]"),
    ),
    *mutations(
        "gwfast/quadratic/low_rank.py",
        "tests/quadratic/test_low_rank.py",
        ("error = error_over(plan[rows], wrong - part.rows(rows))", "error = 0.0"),
    ),
    *mutations(
        "gwfast/solvers/search/portfolio.py",
        "tests/solvers/test_search.py",
        (
            "sorted(field, key=lambda one: one.gw_cost)",
            "sorted(field, key=lambda one: -one.gw_cost)",
        ),
        (
            "keep = max(len(left) // 2, min(n_close, 2))",
            "keep = min(len(left) // 2, min(n_close, 2))",
        ),
        (
            "return LOST if one.is_late or one.gw_cost > best.gw_cost",
            "return LOST if one.is_late or one.gw_cost < best.gw_cost",
        ),
    ),
    *mutations(
        "gwfast/solvers/search/confidence.py",
        "tests/solvers/test_confidence.py tests/solvers/test_search.py",
        ("gap = min(above / abs(least) / 0.1, 1.0)", "gap = min(above / abs(least), 1.0)"),
        ("back=sum(back) / (len(back) + 1)", "back=sum(back) / (len(back) + 2)"),
    ),
    *mutations(
        "gwfast/solvers/search/seeds.py",
        "tests/solvers/test_starts.py tests/alignment",
        ("weights = np.sqrt(problem.p[rows] * problem.q[cols])", "weights = problem.p[rows]"),
        ("first_x[x], first_y[y]) for x, y in pairs", "first_x[x], first_y[x]) for x, y in pairs"),
    ),
    *mutations(
        "gwfast/solvers/search/isomorphism.py",
        "tests/solvers/test_isomorphism.py tests/solvers/test_search.py",
        ("free = linear <= ROUNDING * linear.max()", "free = linear >= ROUNDING * linear.max()"),
        (
            "bool(np.abs(plan - other).sum() > 0.5 * plan.sum())",
            "bool(np.abs(plan - other).sum() > 0)",
        ),
    ),
    *mutations(
        "gwfast/solvers/search/levels.py",
        "tests/quadratic/test_mechanisms.py tests/solvers",
        (
            'ranked[np.argsort(-masses[ranked], kind="stable")]',
            'ranked[np.argsort(masses[ranked], kind="stable")]',
        ),
    ),
    *mutations(
        "gwfast/pot/_solve.py",
        "tests/pot",
        ("Epsilon(epsilon / (2.0 * call.total))", "Epsilon(epsilon / call.total)"),
        ("(1 - call.alpha) * total**2", "(1 - call.alpha) * total"),
    ),
    *mutations(
        "gwfast/pot/exact.py",
        "tests/pot",
        ("u, v = (2 * call.total * x for", "u, v = (call.total * x for"),
        ("shift /= p.sum() + q.sum()", "shift /= p.sum()"),
    ),
    *mutations(
        "gwfast/pot/terms.py",
        "tests/pot",
        ("[:, None] + loss.f2(y) @ masses[1]", "[:, None] - loss.f2(y) @ masses[1]"),
    ),
    *mutations(
        "gwfast/pot/barycenters.py",
        "tests/pot",
        ("(self._lambdas * masses.T) @ masses", "masses.T @ masses"),
    ),
    *mutations(
        "gwfast/pot/coot.py",
        "tests/pot",
        ("value += float(samp.penalty() + feat", "value += float(samp.penalty() - feat"),
    ),
    *mutations(
        "gwfast/pot/dictionary.py",
        "tests/pot",
        ("mean = self._mean / (1 - 0.9**self._n_steps)", "mean = self._mean"),
    ),
    *mutations(
        "gwfast/pot/unbalanced.py",
        "tests/pot",
        ("+ (of_a - of_m) * (of_b - of_m)", "- (of_a - of_m) * (of_b - of_m)"),
    ),
]


def files_of(tree, *options):
    """Return the names of files that `git ls-files` lists with these options."""
    command = ["git", "ls-files", "-z", *options]
    listed = subprocess.run(command, cwd=tree, check=True, capture_output=True, text=True).stdout
    return [name for name in listed.split("\0") if name]


def copy_of(tree, target, *others):
    """Copy the files of a tree that git does not ignore, and all files of these folders."""
    ignored = files_of(tree, "-oi", "--exclude-standard", *others) if others else []
    for name in [*files_of(tree, "-co", "--exclude-standard"), *ignored]:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(tree / name, target / name)


def run(command, folder):
    """Return whether a command succeeds in time."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def build(folder):
    """Compile what has changed; return whether that succeeds."""
    return run([sys.executable, "setup.py", "build_ext", "--inplace", "-j2"], folder)


def tested(folder, first, only_first):
    """Return whether the fast tests pass; the tests in `first` run before all others, or alone."""
    pytest = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    paths = [path for path in first.split() if (folder / path).exists()]
    if paths and not run([*pytest, "-n", "0", *paths], folder):
        return False
    return only_first or run(pytest, folder)


def caught(mutation, folder, only_first):
    """Return whether the tests notice a mutation, which is taken back afterwards."""
    path = folder / mutation.path
    text = path.read_text()
    if text.count(mutation.old) != 1:
        raise SystemExit(f"{mutation.path} must have this text once: {mutation.old}")
    try:
        path.write_text(text.replace(mutation.old, mutation.new))
        if not build(folder):
            raise SystemExit(f"{mutation.path} must compile with: {mutation.new}")
        return not tested(folder, mutation.first, only_first)
    finally:
        path.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="parts of paths: only mutations of these files")
    parser.add_argument("--tests", type=pathlib.Path, metavar="DIR", help="tree of other tests")
    parser.add_argument("--first", action="store_true", help="run only tests of the changed part")
    options = parser.parse_args()
    chosen = [
        mutation
        for mutation in MUTATIONS
        if not options.words or any(word in mutation.path for word in options.words)
    ]
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) / "gwfast"
        copy_of(HERE, folder, "gwfast", "build")
        if options.tests:
            shutil.rmtree(folder / "tests")
            copy_of(options.tests, folder / "other")
            (folder / "other" / "tests").rename(folder / "tests")
        if not build(folder):
            raise SystemExit("the tree must compile")
        for first in {mutation.first for mutation in chosen} if options.first else [""]:
            if not tested(folder, first, options.first):
                raise SystemExit(f"the tests must pass without a change: {first}")
        n_caught = 0
        for number, mutation in enumerate(chosen, 1):
            began = time.perf_counter()
            found = caught(mutation, folder, options.first)
            n_caught += found
            print(
                f"{number:3} {'caught' if found else 'MISSED'} "
                f"{time.perf_counter() - began:5.0f} s  {mutation.path}: {mutation.new}",
                flush=True,
            )
    print(f"{n_caught} of {len(chosen)} caught")


if __name__ == "__main__":
    main()
