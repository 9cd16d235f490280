"""Which start leads to the lowest optimum: candidates race on few points, and the best
of them go on, level by level, to all points.

The race is successive halving (Jamieson and Talwalkar, AISTATS 2016). Candidates share
costs and buffers and take turns. Each round ends with the candidates dropped that are
on the way to the same optimum as a better one, and the worse half of the others by
`gw_cost`, which is compared at equal epsilon. No known correspondence is used.
"""

import dataclasses
import functools

import numpy as np

from ..problems.epsilon import as_epsilon
from ..problems.low_rank import has_low_rank, low_rank_problem
from ..quadratic.factory import is_factored, linearize, work
from ..quadratic.stopping import Limits, Unjudged
from ..quadratic.stores import NeighborTier
from ..results.coupling import SparseCoupling
from ..results.tables import Candidates
from ..utils.deadline import OutOfTime
from ..utils.memory import as_memory_limit
from ..utils.precision import SINGLE
from ..utils.progress import ProgressEvent
from .agreement import TIE, is_sure
from .checkpoint import NOT_KEPT, STARTS
from .contestants import (
    AHEAD,
    SETTLED,
    SKIPPED,
    WON,
    Standing,
    annealed_early,
    candidates_from_starts,
    promote,
)
from .levels import SECOND_LEVEL_STATES, choose, fits, level_sizes, points_first, taken
from .stages import GRACE, UPDATES
from .starts import (
    ALONE,
    Product,
    Start,
    default_starts,
    fresh_starts,
    known_starts,
    shared_profiles,
)

# Outer iterations after which candidates are compared, the first time after all
# annealing. On the word vectors and cells measured, a start that leads to the lowest
# optimum is among the first five of thirty after eight iterations.
ROUNDS = (8, 20, 40, 80)
# Limits of a race. The objective of a plan that misses its marginals is off by about
# the marginal error times its largest terms, so a race, which compares objectives, has
# a stricter `marginal_tol` than a solve of which only a start is taken (COARSE).
RACE = Limits(max_outer=ROUNDS[-1], max_inner=1000, tol=1e-4, marginal_tol=1e-4)
COARSE = Limits(max_outer=ROUNDS[-1], max_inner=1000, tol=1e-3, marginal_tol=1e-3)
# Limits of the descents that lead from a finished race to the next level. The first
# iterations there move plans by 10 to 20 %, which undoes a finer convergence.
PROMOTION = Limits(max_outer=ROUNDS[-1], max_inner=1000, tol=1e-2, marginal_tol=1e-3)
# Relative differences of states and of objectives below which two candidates are on the
# way to the same optimum. States of mirror images differ by 0.5 to 1.4.
SAME_STATE, SAME_COST = 0.3, 0.05
# Outer iterations after which states are compared early, within the first round. Until
# then iterations are rough, as small marginal errors take most of all inner iterations
# (at small epsilons ten times as many as the rest). A candidate is dropped if its state
# is nearer than NEAR_STATE to that of a better one. On eight pairs of graphs (600 to
# 1000 words, two epsilons) all candidates within 0.2 of one another after four
# iterations end in one optimum, but not all of those within 0.13 after two.
MEET_AT, NEAR_STATE = (4, 7), 0.15
ROUGH = Limits(max_outer=ROUNDS[-1], max_inner=50, tol=1e-2, marginal_tol=1e-2, rule=Unjudged())
# In a race over leading eigenvectors, a candidate whose objective exceeds the lowest by
# more than this fraction at the last early comparison is dropped. On 50 problems
# (graphs of 600 to 1000 words, distances, geodesics; two epsilons) the candidate that
# leads to the lowest optimum is at most 7 % above.
MAX_EXCESS = 0.1
# Relative difference of objectives below which neither candidate is dropped during the
# race, for at most MAX_CLOSE candidates.
CLOSE, MAX_CLOSE = 5e-3, 2
# Candidates of one race at most: each holds its state, 40 kB for graphs of 60 points.
# Further starts, which only a caller asks for, race against the best of the first ones.
MAX_FIELD = 64
# Fraction of a level's points from which on a sure race on the coarser level needs no
# fresh starts: fewer points may have other optima.
SURE_FRACTION = 0.5


