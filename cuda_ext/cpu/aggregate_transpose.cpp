// Compressed sparse rows to compressed sparse columns by a counting sort: each column's rows ascend, so the result is
// the same for any number of threads.
#include <vector>

#include "cpu/export.h"
#include "cpu/schedule.h"

namespace {

constexpr int64_t kMostParts = 8; // each part keeps a counter for every column

struct Transposed {
    int64_t *indptr;
    int32_t *indices;
    float *weights;
    int32_t *edges;
};

} // namespace

// `weights` may be null; `edges_out`, if not null, gets each edge's place in the input (fewer than 2^31 edges).
GNNQLAB_EXPORT(transpose)
(const int64_t *indptr, const int32_t *indices, const float *weights, int64_t rows, int64_t columns,
 int64_t *indptr_out, int32_t *indices_out, float *weights_out, int32_t *edges_out, int64_t threads) {
    const gnnqlab::Chunks chunks(indptr, 0, rows, threads);
    const int64_t parts = std::min(chunks.count, std::min(threads, kMostParts));
    const auto bound = [&](int64_t part) { return chunks.bound(chunks.count * part / parts); };
    const Transposed out{indptr_out, indices_out, weights_out, edges_out};
    std::vector<int64_t> places(size_t(parts * columns), 0); // first how many, then where the next one goes

#pragma omp parallel for schedule(static, 1) num_threads(parts) if (parts > 1)
    for (int64_t part = 0; part < parts; part++) {
        int64_t *count = places.data() + part * columns;
        const int64_t end = indptr[bound(part + 1)];
        for (int64_t edge = indptr[bound(part)]; edge < end; edge++) count[indices[edge]]++;
    }
    int64_t place = 0;
    for (int64_t column = 0; column < columns; column++) {
        out.indptr[column] = place;
        for (int64_t part = 0; part < parts; part++) {
            const int64_t count = places[part * columns + column];
            places[part * columns + column] = place;
            place += count;
        }
    }
    out.indptr[columns] = place;

#pragma omp parallel for schedule(static, 1) num_threads(parts) if (parts > 1)
    for (int64_t part = 0; part < parts; part++) {
        int64_t *next = places.data() + part * columns;
        const int64_t end = bound(part + 1);
        for (int64_t row = bound(part); row < end; row++)
            for (int64_t edge = indptr[row]; edge < indptr[row + 1]; edge++) {
                const int64_t to = next[indices[edge]]++;
                out.indices[to] = int32_t(row);
                if (weights) out.weights[to] = weights[edge];
                if (out.edges) out.edges[to] = int32_t(edge);
            }
    }
    return 0;
}
