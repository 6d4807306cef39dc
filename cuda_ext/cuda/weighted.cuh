// Weighted sums of rows, head by head: a warp's share of the edges, and the widest loads that a head's columns allow.
#pragma once

#include "core/aggregate.h"
#include "cuda/teams.cuh"

namespace gnnqlab {
namespace {

// Sum of the rows of 32 edges at a time: edge_of(edge) gives a lane its edge's source and weight, which a row's scale
// meets if it is of codes.
template <typename T, int kVec, int kReps, typename TeamType, typename Edge>
__device__ void weighted_rows(const TeamType &team, const Sources<T> &from, const Columns<kVec, kReps> &mine, float *to,
                              const Edge &edge_of) {
    float sums[kReps][kVec] = {};
    for (int64_t base = team.begin; base < team.end; base += kWarpSize) {
        const int64_t edge = base + team.lane();
        const int count = int(team.end - base < kWarpSize ? team.end - base : kWarpSize);
        int32_t column = 0;
        float weight = 0.0f;
        if (edge < team.end) {
            edge_of(edge, &column, &weight);
            if (sizeof(T) == 1) weight *= *source_scale<true>(from, column);
        }
#pragma unroll 4
        for (int k = 0; k < count; k++) {
            const T *row = source_row<true>(from, __shfl_sync(kAllLanes, column, k));
            const float factor = __shfl_sync(kAllLanes, weight, k);
#pragma unroll
            for (int rep = 0; rep < kReps; rep++)
                if (mine.has(rep)) {
                    const Run<T, kVec> run = load_run<T, kVec>(row + mine.at(rep));
#pragma unroll
                    for (int v = 0; v < kVec; v++) sums[rep][v] = multiply_add(factor, element(run.elements, v), sums[rep][v]);
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

template <int kVec, typename T> bool all_aligned(const Sources<T> &from) {
    const int64_t size = sizeof(T);
    return aligned<kVec>(from.rows, from.stride, size) && (!from.halo || aligned<kVec>(from.halo, from.halo_stride, size));
}

} // namespace
} // namespace gnnqlab
