// Linear codes of B bits, rounded to the nearest of 2^B levels of which the topmost is clamped away (CDFGNN Eq. 22).
#include "core/linear.h"
#include "cpu/export.h"

namespace gnnqlab {
namespace {

constexpr int kLanes = 16;

struct Span {
    float low, high;
    bool finite;
};

Span span_of(const float *x, int64_t columns) {
    float low[kLanes], high[kLanes], doubt[kLanes] = {};
    for (int k = 0; k < kLanes; k++) low[k] = high[k] = x[0];
    int64_t j = 0;
    for (; j + kLanes <= columns; j += kLanes)
        for (int k = 0; k < kLanes; k++) {
            const float value = x[j + k];
            low[k] = value < low[k] ? value : low[k];
            high[k] = value > high[k] ? value : high[k];
            doubt[k] += value * 0.0f;
        }
    for (int k = 0; j < columns; j++, k++) {
        low[k] = x[j] < low[k] ? x[j] : low[k];
        high[k] = x[j] > high[k] ? x[j] : high[k];
        doubt[k] += x[j] * 0.0f;
    }
    for (int k = 1; k < kLanes; k++) {
        low[0] = low[k] < low[0] ? low[k] : low[0];
        high[0] = high[k] > high[0] ? high[k] : high[0];
        doubt[0] += doubt[k];
    }
    return {low[0], high[0], doubt[0] == 0.0f};
}

void pack_linear(const float *x, int64_t columns, int bits, const LinearRow &row, uint8_t *out) {
    const int per_byte = 8 / bits;
    const float top = float((1 << bits) - 1);
    const auto code = [&](int64_t j) { return linear_code(x[j], row, top); };
    if (bits == 8) {
        for (int64_t j = 0; j < columns; j++) out[j] = uint8_t(code(j));
        return;
    }
    for (int64_t byte = 0; byte * per_byte < columns; byte++) {
        uint32_t packed = 0;
        for (int i = 0; i < per_byte && byte * per_byte + i < columns; i++)
            packed |= code(byte * per_byte + i) << (i * bits);
        out[byte] = uint8_t(packed);
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
    constexpr int64_t kNone = INT64_MAX;
    int64_t first = kNone;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(min : first) \
    if (threads > 1 && count * columns > 65536)
    for (int64_t i = 0; i < count; i++) {
        const int64_t b = bits ? bits[i] : width, offset = offsets ? offsets[i] : i * row_bytes(columns, b);
        int64_t reason = linear_refusal(rows[i], num_x, b, offset, columns, payload_size);
        if (reason == 0) {
            const float *values = x + rows[i] * x_stride;
            const Span span = span_of(values, columns);
            const LinearRow row = linear_row(span.low, span.high, !span.finite, int(b));
            if (row.finite) {
                params[2 * i] = row.zero;
                params[2 * i + 1] = row.scale;
                ranges[i] = row.range;
                pack_linear(values, columns, int(b), row, payload + offset);
                continue;
            }
            reason = non_finite;
        }
        first = i * 8 + reason < first ? i * 8 + reason : first;
    }
    return first == kNone ? 0 : first;
}
