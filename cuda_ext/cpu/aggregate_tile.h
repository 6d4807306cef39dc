// The sum of some columns of each row's source rows, held in registers over all edges of the row.
#pragma once

#include <algorithm>

#include "cpu/lanes.h"

namespace gnnqlab {
namespace {

template <typename T> constexpr int64_t kLine = 64 / int64_t(sizeof(T)) * kHeld<T>; // columns in a cache line

struct Output {
    float *rows; // of the first row asked for
    int64_t stride;
    bool accumulate;
};

// Which rows of the matrix, and the columns [first, first + (kBlocks - 1) * C) in blocks of C, the last block at `last`.
struct Tile {
    int64_t start, begin, end; // rows; the output begins at row `start`
    int64_t first, last;
    int64_t ahead; // edges between fetching a row and adding it
};

// kPacked: the sources are what sum_packed has brought together to stay in the cache, so indices and weights, read once
// a pass, are fetched past it.
template <typename T, int C, int kBlocks, bool kHalo, bool kPacked = false>
__attribute__((noinline)) void sum_tile(const Matrix &matrix, const Sources<T> &sources, const Output &out, const Tile &at) {
    using B = Block<T, C>;
    using V = typename B::V;
    constexpr bool kScales = sizeof(T) == 1 && !kPacked;
    constexpr int kLines = (kBlocks * C * int(sizeof(T)) / kHeld<T> + 63) / 64;
    constexpr int64_t kStreamAhead = 512;
    const Sources<T> from = sources; // copies: what is written through pointers cannot change them
    const Tile tile = at;
    const int32_t *indices = matrix.indices;
    const float one = 1.0f, *weights = matrix.weights ? matrix.weights : &one;
    const int64_t weighted = matrix.weights ? -1 : 0, last_edge = matrix.indptr[tile.end] - 1;
    const auto block_at = [&](int block) { return block == kBlocks - 1 ? tile.last : tile.first + block * C; };

    for (int64_t row = tile.begin; row < tile.end; row++) {
        V sums[kBlocks][B::parts] = {};
        const int64_t row_end = matrix.indptr[row + 1];
        for (int64_t edge = matrix.indptr[row]; edge < row_end; edge++) {
            if (kPacked && edge % 16 == 0) {
                __builtin_prefetch(indices + edge + kStreamAhead, 0, 0);
                __builtin_prefetch(weights + ((edge + kStreamAhead) & weighted), 0, 0);
            }
            const int32_t ahead = indices[std::min(edge + tile.ahead, last_edge)];
            const char *next = (const char *)(source_row<kHalo>(from, ahead) + tile.first / kHeld<T>);
            GNNQLAB_UNROLL for (int line = 0; line < kLines; line++) __builtin_prefetch(next + 64 * line);
            if (kScales) __builtin_prefetch(source_scale<kHalo>(from, ahead));

            const int32_t column = indices[edge];
            const T *row_from = source_row<kHalo>(from, column);
            float weight = weights[edge & weighted];
            if (kScales) weight *= *source_scale<kHalo>(from, column);
            const V weight_lanes = broadcast<B::lanes>(weight);
            GNNQLAB_UNROLL for (int block = 0; block < kBlocks; block++) {
                V values[B::parts];
                load_block<T, C>(row_from, block_at(block), block == kBlocks - 1, values);
                GNNQLAB_UNROLL for (int part = 0; part < B::parts; part++) sums[block][part] =
                    multiply_add_lanes<B::lanes>(weight_lanes, values[part], sums[block][part]);
            }
        }
        float *to = out.rows + (row - tile.start) * out.stride;
        // All are read before any is written: the last block may overlap the one before.
        GNNQLAB_UNROLL for (int block = 0; block < kBlocks; block++) {
            B::arrange(sums[block]);
            if (out.accumulate)
                GNNQLAB_UNROLL for (int part = 0; part < B::parts; part++) sums[block][part] +=
                    load_lanes<V>(to + block_at(block) + part * B::lanes);
        }
        GNNQLAB_UNROLL for (int block = 0; block < kBlocks; block++)
            GNNQLAB_UNROLL for (int part = 0; part < B::parts; part++)
                store_lanes(to + block_at(block) + part * B::lanes, sums[block][part]);
    }
}

template <typename T> using SumTile = void (*)(const Matrix &, const Sources<T> &, const Output &, const Tile &);

// The function for a number of blocks, one of 1 .. kMost.
template <typename T, int C, bool kHalo, int kMost> SumTile<T> tile_of(int64_t blocks) {
    if constexpr (kMost > 1)
        if (blocks < kMost) return tile_of<T, C, kHalo, kMost - 1>(blocks);
    return sum_tile<T, C, kMost, kHalo>;
}

} // namespace
} // namespace gnnqlab
