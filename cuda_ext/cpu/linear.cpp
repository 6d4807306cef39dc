// Linear codes of B bits, rounded to the nearest of 2^B levels of which the topmost is clamped away (CDFGNN Eq. 22).
#include <cstring>

#include "core/linear.h"
#include "cpu/export.h"
#include "cpu/rows.h"

namespace gnnqlab {
namespace {

constexpr int kGroup = 64;

// The lowest `bits` bits of eight bytes side by side, the first byte lowest.
uint64_t side_by_side(uint64_t bytes, int bits) {
    switch (bits) {
    case 1: return (bytes * 0x0102040810204080u) >> 56;
    case 2:
        bytes = (bytes | bytes >> 6) & 0x000F000F000F000Fu;
        bytes = (bytes | bytes >> 12) & 0x000000FF000000FFu;
        return (bytes | bytes >> 24) & 0xFFFFu;
    default:
        bytes = (bytes | bytes >> 4) & 0x00FF00FF00FF00FFu;
        bytes = (bytes | bytes >> 8) & 0x0000FFFF0000FFFFu;
        return (bytes | bytes >> 16) & 0xFFFFFFFFu;
    }
}

// Columns are taken by groups, in loops without branches, of which compilers make vectors.
template <int bits>
void pack_linear(const float *x, int64_t columns, const LinearRow &row, uint8_t *out) {
    constexpr float top = float((1 << bits) - 1);
    alignas(64) uint8_t codes[kGroup], packed[kGroup * bits / 8];
    for (int64_t first = 0; first < columns; first += kGroup) {
        const int count = columns - first < kGroup ? int(columns - first) : kGroup;
        if (count == kGroup) {
            for (int j = 0; j < kGroup; j++) codes[j] = uint8_t(linear_code(x[first + j], row, top));
        } else {
            memset(codes, 0, sizeof codes);
            for (int j = 0; j < count; j++) codes[j] = uint8_t(linear_code(x[first + j], row, top));
        }
        uint8_t *to = out + first * bits / 8;
        if constexpr (bits == 8) {
            memcpy(to, codes, size_t(count));
        } else {
            for (int word = 0; word < kGroup / 8; word++) {
                uint64_t eight;
                memcpy(&eight, codes + 8 * word, 8);
                const uint64_t few = side_by_side(eight, bits);
                memcpy(packed + word * bits, &few, bits);
            }
            memcpy(to, packed, size_t(row_bytes(count, bits)));
        }
    }
}

void pack_linear(const float *x, int64_t columns, int bits, const LinearRow &row, uint8_t *out) {
    switch (bits) {
    case 1: return pack_linear<1>(x, columns, row, out);
    case 2: return pack_linear<2>(x, columns, row, out);
    case 4: return pack_linear<4>(x, columns, row, out);
    default: return pack_linear<8>(x, columns, row, out);
    }
}

int64_t linear_refusal(int64_t row, int64_t num_x, int64_t b, int64_t offset, int64_t columns, int64_t payload_size) {
    if (row < 0 || row >= num_x) return no_such_row;
    if (!is_width(b)) return no_such_width;
    if (offset < 0 || offset > payload_size - row_bytes(columns, b)) return outside_payload;
    return 0;
}

} // namespace
} // namespace gnnqlab

using namespace gnnqlab;

// Codes of x[rows], (Z, S) and ranges; returns 0, or 8 * the first position that is refused + why.
GNNQLAB_EXPORT(encode_linear)
(const float *x, int64_t num_x, int64_t x_stride, int64_t columns, const int64_t *rows, int64_t count,
 const uint8_t *bits, int64_t width, const int64_t *offsets, uint8_t *payload, int64_t payload_size, float *params,
 float *ranges, int64_t threads) {
    constexpr int64_t kNone = INT64_MAX, kAhead = 2 * rows_at_once;
    int64_t first = kNone;
    const int used = useful_threads(count, columns, threads);
#pragma omp parallel for schedule(static) num_threads(used) reduction(min : first) if (used > 1)
    for (int64_t batch = 0; batch < count; batch += rows_at_once) {
        const float *values[rows_at_once] = {};
        const float *any = nullptr;
        int64_t widths[rows_at_once], places[rows_at_once], reasons[rows_at_once];
        const int of_batch = count - batch < rows_at_once ? int(count - batch) : rows_at_once;
        for (int k = 0; k < of_batch; k++) {
            const int64_t i = batch + k, b = bits ? bits[i] : width;
            widths[k] = b;
            places[k] = offsets ? offsets[i] : i * row_bytes(columns, b);
            reasons[k] = linear_refusal(rows[i], num_x, b, places[k], columns, payload_size);
            if (reasons[k] == 0) any = values[k] = x + rows[i] * x_stride;
            if (i + kAhead < count && rows[i + kAhead] >= 0 && rows[i + kAhead] < num_x) {
                const float *later = x + rows[i + kAhead] * x_stride;
                prefetch(uintptr_t(later), uintptr_t(later + columns));
            }
        }
        float lowest[rows_at_once], highest[rows_at_once];
        if (any) {
            for (const float *&row : values) row = row ? row : any;
            row_ranges(values, columns, lowest, highest);
        }
        for (int k = 0; k < of_batch; k++) {
            const int64_t i = batch + k;
            if (reasons[k] == 0) {
                const LinearRow row = linear_row(lowest[k], highest[k], !(lowest[k] <= highest[k]), int(widths[k]));
                if (row.finite) {
                    params[2 * i] = row.zero;
                    params[2 * i + 1] = row.scale;
                    ranges[i] = row.range;
                    pack_linear(values[k], columns, int(widths[k]), row, payload + places[k]);
                    continue;
                }
                reasons[k] = non_finite;
            }
            first = i * 8 + reasons[k] < first ? i * 8 + reasons[k] : first;
        }
    }
    return first == kNone ? 0 : first;
}
