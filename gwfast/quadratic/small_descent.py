"""Descents of small problems in a compiled loop (kernels/_descent.pyx): calls from Python for each
iteration would take longer than all that it does. What that loop cannot solve, the outer loop does.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from ..kernels._descent import FIELDS, HANDED_ON, MORE, RULES, SETTLED
from ..kernels._descent import Descent as CompiledDescent
from ..kernels._products import Panels
from ..linear import linear_problem, log_domain, newton, pace, rules
from ..linear.log_domain import Potentials
from ..linear.sinkhorn_solver import in_units
from ..results.status import Ending
from ..utils.precision import DOUBLE, SINGLE, FloatPrecision
from ..utils.types import Float64Array, FloatArray, IntArray
from . import acceleration, judge, state

if TYPE_CHECKING:
    from .dense import DenseLinearization
    from .descend import Descent
    from .judge import Limits

VALUE = FIELDS.index("value")
# Numbers of csrc/gwfast.h's GWF_LIMITS that all descents share; their modules give the reasons.
SHARED = dict(
    slice=1e9,  # multiplications of a call, some tenths of a second: Ctrl-C waits as long
    loss_rounding=state.LOSS_ROUNDING,
    window=judge.WINDOW,
    clearly_less=judge.CLEARLY_LESS,
    look_every=pace.LOOK_EVERY,
    after_newton=pace.AFTER_NEWTON,
    stalled_rate=pace.STALLED_RATE,
    most_omega=pace.MAX_OMEGA,
    level_ratio=log_domain.RATIO,
    level_iterations=log_domain.LEVEL_ITERATIONS,
    level_settled=log_domain.LEVEL_TOL,
    most_kernels=pace.MOST_KERNELS,
    farthest=newton.FARTHEST,
    newton_leaves=newton.LEAVES,
    depth=acceleration.DEPTH,
    turn_floor=acceleration.FLOOR,
    singular=acceleration.SINGULAR,
    max_change=acceleration.MAX_CHANGE,
    clear=acceleration.CLEAR,
    max_foretold=acceleration.MAX_PREDICTED,
    max_growth=acceleration.MAX_GROWTH,
    first_reach=acceleration.FIRST_TRUST_RADIUS,
    max_reach=acceleration.MAX_TRUST_RADIUS,
    shrinks=acceleration.SHRINKS,
)


def descend_small(
    descents: list[Descent], limits: Sequence[Limits], n_threads: int = 1
) -> list[Descent]:
    """Return the descents, each of a small problem, after all iterations that the compiled loop can
    make within the limits of each, `n_threads` at a time; the outer loop goes on without a status.
    """
    for starts_in in (_in_float32, _in_own_type):
        began, begun = time.perf_counter(), map(starts_in, descents, limits)
        compiled = {k: one for k, one in enumerate(begun) if one is not None}
        ended, left = dict.fromkeys(compiled, MORE), list(compiled)
        while left and not limits[0].deadline.passed():
            ended.update(
                zip(left, CompiledDescent.each([compiled[k] for k in left], n_threads), strict=True)
            )
            left = [k for k in left if ended[k] == MORE and compiled[k].done < compiled[k].most]
        seconds = (time.perf_counter() - began) / max(len(compiled), 1)
        for k, one in compiled.items():
            descents[k] = _after(descents[k], one, ended[k], limits[k], seconds)
    return descents


def descend_each(
    first: Descent, plans: FloatArray, limits: Limits, n_threads: int = 1
) -> tuple[Float64Array, IntArray]:
    """Descend from several plans (k, n, m) in the compiled loop; their last plans replace them. The
    `Descent` `first` is at the first plan and has made no iteration. Return the objective of each,
    NaN where that loop can make no iteration, and the numbers of iterations.
    """
    linearization = first.linearization
    values, done = np.full(len(plans), np.nan), np.zeros(len(plans), int)
    compiled = _in_own_type(first, limits) if linearization.is_small else None
    if compiled is None:
        return values, done
    left = several = [compiled.from_plan(plan) for plan in plans]
    while left:
        limits.deadline.check()
        ended = zip(left, CompiledDescent.each(left, n_threads), strict=True)
        left = [one for one, how in ended if how == MORE and one.done < one.most]
    for k, one in enumerate(several):
        if one.done:
            values[k], done[k] = linearization.cost_scale * one.steps[-1, VALUE], one.done
    return values, done


def suits_descent(linearization: DenseLinearization) -> bool:
    """Return whether the compiled loop can make the iterations of a linearization, and pays."""
    (n, m), allowed = linearization.problem.shape, linearization.tuning
    if n * m * (n + m) > 2 * allowed.few_points**3 or linearization.problem.rule.name not in RULES:
        return False
    return allowed.small_descents and allowed.newton


def _in_own_type(descent: Descent, limits: Limits) -> CompiledDescent | None:
    """Return the compiled descent of a `Descent`, or None if rounding may move the plan by more
    than its verdicts allow for.
    """
    linearization, precision = descent.linearization, descent.linearization.precision
    epsilon = in_units(descent.epsilons.last, linearization.cost_scale, precision)
    rounding = precision.cost_rounding * linearization.magnitude(descent.state)
    floor = precision.rounding / epsilon
    if floor > judge.UNSTABLE or descent.status is not None:
        return None
    judged = limits.stopping.numbers(limits, precision, floor, rounding / linearization.cost_scale)
    tol = limits.marginal_tol
    judged |= dict(
        plain=limits.stopping.n_plain - len(descent.steps),
        # The rest is for the rounding of sums.
        goal=tol - min((1 - linear_problem.MARGIN) * tol, precision.min_inner_tol),
        # By steps in float32 a cycle ended .4 % higher (tests/quadratic/test_cycles.py).
        newton_below=newton.NEAR if precision is DOUBLE else 0.0,
    )
    return _compiled(descent, limits, precision, judged)


def _in_float32(descent: Descent, limits: Limits) -> CompiledDescent | None:
    """Return the compiled descent in float32 that a float64 descent begins with, or None."""
    linearization, n_entries = descent.linearization, math.prod(descent.problem.shape)
    # Clouds of 20 points take 1.1 of the time if they begin in float32, of 50 points .7 to .9, of
    # 100 points .8.
    few = n_entries < 2000 or limits.max_outer < 50 or descent.steps
    method = linearization.method
    plain = descent.problem.is_balanced and not (method.proximal or method.alternating)
    if few or linearization.precision is SINGLE or limits.tol > 1e-6 or not plain:
        return None
    floor = SINGLE.rounding * linearization.cost_scale / descent.epsilons.last
    # Where rounding may move the plan by more, or soon, float32 is of no use.
    tol = max(16 * floor, 4 * DOUBLE.max_inner_tol)
    if tol > judge.UNSTABLE:
        return None
    judged = judge.RELATIVE.numbers(limits, SINGLE, floor, 0.0)
    judged |= dict.fromkeys(("exact", "max_inner_tol", "least"), DOUBLE.max_inner_tol)
    judged |= dict.fromkeys(("still", "marginal", "goal"), np.inf)
    judged |= dict(tol=tol, plain=0, newton_below=newton.NEAR)
    return _compiled(descent, limits, SINGLE, judged)


def _compiled(
    descent: Descent, limits: Limits, precision: FloatPrecision, judged: dict[str, float]
) -> CompiledDescent:
    """Return the compiled descent from the state of a `Descent`, with matrices of a precision."""
    linearization = cast("DenseLinearization", descent.linearization)
    start, epsilons = descent.iterate.state, descent.epsilons
    problem, unit = linearization.problem, linearization.cost_scale
    method, rule = linearization.method, problem.rule
    dtype, first = precision.dtype, len(descent.steps)
    epsilon, warm = (
        in_units(each, unit, precision) for each in (epsilons.last, epsilons.epsilon_at(first))
    )
    # Caps are not needed if all mass of a side moves.
    is_partial, all_moves = rule.name == "partial", (1.0 + rules.ALL_MOVES) * rule.mass
    numbers = dict(
        epsilon=epsilon,
        first_epsilon=warm,
        cooling=epsilons.factor,
        mass=rule.mass,
        rule=RULES[rule.name],
        row_capped=is_partial and problem.p.sum() > all_moves,
        col_capped=is_partial and problem.q.sum() > all_moves,
        newton_price=newton.PRICE + newton.PRICE_OF_POINT * min(problem.shape),
        proximal=method.proximal,
        alternating=method.alternating,
        marginal_terms=method.marginal_terms and (method.alternating or not problem.is_balanced),
        # Acceleration combines plans of one mass.
        accelerates=linearization.accelerates and not rule.is_relaxed,
        max_exponent=precision.max_exponent,
        max_scaling=math.exp(precision.max_log_scaling),
        max_cold_spread=precision.max_cold_spread,
        stall_error=precision.stall_error,
        stall_change=precision.stall_change,
        magnitude=0.0,
        tightens=linearization.tightens,
        max_inner=limits.max_inner,
        first_limit=linearization.inner_limit,
        max_outer=limits.max_outer - first,
        made=first,
        fraction=linearization.inner_fraction,
        low_after=judge.n_recent(method),
    )
    orientations = linearization.orientations
    if dtype != linearization.precision.dtype:
        left, right = (side.matrix.astype(dtype) for side in linearization.sides)
        orientations = [(left, Panels(right, True))]
        if linearization.orientations[1:]:
            orientations.append((np.ascontiguousarray(left.T), Panels(right)))
    (left, right), *transposed = orientations
    left_t, right_t = transposed[0] if transposed else (None, None)
    row_cost, col_cost = (cost / unit for cost in start.separable)
    potentials, losses = start.potentials, None
    if not problem.is_balanced:
        of_rows, of_cols = (
            (side.losses, linearization.alpha * side.loss_scale / unit)
            for side in linearization.sides
        )
        losses = of_rows, of_cols
    return CompiledDescent(
        left, right, left_t, right_t,
        None if linearization.fused is None else linearization.fused.astype(dtype, copy=False),
        start.plan.astype(dtype), start.moments.matrix.astype(dtype), problem.p, problem.q,
        row_cost, col_cost, potentials and (potentials.f, potentials.g), losses,
        shift=linearization.fused_middle / unit, stride=linearization.sample_stride,
        change=descent.iterate.change, value=descent.gw_cost / unit,
        limits=SHARED | numbers | judged,
    )  # fmt: skip


def _after(
    descent: Descent, compiled: CompiledDescent, ended: int, limits: Limits, seconds: float
) -> Descent:
    """Return the `Descent` after the iterations of a compiled one."""
    if not compiled.done:
        return descent
    linearization = cast("DenseLinearization", descent.linearization)
    status, verdict = None, None
    dtype, n_done = linearization.precision.dtype, len(descent.steps) + compiled.done
    own_type = compiled.plan.dtype == dtype
    if ended == SETTLED and own_type:
        status = Ending.CONVERGED
    elif n_done >= limits.max_outer:
        status = Ending.MAX_OUTER
    elif limits.deadline.passed():
        status = Ending.TIME_LIMIT
    elif ended == HANDED_ON and own_type:
        limit, fraction, settled = compiled.inner
        inner, cycle = judge.Inner(limit, fraction), judge.Cycle(n_steady=n_done)
        verdict = judge.Verdict.first(linearization)
        verdict = verdict._replace(settled=settled, inner=inner, cycle=cycle)
    product = None if compiled.is_away else compiled.cost.astype(dtype, copy=False)
    last = linearization.state_from(
        compiled.plan.astype(dtype, copy=False),
        product,
        compiled.rows,
        compiled.cols,
        Potentials(compiled.f, compiled.g),
        linearization.cost_scale * float(compiled.steps[-1, VALUE]),
    )
    return descent.after_compiled(compiled, last, status, descent.seconds + seconds, verdict)
