// The linear codec's arithmetic (CDFGNN Eq. 22): rounding to the nearest of 2^b levels, the topmost clamped away.
// gnnqlab/kernels/reference/linear.py is the definition.
#pragma once

#include "core/codec.h"

namespace gnnqlab {

struct LinearRow {
    float zero, scale;
    float inverse;  // 1 / S; 0 for a constant row
    float range;
    bool finite;
};

GNNQLAB_FN LinearRow linear_row(float lowest, float highest, bool has_nan, int b) {
    const float zero = lowest + 0.0f, range = highest + 0.0f - zero;  // -0 becomes +0
    const float levels = float(1 << b);
    const bool constant = range < smallest_range;
    return {zero, constant ? 0.0f : range / levels, constant ? 0.0f : levels / range, range, !has_nan && is_finite(range)};
}

GNNQLAB_FN uint32_t linear_code(float x, const LinearRow &row, float top) {
    const float steps = (x - row.zero) * row.inverse + 0.5f;  // not negative, so that cutting is rounding down
    return uint32_t(int32_t(steps < top ? steps : top));  // at most 255, and vectors have the signed conversion
}

template <int b>
GNNQLAB_FN uint64_t linear_block(const float *x, int count, const LinearRow &row) {
    uint64_t packed = 0;
    for (int c = 0; c < block_columns; c++)
        if (c < count) packed |= uint64_t(linear_code(x[c], row, float((1 << b) - 1))) << (b * c);
    return packed;
}

}  // namespace gnnqlab
