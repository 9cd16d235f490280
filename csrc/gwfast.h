/* The kernels of gwfast: arithmetic on blocks of rows of float32 or float64.
 *
 * Nothing here allocates, starts a thread or can fail; whatever could go wrong is
 * checked by the caller (gwfast/kernels/_kernels.pyx), which also owns the threads.
 * One body (kernels.inc) is compiled once per type and instruction set; dispatch.c
 * holds the tables and picks one of each type at run time.
 *
 * Matrices are C-contiguous, `rows` x `m`; indices are ptrdiff_t because n * m passes
 * 2^31 at n = m = 46341.
 */
#ifndef GWFAST_H
#define GWFAST_H

#include <stddef.h>
#include <stdint.h>

#define GWF_JOIN_(a, b) a##_##b
#define GWF_JOIN(a, b) GWF_JOIN_(a, b)

/* Descents of small problems (descent.inc): the rules of their marginals; why a call ends: as many
 * iterations are made as were asked for, or a slice of work; the plan has settled; the rest is for
 * another solver; and what each iteration has shown. */
enum { GWF_BALANCED, GWF_SEMIRELAXED, GWF_PARTIAL, GWF_UNBALANCED };
enum { GWF_MORE, GWF_SETTLED, GWF_OTHERWISE };
enum {
    GWF_SEPARABLE,
    GWF_PRODUCT,
    GWF_LINEAR,
    GWF_VALUE,
    GWF_CHANGE,
    GWF_MOVED,
    GWF_ERROR,
    GWF_INNER,
    GWF_STEP_FIELDS
};

/* All numbers by which a descent is made and ends. They come from Python, by these names:
 * quadratic/small_descent.py says what each is. */
#define GWF_LIMITS(X)                                                                              \
    X(rule)                                                                                        \
    X(mass) X(rho_x) X(rho_y) X(proximal) X(alternating) X(marginal_terms) X(epsilon)              \
        X(first_epsilon) X(cooling) X(peak) X(drift) X(direct) X(standstill) X(floor) X(stalled)   \
            X(rounding) X(loss_rounding) X(slice) X(tol) X(still) X(frobenius) X(every) X(least)   \
                X(marginal) X(exact) X(rough) X(relative) X(least_error) X(max_inner)              \
                    X(first_limit) X(max_outer) X(max_tightening) X(stalled_after) X(clearly_less) \
                        X(most_stands) X(look_every) X(stalled_rate) X(most_omega) X(level_ratio)  \
                            X(level_iterations) X(level_settled) X(most_kernels) X(all_moves)      \
                                X(vanished) X(kept_mass) X(most_priced) X(farthest)                \
                                    X(newton_below) X(newton_leaves) X(newton_price)               \
                                        X(newton_price_of_point) X(accelerates) X(depth)           \
                                            X(turn_floor) X(singular) X(max_change) X(clear)       \
                                                X(max_foretold) X(max_growth) X(first_reach)       \
                                                    X(max_reach) X(shrinks)
#define GWF_FIELD(name) double name;
#define GWF_QUOTED(name) #name,
typedef struct {
    GWF_LIMITS(GWF_FIELD)
} gwf_limits;

/* A side of the linear problem: its masses, the terms of the cost that are of its points alone and
 * its potentials; the price of its sums, what its potentials are lower by, and whether they are
 * relative to the masses or at most what they begin with. */
typedef struct {
    ptrdiff_t n;
    const double *masses, *terms;
    double *own, rho, shift;
    int priced, capped;
} gwf_side;

/* Room for the steps that acceleration goes by, and numbers of each pair of these. */
#define GWF_MOST_STEPS 8
typedef double gwf_square[GWF_MOST_STEPS][GWF_MOST_STEPS];

#define real void
#define GWF_TYPE any
#include "descent_types.inc"
#undef real
#undef GWF_TYPE

#define real float
#define GWF_TYPE f32
#include "descent_types.inc"
#include "table.inc"
#undef real
#undef GWF_TYPE

#define real double
#define GWF_TYPE f64
#include "descent_types.inc"
#include "table.inc"
#undef real
#undef GWF_TYPE

