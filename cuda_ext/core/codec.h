// The message codec's arithmetic: float32, every operation rounded by itself, so that each processor gives the same
// bytes. gnnqlab/kernels/reference/codec.py is the definition. The block functions take the eight columns that share
// one Philox block; a CUDA thread calls them, and so does the CPU path without vector instructions.
#pragma once

#include <cmath>

#include "core/bfloat16.h"
#include "core/noise.h"

namespace gnnqlab {

// Why a row was refused; native.py and codec.py know the same numbers. A call returns 0 or position * 8 + reason.
enum Refusal : int64_t { non_finite = 1, no_such_row = 2, id_too_large = 3, no_such_width = 4, outside_payload = 5 };

constexpr float smallest_range = 0x1p-100f;  // below it 65536 / S could overflow

struct RowParameters {
    float zero, scale;
    float steps;  // 65536 / S, the factor to 16-bit fixed point; 0 for a constant row
    float range;  // max - min before any rounding
    bool finite;
};

GNNQLAB_FN bool is_width(int64_t b) { return b == 1 || b == 2 || b == 4 || b == 8; }
GNNQLAB_FN int64_t row_bytes(int64_t columns, int64_t b) { return (columns * b + 7) / 8; }
GNNQLAB_FN bool is_finite(float x) { return (float_bits(x) & 0x7F800000u) != 0x7F800000u; }

// With 16-bit parameters the zero-point is rounded down and the scale up before any code is computed: each value then
// lies between Z and Z + (2^b - 1) S, and decoding stays unbiased.
GNNQLAB_FN RowParameters row_parameters(float lowest, float highest, bool has_nan, int b, bool sixteen) {
    const float levels = float((1 << b) - 1), minimum = lowest + 0.0f, top = highest + 0.0f;  // -0 becomes +0
    const float zero = sixteen ? bfloat16_down(minimum) : minimum;
    const float span = top - zero;
    float scale = span / levels;
    if (sixteen) scale = bfloat16_up(scale);
    const bool finite = !has_nan && is_finite(span) && is_finite(scale);
    if (span < smallest_range) scale = 0.0f;
    return {zero, scale, scale > 0.0f ? 65536.0f / scale : 0.0f, top - minimum, finite};
}

GNNQLAB_FN int32_t round_to_int(float x) {
#if defined(__CUDA_ARCH__)
    return __float2int_rn(x);
#else
    return int32_t(lrintf(x));
#endif
}

// q = floor((x - Z) / S + u), u the noise of 16 bits; the clamp keeps q below 2^b.
GNNQLAB_FN uint32_t code(float x, const RowParameters &row, int32_t top, uint32_t noise) {
    const int32_t fixed = round_to_int((x - row.zero) * row.steps);
    return (uint32_t(fixed < top ? fixed : top) + noise) >> 16;
}

GNNQLAB_FN float value(uint32_t q, float scale, float zero) { return float(q) * scale + zero; }

// Eight codes of b bits, the first column lowest. Columns from count on get code 0.
template <int b, class T>
GNNQLAB_FN uint64_t encode_block(const T *x, int count, const RowParameters &row, const Words &words) {
    constexpr int32_t top = ((1 << b) - 1) << 16;
    uint64_t packed = 0;
    for (int c = 0; c < block_columns; c++)
        if (c < count) packed |= uint64_t(code(to_float(x[c]), row, top, noise_bits(words, c))) << (b * c);
    return packed;
}

template <int b>
GNNQLAB_FN float decode_column(uint64_t packed, int c, float scale, float zero) {
    return value(uint32_t(packed >> (b * c)) & ((1u << b) - 1u), scale, zero);
}

}  // namespace gnnqlab
