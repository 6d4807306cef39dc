// Linear codes of B bits, rounded to the nearest of 2^B levels of which the topmost is clamped away (CDFGNN Eq. 22).

#include "cpu/export.h"

namespace {

constexpr int kLanes = 16;
constexpr float kSmallestRange = 0x1p-100f; // rows with a smaller one are constant
constexpr float kLargest = 3.402823466e38f;

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
    return {low[0] + 0.0f, high[0] + 0.0f, doubt[0] == 0.0f};
}

void pack(const float *x, int64_t columns, int bits, float zero, float inverse, uint8_t *out) {
    const int per_byte = 8 / bits;
    const float top = float((1 << bits) - 1);
    const auto code = [&](int64_t j) {
        const float steps = (x[j] - zero) * inverse + 0.5f; // not negative, so that cutting is rounding down
        return uint32_t(steps < top ? steps : top);
    };
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

} // namespace

// Codes of x[rows], (Z, S) and ranges; returns 0, or 1 + the first position that is not finite, or -1 - one out of place.
GNNQLAB_EXPORT(encode_linear)
(const float *x, int64_t num_x, int64_t x_stride, int64_t columns, const int64_t *rows, int64_t count,
 const uint8_t *bits, int64_t width, const int64_t *offsets, uint8_t *payload, int64_t payload_size, float *params,
 float *ranges, int64_t threads) {
    const auto place = [&](int64_t i, int &of, int64_t &offset) {
        of = bits ? bits[i] : int(width);
        const int64_t size = (columns * of + 7) / 8;
        offset = offsets ? offsets[i] : i * size;
        return (of == 1 || of == 2 || of == 4 || of == 8) && offset >= 0 && offset + size <= payload_size &&
               rows[i] >= 0 && rows[i] < num_x;
    };
    int64_t worst = count, wrong = count;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(min : worst, wrong) \
    if (threads > 1 && count * columns > 65536)
    for (int64_t i = 0; i < count; i++) {
        int of;
        int64_t offset;
        if (!place(i, of, offset)) {
            wrong = i < wrong ? i : wrong;
            continue;
        }
        const float *row = x + rows[i] * x_stride;
        const Span span = span_of(row, columns);
        const float range = span.high - span.low;
        if (!span.finite || !(range <= kLargest)) {
            worst = i < worst ? i : worst;
            continue;
        }
        const bool constant = range < kSmallestRange;
        params[2 * i] = span.low;
        params[2 * i + 1] = constant ? 0.0f : range / float(1 << of);
        ranges[i] = range;
        pack(row, columns, of, span.low, constant ? 0.0f : float(1 << of) / range, payload + offset);
    }
    return wrong < count ? -1 - wrong : worst < count ? 1 + worst : 0;
}
