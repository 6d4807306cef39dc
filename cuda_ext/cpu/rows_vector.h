// One row at a time with vector instructions. The same functions without them: rows_scalar.h.
#pragma once

#include <cstdlib>

#include "core/codec.h"
#include "cpu/simd.h"

namespace gnnqlab {
namespace {

constexpr int group = 4 * lanes;

struct RowRange {
    float lowest, highest;
    bool has_nan;
};

template <class T>
GNNQLAB_FN RowRange row_range(const T *x, int64_t columns) {
    T few[lanes];
    if (columns < lanes) {  // fill up a vector with copies of the first column
        for (int c = 0; c < lanes; c++) few[c] = x[c < columns ? c : 0];
        x = few;
        columns = lanes;
    }
    Floats low[4], high[4];
    Flags nan = unordered(fill(0.0f), fill(0.0f));
    for (int k = 0; k < 4; k++) low[k] = high[k] = load(x);
    int64_t c = 0;
    for (; c + group <= columns; c += group) {
        Floats v[4];
        for (int k = 0; k < 4; k++) {
            v[k] = load(x + c + k * lanes);
            low[k] = smaller(low[k], v[k]);
            high[k] = larger(high[k], v[k]);
        }
        nan = either(nan, either(unordered(v[0], v[1]), unordered(v[2], v[3])));
    }
    for (; c < columns; c += lanes) {  // the last vector reaches back over columns already seen
        const Floats v = load(x + (c + lanes <= columns ? c : columns - lanes));
        low[0] = smaller(low[0], v);
        high[0] = larger(high[0], v);
        nan = either(nan, unordered(v, v));
    }
    return {smallest(smaller(smaller(low[0], low[1]), smaller(low[2], low[3]))),
            largest(larger(larger(high[0], high[1]), larger(high[2], high[3]))), any(nan)};
}

// Block that ends up at 128-bit place `lane` of 2 * long_lanes after store_blocks: the even places come first.
constexpr int blocks_a_call = 2 * long_lanes;

// Philox on two vectors of counters; the uneven words start as the same value in every lane.
GNNQLAB_FN void philox_blocks(const Noise &noise, const Longs ids[2], const Longs blocks[2], uint16_t *out) {
    Longs c0[2], c1[2], c2[2], c3[2];
    const Longs multiplier0 = fill_longs(philox_multiplier0), multiplier1 = fill_longs(philox_multiplier1);
    for (int k = 0; k < 2; k++) {
        c0[k] = ids[k], c1[k] = blocks[k];
        c2[k] = fill_longs(noise.epoch), c3[k] = fill_longs(noise.stream);
    }
    uint32_t key0 = noise.key0, key1 = noise.key1;
    for (int round = 0; round < philox_rounds; round++) {
        const Longs round_key0 = fill_longs(key0), round_key1 = fill_longs(key1);
        for (int k = 0; k < 2; k++) {
            // The upper halves of the words hold whatever was left there: multiply32 does not look at them.
            const Longs product0 = multiply32(c0[k], multiplier0), product1 = multiply32(c2[k], multiplier1);
            c0[k] = exclusive_or(high32(product1), c1[k], round_key0);
            c1[k] = product1;
            c2[k] = exclusive_or(high32(product0), c3[k], round_key1);
            c3[k] = product0;
        }
        key0 += philox_weyl0;
        key1 += philox_weyl1;
    }
    for (int k = 0; k < 2; k++) store_blocks(out + k * long_lanes * block_columns, c0[k], c1[k], c2[k], c3[k]);
}

// The noise of a few rows, computed in full vectors: several short rows share one call.
class RowNoise {
  public:
    RowNoise(const Noise &noise, int64_t columns, int rows) : noise_(noise), blocks_((columns + 7) / 8) {
        blocks_a_row_ = (blocks_ + blocks_a_call - 1) / blocks_a_call * blocks_a_call;
        for (shared_ = 1; 2 * shared_ * blocks_ <= blocks_a_call; shared_ *= 2) blocks_a_row_ = blocks_a_call / (2 * shared_);
        const int64_t values = (blocks_a_row_ * (rows + shared_) + blocks_a_call) * block_columns;
        values_ = (uint16_t *)std::aligned_alloc(64, (size_t(values) * 2 + 63) / 64 * 64);
    }
    ~RowNoise() { std::free(values_); }
    RowNoise(const RowNoise &) = delete;
    RowNoise &operator=(const RowNoise &) = delete;

