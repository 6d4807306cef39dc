// Edges whose source rows are int8 codes: attention, weighted sums, dot products and sums of rows, by float32 sums.
//
// The passes over rows are those of float32 (cpu/attention_pass.h). A source row's scale meets the edge: its weight before
// the pass, its dot product after. The row that a pass holds against them is widened once.
#include "cpu/attention_rows.h"
#include "cpu/export.h"

using namespace gnnqlab;

namespace {

Sources<int8_t> code_rows(const int8_t *x, int64_t num_x, int64_t stride, const float *scales, const int8_t *halo,
                          int64_t halo_stride, const float *halo_scales) {
    return {x, num_x, stride, scales, halo, halo_stride, halo_scales};
}

// values[head][edge] times the scale of the edge's source row.
template <bool kHalo>
void by_scales(const Sources<int8_t> &from, const int32_t *indices, int64_t count, int64_t heads, float *values) {
    for (int64_t k = 0; k < count; k++) {
        const float scale = *source_scale<kHalo>(from, indices[k]);
        for (int64_t head = 0; head < heads; head++) values[head * count + k] *= scale;
    }
}

void widen(const int8_t *codes, int64_t columns, float scale, float *out) {
    for (int64_t c = 0; c < columns; c++) out[c] = float(codes[c]) * scale;
}

template <bool kHalo>
void attend_codes(const int64_t *indptr, const int32_t *indices, int64_t start, int64_t stop, int64_t heads,
                  int64_t features, const Sources<int8_t> &from, const Sources<float> &logits, const float *target,
                  float slope, float *out, int64_t out_stride, float *stats, int64_t threads) {
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
        by_scales<kHalo>(from, indices + first, count, heads, attention);
        const Edges edges{indices + first, count, end - first - count, nullptr, attention};
        row_pass<kHalo, false, true>(edges, from, nullptr, to, heads, features);
    });
}

// Sixteen floats past the caches: what is written here is read by somebody else, much later.
GNNQLAB_INLINE void put_past(float *to, Lanes<float, kLanes> values) {
#if defined(__AVX512BW__)
    _mm512_stream_ps(to, (__m512)values);
#elif defined(__AVX2__)
    _mm256_stream_ps(to, (__m256)values);
#else
    store_lanes(to, values);
#endif
}

} // namespace

// As `attend` of core/attention.h, of codes; x_scales and halo_scales have one element a row.
GNNQLAB_EXPORT(int8_attend)
(const int64_t *indptr, const int32_t *indices, int64_t start, int64_t stop, int64_t heads, int64_t features,
 const int8_t *x, int64_t num_x, int64_t x_stride, const float *x_scales, const int8_t *halo, int64_t halo_stride,
 const float *halo_scales, const float *source, const float *halo_source, const float *target, float slope, float *out,
 int64_t out_stride, float *stats, int64_t threads) {
    const Sources<int8_t> from = code_rows(x, num_x, x_stride, x_scales, halo, halo_stride, halo_scales);
    const Sources<float> logits = plain_rows(source, num_x, heads, halo_source, heads);
    const auto run = halo ? attend_codes<true> : attend_codes<false>;
    run(indptr, indices, start, stop, heads, features, from, logits, target, slope, out, out_stride, stats, threads);
    return 0;
}

// As `attend_backward`, of codes x with scales and gradient codes with scales.
GNNQLAB_EXPORT(int8_attend_backward)
(const int64_t *turned_indptr, const int32_t *turned_indices, const int32_t *turned_edges, int64_t start, int64_t stop,
 int64_t heads, int64_t features, const int8_t *x, int64_t x_stride, const float *x_scales, const float *source,
 const float *packed, const int8_t *grad, int64_t grad_stride, const float *grad_scales, float slope, float *x_grad,
 int64_t x_grad_stride, float *source_grad, float *edge_grad, int64_t threads) {
    const Sources<int8_t> from = code_rows(grad, 0, grad_stride, grad_scales, nullptr, 0, nullptr);
    const int64_t end = turned_indptr[stop], columns = heads * features;
    for_rows(turned_indptr, start, stop, 4 * heads, threads, [=](int64_t column, float *scratch) {
        const int64_t first = turned_indptr[column], count = turned_indptr[column + 1] - first, local = column - start;
        const int32_t *rows = turned_indices + first;
        float *to = x_grad + local * x_grad_stride, *own_grad = source_grad + local * heads;
        if (count == 0) {
            std::fill(to, to + columns, 0.0f);
            std::fill(own_grad, own_grad + heads, 0.0f);
            return;
        }
        thread_local std::vector<float> row;
        row.resize(size_t(columns));
        widen(x + local * x_stride, columns, x_scales[local], row.data());
        const float *own = source + local * heads;
        float *attention = scratch, *dots = attention + heads * count, *row_dots = dots + heads * count;
        float *slopes = row_dots + heads * count;
        const int64_t last = end - first - 1;
        for (int64_t k = 0; k < count; k++) {
            __builtin_prefetch(packed + turned_indices[first + std::min(k + kEdgesAhead, last)] * kPackedParts * heads);
            const float *of_row = packed + rows[k] * kPackedParts * heads;
            for (int64_t head = 0; head < heads; head++) {
                const float z = own[head] + of_row[kTarget * heads + head];
                const int64_t at = head * count + k;
                attention[at] = leaky(z, slope) - of_row[kLargest * heads + head];
                slopes[at] = z > 0.0f ? of_row[kReciprocal * heads + head] : -of_row[kReciprocal * heads + head];
                row_dots[at] = of_row[kRowDot * heads + head];
            }
        }
        for (int64_t at = 0; at < heads * count; at++) {
            const float signed_reciprocal = slopes[at];
            attention[at] = exponential(attention[at]) * (signed_reciprocal > 0.0f ? signed_reciprocal : -signed_reciprocal);
            slopes[at] = leaky_slope(signed_reciprocal, slope);
        }
        // The factor of an edge's gradient takes attention as it is; what is summed takes it times the row's scale.
        for (int64_t at = 0; at < heads * count; at++) slopes[at] *= attention[at];
        by_scales<false>(from, rows, count, heads, attention);
        const Edges edges{rows, count, end - first - count, dots, attention};
        row_pass<false, true, true>(edges, from, row.data(), to, heads, features);
        by_scales<false>(from, rows, count, heads, dots);
        for (int64_t at = 0; at < heads * count; at++) dots[at] = slopes[at] * (dots[at] - row_dots[at]);
        for (int64_t head = 0; head < heads; head++) own_grad[head] = sum_of(dots + head * count, count);
        put_heads(dots, turned_edges, first, count, heads, edge_grad);
    });
    return 0;
}