def search(problem, options, report, further=0.0, seeds=None):
    """Solve a problem from the best of the default starts, or from `Seeds`, which need
    no race: the winner, `is_tie` and the `Candidates`.

    The last level has the tier of the options. Coarser levels are dense, and left out if they
    exceed `memory_limit` or time is up; OutOfTime if there is none for a first plan of all points.
    The callback sees the iterations of the last descent. `further` is the `work` after the search
    for which time is kept. A search goes on from the checkpoint.
    """
    limits, standing, inside = options.limits, None, None
    checkpoint, saved = options.checkpoint, options.checkpoint.at(STARTS)
    orders = points_first(problem, options.order)
    if seeds is not None:
        orders = seeds.first(orders)
    source, sizes = _levels(problem, options)
    with checkpoint.restoring():
        begin = 0 if saved is None else range(len(sizes))[int(saved["level"])]
    for number, size in enumerate(sizes[begin:], begin):
        is_last, late = size is None, standing is not None and standing.is_late
        if is_last:
            part, rows = problem, [np.sort(every) for every in orders]
        else:
            part, rows = taken(source, orders, size, options.order)
        if number > 0 and not is_last:
            # Fresh starts on the second level are made as in a race.
            kind = dict(races=number == 1, n_states=SECOND_LEVEL_STATES)
            if late or not fits(part, options, **kind):
                continue
        if late:
            check_time(standing.left[0], problem, limits)
        if size is not None and len(sizes) > 2:
            text = f"level of {size} of {max(problem.shape)} points"
            report(ProgressEvent("level", text, number))
        level = _Level(number, problem, part, rows, is_last, options, report)
        starts = [] if number else level.starts(seeds)
        if saved is not None:
            with checkpoint.restoring():
                standing, saved = Standing.restored(level.linearization, saved), None
        elif standing is None:
            standing = Standing().with_field(level.field(starts[:MAX_FIELD]))
        else:
            may_refresh = number == 1 and level.is_dense and seeds is None
            standing = level.promoted(standing, inside, may_refresh)
        checkpoint.stop_if(limits.deadline.passed())
        if is_last:
            source = None  # frees its eigenvectors
        # Time is kept for the first plan of all points, too.
        after = (UPDATES * work(problem) + further) / work(part)
        standing = level.raced(standing, starts, limits.before(after))
        if is_last:
            until = limits.before(further / work(part))
            standing = finish(standing, until, options.callback, report, checkpoint)
        else:
            standing = _settled(standing, limits.before(after), checkpoint)
        inside = rows
    candidates = Candidates(standing.candidates + standing.records())
    return standing.left[0], is_tie(standing), candidates


def _levels(problem, options):
    """What coarser levels take their points from, and the numbers of points a side,
    None for the last level. Their source is the problem, or the problem with the
    leading eigenvectors of its costs, which are as cheap as point clouds; then a level
    of all points comes before the costs themselves.
    """
    if not (problem.is_balanced and options.mechanisms.coarse_levels):
        return problem, [None]
    smooth = low_rank_problem(problem, options.threads(problem))
    if smooth is not None:
        sizes = level_sizes(smooth, options.tier, is_smooth=True)
        return smooth, [*sizes, max(problem.shape), None]
    if has_low_rank(problem, problem.shape):
        # The memory was checked for a race over eigenvectors, which turn out not to do.
        given = options.tier, options.memory_limit, options.threads(problem)
        choose(problem, *given, itemsize=options.precision.itemsize, smooth=False)
    sizes = level_sizes(problem, options.tier, order=options.order)
    return problem, [*sizes, None]


