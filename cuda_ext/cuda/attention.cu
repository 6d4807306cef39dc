// Attention over edges on CUDA devices; arguments as on the CPU (cpu/attention.cpp, of codes cpu/int8_edges.cpp), `threads`
// is not used.
//
// One warp for each row (or column) and head, all warps of the block for a long row. Rows are float32, or int8 codes with
// a scale each.
#include "core/attention.h"
#include "cuda/weighted.cuh"

namespace gnnqlab {
namespace {

constexpr int64_t kEvery = INT64_MAX; // rows: no column lies in a halo

// Largest value and reciprocal sum of exp(value - largest) over the team's edges.
template <typename TeamType, typename Value>
__device__ void softmax_parts(const TeamType &team, const Value &value, float *largest, float *reciprocal) {
    float top = kLeast;
    for (int64_t edge = team.begin + team.lane(); edge < team.end; edge += kWarpSize) {
        const float own = value(edge);
        top = own > top ? own : top;
    }
    *largest = team.largest(top);
    float sum = 0.0f;
    for (int64_t edge = team.begin + team.lane(); edge < team.end; edge += kWarpSize)
        sum += exponential(value(edge) - *largest);
    *reciprocal = 1.0f / team.sum(sum);
}

struct Logits {
    Sources<float> source; // (columns, heads)
    const float *target;   // (rows, heads)
    int64_t heads;
    float slope;
};

template <typename T, int kVec, int kReps>
__global__ void __launch_bounds__(kThreads, 4)
    attend_rows(Matrix matrix, Sources<T> from, Logits logits, int64_t start, int64_t stop, int64_t features,
                float *out, int64_t out_stride, float *stats) {
    const int64_t head = blockIdx.y, heads = logits.heads;
    for_rows(matrix.indptr, start, stop, [&](const auto &team) {
        float *own_stats = stats + (team.row - start) * 2 * heads + head;
        const float own = logits.target[team.row * heads + head];
        const auto logit = [&](int64_t edge) {
            return leaky(source_row<true>(logits.source, matrix.indices[edge])[head] + own, logits.slope);
        };
        float largest = 0.0f, reciprocal = 0.0f;
        if (matrix.indptr[team.row + 1] > matrix.indptr[team.row]) softmax_parts(team, logit, &largest, &reciprocal);
        if (team.writes() && team.lane() == 0) {
            own_stats[0] = largest;
            own_stats[heads] = reciprocal;
        }
        float *to = out + (team.row - start) * out_stride;
        for (int64_t tile = 0; tile * Columns<kVec, kReps>::kTile < features; tile++)
            weighted_rows<T, kVec, kReps>(team, from, tile_of<kVec, kReps>(head, features, tile), to,
                                          [&](int64_t edge, int32_t *column, float *weight) {
                                              *column = matrix.indices[edge];
                                              *weight = exponential(logit(edge) - largest) * reciprocal;
                                          });
    });
}

struct Gradients {
    float *x, *source, *edges;
    int64_t x_stride;
};

template <typename T, int kVec, int kReps>
__global__ void __launch_bounds__(kThreads, 4)
    attend_columns(Matrix turned, const int32_t *places, int64_t start, int64_t stop, int64_t heads, int64_t features,
                   Sources<T> x, const float *source, const float *packed, Sources<T> from, float slope, Gradients to) {
    const int64_t head = blockIdx.y;
    for_rows(turned.indptr, start, stop, [&](const auto &team) {
        const int64_t local = team.row - start;
        const float own = source[local * heads + head];
        const T *own_x = x.rows + local * x.stride;
        const auto part = [&](int32_t row, Packed which) { return packed[(row * kPackedParts + which) * heads + head]; };
        const auto attention_of = [&](int32_t row) {
            const float logit = leaky(own + part(row, kTarget), slope);
            return exponential(logit - part(row, kLargest)) * part(row, kReciprocal);
        };
        // Dot products: a lane has every 32nd run of columns; each edge's sum goes to the lane of that edge.
        float own_sum = 0.0f;
        for (int64_t base = team.begin; base < team.end; base += kWarpSize) {
            const int64_t edge = base + team.lane();
            const int count = int(team.end - base < kWarpSize ? team.end - base : kWarpSize);
            const int32_t row = edge < team.end ? turned.indices[edge] : 0;
            float dot = 0.0f;
            for (int k = 0; k < count; k++) {
                const T *other = source_row<false>(from, __shfl_sync(kAllLanes, row, k));
                float product = 0.0f;
                for (int64_t tile = 0; tile * Columns<kVec, kReps>::kTile < features; tile++) {
                    const Columns<kVec, kReps> mine = tile_of<kVec, kReps>(head, features, tile);
#pragma unroll
                    for (int rep = 0; rep < kReps; rep++)
                        if (mine.has(rep)) {
                            const Run<T, kVec> a = load_run<T, kVec>(other + mine.at(rep));
                            const Run<T, kVec> b = load_run<T, kVec>(own_x + mine.at(rep));
#pragma unroll
                            for (int v = 0; v < kVec; v++)
                                product = multiply_add(element(a.elements, v), element(b.elements, v), product);
                        }
                }
                product = sum_lanes(product);
                if (team.lane() == k) dot = product;
            }
            if (edge < team.end) {
                if (sizeof(T) == 1) dot *= *source_scale<false>(from, row) * x.scales[local];
                const float z_slope = leaky_slope(own + part(row, kTarget), slope);
                const float gradient = edge_gradient(attention_of(row), dot, part(row, kRowDot), z_slope);
                to.edges[int64_t(places[edge]) * heads + head] = gradient;
                own_sum += gradient;
            }
        }
        own_sum = team.sum(own_sum);
        if (team.writes() && team.lane() == 0) to.source[local * heads + head] = own_sum;
        // The rows come from the cache where the dot products have just read them.
        for (int64_t tile = 0; tile * Columns<kVec, kReps>::kTile < features; tile++)
            weighted_rows<T, kVec, kReps>(team, from, tile_of<kVec, kReps>(head, features, tile),
                                          to.x + local * to.x_stride,
                                          [&](int64_t edge, int32_t *column, float *weight) {
                                              *column = turned.indices[edge];
                                              *weight = attention_of(*column);
                                          });
    });
}

template <typename T>
int64_t attend_launch(const Matrix &matrix, const Sources<T> &from, const Logits &logits, int64_t start, int64_t stop,
                      int64_t features, float *out, int64_t out_stride, float *stats, cudaStream_t stream) {
    if (start >= stop || logits.heads == 0) return cudaSuccess;
    return by_shape(features, all_aligned<4>(from), all_aligned<2>(from), [&](auto shape) {
        using S = decltype(shape);
        attend_rows<T, S::vec, S::reps><<<grid_of(stop - start, logits.heads), kThreads, 0, stream>>>(
            matrix, from, logits, start, stop, features, out, out_stride, stats);
    });
}

// `from` holds the gradients of the rows, which have no halo; `x` the values of the columns from `start` on.
template <typename T>
int64_t attend_backward_launch(const Matrix &turned, const int32_t *places, int64_t start, int64_t stop, int64_t heads,
                               int64_t features, const Sources<T> &x, const float *source, const float *packed,
                               const Sources<T> &from, float slope, const Gradients &to, cudaStream_t stream) {
    if (start >= stop || heads == 0) return cudaSuccess;
    const bool by_four = all_aligned<4>(from) && all_aligned<4>(x), by_two = all_aligned<2>(from) && all_aligned<2>(x);
    return by_shape(features, by_four, by_two, [&](auto shape) {
        using S = decltype(shape);
        attend_columns<T, S::vec, S::reps><<<grid_of(stop - start, heads), kThreads, 0, stream>>>(
            turned, places, start, stop, heads, features, x, source, packed, from, slope, to);
    });
}

} // namespace

GNNQLAB_CUDA_EXPORT(attend)
(const int64_t *indptr, const int32_t *indices, int64_t start, int64_t stop, int64_t heads, int64_t features,
 const float *x, int64_t num_x, int64_t x_stride, const float *halo, int64_t halo_stride, const float *source,
 const float *halo_source, const float *target, float slope, float *out, int64_t out_stride, float *stats, int64_t,
 void *stream) {
    const Logits logits{plain_rows(source, num_x, heads, halo_source, heads), target, heads, slope};
    return attend_launch(Matrix{indptr, indices, nullptr}, plain_rows(x, num_x, x_stride, halo, halo_stride), logits, start,
                         stop, features, out, out_stride, stats, cudaStream_t(stream));
}

GNNQLAB_CUDA_EXPORT(attend_backward)
(const int64_t *turned_indptr, const int32_t *turned_indices, const int32_t *turned_edges, int64_t start, int64_t stop,
 int64_t heads, int64_t features, const float *x, int64_t x_stride, const float *source, const float *packed,
 const float *grad, int64_t grad_stride, float slope, float *x_grad, int64_t x_grad_stride, float *source_grad,
 float *edge_grad, int64_t, void *stream) {
    return attend_backward_launch(Matrix{turned_indptr, turned_indices, nullptr}, turned_edges, start, stop, heads, features,
                                  plain_rows(x, kEvery, x_stride, nullptr, 0), source, packed,
                                  plain_rows(grad, kEvery, grad_stride, nullptr, 0), slope,
                                  Gradients{x_grad, source_grad, edge_grad, x_grad_stride}, cudaStream_t(stream));
}

GNNQLAB_CUDA_EXPORT(int8_attend)
(const int64_t *indptr, const int32_t *indices, int64_t start, int64_t stop, int64_t heads, int64_t features,
 const int8_t *x, int64_t num_x, int64_t x_stride, const float *x_scales, const int8_t *halo, int64_t halo_stride,
 const float *halo_scales, const float *source, const float *halo_source, const float *target, float slope, float *out,
 int64_t out_stride, float *stats, int64_t, void *stream) {
    const Sources<int8_t> from{x, num_x, x_stride, x_scales, halo, halo_stride, halo_scales};
    const Logits logits{plain_rows(source, num_x, heads, halo_source, heads), target, heads, slope};
    return attend_launch(Matrix{indptr, indices, nullptr}, from, logits, start, stop, features, out, out_stride, stats,
                         cudaStream_t(stream));
}

GNNQLAB_CUDA_EXPORT(int8_attend_backward)
(const int64_t *turned_indptr, const int32_t *turned_indices, const int32_t *turned_edges, int64_t start, int64_t stop,
 int64_t heads, int64_t features, const int8_t *x, int64_t x_stride, const float *x_scales, const float *source,
 const float *packed, const int8_t *grad, int64_t grad_stride, const float *grad_scales, float slope, float *x_grad,
 int64_t x_grad_stride, float *source_grad, float *edge_grad, int64_t, void *stream) {
    const Sources<int8_t> values{x, kEvery, x_stride, x_scales, nullptr, 0, nullptr};
    const Sources<int8_t> from{grad, kEvery, grad_stride, grad_scales, nullptr, 0, nullptr};
    return attend_backward_launch(Matrix{turned_indptr, turned_indices, nullptr}, turned_edges, start, stop, heads, features,
                                  values, source, packed, from, slope,
                                  Gradients{x_grad, source_grad, edge_grad, x_grad_stride}, cudaStream_t(stream));
}

} // namespace gnnqlab
