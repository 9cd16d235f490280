/* Decisions of the compiled loops (descent.inc) and of the loops in Python, as functions of
 * numbers: verdicts on outer iterations (quadratic/judge.py), extrapolation
 * (quadratic/acceleration.py), and actions after Sinkhorn iterations (linear/pace.py). The reasons
 * are there. */
#ifndef GWFAST_JUDGE_H
#define GWFAST_JUDGE_H

#include <float.h>
#include <math.h>
#include <string.h>

#include "gwfast.h"

static inline double gwf_max(double a, double b) { return a > b ? a : b; }
static inline double gwf_min(double a, double b) { return a < b ? a : b; }

/* Error of the marginals at which the next linear problem is solved, after a change of the plan. */
static inline double gwf_aim(const gwf_limits *limits, double change, double fraction,
                             int thorough) {
    const double rough = gwf_min(limits->max_inner_tol, fraction * change);
    double aim = gwf_max(limits->least, gwf_min(limits->exact, rough));
    aim = gwf_min(limits->goal, aim);
    /* Potentials that miss the marginals by little may be far from where inner iterations lead. */
    if (limits->tightens != 0.0) aim *= fraction / limits->fraction;
    return thorough ? aim : gwf_max(aim, rough);
}

/* Make inner solutions exacter where the loop does not get on by rough ones: more iterations if the
 * plan moves because its marginals are still settling, more exact ones if the objective rose. */
static inline void gwf_tighten(const gwf_limits *limits, double error, double change, double value,
                               double before, double *limit, double *fraction) {
    if (error > change) {
        *limit *= 2;
    } else if (value > before + limits->tol * fabs(value) + limits->rounding) {
        const double most = limits->first_limit * limits->max_tightening;
        *limit = gwf_max(*limit, gwf_min(2 * *limit, most));
        *fraction = gwf_max(*fraction / 2, limits->fraction / limits->max_tightening);
    }
}

/* Return whether a plan has settled, by the changes of the last iteration, of all `done`, and by
 * its objective, whose change the error of the marginals may explain; `hidden` says if a move to
 * where steps lead would hide it. By POT's rule the Frobenius norm of the change counts, in the
 * first iteration and every tenth after it, and if the change was at least halved. */
static inline int gwf_settles(const gwf_limits *limits, ptrdiff_t done, double change, double moved,
                              double former, double value, double before, double error,
                              int was_settled, int *hidden) {
    *hidden = 0;
    if (limits->frobenius == 0.0) {
        const double by = fabs(value - before) - error * limits->magnitude;
        return change <= limits->tol && !(by > limits->tol * fabs(value) + limits->still);
    }
    const int small = moved <= limits->tol || change <= limits->floor;
    /* Between the looks it has to fall fast, as a plan that leaves a saddle does not. */
    const int looks = (done - 1) % (ptrdiff_t)limits->every == 0 || was_settled ||
                      (done > 2 && moved <= former / 2);
    *hidden = small;
    return small && looks && !(former < moved && moved > limits->least);
}

/* Return whether the change no longer falls, near the floor of rounding. Of the last changes,
 * `after` of them, all are below it: a plan that leaves a saddle changes little, then much. And not
 * each is more than the one before: rounding does not grow. */
static inline int gwf_has_stalled(const double *change, ptrdiff_t stride, ptrdiff_t done,
                                  double floor, ptrdiff_t after) {
    double before = INFINITY, least = INFINITY;
    int grows = 1;
    for (ptrdiff_t k = done - 1; k >= 0 && k >= done - after; k--) {
        const double now = change[k * stride];
        if (!(now < floor)) return 0;
        grows = grows && (k == done - after || change[(k - 1) * stride] <= now);
        least = gwf_min(least, now);
    }
    for (ptrdiff_t k = 0; k < done - after; k++) before = gwf_min(before, change[k * stride]);
    return before <= least && !grows;
}

/* Return whether steps turn: the change has not clearly fallen since `then`, a row of iterations
 * ago, and all of these went back, or proximal steps were so large that the objective rose; of both
 * the numbers of last iterations without an exception are given. */
static inline int gwf_turns(const gwf_limits *limits, ptrdiff_t n_returned, ptrdiff_t n_since_rise,
                            double change, double then) {
    const double after = limits->window;
    return change > limits->clearly_less * then &&
           ((double)n_returned >= after ||
            (limits->proximal != 0.0 && (double)n_since_rise < after - 1));
}

/* Judge a move by how much the next change exceeds the one that was foretold: adapt the length of
 * moves; return whether the move is to be undone. */