// out[i] = sum over the row's edges of weights[e, head] * x[source of e], of codes.
GNNQLAB_EXPORT(int8_weighted_sum)
(const int64_t *indptr, const int32_t *indices, int64_t rows, int64_t heads, int64_t features, const float *weights,
 const int8_t *x, int64_t num_x, int64_t x_stride, const float *x_scales, float *out, int64_t out_stride,
 int64_t threads) {
    const Sources<int8_t> from = code_rows(x, num_x, x_stride, x_scales, nullptr, 0, nullptr);
    const int64_t end = indptr[rows];
    for_rows(indptr, 0, rows, heads, threads, [=](int64_t row, float *scratch) {
        const int64_t first = indptr[row], count = indptr[row + 1] - first;
        take_heads(weights, nullptr, first, count, heads, scratch);
        by_scales<false>(from, indices + first, count, heads, scratch);
        const Edges edges{indices + first, count, end - first - count, nullptr, scratch};
        row_pass<false, false, true>(edges, from, nullptr, out + row * out_stride, heads, features);
    });
    return 0;
}

// edge_out[e, head] = <x[source of e], y[row of e]>: integers, exact below 2^24, times both scales.
GNNQLAB_EXPORT(int8_sddmm_dot)
(const int64_t *indptr, const int32_t *indices, int64_t rows, int64_t heads, int64_t features, const int8_t *x,
 int64_t num_x, int64_t x_stride, const float *x_scales, const int8_t *y, int64_t y_stride, const float *y_scales,
 float *edge_out, int64_t threads) {
    const Sources<int8_t> from = code_rows(x, num_x, x_stride, x_scales, nullptr, 0, nullptr);
    const int64_t end = indptr[rows], columns = heads * features;
    for_rows(indptr, 0, rows, heads, threads, [=](int64_t row, float *dots) {
        const int64_t first = indptr[row], count = indptr[row + 1] - first;
        if (count == 0) return;
        thread_local std::vector<float> own;
        own.resize(size_t(columns));
        widen(y + row * y_stride, columns, 1.0f, own.data());
        const Edges edges{indices + first, count, end - first - count, dots, nullptr};
        row_pass<false, true, false>(edges, from, own.data(), nullptr, heads, features);
        for (int64_t at = 0; at < heads * count; at++) dots[at] *= y_scales[row];
        by_scales<false>(from, indices + first, count, heads, dots);
        put_heads(dots, nullptr, first, count, heads, edge_out);
    });
    return 0;
}

// edge_out[e] = x[source of e] + y[row of e], of codes, whole rows.
GNNQLAB_EXPORT(int8_sddmm_add)
(const int64_t *indptr, const int32_t *indices, int64_t rows, int64_t columns, const int8_t *x, int64_t num_x,
 int64_t x_stride, const float *x_scales, const int8_t *y, int64_t y_stride, const float *y_scales, float *edge_out,
 int64_t threads) {
    using V = Lanes<float, kLanes>;
    constexpr int64_t kAhead = 12;
    const Sources<int8_t> from = code_rows(x, num_x, x_stride, x_scales, nullptr, 0, nullptr);
    const int64_t end = indptr[rows], whole = columns / kLanes * kLanes;
    const bool past = whole == columns && uintptr_t(edge_out) % (4 * kLanes) == 0;
    for_rows(indptr, 0, rows, 0, threads, [=](int64_t row, float *) {
        if (indptr[row] == indptr[row + 1]) return;
        thread_local std::vector<float> own;
        own.resize(size_t(columns));
        widen(y + row * y_stride, columns, y_scales[row], own.data());
        for (int64_t edge = indptr[row]; edge < indptr[row + 1]; edge++) {
            const int8_t *next = source_row<false>(from, indices[std::min(edge + kAhead, end - 1)]);
            for (int64_t c = 0; c < columns; c += 64) __builtin_prefetch(next + c);
            const int8_t *codes = source_row<false>(from, indices[edge]);
            const float scale = *source_scale<false>(from, indices[edge]);
            const V scales = broadcast<kLanes>(scale);
            float *to = edge_out + edge * columns;
            for (int64_t c = 0; c < whole; c += kLanes) {
                V values;
                Block<int8_t, kLanes>::load(codes + c, &values);
                const V sum = values * scales + load_lanes<V>(own.data() + c);
                if (past) put_past(to + c, sum);
                else store_lanes(to + c, sum);
            }
            for (int64_t c = whole; c < columns; c++) to[c] = float(codes[c]) * scale + own[size_t(c)];
        }
#if defined(__AVX2__)
        if (past) _mm_sfence(); // of this thread, whose stores went past the caches
#endif
    });
    return 0;
}
