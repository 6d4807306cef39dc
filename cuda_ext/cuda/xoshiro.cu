// Rows to symmetric codes with noise that never leaves the registers, on CUDA devices; arguments as on the CPU
// (cpu/xoshiro.cpp), which takes threads where refusals are noted here.
//
// Eight lanes of a warp are the eight generators of a block of 64 rows, and round these one after another. A draw gives each
// lane the noise of the four columns that it loads and stores, 128 bytes side by side.
#include "core/quantize.h"
#include "core/xoshiro.h"
#include "cuda/blocks.cuh"
#include "cuda/teams.cuh"

namespace gnnqlab {
namespace {

constexpr int kColumns = draw_columns / xoshiro_lanes; // of a lane
static_assert(kColumns == 4);

struct XoshiroCall {
    const float *x;
    int64_t stride, rows, columns;
    int levels;
    int64_t seed;
    int8_t *codes;
    int64_t codes_stride;
    float *scales;
    unsigned long long *refused;
};

__device__ inline void load_four(const float *x, int64_t left, float (&values)[kColumns]) {
    if (left >= kColumns && wide(x)) {
        const float4 four = *(const float4 *)x;
        values[0] = four.x, values[1] = four.y, values[2] = four.z, values[3] = four.w;
    } else {
#pragma unroll
        for (int c = 0; c < kColumns; c++) values[c] = c < left ? x[c] : 0.0f;
    }
}

// Over the row, in all eight lanes.
__device__ inline uint32_t largest_of_four(const float *x, int64_t columns, int lane) {
    uint32_t largest = 0;
    for (int64_t c = lane * kColumns; c < columns; c += draw_columns) {
        float values[kColumns];
        load_four(x + c, columns - c, values);
#pragma unroll
        for (int k = 0; k < kColumns; k++) {
            const uint32_t bits = magnitude_bits(values[k]);
            largest = bits > largest ? bits : largest;
        }
    }
    for (int step = xoshiro_lanes / 2; step; step /= 2) {
        const uint32_t other = __shfl_xor_sync(kAllLanes, largest, step);
        largest = other > largest ? other : largest;
    }
    return largest;
}

__global__ void __launch_bounds__(kThreads) quantize_by_xoshiro(XoshiroCall call) {
    const int64_t thread = int64_t(blockIdx.x) * kThreads + threadIdx.x, block = thread / xoshiro_lanes;
    const int lane = threadIdx.x % xoshiro_lanes;
    uint64_t state[xoshiro_words];
#pragma unroll
    for (int word = 0; word < xoshiro_words; word++) state[word] = xoshiro_state(call.seed, block, lane, word);
    for (int64_t k = 0; k < block_rows; k++) { // as many for all lanes of a warp, which meet in each
        const int64_t i = block * block_rows + k;
        const bool here = i < call.rows;
        const float *x = call.x + (here ? i : 0) * call.stride;
        const uint32_t largest = largest_of_four(x, here ? call.columns : 0, lane);
        if (!here) continue;
        if (largest >= not_finite) {
            if (lane == 0) refuse(call.refused, i, non_finite);
            continue;
        }
        const Symmetric row = symmetric(largest, float(call.levels));
        if (lane == 0) call.scales[i] = row.scale;
        for (int64_t first = 0; first < call.columns; first += draw_columns) {
            const uint64_t drawn = xoshiro_next(state); // by every lane, whether it has columns left or not
            const int64_t c = first + lane * kColumns, left = call.columns - c;
            float values[kColumns];
            load_four(x + c, left, values);
            uint32_t packed = 0;
#pragma unroll
            for (int j = 0; j < kColumns; j++) {
                const int noise = int(drawn >> (16 * j) & 0xFFFF);
                const int code = symmetric_code(round_to_int(values[j] * row.steps), noise, call.levels);
                packed |= uint32_t(code & 0xFF) << (8 * j);
            }
            int8_t *to = call.codes + i * call.codes_stride + c;
            if (left >= kColumns && uintptr_t(to) % kColumns == 0) *(uint32_t *)to = packed;
            else
                for (int j = 0; j < kColumns && j < left; j++) to[j] = int8_t(packed >> (8 * j));
        }
    }
}

} // namespace

GNNQLAB_CUDA_EXPORT(quantize_xoshiro)
(const float *x, int64_t stride, int64_t rows, int64_t columns, float levels, int64_t seed, int8_t *codes,
 int64_t codes_stride, float *scales, unsigned long long *refused, void *stream) {
    if (rows == 0 || columns == 0) return cudaSuccess;
    const int64_t lanes = (rows + block_rows - 1) / block_rows * xoshiro_lanes;
    const unsigned grid = unsigned((lanes + kThreads - 1) / kThreads);
    quantize_by_xoshiro<<<grid, kThreads, 0, cudaStream_t(stream)>>>(
        {x, stride, rows, columns, int(levels), seed, codes, codes_stride, scales, refused});
    return cudaGetLastError();
}

} // namespace gnnqlab
