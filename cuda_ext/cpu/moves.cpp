// Which rows moved far enough to be sent again, max |x - held| > epsilon max |x|, and by what: one pass over both.
//
// Each row is judged by one thread and the places are listed in order, so they are the same for any number of threads.
#include <cmath>
#include <cstring>
#include <vector>

#include "cpu/export.h"

namespace {

constexpr int kLanes = 16;
constexpr int64_t kAhead = 4; // rows lie anywhere in memory: those to come are fetched meanwhile

// Whether a row moved; lanes keep their own maxima, so that the loop is one of vectors. What it moved by goes to `by`.
template <bool kKeep> bool moved(const float *x, const float *held, int64_t columns, float epsilon, float *by) {
    float change[kLanes] = {}, size[kLanes] = {}, doubt[kLanes] = {};
    int64_t j = 0;
    for (; j + kLanes <= columns; j += kLanes)
        for (int k = 0; k < kLanes; k++) {
            const float step = x[j + k] - held[j + k];
            if (kKeep) by[j + k] = step;
            const float value = std::fabs(x[j + k]), difference = std::fabs(step);
            change[k] = difference > change[k] ? difference : change[k];
            size[k] = value > size[k] ? value : size[k];
            doubt[k] += difference * 0.0f; // NaN from the first value on that is not finite
        }
    for (int k = 0; j < columns; j++, k++) {
        const float step = x[j] - held[j];
        if (kKeep) by[j] = step;
        const float value = std::fabs(x[j]), difference = std::fabs(step);
        change[k] = difference > change[k] ? difference : change[k];
        size[k] = value > size[k] ? value : size[k];
        doubt[k] += difference * 0.0f;
    }
    for (int k = 1; k < kLanes; k++) {
        change[0] = change[k] > change[0] ? change[k] : change[0];
        size[0] = size[k] > size[0] ? size[k] : size[0];
        doubt[0] += doubt[k];
    }
    return !(change[0] <= epsilon * size[0]) || doubt[0] != 0.0f;
}

} // namespace

// Writes the places of the rows that moved, in `changes` (or null) what they moved by, one after another, and returns how
// many; -1 - i if rows[i] is none of the num_x rows. `changes` has room for every row.
GNNQLAB_EXPORT(row_moves)
(const float *x, int64_t num_x, int64_t x_stride, const float *held, int64_t columns, const int64_t *rows,
 int64_t count, float epsilon, int64_t *places, float *changes, int64_t threads) {
    for (int64_t i = 0; i < count; i++)
        if (rows[i] < 0 || rows[i] >= num_x) return -1 - i;
    const int64_t runs = threads > 1 && count * columns > 65536 ? threads : 1;
    std::vector<int64_t> found(runs);
#pragma omp parallel for schedule(static, 1) num_threads(threads) if (runs > 1)
    for (int64_t run = 0; run < runs; run++) { // consecutive rows, listed from where the run begins
        const int64_t begin = count * run / runs, end = count * (run + 1) / runs;
        int64_t last = begin;
        for (int64_t i = begin; i < end; i++) {
            if (i + kAhead < end) {
                const float *next = x + rows[i + kAhead] * x_stride;
                for (int64_t j = 0; j < columns && j < 256; j += kLanes) __builtin_prefetch(next + j);
            }
            const float *now = x + rows[i] * x_stride, *then = held + i * columns;
            const bool travels = changes ? moved<true>(now, then, columns, epsilon, changes + last * columns)
                                         : moved<false>(now, then, columns, epsilon, nullptr);
            places[last] = i; // the next one's place unless this one counts
            last += travels;
        }
        found[run] = last - begin;
    }
    int64_t all = found[0];
    for (int64_t run = 1; run < runs; run++) {
        const int64_t begin = count * run / runs;
        std::memmove(places + all, places + begin, found[run] * sizeof(int64_t));
        if (changes) std::memmove(changes + all * columns, changes + begin * columns, found[run] * columns * sizeof(float));
        all += found[run];
    }
    return all;
}
