// Cutting the rows of a matrix into runs of about equal work, so that a few long rows do not keep one thread busy alone.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gnnqlab {
namespace {

struct Chunks {
    static constexpr int64_t kPerThread = 16; // enough for a thread that is held up to hand over the rest
    static constexpr int64_t kLeast = 8192;   // edges that are worth handing over

    const int64_t *indptr;
    int64_t start, stop, count;

    Chunks(const int64_t *indptr, int64_t start, int64_t stop, int64_t threads)
        : indptr(indptr), start(start), stop(stop),
          count(threads < 2 ? 1 : std::max<int64_t>(1, std::min(threads * kPerThread, work(stop) / kLeast))) {}

    // First row of a chunk. A row costs its edges and a little for itself.
    int64_t bound(int64_t chunk) const {
        if (chunk == 0) return start;
        if (chunk == count) return stop;
        const int64_t share = work(stop) / count * chunk;
        int64_t low = start, high = stop;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (work(middle) < share) low = middle + 1;
            else high = middle;
        }
        return low;
    }

  private:
    int64_t work(int64_t row) const { return indptr[row] - indptr[start] + 2 * (row - start); }
};

} // namespace
} // namespace gnnqlab
