// One row at a time with vector instructions. The same functions without them: rows_scalar.h.
#pragma once

#include <cstdlib>
#include <utility>

#include "core/codec.h"
#include "cpu/indices.h"
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

// Four words of `long_lanes` counters, each in the lower half of a 64-bit lane. What is in the upper halves does not
// matter: multiply32 does not look at them.
struct Counters {
    Longs c0, c1, c2, c3;
};

// The first three rounds of one row. Only the block differs between its counters, so half of every product is the same
// for the whole row and is computed once, here.
struct RowStart {
    uint32_t first0, second2, third0, third2, third3;

    GNNQLAB_FN RowStart make(const Noise &noise, uint32_t id) {
        const uint32_t key0[3] = {noise.key0, noise.key0 + philox_weyl0, noise.key0 + 2 * philox_weyl0};
        const uint32_t key1[3] = {noise.key1, noise.key1 + philox_weyl1, noise.key1 + 2 * philox_weyl1};
        const uint64_t of_id = uint64_t(id) * philox_multiplier0, of_epoch = uint64_t(noise.epoch) * philox_multiplier1;
        const uint64_t of_word2 = uint64_t(uint32_t(of_id >> 32) ^ noise.stream ^ key1[0]) * philox_multiplier1;
        const uint64_t of_word0 = uint64_t(uint32_t(of_word2 >> 32) ^ uint32_t(of_epoch) ^ key0[1]) * philox_multiplier0;
        return {uint32_t(of_epoch >> 32) ^ key0[0], uint32_t(of_id) ^ key1[1], uint32_t(of_word2) ^ key0[2],
                uint32_t(of_word0 >> 32) ^ key1[2], uint32_t(of_word0)};
    }
};

// The noise of one row at a time, computed a few vectors of blocks side by side, because a vector's rounds wait for each
// other: rows of few columns are drawn together, those of very few columns share a vector.
class RowNoise {
  public:
    RowNoise(const Noise &noise, int64_t columns) : noise_(noise), blocks_((columns + 7) / 8) {
        vectors_ = (blocks_ + long_lanes - 1) / long_lanes;
        for (shared_ = 1; shared_ < long_lanes && 2 * shared_ * blocks_ <= long_lanes; shared_ *= 2) {}
        together_ = place_ = shared_ > 1 ? shared_ : vectors_ == 1 ? side_by_side : vectors_ == 2 ? side_by_side / 2 : 1;
        stride_ = (shared_ > 1 ? long_lanes / shared_ : vectors_ * long_lanes) * block_columns;
        const int64_t bytes = (stride_ * together_ + group) * 2;
        values_ = (uint16_t *)std::aligned_alloc(64, size_t(bytes + 63) / 64 * 64);
        for (int round = 0; round < philox_rounds; round++) {
            key0_[round] = fill_longs(noise.key0 + uint32_t(round) * philox_weyl0);
            key1_[round] = fill_longs(noise.key1 + uint32_t(round) * philox_weyl1);
        }
    }
    ~RowNoise() { std::free(values_); }
    RowNoise(const RowNoise &) = delete;
    RowNoise &operator=(const RowNoise &) = delete;

    // Noise of row i of a list that ends at `end`; rows must be asked for one after another. Readable up to a whole
    // group beyond the row's columns.
    __attribute__((always_inline)) inline const uint16_t *draw(const Indices &ids, int64_t i, int64_t end) {
        if (place_ >= together_) {
            place_ = 0;
            if (shared_ > 1) draw_shared(ids, i, end);
            else if (together_ == side_by_side) draw_rows<side_by_side, 1>(ids, i, end);
            else if (together_ == side_by_side / 2) draw_rows<side_by_side / 2, 2>(ids, i, end);
            else draw_row(RowStart::make(noise_, uint32_t(ids[i])));
        }
        return values_ + place_++ * stride_;
    }

  private:
    static constexpr int side_by_side = 4;

    // The rounds from `first` on, of several vectors of counters side by side; their noise one after another.
    template <int first, class... Vectors>
    __attribute__((always_inline)) inline void finish(uint16_t *out, Vectors... counters) const {
        for (int round = first; round < philox_rounds - 1; round++) (advance(counters, round), ...);
        int vector = 0;
        (store_last(counters, out + vector++ * long_lanes * block_columns), ...);
    }

