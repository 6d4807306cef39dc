// bfloat16: the upper half of a float32, rounded to nearest or in a given direction.
#pragma once

#include <cstring>

#include "core/port.h"

namespace gnnqlab {

struct Bfloat16 {
    uint16_t bits;
};

GNNQLAB_FN uint32_t float_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

GNNQLAB_FN float bits_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

GNNQLAB_FN float to_float(float x) { return x; }
GNNQLAB_FN float to_float(Bfloat16 x) { return bits_float(uint32_t(x.bits) << 16); }

// To the nearest, ties to even; NaN stays NaN.
GNNQLAB_FN Bfloat16 to_bfloat16(float x) {
    const uint32_t bits = float_bits(x);
    if (x != x) return {uint16_t((bits | 0x400000u) >> 16)};
    return {uint16_t((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16)};
}

// The largest bfloat16 value that is not above x, as float32.
GNNQLAB_FN float bfloat16_down(float x) {
    const uint32_t bits = float_bits(x), truncated = bits & 0xFFFF0000u;
    return bits_float((bits >> 31) && bits != truncated ? truncated + 0x10000u : truncated);
}

// The smallest bfloat16 value that is not below a non-negative x, as float32.
GNNQLAB_FN float bfloat16_up(float x) { return bits_float((float_bits(x) + 0xFFFFu) & 0xFFFF0000u); }

}  // namespace gnnqlab
