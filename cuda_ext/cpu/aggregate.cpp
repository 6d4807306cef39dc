// Weighted neighbour sums on the CPU.
//
// Each output row is summed by one thread in the order of its edges, so the sums are the same for any number of threads.
// The next source rows are fetched ahead: they lie anywhere in memory, and waiting for them would be most of the time.
#include "cpu/aggregate_packed.h"
#include "cpu/aggregate_tile.h"
#include "cpu/export.h"
#include "cpu/schedule.h"

using namespace gnnqlab;

namespace {

constexpr int kTileBytes = 512; // of a row added in one go: more lines in flight only displace each other

template <typename T, bool kHalo, int C = kColumns<T>>
void sum_rows(const Matrix &matrix, const Sources<T> &from, const Output &out, int64_t start, int64_t stop,
              int64_t columns, int64_t threads) {
    if constexpr (C > 1)
        if (columns < C) return sum_rows<T, kHalo, C / 2>(matrix, from, out, start, stop, columns, threads);
    constexpr int64_t kAhead = 12;
    constexpr int kWithin = kTileBytes * kHeld<T> / (C * int(sizeof(T))); // blocks
    constexpr int kMost = C < kColumns<T> ? 2 : std::max(2, std::min(kSumsOf<T> / Block<T, C>::parts, kWithin));
    const int64_t blocks = (columns + C - 1) / C, tiles = (blocks + kMost - 1) / kMost;
    const Chunks chunks(matrix.indptr, start, stop, threads);
    const int64_t tasks = tiles * chunks.count;
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1 && tasks > 1)
    for (int64_t task = 0; task < tasks; task++) {
        const int64_t tile = task / chunks.count, chunk = task % chunks.count;
        const int64_t first = blocks * tile / tiles, end = blocks * (tile + 1) / tiles;
        tile_of<T, C, kHalo, kMost>(end - first)(matrix, from, out,
                                          {start, chunks.bound(chunk), chunks.bound(chunk + 1), first * C,
                                           std::min((end - 1) * C, columns - C), kAhead});
    }
}

template <typename T>
int64_t sum(const Matrix &matrix, const Sources<T> &from, int64_t sources, const Output &out, int64_t start,
            int64_t stop, int64_t columns, int64_t threads) {
    if (sum_by_lines(matrix, from, sources, out, start, stop, columns, threads)) return 0;
    const auto rows = from.halo ? sum_rows<T, true> : sum_rows<T, false>;
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
    if (row_type == kInt8) return run(int8_t());
    return row_type == kInt4 ? run(Pair()) : -1;
}
