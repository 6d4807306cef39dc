// A row to symmetric codes: its largest magnitude, and codes from steps and noise.
#pragma once

#include <cmath>

#include "core/quantize.h"
#include "cpu/rows.h"

namespace gnnqlab {
namespace {

GNNQLAB_FN uint32_t largest_bits(const float *x, int64_t columns) {
    uint32_t largest = 0;
    for (int64_t c = 0; c < columns; c++) {
        const uint32_t bits = magnitude_bits(x[c]);
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

#if defined(__AVX2__)
constexpr int kRounded = 32;  // columns rounded at once
constexpr int64_t kSame = 64; // columns whose noise is at hand when all have the same

// Where a row's noise comes from: a list of drawn bits, readable to the end of what is rounded at once, or one half for
// all columns.
struct NoiseOfRow {
    const uint16_t *bits;
    int64_t step;
};

// Codes of `kRounded` columns, of which the row has `left`; `noise` begins at the first of them.
GNNQLAB_FN void round_columns(const float *x, int64_t left, float steps, int levels, NoiseOfRow noise, int8_t *out) {
    Ints codes[kRounded / lanes];
    const auto round = [&](int k, Floats values) {
        const Ints drawn = load_noise(noise.bits + k * lanes * noise.step);
        codes[k] = within(upper_half(add(round_to_ints(multiply(values, fill(steps))), drawn)), levels);
    };
    if (left >= kRounded) {
        for (int k = 0; k < kRounded / lanes; k++) round(k, load(x + k * lanes));
        return store_bytes(out, codes);
    }
    for (int k = 0; k < kRounded / lanes; k++) round(k, load_first(x + k * lanes, int(left) - k * lanes, fill(0.0f)));
    int8_t rest[kRounded];
    store_bytes(rest, codes);
    memcpy(out, rest, size_t(left));
}

GNNQLAB_FN void encode_codes(const float *x, int64_t columns, float steps, int levels, NoiseOfRow noise, int8_t *out) {
    for (int64_t c = 0; c < columns; c += kRounded) {
        const NoiseOfRow from_here = {noise.bits + c * noise.step, noise.step};
        round_columns(x + c, columns - c, steps, levels, from_here, out + c);
    }
}

class Rounding {
  public:
    Rounding(const Noise &noise, int64_t columns, bool stochastic) : rows_(noise, columns), stochastic_(stochastic) {
        for (uint16_t &half : halves_) half = half_step;
    }
    // Of row i of a list that ends at `end`; rows must be asked for one after another.
    NoiseOfRow of(const Indices &ids, int64_t i, int64_t end) {
        if (stochastic_) return {rows_.draw(ids, i, end), 1};
        return {halves_, 0};
    }

  private:
    RowNoise rows_;
    bool stochastic_;
    uint16_t halves_[kSame];
};
#else
struct NoiseOfRow {
    RowNoiseAt drawn;
    bool stochastic;
};

GNNQLAB_FN void encode_codes(const float *x, int64_t columns, float steps, int levels, NoiseOfRow noise, int8_t *out) {
    for (int64_t c = 0; c < columns; c += block_columns) {
        Words words = {};
        if (noise.stochastic) words = noise.drawn.block(c);
        for (int k = 0; k < columns_in_block(c, columns); k++)
            out[c + k] = int8_t(symmetric_code(int(__builtin_rintf(x[c + k] * steps)),
                                               noise.stochastic ? int(noise_bits(words, k)) : half_step, levels));
    }
}

class Rounding {
  public:
    Rounding(const Noise &noise, int64_t columns, bool stochastic) : rows_(noise, columns), stochastic_(stochastic) {}
    NoiseOfRow of(const Indices &ids, int64_t i, int64_t end) { return {rows_.draw(ids, i, end), stochastic_}; }

  private:
    RowNoise rows_;
    bool stochastic_;
};
#endif

} // namespace
} // namespace gnnqlab
