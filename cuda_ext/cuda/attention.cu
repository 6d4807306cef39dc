// Attention over edges on CUDA devices; arguments as on the CPU (cpu/attention.cpp), `threads` is not used.
//
// One warp for each row (or column) and head, all warps of the block for a long row.
#include "core/attention.h"
#include "cuda/teams.cuh"

namespace gnnqlab {
namespace {

constexpr int64_t kEvery = INT64_MAX; // rows: no column lies in a halo

// Sum of the rows of 32 edges at a time: edge_of(edge) gives a lane its edge's source and weight.
template <int kVec, int kReps, typename TeamType, typename Edge>
__device__ void weighted_rows(const TeamType &team, const Sources<float> &from, const Columns<kVec, kReps> &mine,
                              float *to, const Edge &edge_of) {
    float sums[kReps][kVec] = {};
    for (int64_t base = team.begin; base < team.end; base += kWarpSize) {
        const int64_t edge = base + team.lane();
        const int count = int(team.end - base < kWarpSize ? team.end - base : kWarpSize);
        int32_t column = 0;
        float weight = 0.0f;
        if (edge < team.end) edge_of(edge, &column, &weight);
#pragma unroll 4
        for (int k = 0; k < count; k++) {
            const float *row = source_row<true>(from, __shfl_sync(kAllLanes, column, k));
            const float factor = __shfl_sync(kAllLanes, weight, k);
#pragma unroll
            for (int rep = 0; rep < kReps; rep++)
                if (mine.has(rep)) {
                    const Run<float, kVec> run = load_run<float, kVec>(row + mine.at(rep));
#pragma unroll
                    for (int v = 0; v < kVec; v++) sums[rep][v] = multiply_add(factor, run.elements[v], sums[rep][v]);
                }
        }
    }
#pragma unroll
    for (int rep = 0; rep < kReps; rep++)
#pragma unroll
        for (int v = 0; v < kVec; v++) {
            const float sum = team.sum_warps(sums[rep][v]);
            if (team.writes() && mine.has(rep)) to[mine.at(rep) + v] = sum;
        }
}

// The heads' columns lie behind each other: those of a head, in tiles.
template <int kVec, int kReps> __device__ Columns<kVec, kReps> tile_of(int64_t head, int64_t features, int64_t tile) {
    return {head * features + tile * Columns<kVec, kReps>::kTile, (head + 1) * features};
}

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

template <int kVec, int kReps>
__global__ void __launch_bounds__(kThreads, 4)
    attend_rows(Matrix matrix, Sources<float> from, Logits logits, int64_t start, int64_t stop, int64_t features,
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
            weighted_rows<kVec, kReps>(team, from, tile_of<kVec, kReps>(head, features, tile), to,
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

template <int kVec, int kReps>
__global__ void __launch_bounds__(kThreads, 4)
    attend_columns(Matrix turned, const int32_t *places, int64_t start, int64_t stop, int64_t heads, int64_t features,
                   const float *x, int64_t x_stride, const float *source, const float *packed, const float *grad,
                   int64_t grad_stride, float slope, Gradients to) {
    const int64_t head = blockIdx.y;
    const Sources<float> from = plain_rows(grad, kEvery, grad_stride, nullptr, 0);
    for_rows(turned.indptr, start, stop, [&](const auto &team) {
        const int64_t local = team.row - start;
        const float own = source[local * heads + head], *own_x = x + local * x_stride;
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
                const float *other = grad + __shfl_sync(kAllLanes, row, k) * grad_stride;
                float product = 0.0f;
                for (int64_t tile = 0; tile * Columns<kVec, kReps>::kTile < features; tile++) {
                    const Columns<kVec, kReps> mine = tile_of<kVec, kReps>(head, features, tile);
#pragma unroll
                    for (int rep = 0; rep < kReps; rep++)
                        if (mine.has(rep)) {
                            const Run<float, kVec> a = load_run<float, kVec>(other + mine.at(rep));
                            const Run<float, kVec> b = load_run<float, kVec>(own_x + mine.at(rep));
#pragma unroll
                            for (int v = 0; v < kVec; v++) product = multiply_add(a.elements[v], b.elements[v], product);
                        }
                }
                product = sum_lanes(product);
                if (team.lane() == k) dot = product;
            }
            if (edge < team.end) {
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
            weighted_rows<kVec, kReps>(team, from, tile_of<kVec, kReps>(head, features, tile),
                                              to.x + local * to.x_stride,
                                              [&](int64_t edge, int32_t *column, float *weight) {
                                                  *column = turned.indices[edge];
                                                  *weight = attention_of(*column);
                                              });
    });
}

// Calls launch(kVec, kReps as types) with the widest loads that the addresses and the width of a head allow.
template <int kVec, int kReps> struct Shape {
    static constexpr int vec = kVec, reps = kReps;
};

template <typename Launch> int64_t by_shape(int64_t features, bool by_four, bool by_two, const Launch &launch) {
    if (by_four && features % 4 == 0 && features > 2 * kWarpSize) launch(Shape<4, 1>());
    else if (by_two && features % 2 == 0 && features > kWarpSize) launch(Shape<2, 1>());
    else launch(Shape<1, 1>());
    return cudaGetLastError();
}

template <int kVec> bool all_aligned(const Sources<float> &from) {
    return aligned<kVec>(from.rows, from.stride, 4) && (!from.halo || aligned<kVec>(from.halo, from.halo_stride, 4));
}

} // namespace

GNNQLAB_CUDA_EXPORT(attend)
(const int64_t *indptr, const int32_t *indices, int64_t start, int64_t stop, int64_t heads, int64_t features,
 const float *x, int64_t num_x, int64_t x_stride, const float *halo, int64_t halo_stride, const float *source,
 const float *halo_source, const float *target, float slope, float *out, int64_t out_stride, float *stats, int64_t,
 void *stream) {
    if (start >= stop || heads == 0) return cudaSuccess;
    const Sources<float> from = plain_rows(x, num_x, x_stride, halo, halo_stride);
    const Logits logits{plain_rows(source, num_x, heads, halo_source, heads), target, heads, slope};
    const Matrix matrix{indptr, indices, nullptr};
    return by_shape(features, all_aligned<4>(from), all_aligned<2>(from), [&](auto shape) {
        using S = decltype(shape);
        attend_rows<S::vec, S::reps><<<grid_of(stop - start, heads), kThreads, 0, cudaStream_t(stream)>>>(matrix, from, logits, start, stop,
                                                                                  features, out, out_stride, stats);
    });
}

GNNQLAB_CUDA_EXPORT(attend_backward)
(const int64_t *turned_indptr, const int32_t *turned_indices, const int32_t *turned_edges, int64_t start, int64_t stop,
 int64_t heads, int64_t features, const float *x, int64_t x_stride, const float *source, const float *packed,
 const float *grad, int64_t grad_stride, float slope, float *x_grad, int64_t x_grad_stride, float *source_grad,
 float *edge_grad, int64_t, void *stream) {
    if (start >= stop || heads == 0) return cudaSuccess;
    const Sources<float> from = plain_rows(grad, kEvery, grad_stride, nullptr, 0), own = plain_rows(x, kEvery, x_stride, nullptr, 0);
    const Matrix turned{turned_indptr, turned_indices, nullptr};
    const Gradients to{x_grad, source_grad, edge_grad, x_grad_stride};
    const bool by_four = all_aligned<4>(from) && all_aligned<4>(own), by_two = all_aligned<2>(from) && all_aligned<2>(own);
    return by_shape(features, by_four, by_two, [&](auto shape) {
        using S = decltype(shape);
        attend_columns<S::vec, S::reps><<<grid_of(stop - start, heads), kThreads, 0, cudaStream_t(stream)>>>(
            turned, turned_edges, start, stop, heads, features, x, x_stride, source, packed, grad, grad_stride, slope, to);
    });
}

} // namespace gnnqlab
