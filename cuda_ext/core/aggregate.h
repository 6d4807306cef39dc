// Weighted neighbour sums: where an edge's source row lies, and what a stored element is worth.
//
// Column c of a matrix is row c of `rows`, and from `num_rows` on row c - num_rows of `halo`: the rows that other
// workers own stay in their own buffer. A sum is out[i] = sum_e w_e * value(indices_e), in the order of the edges.
#pragma once

#include <cstring>

#include "core/port.h"

namespace gnnqlab {

// How rows are stored; the sums are float32 for each.
enum RowType : int64_t { kFloat32 = 0, kBfloat16 = 1, kInt8 = 2, kInt4 = 3 };

// Two codes of four bits in [-8, 7]: that of an even column in the lower half, of the next one in the upper half.
struct Pair {
    uint8_t codes;
};

// Columns that one stored element holds.
template <typename T> constexpr int kHeld = 1;
template <> constexpr int kHeld<Pair> = 2;

GNNQLAB_FN int even_code(Pair pair) { return int(int8_t(uint8_t(pair.codes << 4))) >> 4; }
GNNQLAB_FN int odd_code(Pair pair) { return int(int8_t(pair.codes)) >> 4; }
GNNQLAB_FN Pair pair_of(int8_t even, int8_t odd) { return {uint8_t((even & 15) | uint8_t(odd) << 4)}; }

GNNQLAB_FN float element(const float *row, int64_t column) { return row[column]; }
GNNQLAB_FN float element(const int8_t *row, int64_t column) { return float(row[column]); }
GNNQLAB_FN float element(const Pair *row, int64_t column) {
    return float(column % 2 ? odd_code(row[column / 2]) : even_code(row[column / 2]));
}
GNNQLAB_FN float element(const uint16_t *row, int64_t column) { // bfloat16: the upper half of a float32
    const uint32_t bits = uint32_t(row[column]) << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// Rounded once where the processor has the instruction, so AVX2, AVX-512 and CUDA give the same sums.
GNNQLAB_FN float multiply_add(float weight, float value, float sum) {
#if defined(__CUDA_ARCH__)
    return __fmaf_rn(weight, value, sum);
#elif defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    return __builtin_fmaf(weight, value, sum);
#else
    return weight * value + sum;
#endif
}

namespace {

// Compressed sparse rows. Without weights every edge weighs 1.
struct Matrix {
    const int64_t *indptr;
    const int32_t *indices;
    const float *weights;
};

// The rows of all columns, `stride` elements of T apart. `scales` multiply whole rows (int8 codes).
template <typename T> struct Sources {
    const T *rows;
    int64_t num_rows, stride;
    const float *scales;
    const T *halo;
    int64_t halo_stride;
    const float *halo_scales;
};

} // namespace

GNNQLAB_FN Sources<float> plain_rows(const float *x, int64_t num_x, int64_t stride, const float *halo, int64_t halo_stride) {
    return {x, num_x, stride, nullptr, halo, halo_stride, nullptr};
}

// Without kHalo no column may lie in the halo; with it, there need not be one.
template <bool kHalo, typename T> GNNQLAB_FN const T *source_row(const Sources<T> &from, int32_t column) {
    const int64_t c = column;
    if (!kHalo) return from.rows + c * from.stride;
    return c < from.num_rows ? from.rows + c * from.stride : from.halo + (c - from.num_rows) * from.halo_stride;
}

template <bool kHalo, typename T> GNNQLAB_FN const float *source_scale(const Sources<T> &from, int32_t column) {
    const int64_t c = column;
    if (!kHalo) return from.scales + c;
    return c < from.num_rows ? from.scales + c : from.halo_scales + (c - from.num_rows);
}

} // namespace gnnqlab
