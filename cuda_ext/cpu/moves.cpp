// Which rows moved far enough to be sent again: max |x - held| > epsilon max |x|, one pass over both.
//
// Each row is judged by one thread and the places are listed in order, so they are the same for any number of threads.
#include <cmath>

#include "cpu/export.h"

namespace {

constexpr int kLanes = 16;
constexpr int64_t kAhead = 4; // rows lie anywhere in memory: those to come are fetched meanwhile

// Whether a row moved; lanes keep their own maxima, so that the loop is one of vectors.
bool moved(const float *x, const float *held, int64_t columns, float epsilon) {
    float change[kLanes] = {}, size[kLanes] = {}, doubt[kLanes] = {};
    int64_t j = 0;
    for (; j + kLanes <= columns; j += kLanes)
        for (int k = 0; k < kLanes; k++) {
            const float value = std::fabs(x[j + k]), difference = std::fabs(x[j + k] - held[j + k]);
            change[k] = difference > change[k] ? difference : change[k];
            size[k] = value > size[k] ? value : size[k];
            doubt[k] += difference * 0.0f; // NaN from the first value on that is not finite
        }
    for (int k = 0; j < columns; j++, k++) {
        const float value = std::fabs(x[j]), difference = std::fabs(x[j] - held[j]);
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

// Writes the places of the rows that moved and returns how many; -1 - i if rows[i] is none of the num_x rows.
GNNQLAB_EXPORT(row_moves)
(const float *x, int64_t num_x, int64_t x_stride, const float *held, int64_t columns, const int64_t *rows,
 int64_t count, float epsilon, int64_t *places, int64_t threads) {
    for (int64_t i = 0; i < count; i++)
        if (rows[i] < 0 || rows[i] >= num_x) return -1 - i;
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1 && count * columns > 65536)
    for (int64_t i = 0; i < count; i++) {
        if (i + kAhead < count) {
            const float *next = x + rows[i + kAhead] * x_stride;
            for (int64_t j = 0; j < columns && j < 256; j += kLanes) __builtin_prefetch(next + j);
        }
        places[i] = moved(x + rows[i] * x_stride, held + i * columns, columns, epsilon);
    }
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++)
        if (places[i]) places[found++] = i;
    return found;
}
