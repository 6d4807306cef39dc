// Weighted neighbour sums on the CPU.
//
// Each output row is summed by one thread in the order of its edges, so the sums are the same for any number of threads.
// The next source rows are fetched ahead: they lie anywhere in memory, and waiting for them would be most of the time.
#include <algorithm>
#include <cstdlib>
#include <memory>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "cpu/export.h"
#include "cpu/lanes.h"
#include "cpu/schedule.h"

using namespace gnnqlab;

namespace {

constexpr int64_t kAhead = 12; // edges between fetching a row and adding it
constexpr int64_t kPackedAhead = 32; // of one line each
template <typename T> constexpr int64_t kLine = 64 / int64_t(sizeof(T)); // elements in a cache line
constexpr int kTileBytes = 512; // of a row added in one go: more lines in flight only displace each other

struct Output {
    float *rows; // of the first row asked for
    int64_t stride;
    bool accumulate;
};

// Columns [first, first + (kBlocks - 1) * C) in blocks of C, and the last block at `last`.
template <typename T, int C, int kBlocks, bool kHalo, bool kWeights>
__attribute__((noinline)) void sum_tile(const Matrix &matrix, const Sources<T> &from, const Output &out, int64_t start,
                                        int64_t begin, int64_t end, int64_t first, int64_t last, int64_t far) {
    using B = Block<T, C>;
    using V = typename B::V;
    constexpr bool kScales = sizeof(T) == 1;
    constexpr int kLines = (kBlocks * C * int(sizeof(T)) + 63) / 64;
    const int64_t last_edge = matrix.indptr[end] - 1;
    const auto block_at = [&](int block) { return block == kBlocks - 1 ? last : first + block * C; };

    for (int64_t row = begin; row < end; row++) {
        V sums[kBlocks][B::parts] = {};
        for (int64_t edge = matrix.indptr[row]; edge < matrix.indptr[row + 1]; edge++) {
            const int32_t ahead = matrix.indices[std::min(edge + far, last_edge)];
            const char *next = (const char *)(source_row<kHalo>(from, ahead) + first);
            GNNQLAB_UNROLL for (int line = 0; line < kLines; line++) __builtin_prefetch(next + 64 * line);
            if (kScales) __builtin_prefetch(source_scale<kHalo>(from, ahead));

            const int32_t column = matrix.indices[edge];
            const T *row_from = source_row<kHalo>(from, column);
            float weight = kWeights ? matrix.weights[edge] : 1.0f;
            if (kScales) weight *= *source_scale<kHalo>(from, column);
            const V weights = broadcast<B::lanes>(weight);
            GNNQLAB_UNROLL for (int block = 0; block < kBlocks; block++) {
                V values[B::parts];
                B::load(row_from + block_at(block), values);
                GNNQLAB_UNROLL for (int part = 0; part < B::parts; part++) sums[block][part] =
                    kWeights || kScales ? multiply_add_lanes<B::lanes>(weights, values[part], sums[block][part])
                                        : sums[block][part] + values[part];
            }
        }
        float *to = out.rows + (row - start) * out.stride;
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

template <typename T> using SumTile = void (*)(const Matrix &, const Sources<T> &, const Output &, int64_t, int64_t,
                                               int64_t, int64_t, int64_t, int64_t);

// The function for a number of blocks, one of 1 .. kMost.
template <typename T, int C, bool kHalo, bool kWeights, int kMost> SumTile<T> tile_of(int64_t blocks) {
    if constexpr (kMost > 1)
        if (blocks < kMost) return tile_of<T, C, kHalo, kWeights, kMost - 1>(blocks);
    return sum_tile<T, C, kMost, kHalo, kWeights>;
}

template <typename T, int C, bool kHalo, bool kWeights>
void sum_rows(const Matrix &matrix, const Sources<T> &from, const Output &out, int64_t start, int64_t stop,
              int64_t columns, int64_t threads) {
    if constexpr (C > 1)
        if (columns < C) return sum_rows<T, C / 2, kHalo, kWeights>(matrix, from, out, start, stop, columns, threads);
    constexpr int kMost = C < kColumns<T> ? 2
                                          : std::max(2, std::min(kSums / Block<T, C>::parts, kTileBytes / (C * int(sizeof(T)))));
    const int64_t blocks = (columns + C - 1) / C, tiles = (blocks + kMost - 1) / kMost;
    const Chunks chunks(matrix.indptr, start, stop, threads);
    const int64_t tasks = tiles * chunks.count;
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1 && tasks > 1)
    for (int64_t task = 0; task < tasks; task++) {
        const int64_t tile = task / chunks.count, chunk = task % chunks.count;
        const int64_t first = blocks * tile / tiles, end = blocks * (tile + 1) / tiles;
        tile_of<T, C, kHalo, kWeights, kMost>(end - first)(matrix, from, out, start, chunks.bound(chunk),
                                                           chunks.bound(chunk + 1), first * C,
                                                           std::min((end - 1) * C, columns - C), kAhead);
    }
}

// Memory for one line of each source row, in large pages if the system has them: a page of 4 KB for every few rows
// would cost more to look up than the line to read.
using LineBuffer = std::unique_ptr<void, decltype(&std::free)>;

LineBuffer line_buffer(int64_t lines) {
    constexpr size_t kLargePage = size_t(1) << 21;
    const size_t size = (size_t(lines) * 64 + kLargePage - 1) / kLargePage * kLargePage;
    void *memory = std::aligned_alloc(kLargePage, size);
#if defined(MADV_HUGEPAGE)
    if (memory) madvise(memory, size, MADV_HUGEPAGE);
#endif
    return LineBuffer(memory, &std::free);
}

// Whether it pays to bring one line of all rows together, sum that, and go on to the next: if the rows outgrow what a
// worker can hope to keep in the last cache (what a virtual machine reports for it means little) but one line of each
// does not, and each is read often enough to pay for the copy. Measured for float32: 1.6 to 2 times faster between 60 and
// 200 thousand rows of 256, no difference from half a million rows on.
template <typename T> bool worth_packing(int64_t edges, int64_t sources, int64_t columns, bool accumulate) {
    constexpr int64_t kCacheBytes = int64_t(32) << 20;
    // A last line may overlap the one before, and would be added twice.
    if (columns < 2 * kLine<T> || (accumulate && columns % kLine<T>)) return false;
    const int64_t row_bytes = columns * int64_t(sizeof(T));
    return sources * row_bytes > kCacheBytes && sources * 64 <= kCacheBytes && edges >= 16 * sources;
}

template <typename T, bool kWeights>
void sum_packed(const Matrix &matrix, const Sources<T> &from, int64_t sources, T *lines, const Output &out,
                int64_t start, int64_t stop, int64_t columns, int64_t threads) {
    constexpr int64_t kColumnsOfLine = kLine<T>;
    constexpr int kBlocks = int(kColumnsOfLine / kColumns<T>);
    const Sources<T> packed{lines, sources, kColumnsOfLine, nullptr, nullptr, 0, nullptr};
    const Chunks chunks(matrix.indptr, start, stop, threads);
#pragma omp parallel num_threads(threads) if (threads > 1)
    for (int64_t at = 0; at < columns; at += kColumnsOfLine) {
        const int64_t first = std::min(at, columns - kColumnsOfLine);
#pragma omp for schedule(static)
        for (int64_t source = 0; source < sources; source++) {
            if (source + 16 < sources) __builtin_prefetch(source_row<true>(from, int32_t(source + 16)) + first);
            memcpy(lines + source * kColumnsOfLine, source_row<true>(from, int32_t(source)) + first, 64);
        }
        const Output part{out.rows + first, out.stride, out.accumulate};
#pragma omp for schedule(dynamic)
        for (int64_t chunk = 0; chunk < chunks.count; chunk++)
            sum_tile<T, kColumns<T>, kBlocks, false, kWeights>(matrix, packed, part, start, chunks.bound(chunk),
                                                               chunks.bound(chunk + 1), 0,
                                                               kColumnsOfLine - kColumns<T>, kPackedAhead);
    }
}

template <typename T>
int64_t sum(const Matrix &matrix, const Sources<T> &from, int64_t sources, const Output &out, int64_t start,
            int64_t stop, int64_t columns, int64_t threads) {
    if constexpr (sizeof(T) > 1) { // int8 rows are as short as a few lines already
        const int64_t edges = matrix.indptr[stop] - matrix.indptr[start];
        if (worth_packing<T>(edges, sources, columns, out.accumulate)) {
            const LineBuffer lines = line_buffer(sources);
            if (lines) {
                const auto packed = matrix.weights ? sum_packed<T, true> : sum_packed<T, false>;
                packed(matrix, from, sources, (T *)lines.get(), out, start, stop, columns, threads);
                return 0;
            }
        }
    }
    const auto rows = from.halo ? (matrix.weights ? sum_rows<T, kColumns<T>, true, true> : sum_rows<T, kColumns<T>, true, false>)
                                : (matrix.weights ? sum_rows<T, kColumns<T>, false, true> : sum_rows<T, kColumns<T>, false, false>);
    rows(matrix, from, out, start, stop, columns, threads);
    return 0;
}

} // namespace

// out[i - start] = or += sum of the edges' source rows, for rows i in [start, stop); strides count elements.
GNNQLAB_EXPORT(spmm)
(const int64_t *indptr, const int32_t *indices, const float *weights, int64_t start, int64_t stop, int64_t row_type,
 int64_t columns, const void *x, int64_t num_x, int64_t x_stride, const float *x_scales, const void *halo,
 int64_t num_halo, int64_t halo_stride, const float *halo_scales, float *out, int64_t out_stride, int64_t accumulate, int64_t threads) {
    if (start >= stop || columns == 0) return 0;
    const Matrix matrix{indptr, indices, weights};
    const Output to{out, out_stride, accumulate != 0};
    const auto run = [&](auto type) {
        using T = decltype(type);
        const Sources<T> from{(const T *)x, num_x, x_stride, x_scales, (const T *)halo, halo_stride, halo_scales};
        return sum<T>(matrix, from, num_x + num_halo, to, start, stop, columns, threads);
    };
    if (row_type == kFloat32) return run(float());
    if (row_type == kBfloat16) return run(uint16_t());
    return row_type == kInt8 ? run(int8_t()) : -1;
}
