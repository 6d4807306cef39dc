// Sums over more source rows than the cache holds: a few lines of every row are brought together in large pages, summed
// over all edges, then the next lines. The random reads stay in the cache, and columns and edges keep their order.
#pragma once

#include "cpu/aggregate_tile.h"
#include "cpu/pages.h"
#include "cpu/schedule.h"

namespace gnnqlab {
namespace {

// How many lines of each row to bring together, 0 for none. It pays if the rows outgrow the near caches but those lines
// stay in the last one, and each is read often enough to pay for the copy. What a virtual machine reports for its last
// cache means little, so the limits are measured ones: with rows of 256 float32 and 8 to 50 edges a row it was 1.4 to 2.5
// times faster from 5 to 200 thousand rows, and no slower at 400 thousand. Adding int8 takes longer than fetching it; 100
// thousand rows of pairs were summed 1.25 times as fast this way on AVX-512, twice as fast on AVX2. With an odd number of
// columns a line of pairs would begin in the middle of a byte.
template <typename T> int lines_to_pack(int64_t edges, int64_t sources, int64_t columns, bool accumulate) {
    constexpr int64_t kRowBytes = int64_t(sizeof(T) == 1 && kHeld<T> == 1 ? 20 : 6) << 20;
    constexpr int64_t kLineBytes[] = {0, int64_t(32) << 20, int64_t(13) << 20};
    const int64_t bytes = sources * columns * int64_t(sizeof(T)) / kHeld<T>;
    if (bytes <= kRowBytes || columns % kHeld<T> || edges < 6 * sources) return 0;
    for (int lines = 2; lines > 0; lines--) {
        // The last lines may overlap those before, and would be added twice.
        const bool whole = !accumulate || columns % (lines * kLine<T>) == 0;
        if (whole && columns >= 2 * lines * kLine<T> && sources * lines * 64 <= kLineBytes[lines]) return lines;
    }
    return 0;
}

template <typename T, int kLines>
void sum_packed(const Matrix &matrix, const Sources<T> &from, int64_t sources, T *packed, const Output &out,
                int64_t start, int64_t stop, int64_t columns, int64_t threads) {
    constexpr int64_t kStep = kLines * kLine<T>, kAhead = 96 / kLines;
    constexpr int kBlocks = int(kStep / kColumns<T>);
    constexpr int64_t kStored = kStep / kHeld<T>;
    const Sources<T> lines{packed, sources, kStored, nullptr, nullptr, 0, nullptr};
    const Chunks chunks(matrix.indptr, start, stop, threads);
#pragma omp parallel num_threads(threads) if (threads > 1)
    for (int64_t at = 0; at < columns; at += kStep) {
        const int64_t first = std::min(at, columns - kStep);
#pragma omp for schedule(static)
        for (int64_t source = 0; source < sources; source++) {
            if (source + 16 < sources) {
                const char *next = (const char *)(source_row<true>(from, int32_t(source + 16)) + first / kHeld<T>);
                GNNQLAB_UNROLL for (int line = 0; line < kLines; line++) __builtin_prefetch(next + 64 * line);
            }
            memcpy(packed + source * kStored, source_row<true>(from, int32_t(source)) + first / kHeld<T>, 64 * kLines);
        }
        const Output part{out.rows + first, out.stride, out.accumulate};
#pragma omp for schedule(dynamic)
        for (int64_t chunk = 0; chunk < chunks.count; chunk++)
            sum_tile<T, kColumns<T>, kBlocks, false, true>(
                matrix, lines, part,
                {start, chunks.bound(chunk), chunks.bound(chunk + 1), 0, kStep - kColumns<T>, kAhead});
    }
}

// Weight times scale for each edge of rows of codes: looked up once, not once for every few columns.
template <typename T>
void scaled_weights(const Matrix &matrix, const Sources<T> &from, int64_t begin, int64_t end, float *scaled,
                    int64_t threads) {
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t edge = begin; edge < end; edge++) {
        const float weight = matrix.weights ? matrix.weights[edge] : 1.0f;
        scaled[edge - begin] = weight * *source_scale<true>(from, matrix.indices[edge]);
    }
}

// Whether the sum was done this way.
template <typename T>
bool sum_by_lines(Matrix matrix, const Sources<T> &from, int64_t sources, const Output &out, int64_t start, int64_t stop,
                  int64_t columns, int64_t threads) {
    const int64_t begin = matrix.indptr[start], end = matrix.indptr[stop];
    const int lines = lines_to_pack<T>(end - begin, sources, columns, out.accumulate);
    if (lines == 0) return false;
    const Buffer packed = large_pages(sources * lines * 64);
    const Buffer scaled = sizeof(T) == 1 ? large_pages((end - begin) * int64_t(sizeof(float))) : Buffer(nullptr, &std::free);
    if (!packed) return false;
    if constexpr (sizeof(T) == 1) {
        if (!scaled) return false;
        scaled_weights(matrix, from, begin, end, (float *)scaled.get(), threads);
        matrix.weights = (const float *)scaled.get() - begin;
    }
    const auto run = lines == 2 ? sum_packed<T, 2> : sum_packed<T, 1>;
    run(matrix, from, sources, (T *)packed.get(), out, start, stop, columns, threads);
    return true;
}

} // namespace
} // namespace gnnqlab
