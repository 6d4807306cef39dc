// Products along edges whose rows are int8 codes; arguments as on the CPU (cpu/int8_edges.cpp), `threads` is not used.
//
// Sums go by a warp a row and head (cuda/weighted.cuh). Where an edge has a result of its own, a warp's lanes are shared out
// among several edges: as many to an edge as its codes have loads.
#include <type_traits>

#include "core/aggregate.h"
#include "cuda/weighted.cuh"

namespace gnnqlab {
namespace {

// Lanes of a warp that one edge gets: 2^log_size.
inline int group_log_size(int64_t columns, int64_t width) {
    int log_size = 0;
    while (log_size < 5 && (width << log_size) < columns) log_size++;
    return log_size;
}

// Calls work(edge, lane, size) for the team's edges, so many at a time as groups of lanes fit a warp; beyond the last edge
// `edge` is -1, because lanes shuffle together.
template <typename TeamType, typename Work>
__device__ void for_edges(const TeamType &team, int log_size, const Work &work) {
    const int at_once = kWarpSize >> log_size, size = 1 << log_size;
    for (int64_t base = team.begin; base < team.end; base += at_once) {
        const int64_t edge = base + (team.lane() >> log_size);
        work(edge < team.end ? edge : -1, team.lane() & (size - 1), size);
    }
}

template <int kBytes> __device__ int dot_run(const int8_t *a, const int8_t *b, int sum) {
    if constexpr (kBytes == 1) {
        return sum + int(*a) * int(*b);
    } else {
        using Words = Run<int, kBytes / 4>;
        const Words x = *reinterpret_cast<const Words *>(a), y = *reinterpret_cast<const Words *>(b);
#pragma unroll
        for (int w = 0; w < kBytes / 4; w++) sum = __dp4a(x.elements[w], y.elements[w], sum);
        return sum;
    }
}

template <int kBytes>
__global__ void __launch_bounds__(kThreads, 4)
    dot_codes(Matrix matrix, Sources<int8_t> from, int64_t rows, int64_t heads, int64_t features, Sources<int8_t> own,
              float *edge_out, int log_size) {
    const int64_t head = blockIdx.y, first = head * features;
    for_rows(matrix.indptr, 0, rows, [&](const auto &team) {
        const int8_t *y = own.rows + team.row * own.stride + first;
        const float y_scale = own.scales[team.row];
        for_edges(team, log_size, [&](int64_t edge, int lane, int size) {
            const int32_t column = edge < 0 ? 0 : matrix.indices[edge];
            int sum = 0;
            if (edge >= 0) {
                const int8_t *x = source_row<false>(from, column) + first;
                for (int64_t at = int64_t(lane) * kBytes; at < features; at += int64_t(size) * kBytes)
                    sum = dot_run<kBytes>(x + at, y + at, sum);
            }
            for (int step = size / 2; step; step /= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
            if (edge >= 0 && lane == 0)
                edge_out[edge * heads + head] = float(sum) * y_scale * *source_scale<false>(from, column);
        });
    });
}

template <int kVec>
__global__ void __launch_bounds__(kThreads, 4)
    add_codes(Matrix matrix, Sources<int8_t> from, int64_t rows, int64_t columns, Sources<int8_t> own, float *edge_out,
              int log_size) {
    for_rows(matrix.indptr, 0, rows, [&](const auto &team) {
        const int8_t *y = own.rows + team.row * own.stride;
        const float y_scale = own.scales[team.row];
        for_edges(team, log_size, [&](int64_t edge, int lane, int size) {
            if (edge < 0) return;
            const int32_t column = matrix.indices[edge];
            const int8_t *x = source_row<false>(from, column);
            const float x_scale = *source_scale<false>(from, column);
            float *to = edge_out + edge * columns;
            for (int64_t at = int64_t(lane) * kVec; at < columns; at += int64_t(size) * kVec) {
                const Run<int8_t, kVec> theirs = load_run<int8_t, kVec>(x + at), ours = load_run<int8_t, kVec>(y + at);
                Run<float, kVec> sums;
#pragma unroll
                for (int v = 0; v < kVec; v++)
                    sums.elements[v] = float(theirs.elements[v]) * x_scale + float(ours.elements[v]) * y_scale;
                *reinterpret_cast<Run<float, kVec> *>(to + at) = sums;
            }
        });
    });
}

template <int kVec, int kReps>
__global__ void __launch_bounds__(kThreads, 4)
    sum_heads(Matrix matrix, Sources<int8_t> from, int64_t rows, int64_t heads, int64_t features, const float *weights,
              float *out, int64_t out_stride) {
    const int64_t head = blockIdx.y;
    for_rows(matrix.indptr, 0, rows, [&](const auto &team) {
        for (int64_t tile = 0; tile * Columns<kVec, kReps>::kTile < features; tile++)
            weighted_rows<int8_t, kVec, kReps>(team, from, tile_of<kVec, kReps>(head, features, tile),
                                               out + team.row * out_stride,
                                               [&](int64_t edge, int32_t *column, float *weight) {
                                                   *column = matrix.indices[edge];
                                                   *weight = weights[edge * heads + head];
                                               });
    });
}

template <int kBytes>
int64_t dot_launch(const Matrix &matrix, const Sources<int8_t> &from, int64_t rows, int64_t heads, int64_t features,
                   const Sources<int8_t> &own, float *edge_out, cudaStream_t stream) {
    dot_codes<kBytes><<<grid_of(rows, heads), kThreads, 0, stream>>>(matrix, from, rows, heads, features, own, edge_out,
                                                                     group_log_size(features, kBytes));
    return cudaGetLastError();
}

template <int kVec>
int64_t add_launch(const Matrix &matrix, const Sources<int8_t> &from, int64_t rows, int64_t columns,
                   const Sources<int8_t> &own, float *edge_out, cudaStream_t stream) {
    add_codes<kVec><<<grid_of(rows), kThreads, 0, stream>>>(matrix, from, rows, columns, own, edge_out,
                                                            group_log_size(columns, kVec));
    return cudaGetLastError();
}

Sources<int8_t> code_rows(const int8_t *x, int64_t num_x, int64_t stride, const float *scales) {
    return {x, num_x, stride, scales, nullptr, 0, nullptr};
}

} // namespace

GNNQLAB_CUDA_EXPORT(int8_weighted_sum)
(const int64_t *indptr, const int32_t *indices, int64_t rows, int64_t heads, int64_t features, const float *weights,
 const int8_t *x, int64_t num_x, int64_t x_stride, const float *x_scales, float *out, int64_t out_stride, int64_t,
 void *stream) {
    if (rows == 0 || heads == 0) return cudaSuccess;
    const Sources<int8_t> from = code_rows(x, num_x, x_stride, x_scales);
    return by_shape(features, all_aligned<4>(from), all_aligned<2>(from), [&](auto shape) {
        using S = decltype(shape);
        sum_heads<S::vec, S::reps><<<grid_of(rows, heads), kThreads, 0, cudaStream_t(stream)>>>(
            Matrix{indptr, indices, nullptr}, from, rows, heads, features, weights, out, out_stride);
    });
}

GNNQLAB_CUDA_EXPORT(int8_sddmm_dot)
(const int64_t *indptr, const int32_t *indices, int64_t rows, int64_t heads, int64_t features, const int8_t *x,
 int64_t num_x, int64_t x_stride, const float *x_scales, const int8_t *y, int64_t y_stride, const float *y_scales,
 float *edge_out, int64_t, void *stream) {
    if (rows == 0 || heads == 0) return cudaSuccess;
    const Matrix matrix{indptr, indices, nullptr};
    const Sources<int8_t> from = code_rows(x, num_x, x_stride, x_scales), own = code_rows(y, rows, y_stride, y_scales);
    const auto fits = [&](auto bytes) {
        constexpr int size = decltype(bytes)::value;
        return features % size == 0 && all_aligned<size>(from) && all_aligned<size>(own);
    };
    const cudaStream_t on = cudaStream_t(stream);
    if (fits(std::integral_constant<int, 16>())) return dot_launch<16>(matrix, from, rows, heads, features, own, edge_out, on);
    if (fits(std::integral_constant<int, 4>())) return dot_launch<4>(matrix, from, rows, heads, features, own, edge_out, on);
    return dot_launch<1>(matrix, from, rows, heads, features, own, edge_out, on);
}

GNNQLAB_CUDA_EXPORT(int8_sddmm_add)
(const int64_t *indptr, const int32_t *indices, int64_t rows, int64_t columns, const int8_t *x, int64_t num_x,
 int64_t x_stride, const float *x_scales, const int8_t *y, int64_t y_stride, const float *y_scales, float *edge_out,
 int64_t, void *stream) {
    if (rows == 0 || columns == 0) return cudaSuccess;
    const Matrix matrix{indptr, indices, nullptr};
    const Sources<int8_t> from = code_rows(x, num_x, x_stride, x_scales), own = code_rows(y, rows, y_stride, y_scales);
    const bool wide = columns % 4 == 0 && all_aligned<4>(from) && all_aligned<4>(own) && aligned<4>(edge_out, 0, 4);
    return wide ? add_launch<4>(matrix, from, rows, columns, own, edge_out, cudaStream_t(stream))
                : add_launch<1>(matrix, from, rows, columns, own, edge_out, cudaStream_t(stream));
}

} // namespace gnnqlab
