// One row at a time without vector instructions: the block functions that a CUDA thread runs, in a loop.
#pragma once

#include "core/codec.h"
#include "cpu/indices.h"

namespace gnnqlab {
namespace {

constexpr int rows_at_once = 1;

// Least and largest value of a row; NaN if it has any.
template <class T>
GNNQLAB_FN void row_ranges(const T *const *rows, int64_t columns, float *lowest, float *highest) {
    const T *x = rows[0];
    float low = to_float(x[0]), high = low;
    bool has_nan = false;
    for (int64_t c = 0; c < columns; c++) {
        const float v = to_float(x[c]);
        low = v < low ? v : low;
        high = v > high ? v : high;
        has_nan |= v != v;
    }
    *lowest = has_nan ? NAN : low;
    *highest = high;
}

// Computed where it is used; a row's noise is its counter.
struct RowNoiseAt {
    const Noise *noise;
    uint32_t id;
    Words block(int64_t column) const { return philox(*noise, id, uint32_t(column / block_columns)); }
};

class RowNoise {
  public:
    RowNoise(const Noise &noise, int64_t) : noise_(noise) {}
    RowNoiseAt draw(const Indices &ids, int64_t i, int64_t) const { return {&noise_, uint32_t(ids[i])}; }

  private:
    Noise noise_;
};

GNNQLAB_FN int columns_in_block(int64_t column, int64_t columns) {
    return int(columns - column < block_columns ? columns - column : block_columns);
}

template <int b, class T>
GNNQLAB_FN void encode_row(const T *x, int64_t columns, float zero, float steps, RowNoiseAt noise, uint8_t *out) {
    const RowParameters row = {zero, 0.0f, steps, 0.0f, true};
    for (int64_t c = 0; c < columns; c += block_columns) {
        const int count = columns_in_block(c, columns);
        const uint64_t packed = encode_block<b>(x + c, count, row, noise.block(c));
        for (int byte = 0; byte < row_bytes(count, b); byte++) out[c * b / 8 + byte] = uint8_t(packed >> (8 * byte));
    }
}

enum class Target { put, stream, accumulate };

template <int b, Target target>
GNNQLAB_FN void decode_row(const uint8_t *in, int64_t columns, float scale, float zero, float *out) {
    for (int64_t c = 0; c < columns; c += block_columns) {
        const int count = columns_in_block(c, columns);
        uint64_t packed = 0;
        for (int byte = 0; byte < row_bytes(count, b); byte++) packed |= uint64_t(in[c * b / 8 + byte]) << (8 * byte);
        for (int i = 0; i < count; i++) {
            const float decoded = decode_column<b>(packed, i, scale, zero);
            out[c + i] = target == Target::accumulate ? out[c + i] + decoded : decoded;
        }
    }
}

GNNQLAB_FN void put(float *out, float x) { *out = x; }
GNNQLAB_FN void put(Bfloat16 *out, float x) { *out = to_bfloat16(x); }

template <class T>
GNNQLAB_FN void drop_row(const T *x, int64_t columns, float factor, RowNoiseAt noise, uint16_t threshold, T *out) {
    for (int64_t c = 0; c < columns; c += block_columns) {
        const Words words = noise.block(c);
        for (int i = 0; i < columns_in_block(c, columns); i++)
            put(out + c + i, noise_bits(words, i) >= threshold ? to_float(x[c + i]) * factor : 0.0f);
    }
}

GNNQLAB_FN void stream_end() {}

}  // namespace
}  // namespace gnnqlab
