// Products of many rows with one small matrix, Y = base + X W: W is packed into panels of columns that stay in the second
// cache, and a few rows at a time are multiplied with each panel in registers.
//
// Each element is summed by one chain, from the base on in the order of W's rows, so it is the same for any number of
// threads and whatever rows are asked for beside it.
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "cpu/export.h"
#include "cpu/lanes.h"

namespace gnnqlab {
namespace {

using V = Lanes<float, kLanes>;
constexpr int kPanel = 2 * kLanes; // columns
#if defined(__AVX512BW__)
constexpr int kRows = 8;
#elif defined(__AVX2__)
constexpr int kRows = 6;
#else
constexpr int kRows = 2;
#endif
constexpr int64_t kDepth = 256;  // rows of W that are packed next to each other: with 256 columns a quarter of a megabyte
constexpr int64_t kTask = 512;   // rows of X

struct Tall {
    const float *x;
    int64_t x_stride, rows, inner, columns;
    const float *base; // null: zeros
    int64_t base_stride;
    float *out;
    int64_t out_stride;
};

// `rows` by `kVectors` registers of Y over some rows of W; the columns from `valid` on are no part of Y.
template <int kCount, int kVectors>
__attribute__((noinline)) void block(const float *x, int64_t x_stride, const float *panel, int64_t depth, const float *base,
                                     int64_t base_stride, float *out, int64_t out_stride, int64_t valid) {
    V sums[kCount][kVectors] = {};
    const bool whole = valid >= kVectors * kLanes;
    if (base)
        GNNQLAB_UNROLL for (int row = 0; row < kCount; row++) {
            float held[kPanel] = {};
            const float *from = base + row * base_stride;
            if (!whole) memcpy(held, from, size_t(valid) * sizeof(float)), from = held;
            GNNQLAB_UNROLL for (int part = 0; part < kVectors; part++) sums[row][part] = load_lanes<V>(from + part * kLanes);
        }
    for (int64_t k = 0; k < depth; k++, panel += kPanel) {
        V of_panel[kVectors];
        GNNQLAB_UNROLL for (int part = 0; part < kVectors; part++) of_panel[part] = load_lanes<V>(panel + part * kLanes);
        GNNQLAB_UNROLL for (int row = 0; row < kCount; row++) {
            const V value = broadcast<kLanes>(x[row * x_stride + k]);
            GNNQLAB_UNROLL for (int part = 0; part < kVectors; part++) sums[row][part] =
                multiply_add_lanes<kLanes>(value, of_panel[part], sums[row][part]);
        }
    }
    GNNQLAB_UNROLL for (int row = 0; row < kCount; row++) {
        float held[kPanel];
        float *to = whole ? out + row * out_stride : held;
        GNNQLAB_UNROLL for (int part = 0; part < kVectors; part++) store_lanes(to + part * kLanes, sums[row][part]);
        if (!whole) memcpy(out + row * out_stride, held, size_t(valid) * sizeof(float));
    }
}

// W's rows [first, first + depth) by panels: [panel][row][column], zeros behind the last column.
void pack(const float *w, int64_t row_step, int64_t column_step, int64_t first, int64_t depth, int64_t columns, float *to) {
    for (int64_t at = 0; at < columns; at += kPanel) {
        const int64_t valid = std::min<int64_t>(kPanel, columns - at);
        for (int64_t k = first; k < first + depth; k++, to += kPanel)
            for (int64_t column = 0; column < kPanel; column++)
                to[column] = column < valid ? w[k * row_step + (at + column) * column_step] : 0.0f;
    }
}

template <int kCount>
void panels(const Tall &call, const float *packed, int64_t row, int64_t first, int64_t depth) {
    const bool begins = first == 0;
    for (int64_t at = 0; at < call.columns; at += kPanel, packed += depth * kPanel) {
        float *out = call.out + row * call.out_stride + at;
        const float *base = !begins ? out : call.base ? call.base + row * call.base_stride + at : nullptr;
        const int64_t valid = call.columns - at, base_stride = begins ? call.base_stride : call.out_stride;
        const auto run = valid <= kLanes ? block<kCount, 1> : block<kCount, 2>;
        run(call.x + row * call.x_stride + first, call.x_stride, packed, depth, base, base_stride, out, call.out_stride, valid);
    }
}

} // namespace
} // namespace gnnqlab

using namespace gnnqlab;

// Strides count elements; row k of W is w[k * w_row + column * w_column]. The base may be the output itself.
GNNQLAB_EXPORT(tall_mm)
(const float *x, int64_t x_stride, int64_t rows, int64_t inner, const float *w, int64_t w_row, int64_t w_column,
 int64_t columns, const float *base, int64_t base_stride, float *out, int64_t out_stride, int64_t threads) {
    const Tall call{x, x_stride, rows, inner, columns, base, base_stride, out, out_stride};
    const int64_t padded = (columns + kPanel - 1) / kPanel * kPanel, depths = std::max<int64_t>(1, (inner + kDepth - 1) / kDepth);
    const size_t bytes = (size_t(padded * std::max<int64_t>(inner, 1)) * sizeof(float) + 63) / 64 * 64;
    const std::unique_ptr<float, decltype(&std::free)> packed((float *)std::aligned_alloc(64, bytes), &std::free);
    if (!packed) return -1;
    for (int64_t part = 0; part < depths; part++) {
        const int64_t first = part * kDepth, depth = std::min(kDepth, inner - first);
        pack(w, w_row, w_column, first, depth, columns, packed.get() + first * padded);
    }
    const int64_t tasks = (rows + kTask - 1) / kTask;
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1 && tasks > 1)
    for (int64_t task = 0; task < tasks; task++) {
        const int64_t end = std::min(rows, (task + 1) * kTask);
        for (int64_t part = 0; part < depths; part++) {
            const int64_t first = part * kDepth, depth = std::min(kDepth, inner - first);
            const float *panel = packed.get() + first * padded;
            int64_t row = task * kTask;
            for (; row + kRows <= end; row += kRows) panels<kRows>(call, panel, row, first, depth);
            for (; row < end; row++) panels<1>(call, panel, row, first, depth);
        }
    }
    return 0;
}
