/* See network_simplex.h. An arc is known by its lower end in the tree. */
#include "network_simplex.h"

#include <math.h>

static void link_node(gwf_tree *t, int32_t node, int32_t parent) {
    const int32_t first = t->child[parent];
    t->parent[node] = parent;
    t->before[node] = -1;
    t->next[node] = first;
    if (first >= 0) t->before[first] = node;
    t->child[parent] = node;
}

static void unlink_node(gwf_tree *t, int32_t node) {
    const int32_t before = t->before[node], next = t->next[node];
    if (before >= 0)
        t->next[before] = next;
    else
        t->child[t->parent[node]] = next;
    if (next >= 0) t->before[next] = before;
}

/* The node after this one, parents first, below `top`; -1 past the last. */
static inline int32_t node_after(const gwf_tree *t, int32_t node, int32_t top) {
    if (t->child[node] >= 0) return t->child[node];
    while (node != top) {
        if (t->next[node] >= 0) return t->next[node];
        node = t->parent[node];
    }
    return -1;
}

void gwf_tree_regrets(gwf_tree *t, const double *cost, gwf_least least,
                      double *regret) {
    const ptrdiff_t n = t->n, m = t->m;
    double *of_col = t->potential + n, mean = 0.0;
    ptrdiff_t at;
    for (ptrdiff_t j = 0; j < m; j++) of_col[j] = 0.0;
    for (ptrdiff_t i = 0; i < n; i++) {
        double sum = 0.0;
        for (ptrdiff_t j = 0; j < m; j++) {
            of_col[j] += cost[i * m + j] / n;
            sum += cost[i * m + j];
        }
        regret[i] = sum / m;
    }
    for (ptrdiff_t j = 0; j < m; j++) mean += of_col[j] / m;
    for (ptrdiff_t i = 0; i < n; i++)
        regret[i] -= mean + least(cost + i * m, of_col, m, &at);
}

/* Ties take the column rather than the row: an arc without flow then goes up from a
 * source, and the tree is strongly feasible. */
void gwf_tree_greedy(gwf_tree *t, const double *cost, gwf_least least,
                     const int64_t *rows) {
    const ptrdiff_t n = t->n, m = t->m;
    double *of_col = t->potential + n;
    int64_t *col_left = t->flow + n;
    ptrdiff_t cols = m, j = 0;
    for (ptrdiff_t k = 0; k < n + m; k++) t->child[k] = -1;
    for (ptrdiff_t k = 0; k < m; k++) col_left[k] = t->mass[n + k];
    for (ptrdiff_t k = 0; k < n; k++) {
        const int32_t source = (int32_t)rows[k];
        int64_t row_left = t->mass[source];
        for (;;) {
            least(cost + source * m, of_col, m, &j);
            const int64_t flow = row_left < col_left[j] ? row_left : col_left[j];
            const int takes_row = cols == 1 || (k < n - 1 && row_left < col_left[j]);
            row_left -= flow;
            if (takes_row) {
                col_left[j] -= flow;
                t->flow[source] = flow;
                link_node(t, source, (int32_t)(n + j));
                break;
            }
            t->flow[n + j] = flow;
            of_col[j] = -INFINITY; /* no more a column to choose */
            link_node(t, (int32_t)(n + j), source);
            cols--;
        }
    }
    t->root = (int32_t)(n + j);
    t->parent[t->root] = t->next[t->root] = t->before[t->root] = -1;
    t->flow[t->root] = 0;
    t->row = 0;
}

/* Depths, and the potentials at which all arcs of the tree cost what they are worth. */
static void price(gwf_tree *t, const double *cost) {
    const int32_t n = (int32_t)t->n;
    t->depth[t->root] = 0;
    t->potential[t->root] = 0.0;
    for (int32_t node = node_after(t, t->root, t->root); node >= 0;
         node = node_after(t, node, t->root)) {
        const int32_t up = t->parent[node];
        const int32_t source = node < n ? node : up, sink = node < n ? up : node;
        t->depth[node] = t->depth[up] + 1;
        t->potential[node] = cost[source * t->m + (sink - n)] - t->potential[up];
    }
}

/* The arc that leaves where one from source to sink enters, by its lower end, on whose
 * side of the cycle it is, and how much flow it takes along. Flow goes from where both
 * ways to the root meet down to the source, to the sink, and up. Of several the last on
 * that way leaves, which keeps the tree strongly feasible. */
static int32_t leaving(const gwf_tree *t, int32_t source, int32_t sink, int64_t *most,
                       int *from_source) {
    const int32_t n = (int32_t)t->n;
    int32_t x = source, y = sink, found = -1;
    *most = INT64_MAX;
    while (x != y) {
        if (t->depth[x] >= t->depth[y]) {
            if (x < n && t->flow[x] < *most) {
                *most = t->flow[x];
                found = x;
                *from_source = 1;
            }
            x = t->parent[x];
        } else {
            if (y >= n && t->flow[y] <= *most) {
                *most = t->flow[y];
                found = y;
                *from_source = 0;
            }
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

/* Let the arc from source to sink enter, which is worth `reduced` < 0. */
static void pivot(gwf_tree *t, int32_t source, int32_t sink, double reduced) {
    const int32_t n = (int32_t)t->n;
    int64_t flow;
    int from_source = 0;
    const int32_t last = leaving(t, source, sink, &flow, &from_source);
    const int32_t top = from_source ? source : sink;
    int32_t node = top, above = from_source ? sink : source;
    int64_t carried = flow;
    augment(t, source, sink, flow);
    /* What was below the leaving arc hangs from the entering one, the way between them
     * upside down. */
    for (;;) {
        const int32_t up = t->parent[node];
        const int64_t own = t->flow[node];
        unlink_node(t, node);
        link_node(t, node, above);
        t->flow[node] = carried;
        if (node == last) break;
        above = node;
        carried = own;
        node = up;
    }
    const double of_sources = from_source ? reduced : -reduced;
    for (node = top; node >= 0; node = node_after(t, node, top)) {
        t->depth[node] = t->depth[t->parent[node]] + 1;
        t->potential[node] += node < n ? of_sources : -of_sources;
    }
}

ptrdiff_t gwf_tree_solve(gwf_tree *t, const double *cost, double tolerance,
                         ptrdiff_t most, gwf_least least) {
    const ptrdiff_t n = t->n, m = t->m;
    ptrdiff_t pivots = 0, without = 0;
    price(t, cost);
    /* One row after another: with the best of several rows there are fewer pivots, and
     * they take longer in all (20 to 2000 points). */
    while (without < n) {
        const ptrdiff_t i = t->row;
        ptrdiff_t j = 0;
        const double reduced =
            least(cost + i * m, t->potential + n, m, &j) - t->potential[i];
        t->row = i + 1 == n ? 0 : i + 1;
        if (reduced < -tolerance) {
            if (pivots == most) return -1;
            pivot(t, (int32_t)i, (int32_t)(n + j), reduced);
            pivots++;
            without = 0;
        } else {
            without++;
        }
    }
    price(t, cost);
    return pivots;
}
