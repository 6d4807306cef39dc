// Encode: gather rows, find their range, round stochastically, pack. A batch of rows stays in the first cache between
// the pass over ranges and the pass over codes, while the next batch's rows are on their way.
#include <omp.h>

#include "cpu/export.h"
#include "cpu/rows.h"

namespace gnnqlab {
namespace {

struct EncodeCall {
    const void *x;
    int64_t x_rows, x_stride, columns;
    Indices rows;
    int64_t count;
    const int64_t *ids;
    const uint8_t *bits;  // or null: `width` for all
    int64_t width;
    const int64_t *offsets;  // or null: one after another
    uint8_t *payload;
    int64_t payload_bytes;
    void *params;
    bool sixteen;
    float *ranges;  // or null
    Noise noise;

    int64_t width_of(int64_t i) const { return bits ? bits[i] : width; }
    int64_t offset_of(int64_t i) const { return offsets ? offsets[i] : i * row_bytes(columns, width); }
};

constexpr int most_rows_a_batch = 16;
constexpr int64_t batch_bytes = 8192;
constexpr int64_t bytes_ahead = 16384;

GNNQLAB_FN int64_t refusal(const EncodeCall &call, int64_t i) {
    const int64_t row = call.rows[i], b = call.width_of(i), offset = call.offset_of(i);
    if (row < 0 || row >= call.x_rows) return no_such_row;
    if (call.ids[i] < 0 || call.ids[i] > int64_t(UINT32_MAX)) return id_too_large;
    if (!is_width(b)) return no_such_width;
    if (offset < 0 || offset > call.payload_bytes - row_bytes(call.columns, b)) return outside_payload;
    return 0;
}

GNNQLAB_FN void write_params(const EncodeCall &call, int64_t i, const RowParameters &row) {
    if (call.sixteen) {  // exact: rounded already
        ((Bfloat16 *)call.params)[2 * i] = {uint16_t(float_bits(row.zero) >> 16)};
        ((Bfloat16 *)call.params)[2 * i + 1] = {uint16_t(float_bits(row.scale) >> 16)};
    } else {
        ((float *)call.params)[2 * i] = row.zero;
        ((float *)call.params)[2 * i + 1] = row.scale;
    }
    if (call.ranges) call.ranges[i] = row.range;
}

template <class T>
int64_t encode_span(const EncodeCall &call, int64_t begin, int64_t end) {
    const int64_t bytes = call.columns * int64_t(sizeof(T)), fitting = batch_bytes / bytes;
    const int batch = int(fitting < 1 ? 1 : fitting > most_rows_a_batch ? most_rows_a_batch : fitting);
    const int64_t ahead = bytes_ahead / bytes + 1;
    const auto address = [&](int64_t i) { return (const T *)call.x + call.rows[i] * call.x_stride; };
    const auto fetch = [&](int64_t i, int64_t from, int64_t to) {
        if (i < end) prefetch((const char *)address(i) + from, to - from);
    };
    RowNoise noise(call.noise, call.columns);
    RowParameters parameters[most_rows_a_batch];
    uint32_t ids[most_rows_a_batch];
    int64_t refused = 0;
    for (int64_t i = begin; i < begin + ahead; i++) fetch(i, 0, bytes);
    for (int64_t first = begin; first < end; first += batch) {
        const int rows = int(end - first < batch ? end - first : batch);
        for (int k = 0; k < rows; k++) {
            const int64_t i = first + k;
            ids[k] = uint32_t(call.ids[i]);
            parameters[k].finite = false;
            if (const int64_t reason = refusal(call, i)) {
                refused = earlier(refused, i * 8 + reason);
                continue;
            }
            const RowRange range = row_range(address(i), call.columns);
            parameters[k] = row_parameters(range.lowest, range.highest, range.has_nan, int(call.width_of(i)), call.sixteen);
            if (!parameters[k].finite) refused = earlier(refused, i * 8 + non_finite);
            write_params(call, i, parameters[k]);
        }
        for (int k = 0; k < rows; k++) {
            const int64_t i = first + k;
            fetch(i + ahead, 0, bytes / 2);
            const auto row_noise = noise.draw(ids, k, rows);
            fetch(i + ahead, bytes / 2, bytes);
            if (!parameters[k].finite) continue;
            uint8_t *out = call.payload + call.offset_of(i);
            switch (call.width_of(i)) {
                case 1: encode_row<1>(address(i), call.columns, parameters[k], row_noise, out); break;
                case 2: encode_row<2>(address(i), call.columns, parameters[k], row_noise, out); break;
                case 4: encode_row<4>(address(i), call.columns, parameters[k], row_noise, out); break;
                default: encode_row<8>(address(i), call.columns, parameters[k], row_noise, out); break;
            }
        }
    }
    return refused;
}

}  // namespace
}  // namespace gnnqlab

using namespace gnnqlab;

GNNQLAB_EXPORT(encode_rows)
(const void *x, int64_t x_sixteen, int64_t x_rows, int64_t x_stride, int64_t columns, const void *rows,
 int64_t rows_narrow, int64_t count, const int64_t *ids, const uint8_t *bits, int64_t width, const int64_t *offsets,
 uint8_t *payload, int64_t payload_bytes, void *params, int64_t params_sixteen, float *ranges, int64_t seed,
 int64_t epoch, int64_t stream, int64_t threads) {
    const EncodeCall call = {x, x_rows, x_stride, columns, {rows, rows_narrow != 0}, count, ids, bits, width, offsets,
                             payload, payload_bytes, params, params_sixteen != 0, ranges,
                             make_noise(seed, epoch, stream)};
    const int used = useful_threads(count, columns, threads);
    int64_t refused = 0;
#pragma omp parallel for num_threads(used) schedule(static) if (used > 1)
    for (int part = 0; part < used; part++) {
        const int64_t begin = count * part / used, end = count * (part + 1) / used;
        const int64_t found = x_sixteen ? encode_span<Bfloat16>(call, begin, end) : encode_span<float>(call, begin, end);
#pragma omp critical(gnnqlab_refused)
        refused = earlier(refused, found);
    }
    return refused;
}