    void draw(const uint32_t *ids, int rows) {
        for (int row = 0; row < rows; row += shared_) {
            uint16_t *out = values_ + row * blocks_a_row_ * block_columns;
            if (shared_ == 1) {
                const Longs id[2] = {fill_longs(ids[row]), fill_longs(ids[row])};
                for (int64_t first = 0; first < blocks_; first += blocks_a_call) {
                    const Longs base = fill_longs(uint64_t(first));
                    const Longs block[2] = {add_longs(load_longs(lane_block), base),
                                            add_longs(load_longs(lane_block + long_lanes), base)};
                    philox_blocks(noise_, id, block, out + first * block_columns);
                }
            } else {
                uint64_t id_of[blocks_a_call], block_of[blocks_a_call];
                for (int lane = 0; lane < blocks_a_call; lane++) {
                    const int place = int(lane_block[lane]), other = row + place / int(blocks_a_row_);
                    id_of[lane] = ids[other < rows ? other : rows - 1];
                    block_of[lane] = uint64_t(place % int(blocks_a_row_));
                }
                const Longs id[2] = {load_longs(id_of), load_longs(id_of + long_lanes)};
                const Longs block[2] = {load_longs(block_of), load_longs(block_of + long_lanes)};
                philox_blocks(noise_, id, block, out);
            }
        }
    }

    // Noise of the drawn row's columns; readable up to a whole group beyond them.
    const uint16_t *row(int row) const { return values_ + row * blocks_a_row_ * block_columns; }

  private:
    static constexpr uint64_t lane_block[blocks_a_call] = {
#if defined(__AVX512BW__)
        0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15,
#else
        0, 2, 1, 3, 4, 6, 5, 7,
#endif
    };
    Noise noise_;
    int64_t blocks_, blocks_a_row_;
    int shared_;
    uint16_t *values_;
};

template <int b, class T>
GNNQLAB_FN void encode_group(const T *x, const uint16_t *noise, Floats zero, Floats steps, uint8_t *out) {
    const Ints top = fill_ints(((1 << b) - 1) << 16);
    Ints v[4];
    for (int k = 0; k < 4; k++) {
        const Ints fixed = round_to_ints(multiply(subtract(load(x + k * lanes), zero), steps));
        v[k] = add(smaller(fixed, top), load_noise(noise + k * lanes));
    }
    store_codes<b>(v[0], v[1], v[2], v[3], out);
}

template <int b, class T>
GNNQLAB_FN void encode_row(const T *x, int64_t columns, const RowParameters &row, const uint16_t *noise, uint8_t *out) {
    const Floats zero = fill(row.zero), steps = fill(row.steps);
    int64_t c = 0;
    for (; c + group <= columns; c += group) encode_group<b>(x + c, noise + c, zero, steps, out + c * b / 8);
    if (c == columns) return;
    float rest[group];
    uint8_t bytes[group * b / 8];
    for (int i = 0; i < group; i++) rest[i] = i < columns - c ? to_float(x[c + i]) : row.zero;
    encode_group<b>(rest, noise + c, zero, steps, bytes);
    std::memcpy(out + c * b / 8, bytes, size_t(row_bytes(columns - c, b)));
}

enum class Target { put, stream, accumulate };

template <Target target>
GNNQLAB_FN void write(float *out, Floats x) {
    if constexpr (target == Target::put) store(out, x);
    if constexpr (target == Target::stream) stream(out, x);
    if constexpr (target == Target::accumulate) store(out, add(load(out), x));
}

template <int b, Target target>
GNNQLAB_FN void decode_row(const uint8_t *in, int64_t columns, float scale, float zero, float *out) {
    const auto decoder = Decoder<b>::make(scale, zero);
    int64_t c = 0;
    for (; c + lanes <= columns; c += lanes) write<target>(out + c, decoder.values(in + c * b / 8));
    if (c == columns) return;
    uint8_t bytes[lanes * b / 8] = {};
    std::memcpy(bytes, in + c * b / 8, size_t(row_bytes(columns - c, b)));
    float rest[lanes];
    store(rest, decoder.values(bytes));
    for (int i = 0; i < columns - c; i++) out[c + i] = target == Target::accumulate ? out[c + i] + rest[i] : rest[i];
}

template <class T>
GNNQLAB_FN void drop_row(const T *x, int64_t columns, float factor, const uint16_t *noise, uint16_t threshold, T *out) {
    int64_t c = 0;
    for (; c + lanes <= columns; c += lanes) store(out + c, keep(load(x + c), fill(factor), noise + c, threshold));
    if (c == columns) return;
    T rest[lanes] = {};
    std::memcpy(rest, x + c, size_t(columns - c) * sizeof(T));
    store(rest, keep(load(rest), fill(factor), noise + c, threshold));
    std::memcpy(out + c, rest, size_t(columns - c) * sizeof(T));
}

}  // namespace
}  // namespace gnnqlab
