// Dropout's mask of eight columns of a row, drawn where it is needed.
#pragma once

#include "cuda/rows.cuh"

namespace gnnqlab {
namespace {

struct Drop {
    Noise noise;
    IndexList ids;
    uint32_t threshold;  // 0: no mask is drawn
    float factor;
};

__device__ inline void mask(const Drop &drop, uint32_t id, int64_t block, float *values) {
    const Words words = philox(drop.noise, id, uint32_t(block));
#pragma unroll
    for (int c = 0; c < block_columns; c++)
        values[c] = noise_bits(words, c) >= drop.threshold ? values[c] * drop.factor : 0.0f;
}

}  // namespace
}  // namespace gnnqlab
