/* See network_simplex.h. An arc is known by its lower end in the tree. */
#include "network_simplex.h"

#include <math.h>

/* Hang a component of the forest from a node, as its first subtree; until the tree is whole `depth`
 * has the last node in preorder below each top. */
static void hang(gwf_tree *t, int32_t top, int32_t parent) {
    const int32_t last = t->depth[top];
    if (t->depth[parent] == parent) t->depth[parent] = last;
    t->parent[top] = parent;
    t->next[last] = t->next[parent];
    t->next[parent] = top;
}

/* Compute how much more each row costs at a mean column than at its best, beside the means of the
 * columns, which are left in the potentials of sinks. */
static void regrets(gwf_tree *t, const double *cost, const gwf_f64 *with, double *regret) {
    const ptrdiff_t n = t->n, m = t->m;
    double *of_col = t->potential + n, mean = 0.0;
    ptrdiff_t at;
    for (ptrdiff_t j = 0; j < m; j++) of_col[j] = 0.0;
    with->sum_rows((void *)cost, NULL, NULL, regret, t->room, of_col, n, m);
    for (ptrdiff_t j = 0; j < m; j++) {
        of_col[j] /= n;
        mean += of_col[j] / m;
    }
    for (ptrdiff_t i = 0; i < n; i++) {
        const double zero = 0.0;
        regret[i] = regret[i] / m - mean -
                    with->least_of_rows(cost + i * m, &zero, of_col, 1, m, INFINITY, &at);
    }
}

/* Order rows by falling regrets, equal ones by their numbers: n^2 / 4 steps, fewer than an
 * optimum takes. */
static void order_rows(const double *regret, int32_t *order, ptrdiff_t n) {
    for (ptrdiff_t k = 0; k < n; k++) {
        ptrdiff_t at = k;
        for (; at > 0 && regret[order[at - 1]] < regret[k]; at--) order[at] = order[at - 1];
        order[at] = (int32_t)k;
    }
}

/* Ties take the column rather than the row: an arc without flow then goes up from a
 * source, and the tree is strongly feasible. */
void gwf_tree_greedy(gwf_tree *t, const double *cost, const gwf_f64 *with) {
    const ptrdiff_t n = t->n, m = t->m;
    const double zero = 0.0;
    double *of_col = t->potential + n;
    int64_t *col_left = t->flow + n;
    int32_t *rows = t->before;
    ptrdiff_t cols = m, j = 0;
    regrets(t, cost, with, t->potential);
    order_rows(t->potential, rows, n);
    for (ptrdiff_t k = 0; k < n + m; k++) {
        t->next[k] = -1;
        t->depth[k] = (int32_t)k;
    }
    for (ptrdiff_t k = 0; k < m; k++) col_left[k] = t->mass[n + k];
    for (ptrdiff_t k = 0; k < n; k++) {
        const int32_t source = rows[k];
        int64_t row_left = t->mass[source];
        for (;;) {
            with->least_of_rows(cost + source * m, &zero, of_col, 1, m, INFINITY, &j);
            const int64_t flow = row_left < col_left[j] ? row_left : col_left[j];
            const int takes_row = cols == 1 || (k < n - 1 && row_left < col_left[j]);
            row_left -= flow;
            if (takes_row) {
                col_left[j] -= flow;
                t->flow[source] = flow;
                hang(t, source, (int32_t)(n + j));
                break;
            }
            t->flow[n + j] = flow;
            of_col[j] = -INFINITY; /* no more a column to choose */
            hang(t, (int32_t)(n + j), source);
            cols--;
        }
    }
    t->root = (int32_t)(n + j);
    t->parent[t->root] = -1;
    t->flow[t->root] = 0;
    t->row = 0;
    t->next[t->depth[t->root]] = t->root;
    for (ptrdiff_t k = 0; k < n + m; k++) t->before[t->next[k]] = (int32_t)k;
}

/* Depths, and the potentials at which all arcs of the tree cost what they are worth. */
static void price(gwf_tree *t, const double *cost) {
    const int32_t n = (int32_t)t->n;
    t->depth[t->root] = 0;
    t->potential[t->root] = 0.0;
    for (int32_t node = t->next[t->root]; node != t->root; node = t->next[node]) {
        const int32_t up = t->parent[node];
        const int32_t source = node < n ? node : up, sink = node < n ? up : node;
        t->depth[node] = t->depth[up] + 1;
        t->potential[node] = cost[source * t->m + (sink - n)] - t->potential[up];
    }
}