class _Level:
    """Some points of a problem, or all, for a race on their costs or on the leading
    eigenvectors of these. The last level has the tier of the options.
    """

    def __init__(self, number, whole, part, rows, is_last, options, report):
        self.number, self.whole, self.part, self.rows = number, whole, part, rows
        self.is_last, self.options, self.report = is_last, options, report
        self.is_dense = not is_last or options.tier == "dense"
        # Leading eigenvectors stand for the costs.
        self.is_smooth = is_factored(part) and not is_factored(whole)
        # A balanced float64 solve goes on from the winner of a search in float32.
        precision = SINGLE if part.is_balanced else options.precision
        kind = dict(precision=precision, mechanisms=options.mechanisms)
        kind["placement"] = options.placement
        given = options.threads(part), options.tier if is_last else "dense"
        self.linearization = linearize(part, *given, **kind)
        schedule = options.epsilon.resolve(self.linearization)
        if options.precision is not SINGLE and precision is SINGLE:
            # Float32 only finds the start here.
            least = SINGLE.min_epsilon * self.linearization.cost_scale
            kind = dict(last=max(schedule.last, least), first=max(schedule.first, least))
            schedule = dataclasses.replace(schedule, **kind)
        self.schedule = annealed_early(schedule)

    def starts(self, seeds):
        """The starts of the first level."""
        options = self.options
        if seeds is not None:
            return [seeds.within(self.rows)]
        if not self.part.is_balanced:
            balanced = options.balanced or OfBalanced(options, self.report)
            # The product plan has no few neighbors to each row.
            partial = NeighborTier.of(options.tier) is not None
            return [balanced] if partial else [Product(), balanced]
        n_random = options.n_starts
        known = n_random is None and known_starts(self.part, options.seed)
        if known:
            return known
        if self.is_smooth and n_random is None:
            n_random = 1
        kind = dict(is_cloud=is_factored(self.part))
        return default_starts(self.part.shape, options.seed, n_random, **kind)

    def field(self, starts):
        """A contestant for each start. The profiles are those of the costs, also in a race on
        eigenvectors: on graphs of 600, 700 and 1500 words, profiles of these lead to optima 10 %,
        2 % and 1.5 % higher, and never to one more than 0.1 % lower.
        """
        profiles, deadline = None, self.options.limits.deadline
        if self.is_smooth:
            some = self.whole
            if self.part.shape != some.shape:
                some = some.take(*self.rows)
            profiles = shared_profiles(some, self.linearization.n_threads, deadline)
        costs = self.linearization, self.schedule
        return candidates_from_starts(*costs, starts, self.report, deadline, profiles)

    def promoted(self, before, inside, may_refresh):
        """The `Standing` of the candidates left on the level before, whose rows are
        `inside`, and of fresh starts if these are needed.
        """
        at = [np.searchsorted(*pair) for pair in zip(self.rows, inside, strict=True)]
        left = before.left[:1] if before.is_late else before.left
        costs, alone = (self.linearization, self.schedule), len(left) == 1
        field = [promote(one, *costs, at, alone=alone) for one in left]
        if may_refresh and not before.is_late and self._needs_fresh(before):
            field += [
                dataclasses.replace(one, label=f"fresh {one.label}")
                for one in self.field(fresh_starts(self.part.shape))
            ]
        candidates = before.candidates + before.records()
        return Standing(self.number, candidates).with_field(field)

    def _needs_fresh(self, before):
        """Whether fresh starts, made as arrays of all points, race as well: if there is room for
        them and the race before, on fewer points, has not found the lowest optimum for sure.
        """
        n, m = self.part.shape
        n_raced = max(before.left[0].loop.linearization.problem.shape)
        # Arrays here, beside a kernel that is placed elsewhere.
        full = 8.0 * n * m > self.options.memory_limit
        if n_raced >= max(n, m) or (full and self.options.is_placed(self.part)):
            return False
        if n_raced < SURE_FRACTION * max(n, m) or len(before.left) > 1:
            return True
        rows, winner = before.records(), before.left[0].label
        return not is_sure([row._replace(fate=WON) if row.start == winner else row for row in rows])

    def raced(self, standing, starts, limits):
        """The `Standing` after a race, and after races of the best against further
        starts, `MAX_FIELD` at a time, as far as there is time.
        """
        while True:
            standing = successive_halving(
                standing,
                max_outer=limits.max_outer - 1 if self.is_last else RACE.max_outer,
                limits=limits,
                report=self.report,
                checkpoint=self.options.checkpoint,
                is_smooth=self.is_smooth,
            )
            entered = len(standing.left) + len(standing.ended)
            further = starts[entered : entered + MAX_FIELD]
            if standing.is_late or not further:
                return standing
            try:
                standing = standing.with_field(self.field(further))
            except OutOfTime:
                return standing