static inline int gwf_fails(const gwf_limits *limits, double grown, double *reach,
                            double *shrinks) {
    if (grown > limits->max_growth) {
        *reach /= *shrinks;
        *shrinks *= 2.0;
        return 1;
    }
    if (grown <= 1.0) {
        *reach = gwf_min(2.0 * *reach, limits->max_reach);
        *shrinks = gwf_max(*shrinks / 2.0, limits->shrinks);
    }
    return 0;
}

/* Over-relaxation for an error that fell by `rate` an iteration under `omega`. */
static inline double gwf_next_omega(double omega, double rate, double most) {
    if (!(rate < 1.0)) return 1.0;
    if (rate <= omega - 1.0) return omega;
    const double sum = rate + omega - 1.0, eta = sum * sum / (rate * omega * omega);
    return eta >= 1.0 ? omega : gwf_max(omega, gwf_min(2.0 / (1.0 + sqrt(1.0 - eta)), most));
}

/* Actions after some Sinkhorn iterations, as in linear/pace.py. */
enum { GWF_END, GWF_ITERATE, GWF_PLAIN, GWF_PACE, GWF_ABSORB, GWF_NEWTON };

/* Tolerance and limits of a linear problem; and the numbers after some iterations of it, among them
 * their over-relaxation, and the error at the last look. */
typedef struct {
    double tol, max_iter, min_iter, stall_error, is_direct, look_every, stalled_rate, after_newton;
    double over_relaxes, most_omega;
} gwf_goal;
typedef struct {
    double n_iter, error, seconds, seconds_left, has_drifted, newton_price, omega, last_error;
} gwf_look;

/* Return whether scalings and rate are looked at after `n_iter` iterations. */
static inline int gwf_is_look(const gwf_goal *goal, double n_iter) {
    return n_iter == 1.0 || fmod(n_iter, goal->look_every) == 0.0;
}

/* Return whether a Newton step is cheaper than the iterations left at this rate. */
static inline int gwf_newton_pays(const gwf_goal *goal, const gwf_look *look, double rate) {
    const int has_room = goal->max_iter - look->n_iter - goal->after_newton > 1.0;
    if (!has_room || !(look->newton_price < INFINITY)) return 0;
    if (look->newton_price * look->seconds > look->seconds_left) return 0;
    if (!(0.0 < rate && rate < 1.0)) return rate >= 1.0;
    return log(gwf_max(goal->tol, DBL_MIN) / look->error) / log(rate) > look->newton_price;
}

/* Return the action after some iterations, of which the error fell by `rate` each. */
static inline int gwf_action(const gwf_goal *goal, const gwf_look *look, double rate) {
    /* Close is 0 for NaN: a broken kernel is seen below, by its scalings. */
    const int close = look->error <= goal->tol && look->n_iter >= goal->min_iter;
    const int over = close || look->seconds_left < 0.0;
    if (goal->is_direct != 0.0 || look->n_iter >= goal->max_iter || (over && look->omega == 1.0))
        return GWF_END;
    if (over || look->n_iter + 1.0 == goal->max_iter) return GWF_PLAIN;
    if (!gwf_is_look(goal, look->n_iter)) return GWF_ITERATE;
    if (look->has_drifted != 0.0) return GWF_ABSORB;
    if (gwf_newton_pays(goal, look, rate)) return GWF_NEWTON;
    return look->error < goal->stall_error && rate > goal->stalled_rate ? GWF_END : GWF_PACE;
}

/* Return the action after some iterations, and set `omega` and `last_error` for the next ones. */
static inline int gwf_next_action(const gwf_goal *goal, gwf_look *look) {
    const double rate = pow(look->error / look->last_error, 1.0 / goal->look_every);
    const int action = gwf_action(goal, look, rate);
    if (action == GWF_PACE) {
        if (goal->over_relaxes != 0.0)
            look->omega = gwf_next_omega(look->omega, rate, goal->most_omega);
        look->last_error = gwf_max(look->error, DBL_MIN);
    } else if (action != GWF_ITERATE) {
        look->omega = 1.0;
    }
    if (action == GWF_ABSORB || action == GWF_NEWTON) look->last_error = INFINITY;
    return action;
}

/* The quadratic form x' a y. */
static inline double gwf_form(gwf_square a, const double *x, const double *y, int k) {
    double total = 0.0;
    for (int i = 0; i < k; i++)
        for (int j = 0; j < k; j++) total += x[i] * a[i][j] * y[j];
    return total;
}

/* Replace a matrix (k, k) by its inverse, and x by the inverse times x, by Gauss and Jordan. */
static inline void gwf_invert(gwf_square a, double *x, int k) {
    for (int c = 0; c < k; c++) {
        const double inverse = 1.0 / a[c][c];
        a[c][c] = 1.0;
        x[c] *= inverse;
        for (int j = 0; j < k; j++) a[c][j] *= inverse;
        for (int i = 0; i < k; i++) {
            const double factor = i == c ? 0.0 : a[i][c];
            if (i != c) a[i][c] = 0.0;
            x[i] -= factor * x[c];
            for (int j = 0; j < k; j++) a[i][j] -= factor * a[c][j];
        }
    }
}

