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

// Finds the least and the largest value of a row by integer comparisons of its bits, which more units of a processor
// do: as signed numbers the bits of positive floats are ordered and above those of negative ones; as unsigned numbers
// those of either sign are ordered by magnitude, negative floats above positive ones. Infinities and NaN have the
// largest magnitudes of their sign, so a row that has one shows it.
struct Extremes {
    static constexpr uint32_t sign = 0x80000000u;
    Ints top;    // largest signed: the largest value, unless all are negative
    Ints most;   // largest unsigned: the least value, if any is negative
    Ints least;  // least unsigned: the least value if none is negative, the largest if all are

    template <class T>
    GNNQLAB_FN Extremes of(const T *x, int64_t columns) {
        T few[lanes];
        if (columns < lanes) {  // fill up a vector with copies of the first column
            for (int c = 0; c < lanes; c++) few[c] = x[c < columns ? c : 0];
            x = few;
            columns = lanes;
        }
        Extremes found = {bits(load(x)), bits(load(x)), bits(load(x))};
        int64_t c = 0;
        for (; c + group <= columns; c += group)
            for (int k = 0; k < 4; k++) found.see(in_register(bits(load(x + c + k * lanes))));
        for (; c < columns; c += lanes)  // the last vector reaches back over columns already seen
            found.see(in_register(bits(load(x + (c + lanes <= columns ? c : columns - lanes)))));
        return found;
    }

    // In a form in which the largest unsigned element counts.
    __attribute__((always_inline)) inline Ints folded() const {
        return fold_three(exclusive_or(top, fill_ints(sign)), most, exclusive_or(least, fill_ints(~0u)));
    }

    __attribute__((always_inline)) inline void see(Ints v) {
        top = larger_signed(top, v);
        most = larger_unsigned(most, v);
        least = smaller_unsigned(least, v);
    }
};

// Least and largest value of each of `rows_at_once` rows; one of them is not finite if any value is not.
template <class T, size_t... k>
GNNQLAB_FN void row_ranges(std::index_sequence<k...>, const T *const *rows, int64_t columns, float *lowest,
                           float *highest) {
    store_ends(lowest, highest, fold_rows(Extremes::of(rows[k], columns).folded()...));
}

template <class T>
GNNQLAB_FN void row_ranges(const T *const *rows, int64_t columns, float *lowest, float *highest) {
    row_ranges(std::make_index_sequence<rows_at_once>(), rows, columns, lowest, highest);
}

// Four words of `long_lanes` counters, each in the lower half of a 64-bit lane. What is in the upper halves does not
// matter: multiply32 does not look at them.
struct Counters {
    Longs c0, c1, c2, c3;
};

