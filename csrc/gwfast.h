/* The row kernels of gwfast: arithmetic on blocks of float32 rows.
 *
 * Nothing here allocates, starts a thread or can fail; whatever could go wrong is
 * checked by the caller (gwfast/kernels/_kernels.pyx), which also owns the threads.
 * One body, row_kernels.inc, is compiled once per instruction set; dispatch.c holds
 * the tables and picks one at run time.
 *
 * Matrices are C-contiguous, `rows` x `m`; indices are ptrdiff_t because n * m passes
 * 2^31 at n = m = 46341.
 */
#ifndef GWFAST_H
#define GWFAST_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *name;

    /* out[j] = exp(x[j]), log(x[j]); in place when out == x. */
    void (*exp)(const float *x, float *out, ptrdiff_t m);
    void (*log)(const float *x, float *out, ptrdiff_t m);

    /* lse[i] = log sum_j exp((f[i] + g[j] - c[i][j]) / epsilon). */
    void (*logsumexp_rows)(const float *c, const double *f, const float *g,
                           float inv_epsilon, double *lse, ptrdiff_t rows, ptrdiff_t m);

    /* Streaming column log-sum-exp of (f[i] - c[i][j]) / epsilon: `top` holds the
     * largest f[i] - c[i][j] so far (start at -GWF_HUGE), `sum` the exponentials
     * relative to it (start at 0). */
    void (*logsumexp_cols)(const float *c, const double *f, float inv_epsilon,
                           float *top, float *sum, ptrdiff_t rows, ptrdiff_t m);

    /* out[i][j] = exp((f[i] + g[j] - c[i][j]) / epsilon), in place when out == c.
     * Returns the largest exponent. */
    float (*gibbs_rows)(const float *c, const double *f, const float *g,
                        float inv_epsilon, float *out, ptrdiff_t rows, ptrdiff_t m);

    /* One Sinkhorn row update and its share of the column update in one read of k:
     * u[i] = p[i] / (k v)[i], columns[j] += sum_i u[i] k[i][j]; over-relaxed if
     * omega > 1, see rescale.
     * Returns sum_i |u_old[i] (k v)[i] - p[i]|. `block` is scratch of m floats. */
    double (*sinkhorn_rows)(const float *k, const double *p, float *u, const float *v,
                            float omega, float *block, double *columns, ptrdiff_t rows,
                            ptrdiff_t m);

    /* scaling[j] *= (mass[j] / (scaling[j] sum[j]))^omega; 0 where sum[j] is 0. */
    void (*rescale)(float *scaling, const double *mass, const double *sum, float omega,
                    ptrdiff_t m);

    /* k[i][j] *= u[i] v[j]; sums[i] = row sum, columns[j] += column sums. */
    void (*plan_rows)(float *k, const float *u, const float *v, double *sums,
                      float *block, double *columns, ptrdiff_t rows, ptrdiff_t m);

    /* sums[i] = row sum, columns[j] += column sums. */
    void (*sum_rows)(const float *k, double *sums, float *block, double *columns,
                     ptrdiff_t rows, ptrdiff_t m);

    /* sum_ij a[i][j] b[i][j]. */
    double (*dot_rows)(const float *a, const float *b, ptrdiff_t rows, ptrdiff_t m);

    /* sum_ij |a[i][j] - b[i][j]|. */
    double (*distance_rows)(const float *a, const float *b, ptrdiff_t rows,
                            ptrdiff_t m);

    /* -sum_ij a[i][j] log a[i][j], with 0 log 0 = 0. */
    double (*entropy_rows)(const float *a, ptrdiff_t rows, ptrdiff_t m);

    /* The k largest entries of one row, largest first; ties go to the lower column. */
    void (*topk_row)(const float *x, ptrdiff_t k, ptrdiff_t *index, float *value,
                     ptrdiff_t m);

    /* Columns of a panel of a packed factor, and of one vector: the last panel is as
     * wide as whole vectors need, 0 beyond its columns. */
    ptrdiff_t panel, lanes;

    /* out = the panel of columns b[l * row + j * col] * scale[l], k x width; without
     * `scale` where that is NULL. */
    void (*pack_panel)(const float *b, ptrdiff_t row, ptrdiff_t col, const float *scale,
                       ptrdiff_t k, ptrdiff_t width, float *out);

    /* out (rows x m) = a b, with a rows x k and b packed. */
    void (*product_rows)(const float *a, const float *b, ptrdiff_t k, float *out,
                         ptrdiff_t rows, ptrdiff_t m);

    /* out[i][j] = exp((f[i] + g[j] - (a b)[i][j]) / epsilon + g_rest[j]), columns[j] +=
     * column sums unless NULL. Returns the largest exponent. */
    float (*gibbs_product_rows)(const float *a, const float *b, ptrdiff_t k,
                                const double *f, const float *g, const float *g_rest,
                                float inv_epsilon, float *out, double *columns,
                                ptrdiff_t rows, ptrdiff_t m);

    /* sums[i] = sum_j k[i][j] v[j]. */
    void (*dot_each_row)(const float *k, const float *v, double *sums, ptrdiff_t rows,
                         ptrdiff_t m);

    /* Entries w = u k[j] v[j] of the plan that are at least `row` or col[j]: how many
     * there are; the others' sum, and block[j] += the others. */
    ptrdiff_t (*count_row)(const float *k, float u, const float *v, float row,
                           const float *col, double *dropped, float *block,
                           ptrdiff_t m);

    /* Their columns, in order; `index` has room for one more. */
    ptrdiff_t (*select_row)(const float *k, float u, const float *v, float row,
                            const float *col, int32_t *index, ptrdiff_t m);

    /* The kernel, a Sinkhorn row update and the product with y where only the columns
     * index[start[i]] to index[start[i + 1]] of row i are kept. Rows of x and y have d
     * floats, whole vectors of the widest kind. */
    float (*sparse_gibbs_rows)(const int64_t *start, const int32_t *index,
                               const float *x, const float *y, ptrdiff_t d,
                               const double *f, const float *g, float inv_epsilon,
                               float *out, ptrdiff_t rows);
    double (*sparse_sinkhorn_rows)(const int64_t *start, const int32_t *index,
                                   const float *k, const double *p, float *u,
                                   const float *v, float omega, float *block,
                                   ptrdiff_t rows);
    void (*sparse_product_rows)(const int64_t *start, const int32_t *index,
                                const float *k, const float *v, const float *y,
                                ptrdiff_t d, float *moved, double *sums,
                                ptrdiff_t rows);

    /* columns += block, block = 0. */
    void (*fold)(float *block, double *columns, ptrdiff_t m);
} gwf_isa;

/* Finite stand-in for infinity: differences of two of them stay finite. */
#define GWF_HUGE 1e37f

/* The i-th table this processor can run, widest first; NULL past the last. */
const gwf_isa *gwf_supported_isa(int i);

#endif
