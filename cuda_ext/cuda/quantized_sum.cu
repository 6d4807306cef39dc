// Sums of rows that are quantized on the way, on CUDA devices; arguments as on the CPU (cpu/quantized_sum.cpp), which takes
// threads where refusals are noted here.
//
// A warp a row of the matrix and 256 columns of it, eight a lane. A row that is added is read whole for its largest
// magnitude, then again, from the cache, for its codes. Sums are added up as those of codes are (cuda/aggregate.cu), so they
// are the same bits.
#include "core/aggregate.h"
#include "core/quantize.h"
#include "cuda/blocks.cuh"
#include "cuda/teams.cuh"

namespace gnnqlab {
namespace {

struct SumCall {
    Matrix matrix;
    int64_t rows;
    const float *x;
    int64_t stride, columns;
    IndexList ids; // of the edges' rows
    int levels;
    const float *whole; // the largest magnitude of all rows, or null: each row goes by its own
    bool stochastic;
    Noise noise;
    float *out;
    unsigned long long *refused;
};

__device__ uint32_t largest_of_row(const float *x, int64_t columns, int lane) {
    uint32_t largest = 0;
    for (int64_t block = lane; block * block_columns < columns; block += kWarpSize) {
        float values[block_columns];
        load_block(x + block * block_columns, columns_in_block(block, columns), values);
#pragma unroll
        for (int c = 0; c < block_columns; c++) {
            const uint32_t bits = magnitude_bits(values[c]);
            largest = bits > largest ? bits : largest;
        }
    }
    for (int step = kWarpSize / 2; step; step /= 2) {
        const uint32_t other = __shfl_xor_sync(kAllLanes, largest, step);
        largest = other > largest ? other : largest;
    }
    return largest;
}

__global__ void __launch_bounds__(kThreads) sum_quantized(SumCall call) {
    for_rows(call.matrix.indptr, 0, call.rows, [&](const auto &team) {
        const int64_t block = int64_t(blockIdx.y) * kWarpSize + team.lane(), left = call.columns - block * block_columns;
        const int count = int(left < 0 ? 0 : left < block_columns ? left : block_columns);
        float sums[block_columns] = {};
        for (int64_t edge = team.begin; edge < team.end; edge++) {
            const int64_t source = call.matrix.indices[edge];
            const float *x = call.x + source * call.stride;
            const uint32_t largest = largest_of_row(x, call.columns, team.lane());
            if (largest >= not_finite) { // the same for all lanes
                if (team.lane() == 0) refuse(call.refused, source, non_finite);
                continue;
            }
            if (count == 0) continue;
            const Symmetric row = symmetric(call.whole ? magnitude_bits(*call.whole) : largest, float(call.levels));
            float values[block_columns];
            load_block(x + block * block_columns, count, values);
            Words words = {};
            if (call.stochastic) words = philox(call.noise, uint32_t(call.ids[edge]), uint32_t(block));
#pragma unroll
            for (int c = 0; c < block_columns; c++) {
                const int noise = call.stochastic ? int(noise_bits(words, c)) : half_step;
                const int code = symmetric_code(round_to_int(values[c] * row.steps), noise, call.levels);
                sums[c] = multiply_add(row.scale, float(code), sums[c]);
            }
        }
#pragma unroll
        for (int c = 0; c < block_columns; c++) sums[c] = team.sum_warps(sums[c]);
        if (team.writes() && count) store_block(call.out + team.row * call.columns + block * block_columns, count, sums);
    });
}

} // namespace

GNNQLAB_CUDA_EXPORT(quantized_sum)
(const int64_t *indptr, const int32_t *indices, int64_t rows, const float *x, int64_t stride, int64_t columns,
 const void *ids, int64_t ids_narrow, float levels, const float *whole, int64_t stochastic, int64_t seed, int64_t epoch,
 int64_t noise_stream, float *out, unsigned long long *refused, void *stream) {
    if (rows == 0 || columns == 0) return cudaSuccess;
    const SumCall call{{indptr, indices, nullptr}, rows, x, stride, columns, {ids, ids_narrow != 0}, int(levels), whole,
                       stochastic != 0, make_noise(seed, epoch, noise_stream), out, refused};
    constexpr int64_t kTile = kWarpSize * block_columns;
    const dim3 grid = grid_of(rows, (columns + kTile - 1) / kTile);
    sum_quantized<<<grid, kThreads, 0, cudaStream_t(stream)>>>(call);
    return cudaGetLastError();
}

} // namespace gnnqlab
