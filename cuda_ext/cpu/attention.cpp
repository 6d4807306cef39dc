// Attention over edges on the CPU: forward by destination rows, backward by source columns.
//
// Per row: logits of all its edges, softmax, weighted sum, with the row's logits in the cache from start to end. Backward,
// per column: attention again from the row's largest logit and sum, then one read of each gradient row for both its dot
// product with the value row and the weighted sum. No sum is shared between threads.
#include "cpu/attention_rows.h"
#include "cpu/export.h"

using namespace gnnqlab;

// Rows [start, stop): out[i - start] (stride out_stride) and stats[i - start] = largest logits, reciprocal sums (2, heads).
// source and target logits lie (n, heads) without gaps; target is indexed by the row itself.
GNNQLAB_EXPORT(attend)
(const int64_t *indptr, const int32_t *indices, int64_t start, int64_t stop, int64_t heads, int64_t features,
 const float *x, int64_t num_x, int64_t x_stride, const float *halo, int64_t halo_stride, const float *source,
 const float *halo_source, const float *target, float slope, float *out, int64_t out_stride, float *stats,
 int64_t threads) {
    const Sources<float> from = plain_rows(x, num_x, x_stride, halo, halo_stride);
    const Sources<float> logits = plain_rows(source, num_x, heads, halo_source, heads);
    const auto pass = halo ? row_pass<true, false, true> : row_pass<false, false, true>;
    const int64_t end = indptr[stop];
    for_rows(indptr, start, stop, heads, threads, [=](int64_t row, float *attention) {
        const int64_t first = indptr[row], count = indptr[row + 1] - first;
        const float *own = target + row * heads;
        float *row_stats = stats + (row - start) * 2 * heads, *to = out + (row - start) * out_stride;
        if (count == 0) {
            std::fill(to, to + heads * features, 0.0f);
            std::fill(row_stats, row_stats + 2 * heads, 0.0f);
            return;
        }
        for (int64_t k = 0; k < count; k++) {
            const float *theirs = source_row<true>(logits, indices[first + k]);
            for (int64_t head = 0; head < heads; head++)
                attention[head * count + k] = leaky(theirs[head] + own[head], slope);
        }
        for (int64_t head = 0; head < heads; head++)
            softmax(attention + head * count, count, row_stats + head, row_stats + heads + head);
        const Edges edges{indices + first, count, end - first - count, nullptr, attention};
        pass(edges, from, nullptr, to, heads, features);
    });
    return 0;
}

// Columns [start, stop) of the matrix, by its transpose: `turned_edges` is each edge's place in the matrix by rows.
// x, source, x_grad and source_grad begin at column `start`; packed is (rows, 4, heads) as in core/attention.h; edge_grad
// (edges, heads) gets dz at the places of the matrix by rows.
GNNQLAB_EXPORT(attend_backward)
(const int64_t *turned_indptr, const int32_t *turned_indices, const int32_t *turned_edges, int64_t start, int64_t stop,
 int64_t heads, int64_t features, const float *x, int64_t x_stride, const float *source, const float *packed,
 const float *grad, int64_t grad_stride, float slope, float *x_grad, int64_t x_grad_stride, float *source_grad,
 float *edge_grad, int64_t threads) {
    const Sources<float> from = plain_rows(grad, 0, grad_stride, nullptr, 0);
    const int64_t end = turned_indptr[stop];
    for_rows(turned_indptr, start, stop, 4 * heads, threads, [=](int64_t column, float *scratch) {
        const int64_t first = turned_indptr[column], count = turned_indptr[column + 1] - first, local = column - start;
        const int32_t *rows = turned_indices + first;
        float *to = x_grad + local * x_grad_stride, *own_grad = source_grad + local * heads;
        if (count == 0) {
            std::fill(to, to + heads * features, 0.0f);
            std::fill(own_grad, own_grad + heads, 0.0f);
            return;
        }
        const float *own = source + local * heads;
        float *attention = scratch, *dots = attention + heads * count, *row_dots = dots + heads * count;
        float *slopes = row_dots + heads * count; // first the reciprocal sums
        const int64_t last = end - first - 1;
        for (int64_t k = 0; k < count; k++) {
            __builtin_prefetch(packed + turned_indices[first + std::min(k + kEdgesAhead, last)] * kPackedParts * heads);
            const float *row = packed + rows[k] * kPackedParts * heads;
            for (int64_t head = 0; head < heads; head++) {
                const float z = own[head] + row[kTarget * heads + head];
                const int64_t at = head * count + k;
                attention[at] = leaky(z, slope) - row[kLargest * heads + head];
                // The reciprocal is positive: its sign can carry on which side of zero z lies.
                slopes[at] = z > 0.0f ? row[kReciprocal * heads + head] : -row[kReciprocal * heads + head];
                row_dots[at] = row[kRowDot * heads + head];
            }
        }
        for (int64_t at = 0; at < heads * count; at++) {
            const float signed_reciprocal = slopes[at];
            attention[at] = exponential(attention[at]) * (signed_reciprocal > 0.0f ? signed_reciprocal : -signed_reciprocal);
            slopes[at] = leaky_slope(signed_reciprocal, slope);
        }
        const Edges edges{rows, count, end - first - count, dots, attention};
        row_pass<false, true, true>(edges, from, x + local * x_stride, to, heads, features);
        for (int64_t at = 0; at < heads * count; at++)
            dots[at] = edge_gradient(attention[at], dots[at], row_dots[at], slopes[at]);
        for (int64_t head = 0; head < heads; head++) own_grad[head] = sum_of(dots + head * count, count);
        put_heads(dots, turned_edges, first, count, heads, edge_grad);
    });
    return 0;
}

