"""Which start leads to the lowest optimum: candidates race on few points, and the best
go on from coarse to fine.

The race is successive halving (Jamieson and Talwalkar, AISTATS 2016). Candidates share
costs and buffers and take turns. After every round those that follow another into the
same optimum are dropped, and the worse half by `gw_cost`, compared at equal epsilon; no
correspondence is ever looked at.
"""

import dataclasses
import functools

import numpy as np

from ..problems.epsilon import as_epsilon
from ..problems.low_rank import has_low_rank, low_rank_problem
from ..quadratic.factory import is_factored, linearize, work
from ..quadratic.stopping import Limits, Unjudged
from ..results.candidates import Candidates
from ..utils.deadline import OutOfTime
from ..utils.memory import as_memory_limit
from ..utils.precision import SINGLE
from ..utils.progress import ProgressEvent
from .agreement import is_sure
from .checkpoint import NOT_KEPT, STARTS
from .contestants import (
    AHEAD,
    SKIPPED,
    Standing,
    candidates_from_starts,
    hurried,
    promote,
)
from .levels import SECOND_LEVEL_STATES, choose, level_sizes, needs, points_first
from .stages import GRACE, UPDATES
from .starts import (
    ALONE,
    MIN_RANDOM,
    Product,
    Start,
    default_starts,
    fresh_starts,
    shared_profiles,
)

# Outer iterations after which candidates are compared; the first comparison comes when
# all annealing is over. On the word vectors and cells measured, a start that led to the
# lowest optimum was among the first five of thirty by then.
ROUNDS = (8, 20, 40, 80)
# What the race is worth, and a solve of which only a start is taken. The objective of a
# plan that misses its marginals is off by about that much of the largest terms in it,
# so the race, which compares them, is stricter.
RACE = Limits(max_outer=ROUNDS[-1], max_inner=1000, tol=1e-4, marginal_tol=1e-4)
COARSE = Limits(max_outer=ROUNDS[-1], max_inner=1000, tol=1e-3, marginal_tol=1e-3)
# How far a level goes on when its race is over: on the next one plans move by a tenth
# or two at first, and what is settled finer than that took the same steps there again.
PASSING = Limits(max_outer=ROUNDS[-1], max_inner=1000, tol=1e-2, marginal_tol=1e-3)
# Relative differences of states and of objectives below which two candidates are on the
# way to the same optimum. States of mirror images differ by 0.5 to 1.4.
SAME_STATE, SAME_COST = 0.3, 0.05
# Outer iterations after which those of the first round are looked at while their plans
# are as rough as iterations on the way are (good marginals take most of all inner
# iterations, at small epsilons ten times the others'), and what is nearer than this to
# another is dropped. On eight pairs of graphs (of 600 to 1000 words, two epsilons) all
# that were within 0.2 after four ended in one optimum, after two not even within 0.13.
MEET_AT, NEAR_STATE = (4, 7), 0.15
# Over leading eigenvectors, who is more than this fraction behind the best at the last
# of these looks is dropped. On 50 problems (graphs of 600 to 1000 words, distances,
# geodesics; two epsilons) what led to the lowest optimum was at most 7 % behind.
BEHIND = 0.1
ROUGH = Limits(
    max_outer=ROUNDS[-1], max_inner=50, tol=1e-2, marginal_tol=1e-2, rule=Unjudged()
)
# Relative size of a state below which it is that of the product plan, and rounding.
MIN_STATE = 1e-5
# Entries of all states up to which they are kept while each is compared with others.
KEPT_ENTRIES = 1 << 20
# Relative difference of objectives below which two different optima are a tie at the
# end; below which neither is dropped during the race, and how many are kept for that.
TIE, CLOSE, MAX_CLOSE = 1e-3, 5e-3, 2
# Contestants of one race at most: each holds its state, 40 kB of graphs of 60 nodes.
# Further starts, which only a caller asks for, race the best of those before.
MAX_FIELD = 64
# Fraction of the points of a level that are most of them.
MOST = 0.5
# What becomes of the best of all, and before it of those that converge, or move no
# more.
WON, THERE = "won", "at the end"


