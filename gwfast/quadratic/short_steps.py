"""Outer iterations of small problems between which there is nothing to decide, made
many in one call (kernels/_outer_steps.pyx): calls from Python for each would take
longer than all that they do. The outer loop makes the others, the first among them, and
looks at the last of each row.
"""

import numpy as np

from ..kernels import _outer_steps
from ..kernels._outer_steps import DECIDE, MORE, OTHERWISE
from ..linear.log_domain import Potentials
from ..linear.sinkhorn_solver import MARGIN, LinearSolution, in_units
from .acceleration import MAX_CHANGE
from .linearization import Update
from .methods import Stepped
from .stopping import LOOK_EVERY

# Sinkhorn iterations of one linear problem. Longer ones are over-relaxed, elsewhere.
MOST_INNER = 64
# The mean factor of the change from one iteration to the next from which on
# acceleration does better; and iterations before which a large one need not fall.
PAYS, EARLY = 0.8, 30


class ShortSteps:
    """Takes such iterations for an outer loop, in rows of up to `LOOK_EVERY`. How many
    of a row are made at once is seen nowhere in what comes of them.

    Parameters
    ----------
    linearization : Linearization
    schedule : InnerSchedule
    """

    def __init__(self, linearization, schedule):
        self._linearization, self._schedule = linearization, schedule
        self._pays = linearization.is_small
        # Whether since the last regular look a row has ended for one, in vain.
        self._looked = False
        # Of the row that has begun, if one has: iterations and change before it, and
        # the objective after the last iteration as the kernel has it.
        self._begun, self._value = None, float("inf")

    def stop(self):
        """Leave all iterations from now on to the loop."""
        self._pays = False

    def take(self, done, limits, epsilon, potentials, change, at_once=LOOK_EVERY):
        """Iterate until there is something to decide, or the next iteration is one to
        be looked at, or the last that the limit allows.

        Parameters
        ----------
        done : int
            Iterations so far.
        limits : Limits
        epsilon : float
            Of all these iterations.
        potentials : Potentials
        change : float
            By the last iteration, relatively.
        at_once : int, default=LOOK_EVERY
            How many are made at most; the row may then go on.

        Returns
        -------
        list of Stepped
            None where the next iteration is to be made otherwise.
        bool
            Whether the last is one to be looked at.
        """
        since = (done - 1) % LOOK_EVERY
        most = min(LOOK_EVERY - 1 - since, limits.max_outer - done - 1)
        if not (self._pays and done) or most < 1 or limits.deadline.passed():
            self._begun = None
            return [], False
        if self._begun is None:
            self._begun, self._value = (done, change), float("inf")
            self._looked = self._looked and since > 0
        linearization = self._linearization
        given = linearization.cost_scale, linearization.precision
        steps, status, self._value = linearization.advance(
            min(most, at_once),
            in_units(epsilon, *given),
            potentials,
            change=change,
            value=self._value,
            **self._options(limits),
        )
        if status != MORE or len(steps) == most:
            self._end(done, steps, status)
        return steps, status == DECIDE

    def _end(self, done, steps, status):
        """End the row with these steps, before which there were so many."""
        (before, change), self._begun = self._begun, None
        self._looked = self._looked or status == DECIDE
        # A linear problem that takes another solver, as the next ones will.
        self._pays = status != OTHERWISE
        if self._pays:
            done, after = done + len(steps), steps[-1].update.change
            early = after > MAX_CHANGE and done <= EARLY
            self._pays = early or after <= PAYS ** (done - before) * change

    def _options(self, limits):
        """When inner iterations end, and when these do."""
        linearization = self._linearization
        fraction, rough, least, most = self._schedule.bounds(limits)
        ends = (0.0, 0.0) if self._looked else limits.rule.may_end_at(limits.tol)
        rounding = linearization.precision.cost_rounding * linearization.magnitude
        return dict(
            fraction=MARGIN * fraction,
            rough=MARGIN * rough,
            least=MARGIN * least,
            most_inner=min(most, MOST_INNER),
            least_change=ends[0],
            least_moved=ends[1],
            tol=limits.tol,
            rounding=rounding / linearization.cost_scale,
        )


def outer_steps(
    at, terms, problem, precision, plan, most, epsilon, potentials, options
):
    """See `Linearization.advance`, from a plan whose `PlanCost` is given; the new plan
    comes first, None if there is none.
    """
    cost, unit, fused = at.buffer.array, terms.cost_scale, terms.fused
    if not at.is_there:
        at.buffer.take()
        at.fill(cost, options["change"], epsilon)
    made, f, g = plan.copy(), potentials.f.copy(), potentials.g.copy()
    rows, cols = np.empty(len(f)), np.empty(len(g))
    steps = np.empty((most, len(_outer_steps.FIELDS)))
    done, status = _outer_steps.outer_steps(
        *terms.bilinear.factors,
        fused and fused.matrix,
        *(made, cost, f, g, problem.p, problem.q),
        *(at.row_cost / unit, at.col_cost / unit, rows, cols, steps),
        epsilon,
        peak=precision.peak,
        drift=precision.drift,
        **options,
    )
    if not done:
        at.take(plan, at.standing()[:2])
        return None, [], status, options["value"]
    at.take(made, (rows, cols))
    solved = Potentials(f, g), rows, cols
    rows = [_stepped(one, terms, *solved) for one in steps[:done].tolist()]
    return made, rows, status, sum(steps[done - 1, :3].tolist())


def _stepped(step, terms, potentials, rows, cols):
    """What a row of `steps` says, with potentials and marginals of the last."""
    separable, product, half = (terms.cost_scale * one for one in step[:3])
    change, moved, error, n_inner = step[3:]
    # Where marginals are fixed the mass is one.
    gw_cost = terms.total(separable, product, half, 1.0)
    update = Update(gw_cost, change, rows, cols, moved, bilinear=product - half)
    solution = LinearSolution(potentials, None, int(n_inner))
    return Stepped(None, solution, update, int(n_inner), error, error, 0.0)