/* x = the inverse square root of a matrix (k, k) times x, by Denman and Beavers; returns 0 where
 * there is none. */
static inline int gwf_divide_by_root(gwf_square a, double *x, int k) {
    for (int step = 0; step < 30; step++) {
        gwf_square inverse;
        double divided[GWF_MOST_STEPS], moved = 0.0, size = 0.0;
        memcpy(inverse, a, sizeof(gwf_square));
        memcpy(divided, x, sizeof(divided));
        gwf_invert(inverse, divided, k);
        for (int i = 0; i < k; i++) {
            for (int j = 0; j < k; j++)
                a[i][j] = 0.25 * (a[i][j] + inverse[i][j]) + (i == j ? 0.5 : 0.0);
            moved = fmax(moved, 0.5 * fabs(divided[i] - x[i]));
            x[i] = 0.5 * (x[i] + divided[i]);
            size = fmax(size, fabs(x[i]));
        }
        if (moved <= 1e-12 * size) return 1;
    }
    return 0;
}

/* Weights of the k last moves, the last of all in `last`, that the state is to be moved back by,
 * and the length of the step from there, in lengths of the last step; returns 0 where the steps say
 * nothing. The method is in quadratic/acceleration.py. */
static inline int gwf_lead(const gwf_limits *limits, gwf_products *of, double reach, int k,
                           int last, double *by, double *foretold) {
    gwf_square basis, slope = {{0}}, squared = {{0}};
    double left[GWF_MOST_STEPS] = {0}, root[GWF_MOST_STEPS];
    const double size = of->size, longest = limits->max_foretold * limits->max_foretold;
    int rank = 0;
    if (!(size > 0.0)) return 0;
    /* Gram and Schmidt's basis of the span of the moves, without what is rounding. */
    for (int t = 0; t < k; t++) {
        const int i = (last - t + k) % k;
        double *own = basis[rank];
        if (!(of->moved[i][i] > 0.0)) return 0;
        for (int j = 0; j < k; j++) own[j] = j == i ? 1.0 / sqrt(of->moved[i][i]) : 0.0;
        for (int r = 0; r < rank; r++) {
            const double share = gwf_form(of->moved, basis[r], own, k);
            for (int j = 0; j < k; j++) own[j] -= share * basis[r][j];
        }
        const double squares = gwf_form(of->moved, own, own, k);
        if (!(squares > limits->singular)) continue;
        for (int j = 0; j < k; j++) own[j] /= sqrt(squares);
        rank++;
    }
    for (int a = 0; a < rank; a++) {
        for (int i = 0; i < k; i++) left[a] += basis[a][i] * of->along[i];
        for (int b = 0; b < rank; b++) slope[a][b] = -gwf_form(of->mixed, basis[a], basis[b], k);
    }
    for (int a = 0; a < rank; a++) {
        for (int b = 0; b < rank; b++)
            for (int c = 0; c < rank; c++) squared[a][b] += slope[a][c] * slope[c][b];
        squared[a][a] += limits->turn_floor * limits->turn_floor;
    }
    memcpy(root, left, sizeof(root));
    if (!gwf_divide_by_root(squared, root, rank)) return 0;
    for (int i = 0; i < k; i++) {
        by[i] = 0.0;
        for (int a = 0; a < rank; a++) by[i] -= basis[a][i] * root[a];
    }
    const double a = gwf_form(of->gram, by, by, k), excess = (longest - 1.0) * size;
    const double length = gwf_form(of->moved, by, by, k) + 2.0 * gwf_form(of->mixed, by, by, k) + a;
    double b = 0.0, share = 1.0;
    for (int i = 0; i < k; i++) b += by[i] * of->right[i];
    if (length > reach * reach * size) share = reach * sqrt(size / length);
    if ((a * share - 2.0 * b) * share > excess) share = (b + sqrt(b * b + a * excess)) / a;
    for (int i = 0; i < k; i++) by[i] *= share;
    double total = size + (a * share - 2.0 * b) * share;
    for (int c = 0; c < rank; c++) left[c] -= gwf_form(of->mixed, basis[c], by, k);
    for (int c = 0; c < rank; c++) {
        double next = left[c];
        for (int e = 0; e < rank; e++) next -= slope[c][e] * left[e];
        total += next * next - left[c] * left[c];
    }
    *foretold = sqrt(fmax(total, 0.0) / size);
    return isfinite(total);
}

#endif
