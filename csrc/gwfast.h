/* The kernels of gwfast: arithmetic on blocks of rows of float32 or float64.
 *
 * Nothing here allocates, starts a thread or can fail: the caller (gwfast/kernels/) checks
 * arguments and owns the threads. One body (isa.inc) is compiled once for each type of number
 * and instruction set; dispatch.c has the tables and picks one at run time.
 *
 * Matrices are C-contiguous, `rows` x `m`; indices are ptrdiff_t because n * m passes 2^31 at
 * n = m = 46341. */
#ifndef GWFAST_H
#define GWFAST_H

#include <stddef.h>
#include <stdint.h>

#define GWF_JOIN_(a, b) a##_##b
#define GWF_JOIN(a, b) GWF_JOIN_(a, b)

/* Descents of small problems (descent.inc): the rules of their marginals; the status at the end of
 * a call, which is more to do after the iterations or the slice of work asked for, a settled plan,
 * or a descent that the loop in Python has to go on with: its linear problem needs another solver,
 * or its steps stand still or turn; and the fields recorded for each iteration. */
enum { GWF_BALANCED, GWF_SEMIRELAXED, GWF_PARTIAL };
enum { GWF_MORE, GWF_SETTLED, GWF_HANDED_ON };
enum { GWF_VALUE, GWF_CHANGE, GWF_MOVED, GWF_ERROR, GWF_INNER, GWF_STEP_FIELDS };

/* All numbers that control a descent and its end, passed from Python under these names (see
 * quadratic/small_descent.py). */
/* clang-format off */
#define GWF_LIMITS(X)                                                                            \
    X(rule) X(mass) X(row_capped) X(col_capped) X(proximal) X(alternating) X(marginal_terms)     \
    X(epsilon) X(first_epsilon) X(cooling) X(max_exponent) X(max_scaling) X(max_cold_spread)     \
    X(stall_error) X(floor) X(stall_change) X(rounding) X(magnitude) X(loss_rounding) X(slice)   \
    X(tol) X(still) X(frobenius) X(every) X(made) X(plain) X(least) X(marginal) X(goal)          \
    X(exact) X(max_inner_tol) X(fraction) X(tightens) X(max_inner) X(first_limit) X(max_outer)   \
    X(max_tightening) X(window) X(low_after) X(clearly_less) X(look_every) X(stalled_rate)       \
    X(most_omega) X(level_ratio) X(level_iterations) X(level_settled) X(most_kernels)            \
    X(farthest) X(newton_below) X(newton_leaves) X(newton_price) X(after_newton) X(accelerates)  \
    X(depth) X(turn_floor) X(singular) X(max_change) X(clear) X(max_foretold) X(max_growth)      \
    X(first_reach) X(max_reach) X(shrinks)
/* clang-format on */
#define GWF_FIELD(name) double name;
#define GWF_QUOTED(name) #name,
typedef struct {
    GWF_LIMITS(GWF_FIELD)
} gwf_limits;

/* Room for the steps that acceleration uses, and inner products of these steps: of moves, of moves
 * and differences of steps, of these differences, and of both with the last step. */
#define GWF_MOST_STEPS 8
typedef double gwf_square[GWF_MOST_STEPS][GWF_MOST_STEPS];
typedef struct {
    gwf_square moved, mixed, gram;
    double along[GWF_MOST_STEPS], right[GWF_MOST_STEPS], size;
} gwf_products;

#define real void
#define GWF_TYPE any
#include "descent_types.inc"
#undef real
#undef GWF_TYPE

#define real float
#define GWF_TYPE f32
#include "descent_types.inc"
#undef real
#undef GWF_TYPE

#define real double
#define GWF_TYPE f64
#include "descent_types.inc"
#undef real
#undef GWF_TYPE

/* The map of a marginal rule in Sinkhorn iterations on one kernel (`ScalingMap` in _rows.pyx);
 * anchors of rows are multiplied by `factor` in all. */
