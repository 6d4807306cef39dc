// Errors of codes between ends at 1, 2 and 4 bits, norm and range of rows: by what the better code of a row is chosen.
#include "core/row_errors.h"

#include <vector>

#include "cpu/export.h"
#include "cpu/row_look.h"

namespace gnnqlab {
namespace {

constexpr int64_t rows_ahead = 4;

// The sum of f (1 - f) over a row.
float fractions_left(const float *y, int64_t columns, float zero, float steps) {
    constexpr int parts = sum_lanes / lanes;
    Lane of[parts];
    for (int k = 0; k < parts; k++) of[k] = all(0.0f);
    const Lane zeros = all(zero), times_steps = all(steps), one = all(1.0f);
    int64_t c = 0;
    for (int part = 0; c + lanes <= columns; c += lanes, part = (part + 1) % parts) {
        const Lane at = times(minus(load(y + c), zeros), times_steps), fraction = minus(at, whole(at));
        of[part] = plus(of[part], times(fraction, minus(one, fraction)));
    }
    float sums[sum_lanes];
    for (int k = 0; k < parts; k++) store(sums + k * lanes, of[k]);
    for (; c < columns; c++) sums[c % sum_lanes] += fraction_left(y[c], zero, steps);
    return total(sums);
}

// Notes one row; false if it holds NaN or Inf or its range overflows.
bool note_row(const float *x, int64_t columns, float *y, float *noted) {
    const Found found = look(x, columns, y);
    const float lowest = found.lowest + 0.0f, highest = found.highest + 0.0f;  // -0 becomes +0
    const float range = highest - lowest;
    const bool constant = range < smallest_range;
    for (int k = 0; k < error_widths; k++) {
        const RowParameters row = row_parameters(lowest, highest, !found.finite, 1 << k, true);
        const float left = constant ? 0.0f : fractions_left(y, columns, row.zero, 1.0f / row.scale);
        noted[k] = constant ? 0.0f : row.finite ? row.scale * float(sqrt(double(left))) : INFINITY;
    }
    noted[error_widths] = constant ? 0.0f : float(sqrt(found.energy));
    noted[error_widths + 1] = range;
    return found.finite && is_finite(range);
}

constexpr int64_t none = INT64_MAX;

}  // namespace
}  // namespace gnnqlab

using namespace gnnqlab;

// Notes x[rows], five numbers a row; returns 0, or 8 * the first position that is refused + why.
GNNQLAB_EXPORT(row_errors)
(const float *x, int64_t x_rows, int64_t x_stride, int64_t columns, const int64_t *rows, int64_t count, float *noted,
 int64_t threads) {
    int64_t first = none;
#pragma omp parallel num_threads(threads) reduction(min : first) if (threads > 1 && count * columns > 65536)
    {
        std::vector<float> y(columns + lanes);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < count; i++) {
            if (i + rows_ahead < count && uint64_t(rows[i + rows_ahead]) < uint64_t(x_rows)) {
                const char *ahead = (const char *)(x + rows[i + rows_ahead] * x_stride);
                for (int64_t byte = 0; byte < 4 * columns; byte += 64) __builtin_prefetch(ahead + byte, 0, 2);
            }
            int64_t reason = rows[i] < 0 || rows[i] >= x_rows ? int64_t(no_such_row) : 0;
            if (!reason && !note_row(x + rows[i] * x_stride, columns, y.data(), noted + i * noted_of_row))
                reason = non_finite;
            if (reason && i * 8 + reason < first) first = i * 8 + reason;
        }
    }
    return first == none ? 0 : first;
}