def search(problem, options, report, further=0.0, seeds=None):
    """Solve a problem from the best of the default starts, or without a race from
    `Seeds`: the winner, `is_tie` and the `Candidates`.

    The tier of the options, chosen, is that of the last level; levels before are dense,
    and left out where that takes more bytes than their `memory_limit`, or when time is
    up for more than the last. The callback is for the outer iterations of the last
    descent. OutOfTime if there is not even a first plan. What comes `further` after the
    search is `work` that there has to be time for. It goes on from the checkpoint.
    """
    limits, standing, inside = options.limits, None, None
    checkpoint, saved = options.checkpoint, options.checkpoint.at(STARTS)
    orders = _orders(problem, options, seeds)
    source, sizes = _levels(problem, options)
    with checkpoint.restoring():
        begin = 0 if saved is None else range(len(sizes))[int(saved["level"])]
    for number, size in enumerate(sizes):
        if number < begin:
            continue
        is_last, late = size is None, standing is not None and standing.is_late
        rows = [np.sort(every[:size]) for every in orders]
        part = problem if is_last else source.take(*rows)
        threads, tier = options.threads(part), options.tier if is_last else "dense"
        between = number > 0 and not is_last
        kept = dict(races=False, n_states=SECOND_LEVEL_STATES)
        kept["placement"] = options.placement
        full = needs(part, threads, **kept)[tier] > options.memory_limit
        if between and (late or full):
            continue
        if late:
            check_time(standing.left[0], problem, limits)
        linearization = _linearized(part, threads, tier, options)
        is_smooth = is_factored(part) and not is_factored(problem)
        schedule = hurried(options.epsilon.resolve(linearization))
        given = is_smooth, options, report, seeds, rows
        starts = [] if number else _starts_of(part, *given)
        if saved is not None:
            with checkpoint.restoring():
                standing, saved = Standing.restored(linearization, saved), None
        else:
            entering = number, linearization, schedule, (rows, inside), problem
            fresh = number == 1 and tier == "dense" and seeds is None
            fresh = fresh and _has_fresh(standing, sizes[0], part, options)
            standing = _entered(standing, *entering, starts, fresh, options, report)
        if is_last:
            source = None  # its eigenvectors have done their part
        # Of the time too the end has its part.
        after = (UPDATES * work(problem) + further) / work(part)
        race = functools.partial(
            successive_halving,
            max_outer=limits.max_outer - 1 if is_last else RACE.max_outer,
            limits=limits.before(after),
            report=report,
            checkpoint=checkpoint,
            # What starts anew has to catch up with what comes from below.
            keep_all_in_first_round=number == 1,
            is_smooth=is_smooth,
        )
        given = linearization, schedule, report, limits.deadline
        standing = _in_heats(race, standing, starts, *given)
        if is_last:
            until = limits.before(further / work(part))
            standing = finish(standing, until, options.callback, report, checkpoint)
        else:
            standing = _went_on(standing, limits.before(after), checkpoint)
        inside = rows
    candidates = Candidates(standing.candidates + standing.records())
    return standing.left[0], is_tie(standing), candidates


@dataclasses.dataclass(frozen=True)
class OfBalanced(Start):
    """The best plan of the balanced problem of the same costs, for one with other
    marginals: the way there from the product plan has optima that leave out points
    which have a match.
    """

    options: object
    report: object

    def plan(self, problem, n_threads, shared=ALONE):
        costs, options = problem.with_rule(problem.rule.balanced()), self.options
        limit = as_memory_limit(options.memory_limit)
        auto = as_epsilon("auto")
        options = dataclasses.replace(
            options,
            epsilon=auto if options.is_exact else options.epsilon,
            limits=options.limits.within(COARSE),
            dtype="float32",
            memory_limit=limit,
            tier=choose(costs, "auto", limit, n_threads),
            placement=None,
            checkpoint=NOT_KEPT,
            callback=None,
        )
        try:
            winner, *_ = search(costs, options, self.report)
        except ValueError:  # an epsilon for float64 only
            options = dataclasses.replace(options, epsilon=auto)
            winner, *_ = search(costs, options, self.report)
        return problem.mass * winner.solution.coupling.toarray()

    def __str__(self):
        return "balanced"


def _linearized(problem, n_threads, tier, options):
    # The balanced problem that others begin with has been in float32.
    precision = SINGLE if problem.is_balanced else options.precision
    kind = dict(precision=precision, mechanisms=options.mechanisms)
    return linearize(problem, n_threads, tier, placement=options.placement, **kind)


def _orders(problem, options, seeds):
    """Of all points of either side, those first that the first levels have."""
    sides = (problem.x, problem.p), (problem.y, problem.q)
    orders = [points_first(*side, options.order) for side in sides]
    return orders if seeds is None else seeds.first(orders)


