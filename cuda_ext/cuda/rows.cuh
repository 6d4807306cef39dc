// Rows to teams of lanes, and eight columns to a lane (cuda/blocks.cuh).
//
// A team is 1, 2, ..., 32 neighbouring lanes of a warp, as many as a row has blocks; rows of more than 256 columns take
// several steps of a whole warp.
#pragma once

#include "cuda/blocks.cuh"

namespace gnnqlab {
namespace {

constexpr int threads_a_block = 256;
constexpr unsigned all_lanes = 0xFFFFFFFFu;

struct Team {
    int64_t row;  // may lie beyond the last one: the lanes of a warp shuffle together
    int lane, size;
};

__device__ inline Team row_team(int log_size) {
    const int64_t thread = int64_t(blockIdx.x) * threads_a_block + threadIdx.x;
    return {thread >> log_size, int(threadIdx.x & ((1u << log_size) - 1u)), 1 << log_size};
}

inline int team_log_size(int64_t columns) {
    int log_size = 0;
    while (log_size < 5 && (int64_t(block_columns) << log_size) < columns) log_size++;
    return log_size;
}

inline unsigned grid_size(int64_t rows, int log_size) {
    return unsigned(((rows << log_size) + threads_a_block - 1) / threads_a_block);
}

// What a lane has seen of its row, then what its team has.
struct Seen {
    float lowest = INFINITY, highest = -INFINITY;
    int has_nan = 0;

    __device__ void look(const float *x, int count) {
#pragma unroll
        for (int c = 0; c < block_columns; c++)
            if (c < count) {
                lowest = fminf(lowest, x[c]);
                highest = fmaxf(highest, x[c]);
                has_nan |= x[c] != x[c];
            }
    }

    __device__ void share(int team_size) {  // every lane of the warp comes here
        for (int step = team_size / 2; step; step /= 2) {
            lowest = fminf(lowest, __shfl_xor_sync(all_lanes, lowest, step));
            highest = fmaxf(highest, __shfl_xor_sync(all_lanes, highest, step));
            has_nan |= __shfl_xor_sync(all_lanes, has_nan, step);
        }
    }
};

}  // namespace
}  // namespace gnnqlab