    __attribute__((always_inline)) inline void advance(Counters &c, int round) const {
        const Longs product0 = multiply32(c.c0, fill_longs(philox_multiplier0));
        const Longs product1 = multiply32(c.c2, fill_longs(philox_multiplier1));
        c.c0 = exclusive_or(high32(product1), c.c1, key0_[round]);
        c.c1 = product1;
        c.c2 = exclusive_or(high32(product0), c.c3, key1_[round]);
        c.c3 = product0;
    }

    __attribute__((always_inline)) inline void store_last(const Counters &c, uint16_t *out) const {
        const Longs product0 = multiply32(c.c0, fill_longs(philox_multiplier0));
        const Longs product1 = multiply32(c.c2, fill_longs(philox_multiplier1));
        store_blocks(out, product0, product1, c.c1, c.c3, key0_[philox_rounds - 1], key1_[philox_rounds - 1]);
    }

    // A row's counters from `block` on after three rounds.
    __attribute__((always_inline)) inline Counters third_round(const RowStart &start, int64_t block) const {
        const Longs blocks = add_longs(load_longs(block_of_lane), fill_longs(uint64_t(block)));
        const Longs product0 =
            multiply32(exclusive_or(blocks, fill_longs(start.first0)), fill_longs(philox_multiplier0));
        const Longs product1 =
            multiply32(exclusive_or(high32(product0), fill_longs(start.second2)), fill_longs(philox_multiplier1));
        return {exclusive_or(high32(product1), fill_longs(start.third0)), product1,
                exclusive_or(product0, fill_longs(start.third2)), fill_longs(start.third3)};
    }

    // Some vectors of each of some rows, from `block` on.
    template <int vectors, size_t... k>
    __attribute__((always_inline)) inline void draw_vectors(std::index_sequence<k...>, const RowStart *starts,
                                                            int64_t block, uint16_t *out) const {
        finish<3>(out, third_round(starts[k / vectors], block + int64_t(k % vectors) * long_lanes)...);
    }

    __attribute__((always_inline)) inline void draw_row(const RowStart &start) const {
        int64_t vector = 0;
        const auto draw = [&](auto count) {
            uint16_t *out = values_ + vector * long_lanes * block_columns;
            draw_vectors<count>(std::make_index_sequence<count>(), &start, vector * long_lanes, out);
            vector += count;
        };
        while (vector + side_by_side <= vectors_) draw(std::integral_constant<int, side_by_side>());
        while (vector + 2 <= vectors_) draw(std::integral_constant<int, 2>());
        while (vector < vectors_) draw(std::integral_constant<int, 1>());
    }

    template <int rows, int vectors>
    __attribute__((always_inline)) inline void draw_rows(const Indices &ids, int64_t first, int64_t end) const {
        RowStart starts[rows];
        for (int k = 0; k < rows; k++)
            starts[k] = RowStart::make(noise_, uint32_t(ids[first + k < end ? first + k : end - 1]));
        draw_vectors<vectors>(std::make_index_sequence<rows * vectors>(), starts, 0, values_);
    }

    void draw_shared(const Indices &ids, int64_t first, int64_t end) const {
        uint64_t id[long_lanes], block[long_lanes];
        for (int lane = 0; lane < long_lanes; lane++) {
            const int place = int(block_of_lane[lane]), blocks = long_lanes / shared_;
            const int64_t row = first + place / blocks;
            id[lane] = uint32_t(ids[row < end ? row : end - 1]);
            block[lane] = uint64_t(place % blocks);
        }
        finish<0>(values_, Counters{load_longs(id), load_longs(block), fill_longs(noise_.epoch), fill_longs(noise_.stream)});
    }

    Noise noise_;
    int64_t blocks_, vectors_;  // of a row
    int shared_;                // rows in one vector
    int together_, place_;      // rows drawn at once; the next one of them
    int64_t stride_;            // values between two of them
    uint16_t *values_;
    Longs key0_[philox_rounds], key1_[philox_rounds];
};

template <class T>
GNNQLAB_FN Ints fixed_point(const T *x, const uint16_t *noise, Floats zero, Floats steps) {
    return add(round_to_ints(multiply(subtract(load(x), zero), steps)), load_noise(noise));
}

// store_codes clamps what the definition clamps before the noise is added; no difference to the code.
template <int b, class T>
GNNQLAB_FN void encode_group(const T *x, const uint16_t *noise, Floats zero, Floats steps, uint8_t *out) {
    store_codes<b>(fixed_point(x, noise, zero, steps), fixed_point(x + lanes, noise + lanes, zero, steps),
                   fixed_point(x + 2 * lanes, noise + 2 * lanes, zero, steps),
                   fixed_point(x + 3 * lanes, noise + 3 * lanes, zero, steps), out);
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