/* Return the lower end of the arc that leaves if one from source to sink enters, its side of the
 * cycle and its flow. Flow goes from where both ways to the root meet down to the source, to the
 * sink, and up. Of several arcs the last on that way leaves: the tree stays strongly feasible. */
static int32_t leaving(const gwf_tree *t, int32_t source, int32_t sink, int64_t *most,
                       int *from_source) {
    const int32_t n = (int32_t)t->n;
    int32_t x = source, y = sink, found = -1;
    *most = INT64_MAX;
    while (x != y) {
        if (t->depth[x] >= t->depth[y]) {
            if (x < n && t->flow[x] < *most) *most = t->flow[x], found = x, *from_source = 1;
            x = t->parent[x];
        } else {
            if (y >= n && t->flow[y] <= *most) *most = t->flow[y], found = y, *from_source = 0;
            y = t->parent[y];
        }
    }
    return found;
}

/* Send the flow round the cycle. */
static void augment(gwf_tree *t, int32_t source, int32_t sink, int64_t flow) {
    const int32_t n = (int32_t)t->n;
    int32_t x = source, y = sink;
    if (!flow) return;
    while (x != y) {
        if (t->depth[x] >= t->depth[y]) {
            t->flow[x] += x < n ? -flow : flow;
            x = t->parent[x];
        } else {
            t->flow[y] += y < n ? flow : -flow;
            y = t->parent[y];
        }
    }
}

/* Move a node with the subtree that it is in. */
static inline void shift(gwf_tree *t, int32_t node, int32_t depth, double of_sources) {
    t->depth[node] += depth;
    t->potential[node] += node < t->n ? of_sources : -of_sources;
}

/* Let all below the leaving arc, whose lower end is `last`, hang from `above` by its node `top`:
 * the way between the two is turned upside down, and carries `flow` down to the top. In preorder
 * each node of that way brings along the nodes before and after the subtree of the node before it.
 */
static void hang_anew(gwf_tree *t, int32_t top, int32_t last, int32_t above, int64_t flow,
                      double of_sources) {
    int32_t *next = t->next, *before = t->before, *depth = t->depth;
    int32_t node = top, end = top, after = next[top], inner = before[top];
    int32_t parent = above, deep = depth[above];
    for (;;) {
        const int32_t up = t->parent[node], old = depth[node], more = ++deep - old;
        const int64_t own = t->flow[node];
        t->parent[node] = parent;
        t->flow[node] = flow;
        shift(t, node, more, of_sources);
        if (node != top) {
            const int32_t stop = inner;
            inner = before[node];
            next[end] = node;
            before[node] = end;
            for (end = node; end != stop;) {
                end = next[end];
                shift(t, end, more, of_sources);
            }
            next[end] = after;
            before[after] = end;
        }
        for (; depth[after] > old; after = next[after]) {
            shift(t, after, more, of_sources);
            end = after;
        }
        if (node == last) break;
        parent = node;
        flow = own;
        node = up;
    }
    next[inner] = after;
    before[after] = inner;
    after = next[above];
    next[above] = top;
    before[top] = above;
    next[end] = after;
    before[after] = end;
}

/* Let the arc from source to sink enter, which is worth `reduced` < 0. */
static void pivot(gwf_tree *t, int32_t source, int32_t sink, double reduced) {
    int64_t flow;
    int from_source = 0;
    const int32_t last = leaving(t, source, sink, &flow, &from_source);
    augment(t, source, sink, flow);
    if (from_source)
        hang_anew(t, source, last, sink, flow, reduced);
    else
        hang_anew(t, sink, last, source, flow, -reduced);
}

ptrdiff_t gwf_tree_solve(gwf_tree *t, const double *cost, double tolerance, ptrdiff_t most,
                         const gwf_f64 *with) {
    const ptrdiff_t n = t->n, m = t->m;
    ptrdiff_t pivots = 0, without = 0;
    price(t, cost);
    while (without < n) {
        const ptrdiff_t row = t->row, left = n - (row > without ? row : without);
        /* Four rows are priced before the best of their arcs enters: programs of 12 to 1000 points
         * then take the least time. */
        const ptrdiff_t rows = left < 4 ? left : 4;
        ptrdiff_t at = 0;
        const double reduced = with->least_of_rows(cost + row * m, t->potential + row,
                                                   t->potential + n, rows, m, -tolerance, &at);
        t->row = row + rows == n ? 0 : row + rows;
        without += rows;
        if (reduced < -tolerance) {
            if (pivots == most) return -1;
            pivot(t, (int32_t)(row + at / m), (int32_t)(n + at % m), reduced);
            pivots++;
            without = 0;
        }
    }
    price(t, cost);
    return pivots;
}