// The noise of one row at a time, computed a few vectors of blocks side by side, because a vector's rounds wait for each
// other: rows of few columns are drawn together, eight in one go (rows of 64 columns were encoded a tenth faster with AVX2
// than when each was drawn by itself), and those of very few columns share a vector.
//
// A call's counters differ in row and block. After two rounds c0 and c1 depend on the row alone, c2 is a row's part xor a
// block's part, and c3 depends on the block alone. So blocks' parts are computed once a call, rows' parts once a row and
// for a vector of rows at once, and what is left of the first three rounds is one multiplication.
class RowNoise {
  public:
    RowNoise(const Noise &noise, int64_t columns) : noise_(noise), blocks_((columns + 7) / 8) {
        vectors_ = (blocks_ + long_lanes - 1) / long_lanes;
        for (shared_ = 1; shared_ < long_lanes && 2 * shared_ * blocks_ <= long_lanes; shared_ *= 2) {}
        together_ = shared_ > 1 ? shared_ * vectors_at_once : vectors_ <= 2 ? rows_drawn : 1;
        place_ = together_;
        stride_ = (shared_ > 1 ? long_lanes / shared_ : vectors_ * long_lanes) * block_columns;
        const int64_t value_bytes = ((stride_ * together_ + group) * 2 + 63) / 64 * 64;
        values_ = (uint16_t *)std::aligned_alloc(64, size_t(value_bytes + 2 * vectors_ * long_lanes * 8));
        of_block_ = (uint64_t *)((char *)values_ + value_bytes);
        for (int round = 0; round < philox_rounds; round++) {
            key0_[round] = fill_longs(noise.key0 + uint32_t(round) * philox_weyl0);
            key1_[round] = fill_longs(noise.key1 + uint32_t(round) * philox_weyl1);
        }
        const Longs of_epoch = multiply32(fill_longs(noise.epoch), fill_longs(philox_multiplier1));
        const Longs first = exclusive_or(high32(of_epoch), key0_[0]);
        for (int64_t vector = 0; vector < vectors_; vector++) {
            const Longs block = add_longs(load_longs(block_of_lane), fill_longs(uint64_t(vector * long_lanes)));
            const Longs product = multiply32(exclusive_or(block, first), fill_longs(philox_multiplier0));
            store(of_block_ + 2 * vector * long_lanes, high32(product));
            store(of_block_ + (2 * vector + 1) * long_lanes, product);
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
            if (shared_ > 1) {
                draw_shared(std::make_index_sequence<vectors_at_once>(), ids, i, end);
            } else if (vectors_ > 2) {
                if (started_ == long_lanes) start_rows(ids, i, end);
                draw_row();
                started_++;
            } else {
                for (int k = 0; k < rows_drawn; k += long_lanes) {
                    start_rows(ids, i + k, end);
                    if (vectors_ == 1) draw_rows<vectors_at_once, 1>(values_ + k * stride_);
                    else draw_rows<vectors_at_once / 2, 2>(values_ + k * stride_);
                }
            }
        }
        return values_ + place_++ * stride_;
    }

  private:
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

    void start_rows(const Indices &ids, int64_t first, int64_t end) {
        uint64_t some[long_lanes];
        const uint64_t *id = (const uint64_t *)ids.list + first;
        if (!ids.list || ids.narrow || first + long_lanes > end) {
            for (int k = 0; k < long_lanes; k++) some[k] = uint64_t(ids[first + k < end ? first + k : end - 1]);
            id = some;
        }
        const Longs m0 = fill_longs(philox_multiplier0), m1 = fill_longs(philox_multiplier1);
        const Longs of_id = multiply32(load_longs(id), m0);
        const Longs word2 = multiply32(exclusive_or(high32(of_id), fill_longs(noise_.stream), key1_[0]), m1);
        const Longs of_epoch = multiply32(fill_longs(noise_.epoch), m1);
        const Longs word0 = multiply32(exclusive_or(high32(word2), of_epoch, key0_[1]), m0);
        store(second2_, exclusive_or(of_id, key1_[1]));
        store(third0_, exclusive_or(word2, key0_[2]));
        store(third2_, exclusive_or(high32(word0), key1_[2]));
        store(fourth2_, exclusive_or(word0, key1_[3]));
        started_ = 0;
    }

    // One vector of counters of a started row after four rounds.
    __attribute__((always_inline)) inline Counters fourth_round(int row, int64_t vector) const {
        const Longs high = load_longs(of_block_ + 2 * vector * long_lanes);
        const Longs low = load_longs(of_block_ + (2 * vector + 1) * long_lanes);
        const Longs third1 = multiply32(exclusive_or(high, fill_longs(second2_[row])), fill_longs(philox_multiplier1));
        const Longs third0 = exclusive_or(high32(third1), fill_longs(third0_[row]));
        const Longs product0 = multiply32(third0, fill_longs(philox_multiplier0));
        const Longs product1 = multiply32(exclusive_or(low, fill_longs(third2_[row])), fill_longs(philox_multiplier1));
        return {exclusive_or(high32(product1), third1, key0_[3]), product1,
                exclusive_or(high32(product0), fill_longs(fourth2_[row])), product0};
    }

    // Some vectors of each of some rows, from `vector` on.
    template <int vectors, size_t... k>
    __attribute__((always_inline)) inline void draw_vectors(std::index_sequence<k...>, int row, int64_t vector,
                                                            uint16_t *out) const {
        finish<4>(out, fourth_round(row + int(k / vectors), vector + int64_t(k % vectors))...);
    }

