// Errors of codes between ends, norm and range of rows, on CUDA devices; arguments as on the CPU (cpu/row_errors.cpp),
// which takes threads where refusals are noted here. Sixteen lanes of a warp have a row: they are the lanes in which the
// reference sums it.
#include "core/row_errors.h"
#include "cuda/rows.cuh"

namespace gnnqlab {
namespace {

constexpr int rows_a_block = threads_a_block / sum_lanes;

// Over the sixteen lanes, half to half, in all of them; every lane of the warp comes here.
template <class T> __device__ inline T summed(T value) {
    for (int step = sum_lanes / 2; step; step /= 2) value += __shfl_xor_sync(all_lanes, value, step);
    return value;
}

__global__ void __launch_bounds__(threads_a_block)
    note_rows(const float *x, int64_t x_rows, int64_t x_stride, int64_t columns, const int64_t *rows, int64_t count,
              float *noted, unsigned long long *refused) {
    const int64_t i = int64_t(blockIdx.x) * rows_a_block + threadIdx.x / sum_lanes;
    const int lane = int(threadIdx.x) % sum_lanes;
    const int64_t at = i < count ? rows[i] : 0;
    const bool known = at >= 0 && at < x_rows, good = i < count && known;
    const float *row = x + (good ? at : 0) * x_stride;
    const int64_t end = good ? columns : 0;
    float lowest = good ? row[0] : 0.0f, highest = lowest;
    double square = 0.0;
    for (int64_t c = lane; c < end; c += sum_lanes) {
        const float v = row[c];
        lowest = v < lowest ? v : lowest, highest = v > highest ? v : highest;
        square += double(v) * double(v);
    }
    square = summed(square);
    for (int step = sum_lanes / 2; step; step /= 2) {
        const float low = __shfl_xor_sync(all_lanes, lowest, step), high = __shfl_xor_sync(all_lanes, highest, step);
        lowest = low < lowest ? low : lowest, highest = high > highest ? high : highest;
    }
    lowest += 0.0f, highest += 0.0f;  // -0 becomes +0
    const float range = highest - lowest;
    const bool finite = square <= 1.7976931348623157e308, constant = range < smallest_range;
    RowParameters params[error_widths];
    float left[error_widths] = {}, steps[error_widths];
#pragma unroll
    for (int k = 0; k < error_widths; k++) {
        params[k] = row_parameters(lowest, highest, !finite, 1 << k, true);
        steps[k] = 1.0f / params[k].scale;
    }
    for (int64_t c = lane; c < end; c += sum_lanes) {
        const float v = row[c];
#pragma unroll
        for (int k = 0; k < error_widths; k++) left[k] += fraction_left(v, params[k].zero, steps[k]);
    }
#pragma unroll
    for (int k = 0; k < error_widths; k++) left[k] = summed(left[k]);
    if (lane != 0 || i >= count) return;
    if (!good) return refuse(refused, i, no_such_row);
    if (!finite || !is_finite(range)) refuse(refused, i, non_finite);
    float *out = noted + i * noted_of_row;
#pragma unroll
    for (int k = 0; k < error_widths; k++) {
        const float error = params[k].scale * float(sqrt(double(left[k])));
        out[k] = constant ? 0.0f : params[k].finite ? error : INFINITY;
    }
    out[error_widths] = constant ? 0.0f : float(sqrt(square));
    out[error_widths + 1] = range;
}

}  // namespace
}  // namespace gnnqlab

using namespace gnnqlab;

GNNQLAB_CUDA_EXPORT(row_errors)
(const float *x, int64_t x_rows, int64_t x_stride, int64_t columns, const int64_t *rows, int64_t count, float *noted,
 unsigned long long *refused, void *stream) {
    if (count == 0 || columns == 0) return cudaSuccess;
    const unsigned grid = unsigned((count + rows_a_block - 1) / rows_a_block);
    note_rows<<<grid, threads_a_block, 0, cudaStream_t(stream)>>>(x, x_rows, x_stride, columns, rows, count, noted, refused);
    return cudaGetLastError();
}
