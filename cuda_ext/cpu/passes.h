// What the passes over rows share: vectors of a row of float32 or bfloat16, masks, writing past the caches.
#pragma once

#include <cstring>
#include <type_traits>
#include <vector>

#include "core/nodewise.h"
#include "cpu/indices.h"
#include "cpu/lanes.h"
#include "cpu/rows.h"

namespace gnnqlab {
namespace {

using V = Lanes<float, kLanes>;
using I = Lanes<uint32_t, kLanes>;
using Half = Lanes<uint16_t, kLanes>;

GNNQLAB_FN V load_row(const float *from) { return load_lanes<V>(from); }
GNNQLAB_FN V load_row(const Bfloat16 *from) {
    return same_bits<V>(__builtin_convertvector(load_lanes<Half>(from), I) << 16);
}
GNNQLAB_FN void store_row(float *to, V x) { store_lanes(to, x); }
GNNQLAB_FN void store_row(Bfloat16 *to, V x) {  // to the nearest, ties to even; NaN stays NaN
    const I bits = same_bits<I>(x), even = bits + 0x7FFFu + ((bits >> 16) & 1u), quiet = bits | 0x400000u;
    store_lanes(to, __builtin_convertvector((x != x ? quiet : even) >> 16, Half));
}
// The first values from memory, the others given.
template <class T> GNNQLAB_FN V load_some(const T *from, int64_t count, float others) {
    V all = broadcast<kLanes>(others);
    for (int lane = 0; lane < kLanes && lane < count; lane++) all[lane] = to_float(from[lane]);
    return all;
}
template <class T> GNNQLAB_FN void store_some(T *to, int64_t count, V x) {
    T all[kLanes];
    store_row(all, x);
    std::memcpy(to, all, size_t(count) * sizeof(T));
}

// Past the caches: a matrix that does not fit into them is written without being read first.
GNNQLAB_FN void put_row(Bfloat16 *to, V x, bool) { store_row(to, x); }
GNNQLAB_FN void put_row(float *to, V x, [[maybe_unused]] bool past) {
#if defined(__AVX2__)
    if (past) return stream(to, (Floats)x);
#endif
    store_row(to, x);
}
constexpr int64_t fits_in_cache = 1 << 21;  // bytes

template <class T> bool goes_past(const T *out, int64_t rows, int64_t columns) {
    const int64_t bytes = columns * int64_t(sizeof(T));
    return sizeof(T) == 4 && rows * bytes > fits_in_cache && (uintptr_t(out) | uintptr_t(bytes)) % 64 == 0;
}

GNNQLAB_FN float sum_of(V x) {
    float sum = 0.0f;
    for (int lane = 0; lane < kLanes; lane++) sum += x[lane];
    return sum;
}

// Calls visit(column, count) for each vector of a row; count is the lanes in use, a constant in all but the last.
template <class Visit> GNNQLAB_FN void each_vector(int64_t columns, const Visit &visit) {
    int64_t c = 0;
    for (; c + kLanes <= columns; c += kLanes) visit(c, std::integral_constant<int, kLanes>());
    if (c < columns) visit(c, int(columns - c));
}
template <class T> GNNQLAB_FN V read(const T *from, std::integral_constant<int, kLanes>, float = 0.0f) { return load_row(from); }
template <class T> GNNQLAB_FN V read(const T *from, int count, float others = 0.0f) { return load_some(from, count, others); }
template <class T> GNNQLAB_FN void put(T *to, std::integral_constant<int, kLanes>, V x, bool past) { put_row(to, x, past); }
template <class T> GNNQLAB_FN void put(T *to, int count, V x, bool) { store_some(to, count, x); }

// The sum over a row of some vector of each place: four sums grow side by side, because each waits for itself.
template <class Value> GNNQLAB_FN float sum_row(int64_t columns, const Value &value) {
    V sums[4] = {};
    int64_t c = 0;
    for (; c + 4 * kLanes <= columns; c += 4 * kLanes)
        for (int k = 0; k < 4; k++) sums[k] += value(c + k * kLanes, std::integral_constant<int, kLanes>());
    for (; c + kLanes <= columns; c += kLanes) sums[0] += value(c, std::integral_constant<int, kLanes>());
    if (c < columns) sums[1] += value(c, int(columns - c));
    return sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// Sixteen bits a column of one row after another, as dropout draws them.
class Masks {
  public:
    Masks(const Noise &noise, int64_t columns) : rows_(noise, columns), bits_(size_t(columns) + kLanes + block_columns), columns_(columns) {}

    __attribute__((noinline)) const uint16_t *draw(const Indices &ids, int64_t i, int64_t end) {
        return bits_of(rows_.draw(ids, i, end));
    }

  private:
    const uint16_t *bits_of(const uint16_t *drawn) { return drawn; }
    template <class At> const uint16_t *bits_of(const At &at) {
        for (int64_t c = 0; c < columns_; c += block_columns) {
            const Words words = at.block(c);
            for (int k = 0; k < block_columns; k++) bits_[size_t(c + k)] = uint16_t(noise_bits(words, k));
        }
        return bits_.data();
    }

    RowNoise rows_;
    std::vector<uint16_t> bits_;  // filled where noise comes block by block
    int64_t columns_;
};

GNNQLAB_FN V masked(V x, float factor, const uint16_t *bits, uint32_t threshold) {
    const I drawn = __builtin_convertvector(load_lanes<Half>(bits), I);
    return drawn >= threshold ? x * factor : V{};
}

struct Drop {
    Noise noise;
    Indices ids;
    uint32_t threshold;  // 0: no mask is drawn
    float factor;
};

// Parts of the rows on threads; each begins where a partial sum does.
template <class Part> void in_parts(int64_t rows, int64_t columns, int64_t threads, const Part &part) {
    const int64_t partials = (rows + rows_a_partial - 1) / rows_a_partial;
    const int64_t useful = useful_threads(rows, columns, threads), used = useful < partials ? useful : partials;
#pragma omp parallel for num_threads(int(used)) schedule(static) if (used > 1)
    for (int64_t number = 0; number < used; number++) {
        const int64_t begin = partials * number / used * rows_a_partial;
        const int64_t end = partials * (number + 1) / used * rows_a_partial;
        part(begin, end < rows ? end : rows);
        stream_end();
    }
}

int64_t first_refused(const Indices &ids, int64_t rows) {
    for (int64_t i = 0; i < rows; i++)
        if (ids[i] < 0 || ids[i] > int64_t(UINT32_MAX)) return i * 8 + id_too_large;
    return 0;
}

}  // namespace
}  // namespace gnnqlab
