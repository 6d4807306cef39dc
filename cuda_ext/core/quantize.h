// Symmetric codes: q = floor(x / s + u), s = max|x| / L, in fixed point of sixteen fractional bits.
#pragma once

#include <cstring>

#include "core/port.h"

namespace gnnqlab {

constexpr float smallest_magnitude = 0x1p-100f; // below it a row is zeros
constexpr uint32_t not_finite = 0x7F800000u;    // magnitudes from here on are Inf and NaN
constexpr int half_step = 1 << 15;              // noise of rounding to nearest

// Magnitudes are ordered as integers, Inf and NaN above all others.
GNNQLAB_FN uint32_t magnitude_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7FFFFFFFu;
}

GNNQLAB_FN float magnitude_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

// Steps of 2^-16 of a code in a unit, and the width of a code.
struct Symmetric {
    float steps, scale;
};

GNNQLAB_FN Symmetric symmetric(uint32_t largest, float levels) {
    const float magnitude = magnitude_of(largest);
    if (magnitude < smallest_magnitude) return {0.0f, 0.0f};
    return {levels * 65536.0f / magnitude, magnitude / levels};
}

// `fixed` is x * steps, rounded to nearest even; the largest may be one above levels * 65536.
GNNQLAB_FN int symmetric_code(int fixed, int noise, int levels) {
    const int code = (fixed + noise) >> 16;
    return code > levels ? levels : code < -levels ? -levels : code;
}

} // namespace gnnqlab
