/* The transport problem, minimize <cost, T> over T >= 0 with given row and column sums, by the
 * network simplex method on dense costs (Cunningham, Mathematical Programming 1976: strongly
 * feasible trees, which never cycle). Masses are whole numbers, so that flows are exact and ties
 * are ties. A tree is optimal for some costs and feasible for all: the next costs start from it.
 * Nothing allocates. */
#ifndef GWFAST_NETWORK_SIMPLEX_H
#define GWFAST_NETWORK_SIMPLEX_H

#include "gwfast.h"

/* A spanning tree of the n sources 0 to n - 1 and the m sinks n to n + m - 1, hung from one sink.
 * All arrays have an entry for each node, but for `room`. */
typedef struct {
    ptrdiff_t n, m;
    const int64_t *mass;     /* positive; sources and sinks have one sum */
    int32_t *parent, *depth; /* the root has the parent -1 */
    int32_t *next, *before;  /* in preorder, a ring */
    int64_t *flow;           /* on the arc to the parent, from source to sink */
    double *potential;       /* of source and sink, cost of an arc in the tree */
    double *room;            /* m numbers for `gwf_tree_greedy` */
    int32_t root;
    ptrdiff_t row; /* the next to look at */
} gwf_tree;

/* Make the tree of rows that take in turn the best of the columns that are left, beside the means
 * of the columns (a variant of Vogel's rule, Reinfeld and Vogel 1958), first the row that costs
 * most more at a mean column than at its best: the optimum between points on two lines. */
void gwf_tree_greedy(gwf_tree *tree, const double *cost, const gwf_f64 *with);

/* Pivot to the optimum for the costs (n x m), where no arc is worth more than `tolerance`; return
 * the number of pivots, or -1 if `most` were not enough. The tree is feasible either way. */
ptrdiff_t gwf_tree_solve(gwf_tree *tree, const double *cost, double tolerance, ptrdiff_t most,
                         const gwf_f64 *with);

#endif