typedef struct {
    const char *name;
    const gwf_f32 *f32;
    const gwf_f64 *f64;

    /* float32 only. */

    /* out[i][j] = exp((f[i] + g[j] - (a b)[i][j]) / epsilon + f_rest[i] + g_rest[j]),
     * columns[j] += column sums unless NULL. Returns the largest exponent. */
    float (*gibbs_product_rows)(const float *a, const float *b, ptrdiff_t k, const float *f,
                                const float *f_rest, const float *g, const float *g_rest,
                                float inv_epsilon, float *out, double *columns, ptrdiff_t rows,
                                ptrdiff_t m);

    /* Columns of draws from a row k[j] v[j] of a plan, in order, how often each was
     * drawn, and the mass of a draw; returns how many columns. Both arrays have room
     * for `draws`. */
    ptrdiff_t (*sample_row)(const float *k, const float *v, ptrdiff_t draws, double offset,
                            int32_t *index, int32_t *times, double *step, ptrdiff_t m);

    /* Entries of a row whose part of the plan, u k[j] v[j], is at least `row` or
     * col[j]: their columns, unless `index` is NULL; returns their number. */
    ptrdiff_t (*select_row)(const float *k, float u, const float *v, float row, const float *col,
                            int32_t *index, ptrdiff_t m);

    /* The cost x y', the kernel, log-sum-exp in the two halves that columns take, a
     * Sinkhorn row update and the product with y where only the columns index[start[i]]
     * to index[start[i + 1]] of row i are kept. Rows of x and y have d floats, whole
     * vectors of the widest kind. */
    void (*sparse_cost_rows)(const int64_t *start, const int32_t *index, const float *x,
                             const float *y, ptrdiff_t d, float *out, ptrdiff_t rows);
    float (*sparse_gibbs_rows)(const int64_t *start, const int32_t *index, const float *x,
                               const float *y, ptrdiff_t d, const double *f, const float *g,
                               float inv_epsilon, float *out, ptrdiff_t rows);
    void (*sparse_logsumexp_rows)(const int64_t *start, const int32_t *index, const float *c,
                                  const double *g, double inv_epsilon, double *lse, ptrdiff_t rows);
    void (*sparse_top_cols)(const int64_t *start, const int32_t *index, const float *c,
                            const double *f, float *top, ptrdiff_t rows);
    void (*sparse_exp_cols)(const int64_t *start, const int32_t *index, const float *c,
                            const double *f, const float *top, double inv_epsilon, float *sum,
                            ptrdiff_t rows);
    double (*sparse_sinkhorn_rows)(const int64_t *start, const int32_t *index, const float *k,
                                   const double *p, float *u, const float *v, float omega,
                                   double cap, float *block, ptrdiff_t rows);
    void (*sparse_normal_rows)(const int64_t *start, const int32_t *index, const float *k,
                               const double *weights, const float *x, double *sums, float *block,
                               ptrdiff_t rows);
    void (*sparse_product_rows)(const int64_t *start, const int32_t *index, const float *k,
                                const float *v, const float *y, ptrdiff_t d, float *moved,
                                double *sums, ptrdiff_t rows);

    /* out[j] = (x[j] - shift) factor; x are halves, floats or doubles, the former as
     * their bits (IEEE 754's binary16). */
    void (*shift_f16)(const uint16_t *x, float shift, float factor, float *out, ptrdiff_t m);
    void (*shift_f32)(const float *x, float shift, float factor, float *out, ptrdiff_t m);
    void (*shift_f64)(const double *x, double shift, double factor, float *out, ptrdiff_t m);

    /* columns += block, block = 0. */
    void (*fold)(float *block, double *columns, ptrdiff_t m);
} gwf_isa;

/* Rows of a panel (`pack_panel`) that a product sums in registers before the sum goes
 * to memory, at most: 28 KB at the widest vectors, which first caches of 32 KB hold. */
#define GWF_DEPTH 224
/* The same of k rows, evenly: the sum of a short rest takes as long to read and write
 * as any. */
static inline ptrdiff_t gwf_depth(ptrdiff_t k) {
    const ptrdiff_t parts = (k + GWF_DEPTH - 1) / GWF_DEPTH;
    return k > 0 ? (k + parts - 1) / parts : 1;
}

/* Finite stand-in for infinity: differences of two of them stay finite. */
#define GWF_HUGE 1e37f

/* Entries of a plan below this are zero. All of them carry less than rounding, and what
 * NumPy makes of the others outside of kernels, times weights, errors or one another,
 * is not subnormal. */
#define GWF_LEAST_F32 1e-30f
#define GWF_LEAST_F64 1e-290

/* The i-th table this processor can run, widest first; NULL past the last. */
const gwf_isa *gwf_supported_isa(int i);

#endif
