// Attention over edges: logit, softmax and its gradient, element by element.
//
// For an edge e from u to i and a head: z = s_u + t_i, l = leaky(z), a_e = exp(l - m_i) * r_i with m_i the row's largest
// l and r_i = 1 / sum exp(l - m_i). The backward pass computes a_e again from m_i and r_i: nothing is kept per edge.
// With d_i = <dout_i, out_i>: dz_e = a_e (<dout_i, v_u> - d_i) leaky'(z), dv_u = sum a_e dout_i.
#pragma once

#include <cstring>

#include "core/aggregate.h"

namespace gnnqlab {

GNNQLAB_FN float leaky(float z, float slope) { return z > 0.0f ? z : z * slope; }
GNNQLAB_FN float leaky_slope(float z, float slope) { return z > 0.0f ? 1.0f : slope; }

// exp(x) for x <= 88 by 2^n exp(r), |r| <= ln(2)/2: the Taylor series to r^7 errs by less than 6e-9 of the value. Below
// -87 it stays exp(-87), 1.6e-38: beside the row's largest term, which is 1, that is nothing. NaN stays NaN.
GNNQLAB_FN float exponential(float x) {
    x = x < -87.0f ? -87.0f : x;
    const float shifted = multiply_add(x, 1.44269504f, 12582912.0f); // 1.5 * 2^23: the integer part lands in the low bits
    const float n = shifted - 12582912.0f;
    float r = multiply_add(n, -0.693359375f, x); // ln(2) in two parts; the first has few digits, so n * part is exact
    r = multiply_add(n, 2.12194440e-4f, r);
    float sum = 1.0f / 5040.0f;
    sum = multiply_add(sum, r, 1.0f / 720.0f);
    sum = multiply_add(sum, r, 1.0f / 120.0f);
    sum = multiply_add(sum, r, 1.0f / 24.0f);
    sum = multiply_add(sum, r, 1.0f / 6.0f);
    sum = multiply_add(sum, r, 0.5f);
    sum = multiply_add(sum, r, 1.0f);
    sum = multiply_add(sum, r, 1.0f);
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    const uint32_t power_bits = (bits << 23) + 0x3f800000u;
    float power;
    memcpy(&power, &power_bits, sizeof power);
    return sum * power;
}

GNNQLAB_FN float edge_gradient(float attention, float dot, float row_dot, float slope) {
    return attention * (dot - row_dot) * slope;
}

// What the backward pass of a row needs at each of its edges, for `heads` heads one after the other.
enum Packed : int64_t { kTarget = 0, kLargest = 1, kReciprocal = 2, kRowDot = 3, kPackedParts = 4 };

} // namespace gnnqlab