// edge_out[e, head] = <x[source of e], y[row of e]> for the rows' edges; y is indexed by the row itself.
GNNQLAB_EXPORT(sddmm_dot)
(const int64_t *indptr, const int32_t *indices, int64_t rows, int64_t heads, int64_t features, const float *x,
 int64_t num_x, int64_t x_stride, const float *halo, int64_t halo_stride, const float *y, int64_t y_stride,
 float *edge_out, int64_t threads) {
    const Sources<float> from = plain_rows(x, num_x, x_stride, halo, halo_stride);
    const auto pass = halo ? row_pass<true, true, false> : row_pass<false, true, false>;
    const int64_t end = indptr[rows];
    for_rows(indptr, 0, rows, heads, threads, [=](int64_t row, float *dots) {
        const int64_t first = indptr[row], count = indptr[row + 1] - first;
        const Edges edges{indices + first, count, end - first - count, dots, nullptr};
        if (count) pass(edges, from, y + row * y_stride, nullptr, heads, features);
        put_heads(dots, nullptr, first, count, heads, edge_out);
    });
    return 0;
}

// edge_out[e, head] = source[source of e, head] + target[row of e, head].
GNNQLAB_EXPORT(sddmm_add)
(const int64_t *indptr, const int32_t *indices, int64_t rows, int64_t heads, const float *source, int64_t num_source,
 const float *halo_source, const float *target, float *edge_out, int64_t threads) {
    const Sources<float> logits = plain_rows(source, num_source, heads, halo_source, heads);
    for_rows(indptr, 0, rows, 0, threads, [=](int64_t row, float *) {
        for (int64_t edge = indptr[row]; edge < indptr[row + 1]; edge++) {
            const float *theirs = source_row<true>(logits, indices[edge]);
            for (int64_t head = 0; head < heads; head++)
                edge_out[edge * heads + head] = theirs[head] + target[row * heads + head];
        }
    });
    return 0;
}

// Softmax over each row's edges, for each head.
GNNQLAB_EXPORT(segment_softmax)
(const int64_t *indptr, int64_t rows, int64_t heads, const float *logits, float *attention, int64_t threads) {
    for_rows(indptr, 0, rows, heads, threads, [=](int64_t row, float *scratch) {
        const int64_t first = indptr[row], count = indptr[row + 1] - first;
        take_heads(logits, nullptr, first, count, heads, scratch);
        float largest, reciprocal;
        for (int64_t head = 0; head < heads; head++) softmax(scratch + head * count, count, &largest, &reciprocal);
        put_heads(scratch, nullptr, first, count, heads, attention);
    });
    return 0;
}

GNNQLAB_EXPORT(segment_softmax_backward)
(const int64_t *indptr, int64_t rows, int64_t heads, const float *attention, const float *grad, float *logits_grad,
 int64_t threads) {
    for_rows(indptr, 0, rows, 3 * heads, threads, [=](int64_t row, float *scratch) {
        const int64_t first = indptr[row], count = indptr[row + 1] - first, size = heads * count;
        float *own = scratch, *theirs = own + size, *products = theirs + size;
        take_heads(attention, nullptr, first, count, heads, own);
        take_heads(grad, nullptr, first, count, heads, theirs);
        for (int64_t at = 0; at < size; at++) products[at] = own[at] * theirs[at];
        for (int64_t head = 0; head < heads; head++) {
            const float row_dot = sum_of(products + head * count, count);
            for (int64_t at = head * count; at < (head + 1) * count; at++)
                products[at] = edge_gradient(own[at], theirs[at], row_dot, 1.0f);
        }
        put_heads(products, nullptr, first, count, heads, logits_grad);
    });
    return 0;
}

// out[i] = sum over the row's edges of weights[place of e, head] * x[source of e]; `places` null: the edges' own order.
GNNQLAB_EXPORT(weighted_sum)
(const int64_t *indptr, const int32_t *indices, const int32_t *places, int64_t rows, int64_t heads, int64_t features,
 const float *weights, const float *x, int64_t num_x, int64_t x_stride, const float *halo, int64_t halo_stride,
 float *out, int64_t out_stride, int64_t threads) {
    const Sources<float> from = plain_rows(x, num_x, x_stride, halo, halo_stride);
    const auto pass = halo ? row_pass<true, false, true> : row_pass<false, false, true>;
    const int64_t end = indptr[rows];
    for_rows(indptr, 0, rows, heads, threads, [=](int64_t row, float *scratch) {
        const int64_t first = indptr[row], count = indptr[row + 1] - first;
        take_heads(weights, places, first, count, heads, scratch);
        const Edges edges{indices + first, count, end - first - count, nullptr, scratch};
        pass(edges, from, nullptr, out + row * out_stride, heads, features);
    });
    return 0;
}

// out[i, head] = sum over the row's edges of values[place of e, head].
GNNQLAB_EXPORT(segment_sum)
(const int64_t *indptr, const int32_t *places, int64_t rows, int64_t heads, const float *values, float *out,
 int64_t threads) {
    for_rows(indptr, 0, rows, 0, threads, [=](int64_t row, float *) {
        float *sums = out + row * heads;
        std::fill(sums, sums + heads, 0.0f);
        for (int64_t edge = indptr[row]; edge < indptr[row + 1]; edge++) {
            const float *from = values + (places ? int64_t(places[edge]) : edge) * heads;
            for (int64_t head = 0; head < heads; head++) sums[head] += from[head];
        }
    });
    return 0;
}
