/* The transport problem, minimize <cost, T> over T >= 0 with given row and column sums,
 * by the network simplex method on dense costs (Dantzig; Cunningham, Mathematical
 * Programming 1976: strongly feasible trees, which never cycle).
 *
 * Masses are whole numbers, so that flows are exact and ties are ties: every T that it
 * comes to has its marginals to the unit. A tree is optimal for some costs and feasible
 * for all: the next costs start from it.
 *
 * Nothing here allocates or can fail.
 */
#ifndef GWFAST_NETWORK_SIMPLEX_H
#define GWFAST_NETWORK_SIMPLEX_H

#include <stddef.h>
#include <stdint.h>

/* A spanning tree of the n sources 0 to n - 1 and the m sinks n to n + m - 1, hung from
 * one sink. All arrays have n + m entries, one a node; -1 is no node. */
typedef struct {
    ptrdiff_t n, m;
    const int64_t *mass; /* positive; those of sources have the sum of those of sinks */
    int32_t *parent, *depth;
    int32_t *child, *next, *before; /* the first child; siblings */
    int64_t *flow;                  /* on the arc to the parent, from source to sink */
    double *potential;              /* of source and sink, cost of an arc in the tree */
    int32_t root;
    ptrdiff_t row; /* the next to look at */
} gwf_tree;

/* The smallest of cost[j] - potential[j], and its first place. */
typedef double (*gwf_least)(const double *cost, const double *potential, ptrdiff_t m,
                            ptrdiff_t *at);

/* The tree of the northwest corner rule, for sources and sinks in these orders: the
 * optimum where costs are those of points on two lines, ordered along them. */
void gwf_tree_northwest(gwf_tree *tree, const int64_t *rows, const int64_t *cols);

/* Pivot to the optimum for the costs (n x m): where no arc is worth more than
 * `tolerance`. Returns how many pivots that took, or -1 where `most` were not enough;
 * the tree is feasible either way. */
ptrdiff_t gwf_tree_solve(gwf_tree *tree, const double *cost, double tolerance,
                         ptrdiff_t most, gwf_least least);

#endif
