// Rows to symmetric codes: one pass over a row for its largest magnitude, one for its codes while it is in the cache.
#include <vector>

#include "cpu/export.h"
#include "cpu/pairs.h"
#include "cpu/quantize_row.h"

namespace gnnqlab {
namespace {

struct QuantizeCall {
    const float *x;
    int64_t stride, columns;
    Indices ids;
    int levels;
    const float *whole; // the largest magnitude of all rows, or null: each row goes by its own
    bool stochastic;
    Noise noise;
    int8_t *codes;
    int64_t codes_stride;
    bool pairs; // two codes a byte
    float *scales;
};

// Rows from begin to end. Where the largest magnitude is not finite, a row that holds what is not is looked for.
int64_t quantize_span(const QuantizeCall &call, int64_t begin, int64_t end) {
    Rounding rounding(call.noise, call.columns, call.stochastic);
    std::vector<int8_t> wide(call.pairs ? size_t(call.columns) : 0);
    const uint32_t whole = call.whole ? magnitude_bits(*call.whole) : not_finite;
    int64_t refused = 0;
    for (int64_t i = begin; i < end; i++) {
        const float *x = call.x + i * call.stride;
        int8_t *codes = call.codes + i * call.codes_stride;
        const uint32_t largest = whole < not_finite ? whole : largest_bits(x, call.columns);
        const NoiseOfRow noise = rounding.of(call.ids, i, end);
        if (largest >= not_finite) {
            refused = earlier(refused, i * 8 + non_finite);
            continue;
        }
        const Symmetric row = symmetric(largest, float(call.levels));
        call.scales[i] = row.scale;
        encode_codes(x, call.columns, row.steps, call.levels, noise, call.pairs ? wide.data() : codes);
        if (call.pairs) pack_row(wide.data(), call.columns, (Pair *)codes);
    }
    return refused;
}

int64_t quantize_rows(const QuantizeCall &call, int64_t rows, int64_t threads) {
    const int used = useful_threads(rows, call.columns, threads);
    int64_t refused = 0;
#pragma omp parallel for num_threads(used) schedule(static) if (used > 1)
    for (int part = 0; part < used; part++) {
        const int64_t found = quantize_span(call, rows * part / used, rows * (part + 1) / used);
#pragma omp critical(gnnqlab_refused)
        refused = earlier(refused, found);
    }
    return refused;
}

} // namespace
} // namespace gnnqlab

using namespace gnnqlab;

// Returns 0, or position * 8 + reason of the first row that is refused.
GNNQLAB_EXPORT(quantize)
(const float *x, int64_t stride, int64_t rows, int64_t columns, const void *ids, int64_t ids_narrow, float levels,
 const float *whole, int64_t stochastic, int64_t seed, int64_t epoch, int64_t stream, int8_t *codes, int64_t codes_stride,
 float *scales, int64_t threads) {
    const QuantizeCall call = {x, stride, columns, {ids, ids_narrow != 0}, int(levels), whole,
                               stochastic != 0, make_noise(seed, epoch, stream), codes, codes_stride, false, scales};
    return quantize_rows(call, rows, threads);
}

// The same codes, of at most four bits, two a byte.
GNNQLAB_EXPORT(quantize_pairs)
(const float *x, int64_t stride, int64_t rows, int64_t columns, const void *ids, int64_t ids_narrow, float levels,
 const float *whole, int64_t stochastic, int64_t seed, int64_t epoch, int64_t stream, int8_t *codes, int64_t codes_stride,
 float *scales, int64_t threads) {
    const QuantizeCall call = {x, stride, columns, {ids, ids_narrow != 0}, int(levels), whole,
                               stochastic != 0, make_noise(seed, epoch, stream), codes, codes_stride, true, scales};
    return quantize_rows(call, rows, threads);
}
