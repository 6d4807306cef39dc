// Sums over rows whose scales differ: codes of some rows become float32 in the cache, and are multiplied there.
//
// A scale a row does not leave a sum over rows. Codes times both scales of their row are exact but for one rounding, and
// do not depend on which rows a worker has beside them.
#include <algorithm>
#include <vector>

#include "cpu/export.h"
#include "cpu/lanes.h"

using namespace gnnqlab;

namespace {

constexpr int kVectors = kLanes == 16 ? 4 : 2, kRows = 6, kWidth = kVectors * kLanes;
constexpr int64_t kPiece = 128; // rows whose panels stay in the second cache
using V = Lanes<float, kLanes>;

// panel[k][j] = scales[k] codes[from + k][first + j], zeros beyond the last column.
void widen_panel(const int8_t *codes, int64_t stride, int64_t columns, int64_t first, int64_t count, const float *scales,
                 float *panel) {
    const int64_t width = std::min<int64_t>(kWidth, columns - first);
    for (int64_t k = 0; k < count; k++) {
        const int8_t *row = codes + k * stride + first;
        float *out = panel + k * kWidth;
        const float scale = scales ? scales[k] : 1.0f;
        for (int64_t j = 0; j < width; j++) out[j] = float(row[j]) * scale;
        for (int64_t j = width; j < kWidth; j++) out[j] = 0.0f;
    }
}

template <int R> void add_tile(const float *a, const float *b, int64_t count, float *out, int64_t stride) {
    V sums[R][kVectors];
    GNNQLAB_UNROLL for (int r = 0; r < R; r++)
        GNNQLAB_UNROLL for (int v = 0; v < kVectors; v++) sums[r][v] = load_lanes<V>(out + r * stride + v * kLanes);
    for (int64_t k = 0; k < count; k++, a += kWidth, b += kWidth) {
        V row[kVectors];
        GNNQLAB_UNROLL for (int v = 0; v < kVectors; v++) row[v] = load_lanes<V>(b + v * kLanes);
        GNNQLAB_UNROLL for (int r = 0; r < R; r++) {
            const V value = broadcast<kLanes>(a[r]);
            GNNQLAB_UNROLL for (int v = 0; v < kVectors; v++) sums[r][v] =
                multiply_add_lanes<kLanes>(value, row[v], sums[r][v]);
        }
    }
    GNNQLAB_UNROLL for (int r = 0; r < R; r++)
        GNNQLAB_UNROLL for (int v = 0; v < kVectors; v++) store_lanes(out + r * stride + v * kLanes, sums[r][v]);
}

template <int R = kRows> void add_rows(int64_t rows, const float *a, const float *b, int64_t count, float *out, int64_t stride) {
    if constexpr (R > 1)
        if (rows < R) return add_rows<R - 1>(rows, a, b, count, out, stride);
    add_tile<R>(a, b, count, out, stride);
}

} // namespace

// out[m, n] = or += sum_k scales[k] a[k, m] b[k, n]; of each thread the rows one after another, then thread by thread.
GNNQLAB_EXPORT(int8_mm_scaled)
(const int8_t *a, int64_t a_stride, const int8_t *b, int64_t b_stride, const float *scales, int64_t rows,
 int64_t columns, int64_t terms, float *out, int64_t out_stride, int64_t accumulate, int64_t threads) {
    if (rows == 0 || columns == 0) return 0;
    const int64_t a_panels = (rows + kWidth - 1) / kWidth, b_panels = (columns + kWidth - 1) / kWidth;
    const int64_t width = b_panels * kWidth, pieces = (terms + kPiece - 1) / kPiece, panel = kPiece * kWidth;
    const int used = int(std::max<int64_t>(1, std::min(threads, pieces)));
    const size_t shares = size_t(used);
    std::vector<std::vector<float>> sums(shares);
#pragma omp parallel for schedule(static, 1) num_threads(used) if (used > 1)
    for (int part = 0; part < used; part++) {
        sums[size_t(part)].assign(size_t(rows * width), 0.0f);
        std::vector<float> scratch(size_t((a_panels + b_panels) * panel) + 16);
        float *total = sums[size_t(part)].data();
        float *wide_a = (float *)((uintptr_t(scratch.data()) + 63) & ~uintptr_t(63)), *wide_b = wide_a + a_panels * panel;
        for (int64_t piece = pieces * part / used; piece < pieces * (part + 1) / used; piece++) {
            const int64_t from = piece * kPiece, count = std::min(kPiece, terms - from);
            for (int64_t p = 0; p < a_panels; p++)
                widen_panel(a + from * a_stride, a_stride, rows, p * kWidth, count, nullptr, wide_a + p * panel);
            for (int64_t p = 0; p < b_panels; p++)
                widen_panel(b + from * b_stride, b_stride, columns, p * kWidth, count, scales + from, wide_b + p * panel);
            for (int64_t q = 0; q < b_panels; q++)
                for (int64_t p = 0; p < a_panels; p++) {
                    const int64_t first = p * kWidth, left = std::min<int64_t>(kWidth, rows - first);
                    for (int64_t row = 0; row < left; row += kRows)
                        add_rows(left - row, wide_a + p * panel + row, wide_b + q * panel, count,
                                 total + (first + row) * width + q * kWidth, width);
                }
        }
    }
    for (int64_t m = 0; m < rows; m++) {
        float *to = out + m * out_stride;
        for (int part = 0; part < used; part++) {
            const float *from = sums[size_t(part)].data() + m * width;
            const bool add = accumulate || part > 0;
            for (int64_t n = 0; n < columns; n++) to[n] = add ? to[n] + from[n] : from[n];
        }
    }
    return 0;
}