typedef struct {
    double *rows;
    const double *columns;
    double row_power, column_power, mass, rate, factor;
} gwf_scaling_map;

/* The kernels for both types of number: SLOT(type, name, arguments) for each. The type void stands
 * for float or double, alike in all arguments; a single number is passed as double. Each kernel is
 * described where it is defined (row_kernels.inc, matrix_kernels.inc, ...). */
#define GWF_KERNELS(SLOT)                                                                         \
    SLOT(void, log, const void *x, void *out, ptrdiff_t m)                                        \
    SLOT(void, logsumexp_rows, const void *c, const double *f, const void *g, double inv_epsilon, \
         double *lse, ptrdiff_t rows, ptrdiff_t m)                                                \
    SLOT(void, logsumexp_cols, const void *c, const double *f, double inv_epsilon, void *top,     \
         void *sum, ptrdiff_t rows, ptrdiff_t m)                                                  \
    SLOT(double, gibbs_rows, const void *c, const double *f, const void *g, double inv_epsilon,   \
         void *out, ptrdiff_t rows, ptrdiff_t m)                                                  \
    SLOT(double, sinkhorn_rows, const void *k, const double *p, void *u, const void *v,           \
         double omega, const double *anchor, double *sums, void *block, double *columns,          \
         ptrdiff_t rows, ptrdiff_t m)                                                             \
    SLOT(void, rescale, void *scaling, const double *mass, const double *sum, double omega,       \
         const double *anchor, ptrdiff_t m)                                                       \
    SLOT(double, settle, gwf_scaling_map *map, void *u, void *v, const double *q, double *sums,   \
         ptrdiff_t n, ptrdiff_t m)                                                                \
    SLOT(void, sum_rows, void *k, const void *u, const void *v, double *sums, void *block,        \
         double *columns, ptrdiff_t rows, ptrdiff_t m)                                            \
    SLOT(double, dot_rows, const void *a, const void *b, ptrdiff_t rows, ptrdiff_t m)             \
    SLOT(double, distance_rows, const void *a, const void *b, double *squares, ptrdiff_t rows,    \
         ptrdiff_t m)                                                                             \
    SLOT(void, shift_row, const void *x, double shift, double factor, float *out, ptrdiff_t m)    \
    SLOT(void, moments_row, const void *x, double shift, double factor, const double *p,          \
         double *first, double *second, float *narrow, double *wide, ptrdiff_t m)                 \
    SLOT(double, survey_tile, const void *a, ptrdiff_t lda, const void *b, ptrdiff_t ldb,         \
         ptrdiff_t rows, ptrdiff_t m, int two, double *most)                                      \
    SLOT(double, entropy_rows, const void *a, ptrdiff_t rows, ptrdiff_t m)                        \
    SLOT(void, proximal_rows, void *c, const void *a, double weight, ptrdiff_t rows, ptrdiff_t m) \
    SLOT(double, least_of_rows, const void *c, const void *u, const void *v, ptrdiff_t rows,      \
         ptrdiff_t m, double bound, ptrdiff_t *at)                                                \
    SLOT(double, move_row, void *to, const void *towards, const void *more, double size,          \
         ptrdiff_t m)                                                                             \
    SLOT(void, topk_row, const void *x, ptrdiff_t k, ptrdiff_t *index, void *value, ptrdiff_t m)  \
    SLOT(void, pack_panel, const void *b, ptrdiff_t row, ptrdiff_t col, const void *scale,        \
         ptrdiff_t k, ptrdiff_t width, void *out)                                                 \
    SLOT(void, product_rows, const void *a, ptrdiff_t lda, const void *b, ptrdiff_t k, void *out, \
         ptrdiff_t ldc, ptrdiff_t rows, ptrdiff_t m, int more)                                    \
    SLOT(void, dot_each_row, const void *k, const void *v, double *sums, ptrdiff_t rows,          \
         ptrdiff_t m)                                                                             \
    SLOT(ptrdiff_t, lay_out, void *descent, unsigned char *memory)                                \
    SLOT(int, descend, void *descent, ptrdiff_t most)

