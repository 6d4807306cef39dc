// Sums over rows whose scales differ, on tensor cores: a code is a bfloat16 number as it is, and a code times its row's scales
// is the sum of three, which hold the 24 bits of its float32 value. So a product of tiles is made of three, whose terms are
// exact: nothing is rounded but what the CPU rounds (cpu/int8_scaled.cpp), a code times its scales and the float32 sums.
// A tensor core multiplies sixteen times as many terms of bfloat16 as the other units of float32 (A100, H100), so that three
// products cost a fifth of one in float32.
//
// Tiles, threads and pieces are those of cuda/int8_mm.cu. Shares of the terms have sums of their own, added up in their order:
// no atomic addition, so the same bits each time.
#include "core/bfloat16.h"
#include "cuda/code_pieces.cuh"
#include "cuda/tensor_core.cuh"

namespace gnnqlab {
namespace {

constexpr int kParts = 3;
constexpr int kPitch = kTerms * 2 + 16; // bytes between rows in shared memory: their words lie in different banks
constexpr int kStep = 16;               // terms of one product of tiles

// Two bfloat16 numbers, the first in the lower half: the upper halves of two float32.
__device__ inline uint32_t upper_halves(uint32_t first, uint32_t second) { return __byte_perm(first, second, 0x7632); }

// Byte k of a word as a number. 2^23 + 128 + code is a float32 whose last bits are those of code + 128.
__device__ inline float code_of(uint32_t word, int k) {
    return bits_float(0x4B000000u | ((word ^ 0x80808080u) >> (8 * k) & 0xFFu)) - 8388736.0f;
}

// Four terms of a row.
__device__ inline void store_codes(uint32_t word, int8_t *to) {
    ((uint32_t *)to)[0] = upper_halves(float_bits(code_of(word, 0)), float_bits(code_of(word, 1)));
    ((uint32_t *)to)[1] = upper_halves(float_bits(code_of(word, 2)), float_bits(code_of(word, 3)));
}

// Their parts: what is cut off an upper half is exact, and has eight bits less.
__device__ inline void store_parts(uint32_t word, const float (&scales)[4], int8_t *to) {
    float left[4];
#pragma unroll
    for (int k = 0; k < 4; k++) left[k] = code_of(word, k) * scales[k];
#pragma unroll
    for (int part = 0; part < kParts; part++) {
        uint32_t bits[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            bits[k] = float_bits(left[k]);
            left[k] -= bits_float(bits[k] & 0xFFFF0000u);
        }
        uint32_t *words = (uint32_t *)(to + part * kTile * kPitch);
        words[0] = upper_halves(bits[0], bits[1]);
        words[1] = upper_halves(bits[2], bits[3]);
    }
}

// Block x: a tile, those of the same rows one after another. Block y: a share of the terms.
__global__ void __launch_bounds__(kThreads, 4)
    multiply_scaled(Factor a, Factor b, const float *scales, int64_t all_terms, int64_t share, float *out) {
    alignas(16) __shared__ int8_t a_tile[kTile * kPitch], b_tiles[kParts * kTile * kPitch];
    const int64_t across = (b.rows + kTile - 1) / kTile;
    const int64_t first_row = int64_t(blockIdx.x) / across * kTile, first_column = blockIdx.x % across * kTile;
    const int64_t begin = int64_t(blockIdx.y) * share, end = begin + share < all_terms ? begin + share : all_terms;
    const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
    const int warp_row = warp % 4 * kWarpRows, warp_column = warp / 4 * kWarpColumns;

    const bool brings_a = threadIdx.x < kThreads / 2;
    const Piece<true> mine(brings_a ? a : b, brings_a ? first_row : first_column);
    const int64_t stride = brings_a ? a.stride : b.stride;
    int8_t *to = (brings_a ? a_tile : b_tiles) + mine.row * kPitch + mine.term * 2;
    uint4 next;
    float next_scales[4] = {};
    const auto load = [&](int64_t term) {
        next = mine.load(stride, term, end);
        if (brings_a) return;
#pragma unroll
        for (int k = 0; k < 4; k++) next_scales[k] = term + mine.term + k < end ? scales[term + mine.term + k] : 0.0f;
    };
    const auto store = [&] {
        const uint4 rows = turned(next);
        const uint32_t words[4] = {rows.x, rows.y, rows.z, rows.w};
#pragma unroll
        for (int r = 0; r < 4; r++) {
            if (brings_a) store_codes(words[r], to + r * kPitch);
            else store_parts(words[r], next_scales, to + r * kPitch);
        }
    };
    float sums[4][4] = {};
    load(begin);
    for (int64_t term = begin; term < end; term += kTerms) {
        __syncthreads(); // nobody reads the tiles before these any more
        store();
        __syncthreads();
        if (term + kTerms < end) load(term + kTerms); // while these are multiplied
#pragma unroll
        for (int step = 0; step < kTerms / kStep; step++) {
            uint32_t left[4], right[2];
            load_left(a_tile + warp_row * kPitch + step * 2 * kStep, kPitch, lane, left);
#pragma unroll
            for (int j = 0; j < 4; j++)
#pragma unroll
                for (int part = kParts - 1; part >= 0; part--) { // the smallest first
                    const int8_t *tile = b_tiles + part * kTile * kPitch + (warp_column + j * mma_columns) * kPitch;
                    load_right(tile + step * 2 * kStep, kPitch, lane, right);
                    multiply_add_tile(sums[j], left, right);
                }
        }
    }
    float *to_share = out + int64_t(blockIdx.y) * a.rows * b.rows;
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int64_t row = first_row + warp_row + sum_row(lane, e);
            const int64_t column = first_column + warp_column + j * mma_columns + sum_column(lane, e);
            if (row < a.rows && column < b.rows) to_share[row * b.rows + column] = sums[j][e];
        }
}

__global__ void __launch_bounds__(kThreads)
    add_shares(const float *from, int64_t count, int64_t columns, int64_t shares, float *out, int64_t out_stride,
               bool accumulate) {
    const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
    if (i >= count) return;
    float sum = 0.0f;
    for (int64_t share = 0; share < shares; share++) sum += from[share * count + i];
    float *to = out + i / columns * out_stride + i % columns;
    *to = accumulate ? *to + sum : sum;
}

} // namespace