@dataclasses.dataclass(frozen=True)
class OfBalanced(Start):
    """The best plan of the balanced problem of the same costs, for a problem with other marginals:
    a descent from the product plan often ends in optima that leave out points which have a match.
    """

    options: object
    report: object

    def plan(self, problem, n_threads, shared=ALONE):
        costs, options = problem.replace(rule=problem.rule.balanced()), self.options
        limit = as_memory_limit(options.memory_limit)
        auto, tier = as_epsilon("auto"), NeighborTier.of(options.tier)
        options = dataclasses.replace(
            options,
            epsilon=auto if options.is_exact else options.epsilon,
            limits=options.limits.within(COARSE),
            dtype="float32",
            memory_limit=limit,
            tier=tier or choose(costs, "auto", limit, n_threads),
            placement=None,
            checkpoint=NOT_KEPT,
            callback=None,
        )
        try:
            winner, *_ = search(costs, options, self.report)
        except ValueError:  # an epsilon for float64 only
            options = dataclasses.replace(options, epsilon=auto)
            winner, *_ = search(costs, options, self.report)
        coupling = winner.solution.coupling
        if coupling.form == "sparse":
            csr = coupling.csr * np.float32(problem.mass)
            return SparseCoupling(csr, coupling.n_threads)
        return problem.mass * coupling.toarray()

    def __str__(self):
        return "balanced"


def _settled(standing, limits, checkpoint):
    """The `Standing` when the candidates left are ready for the next level."""
    far = dataclasses.replace(limits.within(PROMOTION), max_outer=PROMOTION.max_outer)
    for k, one in enumerate(standing.left):
        # After a restart some may have got there already.
        if one.outcome == AHEAD:
            if one.is_moving and not one.is_late:
                standing = standing.advance(k, far, checkpoint)
            standing = standing.replacing(k, standing.left[k].with_outcome("went on"))
    return standing


def check_time(one, problem, limits):
    """Raise OutOfTime unless there is time for an iteration of the problem, estimated
    from the contestant's iterations on fewer points.
    """
    part = one.loop.linearization.problem
    seconds = one.loop.update_seconds * work(problem) / work(part)
    limits.deadline.check(2 * seconds - GRACE)


