// The parts of attention on CUDA devices; arguments as on the CPU (cpu/attention.cpp), `threads` is not used.
#include "core/attention.h"
#include "cuda/teams.cuh"

namespace gnnqlab {
namespace {

__global__ void __launch_bounds__(kThreads)
    dot_edges(Matrix matrix, Sources<float> from, int64_t rows, int64_t heads, int64_t features, const float *y,
              int64_t y_stride, float *edge_out) {
    const int64_t head = blockIdx.y;
    for_rows(matrix.indptr, 0, rows, [&](const auto &team) {
        const float *own = y + team.row * y_stride + head * features;
        for (int64_t edge = team.begin; edge < team.end; edge++) {
            const float *other = source_row<true>(from, matrix.indices[edge]) + head * features;
            float product = 0.0f;
            for (int64_t f = team.lane(); f < features; f += kWarpSize) product = multiply_add(other[f], own[f], product);
            product = sum_lanes(product);
            if (team.lane() == 0) edge_out[edge * heads + head] = product;
        }
    });
}

__global__ void __launch_bounds__(kThreads)
    add_edges(Matrix matrix, Sources<float> logits, int64_t rows, int64_t heads, const float *target, float *edge_out) {
    for_rows(matrix.indptr, 0, rows, [&](const auto &team) {
        for (int64_t at = team.begin * heads + team.lane(); at < team.end * heads; at += kWarpSize) {
            const int64_t edge = at / heads, head = at % heads;
            edge_out[at] = source_row<true>(logits, matrix.indices[edge])[head] + target[team.row * heads + head];
        }
    });
}

__global__ void __launch_bounds__(kThreads)
    softmax_edges(const int64_t *indptr, int64_t rows, int64_t heads, const float *logits, float *attention) {
    const int64_t head = blockIdx.y;
    for_rows(indptr, 0, rows, [&](const auto &team) {
        float top = kLeast, sum = 0.0f;
        for (int64_t edge = team.begin + team.lane(); edge < team.end; edge += kWarpSize) {
            const float own = logits[edge * heads + head];
            top = own > top ? own : top;
        }
        top = team.largest(top);
        for (int64_t edge = team.begin + team.lane(); edge < team.end; edge += kWarpSize)
            sum += exponential(logits[edge * heads + head] - top);
        const float factor = 1.0f / team.sum(sum);
        for (int64_t edge = team.begin + team.lane(); edge < team.end; edge += kWarpSize)
            attention[edge * heads + head] = exponential(logits[edge * heads + head] - top) * factor;
    });
}

__global__ void __launch_bounds__(kThreads)
    softmax_gradient(const int64_t *indptr, int64_t rows, int64_t heads, const float *attention, const float *grad,
                     float *logits_grad) {
    const int64_t head = blockIdx.y;
    for_rows(indptr, 0, rows, [&](const auto &team) {
        float dot = 0.0f;
        for (int64_t edge = team.begin + team.lane(); edge < team.end; edge += kWarpSize)
            dot = multiply_add(attention[edge * heads + head], grad[edge * heads + head], dot);
        dot = team.sum(dot);
        for (int64_t edge = team.begin + team.lane(); edge < team.end; edge += kWarpSize) {
            const int64_t at = edge * heads + head;
            logits_grad[at] = edge_gradient(attention[at], grad[at], dot, 1.0f);
        }
    });
}

__global__ void __launch_bounds__(kThreads)
    sum_edges(const int64_t *indptr, const int32_t *places, int64_t rows, int64_t heads, const float *values, float *out) {
    const int64_t head = blockIdx.y;
    for_rows(indptr, 0, rows, [&](const auto &team) {
        float sum = 0.0f;
        for (int64_t edge = team.begin + team.lane(); edge < team.end; edge += kWarpSize)
            sum += values[(places ? int64_t(places[edge]) : edge) * heads + head];
        sum = team.sum(sum);
        if (team.writes() && team.lane() == 0) out[team.row * heads + head] = sum;
    });
}

__global__ void __launch_bounds__(kThreads)
    weighted_rows(Matrix matrix, const int32_t *places, Sources<float> from, int64_t rows, int64_t heads,
                  int64_t features, const float *weights, float *out, int64_t out_stride) {
    const int64_t head = blockIdx.y;
    for_rows(matrix.indptr, 0, rows, [&](const auto &team) {
        for (int64_t first = 0; first < features; first += kWarpSize) {
            const int64_t f = first + team.lane();
            float sum = 0.0f;
            for (int64_t edge = team.begin; edge < team.end; edge++) {
                const float weight = weights[(places ? int64_t(places[edge]) : edge) * heads + head];
                if (f < features)
                    sum = multiply_add(weight, source_row<true>(from, matrix.indices[edge])[head * features + f], sum);
            }
            sum = team.sum_warps(sum);
            if (team.writes() && f < features) out[team.row * out_stride + head * features + f] = sum;
        }
    });
}

} // namespace

GNNQLAB_CUDA_EXPORT(sddmm_dot)
(const int64_t *indptr, const int32_t *indices, int64_t rows, int64_t heads, int64_t features, const float *x,
 int64_t num_x, int64_t x_stride, const float *halo, int64_t halo_stride, const float *y, int64_t y_stride,
 float *edge_out, int64_t, void *stream) {
    if (rows == 0 || heads == 0) return cudaSuccess;
    dot_edges<<<grid_of(rows, heads), kThreads, 0, cudaStream_t(stream)>>>(
        Matrix{indptr, indices, nullptr}, plain_rows(x, num_x, x_stride, halo, halo_stride), rows, heads, features, y,
        y_stride, edge_out);
    return cudaGetLastError();
}

GNNQLAB_CUDA_EXPORT(sddmm_add)
(const int64_t *indptr, const int32_t *indices, int64_t rows, int64_t heads, const float *source, int64_t num_source,
 const float *halo_source, const float *target, float *edge_out, int64_t, void *stream) {
    if (rows == 0 || heads == 0) return cudaSuccess;
    add_edges<<<grid_of(rows), kThreads, 0, cudaStream_t(stream)>>>(
        Matrix{indptr, indices, nullptr}, plain_rows(source, num_source, heads, halo_source, heads), rows, heads, target,
        edge_out);
    return cudaGetLastError();
}

GNNQLAB_CUDA_EXPORT(segment_softmax)
(const int64_t *indptr, int64_t rows, int64_t heads, const float *logits, float *attention, int64_t, void *stream) {
    if (rows == 0 || heads == 0) return cudaSuccess;
    softmax_edges<<<grid_of(rows, heads), kThreads, 0, cudaStream_t(stream)>>>(indptr, rows, heads, logits, attention);
    return cudaGetLastError();
}

GNNQLAB_CUDA_EXPORT(segment_softmax_backward)
(const int64_t *indptr, int64_t rows, int64_t heads, const float *attention, const float *grad, float *logits_grad,
 int64_t, void *stream) {
    if (rows == 0 || heads == 0) return cudaSuccess;
    softmax_gradient<<<grid_of(rows, heads), kThreads, 0, cudaStream_t(stream)>>>(indptr, rows, heads, attention, grad,
                                                                                 logits_grad);
    return cudaGetLastError();
}

GNNQLAB_CUDA_EXPORT(weighted_sum)
(const int64_t *indptr, const int32_t *indices, const int32_t *places, int64_t rows, int64_t heads, int64_t features,
 const float *weights, const float *x, int64_t num_x, int64_t x_stride, const float *halo, int64_t halo_stride,
 float *out, int64_t out_stride, int64_t, void *stream) {
    if (rows == 0 || heads == 0) return cudaSuccess;
    weighted_rows<<<grid_of(rows, heads), kThreads, 0, cudaStream_t(stream)>>>(
        Matrix{indptr, indices, nullptr}, places, plain_rows(x, num_x, x_stride, halo, halo_stride), rows, heads, features,
        weights, out, out_stride);
    return cudaGetLastError();
}

GNNQLAB_CUDA_EXPORT(segment_sum)
(const int64_t *indptr, const int32_t *places, int64_t rows, int64_t heads, const float *values, float *out, int64_t,
 void *stream) {
    if (rows == 0 || heads == 0) return cudaSuccess;
    sum_edges<<<grid_of(rows, heads), kThreads, 0, cudaStream_t(stream)>>>(indptr, places, rows, heads, values, out);
    return cudaGetLastError();
}

} // namespace gnnqlab
