// Between two convolutions, element by element: normalise a row, activate, and the slopes for the gradient.
// gnnqlab/kernels/reference/nodewise.py is the definition.
//
// Functions take one float or a vector of the compiler, V; I is the unsigned integer, or vector of them, of its size.
#pragma once

#include <cstring>

#include "core/port.h"

namespace gnnqlab {

// elu_output is for gradients alone: in the place of z stands what came out of ELU.
enum Activation { identity = 0, relu = 1, elu = 2, gelu = 3, gelu_tanh = 4, elu_output = 5 };

// Sums of gradients over rows are made for so many rows at a time, whatever the number of threads.
constexpr int64_t rows_a_partial = 256;

template <class To, class From>
GNNQLAB_FN To same_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "sizes differ");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

// e^x for x <= 0; below 2^-125 it stays there. x = n ln 2 + r with |r| <= ln 2 / 2, e^r by its series up to r^7.
template <class I, class V>
GNNQLAB_FN V exp_of_negative(V x) {
    const V zero = V{}, least = zero - 86.6f, round = zero + 12582912.0f;  // 1.5 * 2^23: its last bits count ones
    x = x < least ? least : x;
    const V shifted = x * 1.44269504f + round, n = shifted - round;
    const V r = (x - n * 0.693359375f) + n * 2.12194440e-4f;  // ln 2 in two parts: the first product is exact
    V series = zero + 1.0f / 5040;
    series = series * r + 1.0f / 720;
    series = series * r + 1.0f / 120;
    series = series * r + 1.0f / 24;
    series = series * r + 1.0f / 6;
    series = series * r + 0.5f;
    series = series * r + 1.0f;
    series = series * r + 1.0f;
    return series * same_bits<V>((same_bits<I>(shifted) << 23) + 0x3F800000u);
}

// The normal distribution's share below x; `density` becomes e^(-x^2 / 2). Abramowitz & Stegun 7.1.26: off by 1e-7.
template <class I, class V>
GNNQLAB_FN V normal_below(V x, V *density) {
    const V zero = V{}, size = x < zero ? -x : x;
    *density = exp_of_negative<I>(x * x * -0.5f);
    const V t = 1.0f / (size * (0.3275911f * 0.70710678f) + 1.0f);
    V tail = zero + 1.061405429f;
    tail = tail * t - 1.453152027f;
    tail = tail * t + 1.421413741f;
    tail = tail * t - 0.284496736f;
    tail = tail * t + 0.254829592f;
    tail = tail * t * *density * 0.5f;
    return x < zero ? tail : 1.0f - tail;
}

// (1 + tanh u) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3), and its slope in x (Hendrycks & Gimpel, 2016).
template <class I, class V>
GNNQLAB_FN V tanh_below(V x, V *slope) {
    const V zero = V{}, u = x * 0.79788456f * (1.0f + x * x * 0.044715f), twice = (u < zero ? u : -u) * 2.0f;
    const V tail = twice < -86.0f + zero ? zero : exp_of_negative<I>(twice), share = 1.0f / (1.0f + tail);
    *slope = tail * share * share * (x * x * (6.0f * 0.79788456f * 0.044715f) + 2.0f * 0.79788456f);
    *slope = tail > zero ? *slope : zero;  // far out x^2 is infinite
    return u < zero ? tail * share : share;
}

template <int activation, class I, class V>
GNNQLAB_FN V activated(V z) {
    const V zero = V{};
    if constexpr (activation == relu) return z < zero ? zero : z;  // NaN stays NaN
    if constexpr (activation == elu) return z > zero ? z : exp_of_negative<I>(z) - 1.0f;
    if constexpr (activation == gelu) {
        V density;
        return z * normal_below<I>(z, &density);
    }
    if constexpr (activation == gelu_tanh) {
        V slope;
        return z * tanh_below<I>(z, &slope);
    }
    return z;
}

// The gradient of a value that was activated: `gradient` times the activation's slope at z.
template <int activation, class I, class V>
GNNQLAB_FN V through(V z, V gradient) {
    const V zero = V{};
    if constexpr (activation == relu) return z > zero ? gradient : zero;
    if constexpr (activation == elu) return z > zero ? gradient : gradient * exp_of_negative<I>(z);
    if constexpr (activation == gelu) {
        V density;
        const V below = normal_below<I>(z, &density);
        return gradient * (below + z * density * 0.39894228f);
    }
    if constexpr (activation == gelu_tanh) {
        V slope;
        const V below = tanh_below<I>(z, &slope);
        return gradient * (below + z * slope);
    }
    if constexpr (activation == elu_output) return z > zero ? gradient : gradient * (z + 1.0f);
    return gradient;
}

}  // namespace gnnqlab