def successive_halving(
    standing, max_outer, limits, report, checkpoint=NOT_KEPT, *, is_smooth=False
):
    """The `Standing` after all rounds, with one candidate left, or several of nearly equal
    objectives in other optima, the best first. When time is up only the best is left.

    On the second level, where fresh starts have to catch up with promoted candidates,
    the first round drops only candidates on the way to another's optimum. A race on
    leading eigenvectors, `is_smooth`, has rougher tolerances.
    """
    race = limits.within(COARSE if is_smooth else RACE)
    for number in range(standing.round, len(ROUNDS) + 1):
        standing = dataclasses.replace(standing, round=number)
        most = min(ROUNDS[number - 1], max_outer)
        catching_up = standing.level == 1 and number == 1
        if number == 1 and not catching_up:
            standing = _drop_early(standing, limits, most, checkpoint, is_smooth)
        n_left = len(standing.left)
        if n_left == 1:
            break

        def announce(k, _, number=number, n_left=n_left):
            text = f"round {number}: candidate {k + 1} of {n_left}"
            report(ProgressEvent("round", text, k + 1))

        standing = standing.advance_each(race, most, checkpoint, announce)
        left, dropped = _distinct(sorted(standing.left, key=_rank))
        if standing.is_late:
            dropped += [one.with_outcome(SKIPPED) for one in left[1:]]
            standing = standing.dropping(left[:1], dropped)
            break
        keep = min(sum(as_good(one, left[0], CLOSE) for one in left), MAX_CLOSE)
        if catching_up:
            keep = len(left)
        elif number < len(ROUNDS):
            keep = max(keep, len(left) // 2)
        fate = f"dropped in round {number}"
        dropped += [one.with_outcome(fate) for one in left[keep:]]
        standing = standing.dropping(left[:keep], dropped)
    return dataclasses.replace(standing, round=len(ROUNDS) + 1)


def _drop_early(standing, limits, most, checkpoint, is_smooth):
    """The `Standing` after the early comparisons of states, as far as they come before
    iteration `most`, without candidates near a better one or too far above the best.
    """
    for early in MEET_AT[standing.n_met :]:
        if early >= most or len(standing.left) == 1:
            continue
        standing = standing.advance_each(limits.within(ROUGH), early, checkpoint)
        if not standing.is_late:
            near = dict(nearness=NEAR_STATE, same_cost=np.inf)
            distinct, dropped = _distinct(sorted(standing.left, key=_rank), **near)
            excess = MAX_EXCESS if is_smooth and early == MEET_AT[-1] else np.inf
            left = [one for one in distinct if as_good(one, distinct[0], excess)]
            dropped += [
                one.with_outcome("dropped in round 1") for one in distinct if one not in left
            ]
            standing = standing.dropping(left, dropped)
        standing = dataclasses.replace(standing, n_met=standing.n_met + 1)
    return standing


def finish(standing, limits, callback, report, checkpoint=NOT_KEPT, *, prune=True):
    """The `Standing` at the end of the descents, the best first. With `prune` the
    others stop when they have made as many iterations as the best took to converge.
    """
    if len(standing.left) > 1 and standing.left[0].outcome != WON:
        standing = _settle_all(standing, limits, report, checkpoint, prune)
        standing = standing.dropping(sorted(standing.left, key=_rank), [])
    best = standing.left[0].with_outcome(WON)
    report(ProgressEvent("solve", f"solving from {best.label}"))
    standing = standing.replacing(0, best).advance(0, limits, checkpoint, callback)
    best, *others = standing.left
    left = [best]
    for one in others:
        fate = "lost"
        if as_good(one, best, TIE):
            fate = f"same as {best.label}" if same_state(one, best) else "tie"
        left.append(one.with_outcome(fate))
    return standing.dropping(left, [])


def _settle_all(standing, limits, report, checkpoint, prune):
    """The `Standing` when all left have converged or reached the limits. With `prune`
    they go on in rounds, each as long as all before, until the best has converged.
    """

    def announce(_, one):
        report(ProgressEvent("solve", f"solving from {one.label}"))

    # The winner makes the last iteration by itself: it leaves its plan in the common buffer.
    max_outer, limits = limits.max_outer - 1, limits.before(UPDATES)
    longest = 2 * ROUNDS[-1] if prune else max_outer
    while True:
        # After a restart some may be in a later round.
        while longest < max(one.n_outer for one in standing.left):
            longest *= 2
        most = min(longest, max_outer)
        kind = dict(announce=announce, final=True)
        standing = standing.advance_each(limits, most, checkpoint, **kind)
        is_over = most == max_outer or standing.is_late
        if is_over or min(standing.left, key=_rank).outcome == SETTLED:
            return standing
        longest *= 2


def is_tie(standing):
    """Whether another optimum was found whose objective equals the best one's."""
    return any(one.outcome == "tie" for one in standing.left)


def _distinct(ranked, nearness=SAME_STATE, same_cost=SAME_COST):
    """Splits contestants, the best first, by whether the optimum they are on the way to
    is one of their own or that of a better contestant.
    """
    kept, same, size_of = [], [], functools.cache(_size)
    for one in ranked:
        for other in kept:
            alike = as_good(one, other, same_cost)
            if alike and same_state(one, other, nearness, size_of):
                same.append(one.with_outcome(f"same as {other.label}"))
                break
        else:
            kept.append(one)
    return kept, same


def _rank(one):
    """Sorts by objective, NaN last."""
    return one.gw_cost if one.gw_cost == one.gw_cost else np.inf


def as_good(one, best, fraction):
    """Whether an objective exceeds the best one by at most this fraction of it."""
    rounding = 1e-6 * best.loop.linearization.magnitude
    if one is best or fraction == np.inf:
        return True
    return one.gw_cost - best.gw_cost <= fraction * abs(best.gw_cost) + rounding


def _size(one):
    """The distance of a state from that of the product plan."""
    return np.linalg.norm(one.loop.linearization.deviation())


def same_state(one, other, nearness=SAME_STATE, size_of=_size):
    """Whether the relative distance of two states, from 0 to about 1.4, says that they
    are on the way to the same optimum. `size_of` may remember its results.
    """
    size = max(size_of(one), size_of(other))
    # Smaller distances from the product plan may be rounding.
    if size <= 1e-5:
        return True
    return one.loop.linearization.apart(other.loop.linearization) < nearness * size