def _levels(problem, options):
    """What levels before the last take points of, and how many a side, None on the
    last. That is the problem, or it with the leading eigenvectors of its costs, which
    are as cheap as point clouds and nearly all that matters; then all points come
    before the costs themselves.
    """
    if not (problem.is_balanced and options.mechanisms.coarse_levels):
        return problem, [None]
    smooth = low_rank_problem(problem, options.threads(problem))
    if smooth is not None:
        sizes = level_sizes(smooth, options.tier, is_smooth=True)
        return smooth, [*sizes, max(problem.shape), None]
    if has_low_rank(problem, problem.shape):
        # It takes more than was looked for.
        given = options.tier, options.memory_limit, options.threads(problem)
        choose(problem, *given, itemsize=options.precision.itemsize, smooth=False)
    return problem, [*level_sizes(problem, options.tier), None]


def _profiles(problem, rows, n_threads, deadline):
    """`shared_profiles` of some points of a problem for a race that sees the leading
    eigenvectors of its costs: what tells points apart is in all of them. (Profiles of
    the eigenvectors led to optima 10 %, 2 % and 1.5 % higher on graphs of 600, 700 and
    1500 words, and never to one more than 0.1 % lower.)
    """
    are_all = tuple(map(len, rows)) == problem.shape
    some = problem if are_all else problem.take(*rows)
    return shared_profiles(some, n_threads, deadline)


def _starts_of(problem, is_smooth, options, report, seeds, rows):
    """The starts of the first level, which has this problem, of these rows of the
    whole.
    """
    if seeds is not None:
        return [seeds.within(rows)]
    if not problem.is_balanced:
        return [Product(), options.balanced or OfBalanced(options, report)]
    n_random = options.n_starts
    if is_smooth and n_random is None:
        n_random = MIN_RANDOM
    return default_starts(problem.shape, options.seed, n_random)


def _has_fresh(standing, n_raced, part, options):
    """Whether fresh starts enter on the next level, `part`, after a race on so many
    points: where that is not settled, and there is room for them. They are made as
    arrays, here, where a kernel elsewhere needs no room.
    """
    room = 8.0 * part.shape[0] * part.shape[1] <= options.memory_limit
    room = room or not options.is_placed(part)
    more = n_raced < max(part.shape) and room
    return more and not _is_settled(standing, n_raced, part)


def _entered(
    before,
    number,
    linearization,
    schedule,
    points,
    whole,
    starts,
    fresh,
    options,
    report,
):
    """The `Standing` on a level before its first round: with the first of the starts,
    or with those left on the level `before`, and fresh ones where these are asked for;
    `points` are those of the level and of that before it, of both sides, and `whole` is
    the problem that they are points of.
    """
    shape, deadline = linearization.problem.shape, options.limits.deadline
    costs, shared = (linearization, schedule), None
    begins = before is None or fresh
    if begins and is_factored(linearization.problem) and not is_factored(whole):
        shared = _profiles(whole, points[0], linearization.n_threads, deadline)
    if before is None:
        given = starts[:MAX_FIELD], report, deadline, shared
        standing = Standing.at_start(candidates_from_starts(*costs, *given))
    else:
        at = [np.searchsorted(*pair) for pair in zip(*points, strict=True)]
        left = before.left[:1] if before.is_late else before.left
        alone = len(left) == 1
        field = [promote(one, *costs, at, alone=alone) for one in left]
        if fresh and not before.is_late:
            starts = fresh_starts(shape)
            field += [
                dataclasses.replace(one, label=f"fresh {one.label}")
                for one in candidates_from_starts(
                    *costs, starts, report, deadline, shared
                )
            ]
        candidates = before.candidates + before.records()
        standing = Standing.at_start(field, number, candidates)
    options.checkpoint.stop_if(deadline.passed())
    return standing


def _in_heats(race, standing, starts, linearization, schedule, report, deadline):
    """The `Standing` after a race of those that have entered, and one after another
    with those of the starts that the field had no room for, as far as there is time.
    """
    standing = race(standing)
    while not standing.is_late:
        entered = len(standing.left) + len(standing.ended)
        heat = starts[entered : entered + MAX_FIELD]
        if not heat:
            break
        try:
            field = candidates_from_starts(
                linearization, schedule, heat, report, deadline
            )
        except OutOfTime:
            break
        standing = race(standing.joined(field))
    return standing


