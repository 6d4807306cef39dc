// Sums of rows that are quantized on the way: each row is read once, and its codes never leave the first cache.
//
// What is written is what the codes' own sum (cpu/aggregate.cpp) writes, in the same order, so the same bits.
#include <algorithm>
#include <vector>

#include "cpu/export.h"
#include "cpu/lanes.h"
#include "cpu/quantize_row.h"
#include "cpu/schedule.h"

using namespace gnnqlab;

namespace {

GNNQLAB_FN void add_codes(const int8_t *codes, int64_t columns, float scale, float *sum) {
    using V = Lanes<float, kLanes>;
    const V scales = broadcast<kLanes>(scale);
    int64_t c = 0;
    for (; c + kLanes <= columns; c += kLanes) {
        V values;
        Block<int8_t, kLanes>::load(codes + c, &values);
        store_lanes(sum + c, multiply_add_lanes<kLanes>(scales, values, load_lanes<V>(sum + c)));
    }
    using One = Lanes<float, 1>;
    const One one = broadcast<1>(scale);
    for (; c < columns; c++) {
        One value;
        Block<int8_t, 1>::load(codes + c, &value);
        store_lanes(sum + c, multiply_add_lanes<1>(one, value, load_lanes<One>(sum + c)));
    }
}

} // namespace

// out[i] = sum over the row's edges of the codes of x[indices of e], times their scale; `ids` are of the edges' rows, in
// the order of the edges. `whole`: the largest magnitude of all rows, or null. Returns 0, or the first row that is not
// finite, times 8, plus the reason.
GNNQLAB_EXPORT(quantized_sum)
(const int64_t *indptr, const int32_t *indices, int64_t rows, const float *x, int64_t stride, int64_t columns,
 const void *ids, int64_t ids_narrow, float levels, const float *whole, int64_t stochastic, int64_t seed,
 int64_t epoch, int64_t stream, float *out, int64_t threads) {
    constexpr int64_t kAhead = 12;
    const Indices numbers{ids, ids_narrow != 0};
    const Noise noise = make_noise(seed, epoch, stream);
    const uint32_t largest = whole ? magnitude_bits(*whole) : not_finite;
    const Chunks chunks(indptr, 0, rows, threads);
    int64_t refused = 0;
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1 && chunks.count > 1)
    for (int64_t chunk = 0; chunk < chunks.count; chunk++) {
        const int64_t start = chunks.bound(chunk), stop = chunks.bound(chunk + 1), end = indptr[stop];
        Rounding rounding(noise, columns, stochastic != 0);
        std::vector<int8_t> codes(size_t(columns) + 64);
        int64_t bad = 0;
        for (int64_t i = start; i < stop; i++) {
            float *sum = out + i * columns;
            std::fill(sum, sum + columns, 0.0f);
            for (int64_t e = indptr[i]; e < indptr[i + 1]; e++) {
                const float *next = x + int64_t(indices[std::min(e + kAhead, end - 1)]) * stride;
                prefetch(uintptr_t(next), uintptr_t(next + columns));
                const float *row = x + int64_t(indices[e]) * stride;
                const uint32_t most = largest < not_finite ? largest : largest_bits(row, columns);
                const NoiseOfRow drawn = rounding.of(numbers, e, end);
                if (most >= not_finite) {
                    bad = earlier(bad, int64_t(indices[e]) * 8 + non_finite);
                    continue;
                }
                const Symmetric by = symmetric(most, levels);
                encode_codes(row, columns, by.steps, int(levels), drawn, codes.data());
                add_codes(codes.data(), columns, by.scale, sum);
            }
        }
#pragma omp critical(gnnqlab_refused)
        refused = earlier(refused, bad);
    }
    return refused;
}