/* The kernels for float32 alone: of problems too large for anything else. */
#define GWF_FLOAT_KERNELS(SLOT)                                                                    \
    SLOT(float, gibbs_product_rows, const float *a, const float *b, ptrdiff_t k, const float *f,   \
         const float *f_rest, const float *g, const float *g_rest, float inv_epsilon, float *out,  \
         double *columns, ptrdiff_t rows, ptrdiff_t m)                                             \
    SLOT(ptrdiff_t, sample_row, const float *k, const float *v, ptrdiff_t draws, double offset,    \
         int32_t *index, int32_t *times, double *step, ptrdiff_t m)                                \
    SLOT(ptrdiff_t, select_row, const float *k, float u, const float *v, float row,                \
         const float *col, int32_t *index, ptrdiff_t m)                                            \
    SLOT(void, sparse_cost_rows, const int64_t *start, const int32_t *index, const float *x,       \
         const float *y, ptrdiff_t d, float *out, ptrdiff_t rows)                                  \
    SLOT(float, sparse_gibbs_rows, const int64_t *start, const int32_t *index, const float *x,     \
         const float *y, ptrdiff_t d, const double *f, const float *g, float inv_epsilon,          \
         float *out, ptrdiff_t rows)                                                               \
    SLOT(void, sparse_logsumexp_rows, const int64_t *start, const int32_t *index, const float *c,  \
         const double *g, double inv_epsilon, double *lse, ptrdiff_t rows)                         \
    SLOT(void, sparse_top_cols, const int64_t *start, const int32_t *index, const float *c,        \
         const double *f, float *top, ptrdiff_t rows)                                              \
    SLOT(void, sparse_exp_cols, const int64_t *start, const int32_t *index, const float *c,        \
         const double *f, const float *top, double inv_epsilon, float *sum, ptrdiff_t rows)        \
    SLOT(double, sparse_sinkhorn_rows, const int64_t *start, const int32_t *index, const float *k, \
         const double *p, float *u, const float *v, float omega, const double *anchor,             \
         double *sums, float *block, double *columns, ptrdiff_t rows, ptrdiff_t m)                 \
    SLOT(void, sparse_product_rows, const int64_t *start, const int32_t *index, const float *k,    \
         const float *v, const float *y, ptrdiff_t d, float *moved, double *sums, ptrdiff_t rows)  \
    SLOT(void, shift_half_row, const void *x, float shift, float factor, float *out, ptrdiff_t m)

#define GWF_MEMBER(type, name, ...) type (*name)(__VA_ARGS__);
typedef struct {
    /* Columns of a panel of a packed factor, and of one vector. */
    ptrdiff_t panel, lanes;
    GWF_KERNELS(GWF_MEMBER)
} gwf_kernels;
typedef gwf_kernels gwf_f32, gwf_f64;

typedef struct {
    const char *name;
    const gwf_kernels *f32, *f64;
    GWF_FLOAT_KERNELS(GWF_MEMBER)
} gwf_isa;

/* Rows of a panel that a product sums in registers before the sum goes to memory, at most: 28 KB
 * at the widest vectors, which first caches of 32 KB hold. */
#define GWF_DEPTH 224
/* The same of k rows, evenly: the sum of a short rest takes as long to read and write as any. */
static inline ptrdiff_t gwf_depth(ptrdiff_t k) {
    const ptrdiff_t parts = (k + GWF_DEPTH - 1) / GWF_DEPTH;
    return k > 0 ? (k + parts - 1) / parts : 1;
}

/* Finite stand-in for infinity: differences of two of them stay finite. */
#define GWF_HUGE 1e37f

/* Entries of a plan below this are zero. All of them carry less than rounding, and products of
 * the others with weights, errors or one another are not subnormal. */
#define GWF_LEAST_f32 1e-30f
#define GWF_LEAST_f64 1e-290

/* The i-th table this processor can run, widest first; NULL past the last. */
const gwf_isa *gwf_supported_isa(int i);

#endif