def _is_settled(standing, n_raced, part):
    """Whether a race on so many points needs no fresh starts on the next level, `part`:
    few points may have had other optima than all have, but not most of them where one
    has won for sure.
    """
    if n_raced < MOST * max(part.shape) or len(standing.left) > 1:
        return False
    winner, rows = standing.left[0].label, standing.records()
    return is_sure(
        [row._replace(fate="won") if row.start == winner else row for row in rows]
    )


def _went_on(standing, limits, checkpoint):
    """Those that are left when they are where the next level takes over."""
    far = dataclasses.replace(limits.within(PASSING), max_outer=PASSING.max_outer)
    for k, one in enumerate(standing.left):
        # A checkpoint may have some that went on already.
        if one.outcome == AHEAD:
            if one.is_moving and not one.is_late:
                standing = standing.advance(k, far, checkpoint)
            standing = standing.with_one(k, standing.left[k].ended("went on"))
    return standing


def check_time(one, problem, limits):
    """Raise OutOfTime unless there is some for an iteration of the problem, by what
    one of a part of it has taken.
    """
    part = one.loop.linearization.problem
    seconds = one.loop.update_seconds * work(problem) / work(part)
    limits.deadline.check(2 * seconds - GRACE)


def successive_halving(
    standing,
    max_outer,
    limits,
    report,
    checkpoint=NOT_KEPT,
    *,
    keep_all_in_first_round=False,
    is_smooth=False,
):
    """Advance all in rounds, dropping the worse half, until one is left, or others that
    are different and nearly as good: the `Standing` then, those left by `gw_cost`.

    With `keep_all_in_first_round` that only drops what comes to the same optimum. Where
    costs stand for others, `is_smooth`, the rounds end at rougher tolerances. When time
    is up the best is left.
    """
    race = COARSE if is_smooth else RACE
    for number in range(standing.round, len(ROUNDS) + 1):
        if len(standing.left) == 1:
            break
        standing = dataclasses.replace(standing, round=number)
        most = min(ROUNDS[number - 1], max_outer)
        # What starts anew may be near another before it has caught up.
        meet = number == 1 and not keep_all_in_first_round
        for early in MEET_AT[standing.n_met :] if meet else ():
            if early < most and len(standing.left) > 1:
                given = early, limits, checkpoint
                behind = BEHIND if is_smooth and early == MEET_AT[-1] else np.inf
                standing = _merged(standing, *given, behind)
                standing = dataclasses.replace(standing, n_met=standing.n_met + 1)
        if len(standing.left) == 1:
            break

        def advance(now, k, number=number, most=most):
            one, n_left = now.left[k], len(now.left)
            text = f"round {number}: candidate {k + 1} of {n_left}"
            report(ProgressEvent("round", text, k + 1))
            if one.n_outer >= most or not one.is_moving:
                return now
            far = dataclasses.replace(limits.within(race), max_outer=most)
            return now.advance(k, far, checkpoint)

        standing = standing.in_turn(advance)
        left, same = _distinct(sorted(standing.left, key=_rank))
        if standing.is_late:
            late = [one.ended(SKIPPED) for one in left[1:]]
            standing = standing.dropping(left[:1], same + late)
            break
        keep = min(sum(as_good(one, left[0], CLOSE) for one in left), MAX_CLOSE)
        if keep_all_in_first_round and number == 1:
            keep = len(left)
        elif number < len(ROUNDS):
            keep = max(keep, len(left) // 2)
        same += [one.ended(f"dropped in round {number}") for one in left[keep:]]
        standing = standing.dropping(left[:keep], same)
    return dataclasses.replace(standing, round=len(ROUNDS) + 1)


def _merged(standing, most, limits, checkpoint, behind):
    """The `Standing` when all have made so many rough iterations, without those that
    are near others, or `behind` the best by more than this fraction.
    """
    far = dataclasses.replace(limits.within(ROUGH), max_outer=most)

    def advance(now, k):
        one = now.left[k]
        is_there = one.n_outer >= most or not one.is_moving
        return now if is_there else now.advance(k, far, checkpoint)

    standing = standing.in_turn(advance)
    if standing.is_late:
        return standing
    near = dict(nearness=NEAR_STATE, same_cost=np.inf)
    left, ended = _distinct(sorted(standing.left, key=_rank), **near)
    for one in left[1:]:
        if not as_good(one, left[0], behind):
            ended.append(one.ended("dropped in round 1"))
    left = [one for one in left if as_good(one, left[0], behind)]
    return standing.dropping(left, ended)


def finish(standing, limits, callback, report, checkpoint=NOT_KEPT, *, prune=True):
    """The `Standing` when those left have come to the end, the best first; with `prune`
    some have not, but are behind after as many iterations as took the best there.
    """
    if len(standing.left) > 1 and standing.left[0].outcome != WON:
        # All but one iteration: the plan in the common buffer has to be the best one's.
        given = limits.max_outer - 1, limits.before(UPDATES), report, checkpoint
        standing = _went_to_the_end(standing, *given, prune)
        standing = standing.dropping(sorted(standing.left, key=_rank), [])
    best = standing.left[0].ended(WON)
    report(ProgressEvent("solve", f"solving from {best.label}"))
    standing = standing.with_one(0, best).advance(0, limits, checkpoint, callback)
    best, *others = standing.left
    return standing.dropping([best, *(_compared(one, best) for one in others)], [])


def _went_to_the_end(standing, max_outer, limits, report, checkpoint, prune):
    """The `Standing` when all left have come to the limits, or made so many iterations;
    with `prune` in rounds, each as long as all before, until the best is there.
    """

    def advance(now, k):
        one = now.left[k]
        # A race ends at rougher tolerances: what moved no more may do so now.
        if one.n_outer >= most or one.outcome == THERE:
            return now
        report(ProgressEvent("solve", f"solving from {one.label}"))
        now = now.advance(k, dataclasses.replace(limits, max_outer=most), checkpoint)
        one = now.left[k]
        return now if one.is_moving else now.with_one(k, one.ended(THERE))

    longest = 2 * ROUNDS[-1] if prune else max_outer
    while True:
        # A checkpoint may have some that are in a later round.
        while longest < max(one.n_outer for one in standing.left):
            longest *= 2
        most = min(longest, max_outer)
        standing = standing.in_turn(advance)
        is_over = most == max_outer or standing.is_late
        if is_over or min(standing.left, key=_rank).outcome == THERE:
            return standing
        longest *= 2


def is_tie(standing):
    """Whether one came to another optimum, or near it, that is as good as the best."""
    return any(one.outcome == "tie" for one in standing.left)


def _compared(one, best):
    """With what became of it beside the best."""
    if not as_good(one, best, TIE):
        return one.ended("lost")
    same = same_state(one, best)
    return one.ended(f"same as {best.label}" if same else "tie")


def _distinct(ranked, nearness=SAME_STATE, same_cost=SAME_COST):
    """Those on the way to an optimum of their own, and those on the way to that of one
    before them.
    """
    kept, same, deviation = [], [], _deviation
    if sum(one.loop.linearization.state.size for one in ranked) <= KEPT_ENTRIES:
        deviation = functools.cache(_deviation)
    for one in ranked:
        for other in kept:
            alike = as_good(one, other, same_cost)
            if alike and same_state(one, other, nearness, deviation):
                same.append(one.ended(f"same as {other.label}"))
                break
        else:
            kept.append(one)
    return kept, same


def _rank(one):
    """By objective; what is not a number comes last."""
    return one.gw_cost if one.gw_cost == one.gw_cost else np.inf


def as_good(one, best, fraction):
    """Whether its objective exceeds that of the best by at most a fraction of it."""
    rounding = 1e-6 * best.loop.linearization.magnitude
    if one is best or fraction == np.inf:
        return True
    return one.gw_cost - best.gw_cost <= fraction * abs(best.gw_cost) + rounding


def same_state(one, other, nearness=SAME_STATE, deviation=None):
    """Whether two are on the way to the same optimum, as far as states tell;
    `deviation` is ``_deviation``, or what remembers it.
    """
    return _distance(one, other, deviation or _deviation) < nearness


def _deviation(one):
    """How a state differs from that of the product plan, and the length of that."""
    made = one.loop.linearization.deviation()
    return made, np.linalg.norm(made)


def _distance(one, other, deviation):
    """Relative distance of two states from one another, 0 to about 1.4."""
    (one, length), (other, other_length) = deviation(one), deviation(other)
    size = max(length, other_length)
    return np.linalg.norm(one - other) / size if size > MIN_STATE else 0.0
