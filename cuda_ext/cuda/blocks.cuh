// Eight columns to a lane: the columns that share one block of noise. Loads and stores are 16 bytes wide where the row
// allows it.
#pragma once

#include <cuda_runtime.h>

#include "core/codec.h"

#ifndef GNNQLAB_CUDA_EXPORT
#define GNNQLAB_CUDA_EXPORT(name) extern "C" __attribute__((visibility("default"))) int64_t gnnqlab_##name##_cuda
#endif

namespace gnnqlab {
namespace {

struct IndexList {
    const void *list;  // or null: 0, 1, 2, ...
    bool narrow;
    __device__ int64_t operator[](int64_t i) const {
        if (!list) return i;
        return narrow ? int64_t(((const int32_t *)list)[i]) : ((const int64_t *)list)[i];
    }
};

// The call's first refused position is kept for whoever asks later; nothing here waits for it.
__device__ inline void refuse(unsigned long long *refused, int64_t position, int64_t reason) {
    atomicMin(refused, (unsigned long long)(position * 8 + reason));
}

__device__ inline int columns_in_block(int64_t block, int64_t columns) {
    const int64_t left = columns - block * block_columns;
    return int(left < block_columns ? left : block_columns);
}

__device__ inline bool wide(const void *address) { return (uintptr_t(address) & 15) == 0; }

__device__ inline void load_block(const float *x, int count, float *out) {
    if (count == block_columns && wide(x)) {
        const float4 a = ((const float4 *)x)[0], b = ((const float4 *)x)[1];
        out[0] = a.x, out[1] = a.y, out[2] = a.z, out[3] = a.w;
        out[4] = b.x, out[5] = b.y, out[6] = b.z, out[7] = b.w;
    } else {
#pragma unroll
        for (int c = 0; c < block_columns; c++) out[c] = c < count ? x[c] : 0.0f;
    }
}

__device__ inline void load_block(const Bfloat16 *x, int count, float *out) {
    if (count == block_columns && wide(x)) {
        const uint4 words = *(const uint4 *)x;
        const uint32_t pairs[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
        for (int c = 0; c < block_columns; c++) out[c] = bits_float(c % 2 ? pairs[c / 2] & 0xFFFF0000u : pairs[c / 2] << 16);
    } else {
#pragma unroll
        for (int c = 0; c < block_columns; c++) out[c] = c < count ? to_float(x[c]) : 0.0f;
    }
}

__device__ inline void store_block(float *out, int count, const float *x) {
    if (count == block_columns && wide(out)) {
        ((float4 *)out)[0] = make_float4(x[0], x[1], x[2], x[3]);
        ((float4 *)out)[1] = make_float4(x[4], x[5], x[6], x[7]);
    } else {
#pragma unroll
        for (int c = 0; c < block_columns; c++)
            if (c < count) out[c] = x[c];
    }
}

__device__ inline void store_block(Bfloat16 *out, int count, const float *x) {
    if (count == block_columns && wide(out)) {
        uint32_t pairs[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            pairs[k] = uint32_t(to_bfloat16(x[2 * k]).bits) | uint32_t(to_bfloat16(x[2 * k + 1]).bits) << 16;
        *(uint4 *)out = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
    } else {
#pragma unroll
        for (int c = 0; c < block_columns; c++)
            if (c < count) out[c] = to_bfloat16(x[c]);
    }
}

// An unsigned integer of b bytes: what a block of b-bit codes fills.
template <int b> struct Packed;
template <> struct Packed<1> { using type = uint8_t; };
template <> struct Packed<2> { using type = uint16_t; };
template <> struct Packed<4> { using type = uint32_t; };
template <> struct Packed<8> { using type = unsigned long long; };

template <int b> __device__ inline void store_packed(uint8_t *out, int count, uint64_t packed) {
    if (count == block_columns && uintptr_t(out) % b == 0) {
        *(typename Packed<b>::type *)out = typename Packed<b>::type(packed);
    } else {
        for (int byte = 0; byte < row_bytes(count, b); byte++) out[byte] = uint8_t(packed >> (8 * byte));
    }
}

template <int b> __device__ inline uint64_t load_packed(const uint8_t *in, int count) {
    if (count == block_columns && uintptr_t(in) % b == 0) return *(const typename Packed<b>::type *)in;
    uint64_t packed = 0;
    for (int byte = 0; byte < row_bytes(count, b); byte++) packed |= uint64_t(in[byte]) << (8 * byte);
    return packed;
}

}  // namespace
}  // namespace gnnqlab