    __attribute__((always_inline)) inline void draw_row() const {
        int64_t vector = 0;
        const auto draw = [&](auto count) {
            uint16_t *out = values_ + vector * long_lanes * block_columns;
            draw_vectors<count>(std::make_index_sequence<count>(), started_, vector, out);
            vector += count;
        };
        while (vector + vectors_at_once <= vectors_) draw(std::integral_constant<int, vectors_at_once>());
        while (vector + 2 <= vectors_) draw(std::integral_constant<int, 2>());
        while (vector < vectors_) draw(std::integral_constant<int, 1>());
    }

    // All started rows, some of them side by side.
    template <int rows, int vectors>
    __attribute__((always_inline)) inline void draw_rows(uint16_t *out) const {
        static_assert(long_lanes % rows == 0);
        for (int row = 0; row < long_lanes; row += rows)
            draw_vectors<vectors>(std::make_index_sequence<rows * vectors>(), row, 0, out + row * stride_);
    }

    // Some vectors of several rows each, side by side: one alone would wait for each of its products.
    template <size_t... k>
    void draw_shared(std::index_sequence<k...>, const Indices &ids, int64_t first, int64_t end) const {
        finish<0>(values_, start_shared(ids, first + int64_t(k) * shared_, end)...);
    }

    Counters start_shared(const Indices &ids, int64_t first, int64_t end) const {
        uint64_t id[long_lanes], block[long_lanes];
        for (int lane = 0; lane < long_lanes; lane++) {
            const int place = int(block_of_lane[lane]), blocks = long_lanes / shared_;
            const int64_t row = first + place / blocks;
            id[lane] = uint32_t(ids[row < end ? row : end - 1]);
            block[lane] = uint64_t(place % blocks);
        }
        return {load_longs(id), load_longs(block), fill_longs(noise_.epoch), fill_longs(noise_.stream)};
    }

    static constexpr int rows_drawn = 8;
    static_assert(rows_drawn % long_lanes == 0);

    Noise noise_;
    int64_t blocks_, vectors_;  // of a row
    int shared_;                // rows in one vector
    int together_, place_;      // rows drawn at once; the next one of them
    int started_ = long_lanes;  // the next of the rows whose parts are computed
    int64_t stride_;            // values between two of them
    uint16_t *values_;
    uint64_t *of_block_;  // of each vector of blocks the parts in c2 and c3 after two rounds
    // Rows' parts: in c2 after two rounds, in c0 and c2 after three, in c2 after four.
    uint64_t second2_[long_lanes], third0_[long_lanes], third2_[long_lanes], fourth2_[long_lanes];
    Longs key0_[philox_rounds], key1_[philox_rounds];
};

GNNQLAB_FN Ints fixed_point(Floats x, Floats zero, Floats steps) {
    return round_to_ints(multiply(subtract(x, zero), steps));
}

// The definition clamps to (2^b - 1) * 65536. With up to 4 bits nothing is above: three roundings stretch the largest
// value by less than the half that would round up. With 8 bits packing saturates, after the noise, which is the same.
template <int b, class T>
GNNQLAB_FN void encode_group(const T *x, const uint16_t *noise, Floats zero, Floats steps, uint8_t *out) {
    store_codes<b>(fixed_point(load(x), zero, steps), fixed_point(load(x + lanes), zero, steps),
                   fixed_point(load(x + 2 * lanes), zero, steps), fixed_point(load(x + 3 * lanes), zero, steps), noise,
                   out);
}

template <int b, class T>
GNNQLAB_FN void encode_row(const T *x, int64_t columns, float row_zero, float row_steps, const uint16_t *noise,
                           uint8_t *out) {
    const Floats zero = fill(row_zero), steps = fill(row_steps);
    int64_t c = 0;
    for (; c + group <= columns; c += group) encode_group<b>(x + c, noise + c, zero, steps, out + c * b / 8);
    if (c == columns) return;
    const int left = int(columns - c);
    const auto rest = [&](int k) {
        return fixed_point(load_first(x + c + k * lanes, left - k * lanes, zero), zero, steps);
    };
    uint8_t bytes[group * b / 8];
    store_codes<b>(rest(0), rest(1), rest(2), rest(3), noise + c, bytes);
    std::memcpy(out + c * b / 8, bytes, size_t(row_bytes(left, b)));
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
