// One pass over a row's edges for one head: dot products with a fixed row, a weighted sum of the source rows, or both
// from one read of each source row.
#pragma once

#include "cpu/lanes.h"

namespace gnnqlab {
namespace {

// The edges of one row, and where reading goes on after them (for fetching ahead).
struct Edges {
    const int32_t *indices;
    int64_t count, next_count;    // next_count: further edges that may be read behind these
    float *dots;                  // of this head, one an edge
    const float *weights;         // likewise
};

template <int L> GNNQLAB_FN float lane_sum(Lanes<float, L> lanes) {
    if constexpr (L == 1) {
        return lanes[0];
    } else {
        Lanes<float, L / 2> low, high;
        memcpy(&low, &lanes, sizeof low);
        memcpy(&high, (const char *)&lanes + sizeof low, sizeof high);
        return lane_sum<L / 2>(low + high);
    }
}

constexpr int64_t kEdgesAhead = 16;

// Columns [first, first + (kBlocks - 1) * C) in blocks of C, and the last block at `last`; `next_first` is where the
// pass after this one starts, over the same edges unless this is the row's last pass.
template <int C, int kBlocks, bool kHalo, bool kDot, bool kSum, typename T>
__attribute__((noinline)) void tile_pass(const Edges &edges, const Sources<T> &from, const float *fixed, float *sum,
                                         int64_t first, int64_t last, int64_t next_first, bool last_pass,
                                         bool add_dots) {
    using V = Lanes<float, C>;
    constexpr int kLines = (kBlocks * C * int(sizeof(T)) + 63) / 64;
    const auto block_at = [&](int block) { return block == kBlocks - 1 ? last : first + block * C; };
    V sums[kBlocks] = {}, fixed_row[kBlocks];
    if (kDot) {
        GNNQLAB_UNROLL for (int block = 0; block < kBlocks; block++) fixed_row[block] = load_lanes<V>(fixed + block_at(block));
        // The last block overlaps the one before: what both hold counts once in the dot product.
        const int64_t overlap = first + (kBlocks - 1) * C - last;
        for (int64_t lane = 0; lane < overlap; lane++) fixed_row[kBlocks - 1][lane] = 0.0f;
    }
    for (int64_t k = 0; k < edges.count; k++) {
        int64_t ahead = k + kEdgesAhead, ahead_first = first;
        if (ahead >= edges.count) {
            ahead_first = next_first;
            ahead = last_pass ? std::min(ahead, edges.count + edges.next_count - 1)
                              : std::min(ahead - edges.count, edges.count - 1);
        }
        const char *next = (const char *)(source_row<kHalo>(from, edges.indices[ahead]) + ahead_first);
        GNNQLAB_UNROLL for (int line = 0; line < kLines; line++) __builtin_prefetch(next + 64 * line);

        const T *row = source_row<kHalo>(from, edges.indices[k]);
        V dot{};
        const V weight = broadcast<C>(kSum ? edges.weights[k] : 0.0f);
        GNNQLAB_UNROLL for (int block = 0; block < kBlocks; block++) {
            V values;
            Block<T, C>::load(row + block_at(block), &values);
            if (kDot) dot = multiply_add_lanes<C>(values, fixed_row[block], dot);
            if (kSum) sums[block] = multiply_add_lanes<C>(weight, values, sums[block]);
        }
        if (kDot) edges.dots[k] = (add_dots ? edges.dots[k] : 0.0f) + lane_sum<C>(dot);
    }
    if (kSum)
        GNNQLAB_UNROLL for (int block = 0; block < kBlocks; block++) store_lanes(sum + block_at(block), sums[block]);
}

template <typename T>
using TilePass = void (*)(const Edges &, const Sources<T> &, const float *, float *, int64_t, int64_t, int64_t, bool,
                          bool);

template <int C, bool kHalo, bool kDot, bool kSum, int kMost, typename T> TilePass<T> tile_pass_of(int64_t blocks) {
    if constexpr (kMost > 1)
        if (blocks < kMost) return tile_pass_of<C, kHalo, kDot, kSum, kMost - 1, T>(blocks);
    return tile_pass<C, kMost, kHalo, kDot, kSum, T>;
}

// All heads of one row. `fixed` and `sum` are rows of heads * features elements; edges.dots and edges.weights hold
// `count` elements for each head, one head after the other.
template <bool kHalo, bool kDot, bool kSum, typename T = float, int C = kLanes>
void row_pass(const Edges &edges, const Sources<T> &from, const float *fixed, float *sum, int64_t heads,
              int64_t features) {
    if constexpr (C > 1)
        if (features < C) return row_pass<kHalo, kDot, kSum, T, C / 2>(edges, from, fixed, sum, heads, features);
    constexpr int kMost = C < kLanes ? 2 : kDot && kSum ? std::max(kSums / 2, 3) : 8;
    const int64_t blocks = (features + C - 1) / C, tiles = (blocks + kMost - 1) / kMost;
    for (int64_t head = 0; head < heads; head++)
        for (int64_t tile = 0; tile < tiles; tile++) {
            const int64_t begin = blocks * tile / tiles, end = blocks * (tile + 1) / tiles;
            const int64_t offset = head * features, first = offset + begin * C;
            const bool last_of_head = tile + 1 == tiles, last_pass = last_of_head && head + 1 == heads;
            const int64_t next = last_pass ? 0 : last_of_head ? offset + features : offset + end * C;
            Edges own = edges;
            own.dots += head * edges.count;
            own.weights += head * edges.count;
            tile_pass_of<C, kHalo, kDot, kSum, kMost, T>(end - begin)(own, from, fixed, sum, first,
                                                                   offset + std::min((end - 1) * C, features - C), next,
                                                                   last_pass, tile > 0);
        }
}

} // namespace
} // namespace gnnqlab
