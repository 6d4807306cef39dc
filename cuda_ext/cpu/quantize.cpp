// Rows to symmetric codes: one pass over a row for its largest magnitude, one for its codes while it is in the cache.
#include <cmath>
#include <vector>

#include "core/quantize.h"
#include "cpu/export.h"
#include "cpu/rows.h"

namespace gnnqlab {
namespace {

struct QuantizeCall {
    const float *x;
    int64_t stride, columns;
    Indices ids;
    int levels;
    bool stochastic;
    Noise noise;
    int8_t *codes;
    int64_t codes_stride;
    float *scales;
};

uint32_t largest_bits(const float *x, int64_t columns) {
    uint32_t largest = 0;
    for (int64_t c = 0; c < columns; c++) {
        const uint32_t bits = magnitude_bits(x[c]);
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

#if defined(__AVX2__)
constexpr int64_t kSame = 64; // columns whose noise is at hand when all have the same

// Codes of some columns; noise is readable to the end of a vector.
GNNQLAB_FN void row_codes(const float *x, int64_t columns, float steps, int levels, const uint16_t *noise, int64_t step,
                          int8_t *out) {
    int64_t c = 0;
#if defined(__AVX512BW__)
    const Floats by = fill(steps);
    const __m512i most = _mm512_set1_epi32(levels), least = _mm512_set1_epi32(-levels);
    for (; c < columns; c += lanes) {
        const int left = int(columns - c < lanes ? columns - c : lanes);
        const Floats values = left == lanes ? load(x + c) : load_first(x + c, left, fill(0.0f));
        const __m512i drawn = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(noise + c * step)));
        __m512i codes = _mm512_srai_epi32(_mm512_add_epi32(round_to_ints(multiply(values, by)), drawn), 16);
        codes = _mm512_max_epi32(_mm512_min_epi32(codes, most), least);
        if (left == lanes) _mm_storeu_si128((__m128i *)(out + c), _mm512_cvtepi32_epi8(codes));
        else _mm512_mask_cvtepi32_storeu_epi8(out + c, first_lanes(left), codes);
    }
#else
    for (; c < columns; c++)
        out[c] = int8_t(symmetric_code(int(__builtin_rintf(x[c] * steps)), noise[c * step], levels));
#endif
}
#endif

#if defined(__AVX2__)
void encode(const QuantizeCall &call, int64_t i, float steps, const uint16_t *noise, int64_t step) {
    row_codes(call.x + i * call.stride, call.columns, steps, call.levels, noise, step,
              call.codes + i * call.codes_stride);
}
#else
void encode(const QuantizeCall &call, int64_t i, float steps, const RowNoiseAt *noise) {
    const float *x = call.x + i * call.stride;
    int8_t *out = call.codes + i * call.codes_stride;
    for (int64_t c = 0; c < call.columns; c += block_columns) {
        Words words = {};
        if (noise) words = noise->block(c);
        for (int k = 0; k < columns_in_block(c, call.columns); k++)
            out[c + k] = int8_t(symmetric_code(int(__builtin_rintf(x[c + k] * steps)),
                                               noise ? int(noise_bits(words, k)) : half_step, call.levels));
    }
}
#endif

// Rows from begin to end; `whole` is the largest magnitude of all rows, or 0 for each its own.
int64_t quantize_span(const QuantizeCall &call, int64_t begin, int64_t end, const uint32_t *whole) {
    RowNoise rows(call.noise, call.columns);
#if defined(__AVX2__)
    uint16_t halves[kSame];
    for (uint16_t &half : halves) half = half_step;
#endif
    int64_t refused = 0;
    for (int64_t i = begin; i < end; i++) {
        const uint32_t largest = whole ? *whole : largest_bits(call.x + i * call.stride, call.columns);
        if (largest >= not_finite) {
            refused = earlier(refused, i + 1);
            if (call.stochastic) rows.draw(call.ids, i, end);
            continue;
        }
        const Symmetric row = symmetric(largest, float(call.levels));
        call.scales[i] = row.scale;
#if defined(__AVX2__)
        if (call.stochastic) encode(call, i, row.steps, rows.draw(call.ids, i, end), 1);
        else encode(call, i, row.steps, halves, 0);
#else
        const auto drawn = rows.draw(call.ids, i, end);
        encode(call, i, row.steps, call.stochastic ? &drawn : nullptr);
#endif
    }
    return refused;
}

template <class Span> int64_t spans(int64_t rows, int64_t columns, int64_t threads, const Span &span) {
    const int used = useful_threads(rows, columns, threads);
    int64_t refused = 0;
#pragma omp parallel for num_threads(used) schedule(static) if (used > 1)
    for (int part = 0; part < used; part++) {
        const int64_t found = span(rows * part / used, rows * (part + 1) / used);
#pragma omp critical(gnnqlab_refused)
        refused = earlier(refused, found);
    }
    return refused;
}

} // namespace
} // namespace gnnqlab

using namespace gnnqlab;

// Codes and scales of all rows; returns 0, or 1 + the first row that is not finite.
GNNQLAB_EXPORT(quantize)
(const float *x, int64_t stride, int64_t rows, int64_t columns, const void *ids, int64_t ids_narrow, float levels,
 int64_t whole, int64_t stochastic, int64_t seed, int64_t epoch, int64_t stream, int8_t *codes, int64_t codes_stride,
 float *scales, int64_t threads) {
    const QuantizeCall call = {x, stride, columns, {ids, ids_narrow != 0}, int(levels), stochastic != 0,
                               make_noise(seed, epoch, stream), codes, codes_stride, scales};
    uint32_t largest = 0;
    if (whole) {
        const int64_t refused = spans(rows, columns, threads, [&](int64_t begin, int64_t end) {
            uint32_t found = 0;
            int64_t bad = 0;
            for (int64_t i = begin; i < end; i++) {
                const uint32_t of_row = largest_bits(x + i * stride, columns);
                if (of_row >= not_finite) bad = earlier(bad, i + 1);
                found = of_row > found ? of_row : found;
            }
#pragma omp critical(gnnqlab_largest)
            largest = found > largest ? found : largest;
            return bad;
        });
        if (refused) return refused;
    }
    return spans(rows, columns, threads, [&](int64_t begin, int64_t end) {
        return quantize_span(call, begin, end, whole ? &largest : nullptr);
    });
}