// out[m, n] = or += sum_k scales[k] a[k, m] b[k, n], with sums of each share of the terms in `room`, (shares, rows, columns);
// `threads` is not used.
GNNQLAB_CUDA_EXPORT(int8_mm_shared)
(const int8_t *a, int64_t a_stride, const int8_t *b, int64_t b_stride, const float *scales, int64_t rows, int64_t columns,
 int64_t terms, float *room, int64_t shares, float *out, int64_t out_stride, int64_t accumulate, int64_t,
 void *stream) {
    if (rows == 0 || columns == 0) return cudaSuccess;
    const Factor left{a, a_stride, rows}, right{b, b_stride, columns};
    if (!fits(left, 4) || !fits(right, 4)) return cudaErrorInvalidValue;
    const int64_t pieces = (terms + kTerms - 1) / kTerms, share = (pieces + shares - 1) / shares * kTerms;
    const int64_t used = terms ? (terms + share - 1) / share : 0, count = rows * columns;
    const dim3 grid(tiles(left, right), unsigned(used));
    if (used) multiply_scaled<<<grid, kThreads, 0, cudaStream_t(stream)>>>(left, right, scales, terms, share, room);
    const unsigned over = unsigned((count + kThreads - 1) / kThreads);
    add_shares<<<over, kThreads, 0, cudaStream_t(stream)>>>(room, count, columns, used, out, out_stride, accumulate != 0);
    return cudaGetLastError();
}

} // namespace gnnqlab
