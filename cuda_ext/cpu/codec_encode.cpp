// Encode: gather rows, find their range, round stochastically, pack.
#include "cpu/export.h"
#include "cpu/rows.h"

namespace gnnqlab {
namespace {

struct EncodeCall {
    const void *x;
    int64_t x_rows, x_stride, columns;
    Indices rows;
    int64_t count;
    Indices ids;
    const uint8_t *bits;  // or null: `width` for all
    int64_t width;
    const int64_t *offsets;  // or null: one after another
    uint8_t *payload;
    int64_t payload_bytes;
    void *params;
    bool sixteen;
    float *ranges;  // or null
    Noise noise;

    template <class T>
    const T *address(int64_t i) const {
        return (const T *)x + rows[i] * x_stride;
    }
    int64_t width_of(int64_t i) const { return bits ? bits[i] : width; }
    int64_t offset_of(int64_t i) const { return offsets ? offsets[i] : i * row_bytes(columns, width); }
};

constexpr int64_t most_rows_a_batch = 16;
constexpr int64_t batch_bytes = 8192, bytes_ahead = 16384, pages_at_once = 16;

// Where a row comes from and goes to, and what its first pass finds; x is null if the row is refused.
template <class T>
struct Row {
    const T *x;
    uint8_t *out;
    int width;
    RowRange range;
    RowParameters parameters;
};

// The reason why row i is refused, or 0.
template <class T>
GNNQLAB_FN int64_t locate(const EncodeCall &call, int64_t i, Row<T> &row) {
    const int64_t source = call.rows[i], id = call.ids[i], b = call.width_of(i), offset = call.offset_of(i);
    row.x = nullptr;
    if (source < 0 || source >= call.x_rows) return no_such_row;
    if (id < 0 || id > int64_t(UINT32_MAX)) return id_too_large;
    if (!is_width(b)) return no_such_width;
    if (offset < 0 || offset > call.payload_bytes - row_bytes(call.columns, b)) return outside_payload;
    row = {call.address<T>(i), call.payload + offset, int(b), {}, {}};
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

template <class T, class RowNoise>
GNNQLAB_FN void write_codes(const EncodeCall &call, const Row<T> &row, RowNoise noise) {
    switch (row.width) {
        case 1: return encode_row<1>(row.x, call.columns, row.parameters, noise, row.out);
        case 2: return encode_row<2>(row.x, call.columns, row.parameters, noise, row.out);
        case 4: return encode_row<4>(row.x, call.columns, row.parameters, noise, row.out);
        default: return encode_row<8>(row.x, call.columns, row.parameters, noise, row.out);
    }
}

// A batch of rows stays in the first cache between the pass over ranges and the pass over codes. Meanwhile later rows are
// on their way from memory, a part of a row with every step, so that memory and arithmetic are busy side by side.
template <class T>
int64_t encode_span(const EncodeCall &call, int64_t begin, int64_t end) {
    const int64_t bytes = call.columns * int64_t(sizeof(T)), fitting = batch_bytes / bytes;
    const int64_t batch = fitting < 1 ? 1 : fitting > most_rows_a_batch ? most_rows_a_batch : fitting;
    const int64_t ahead = bytes_ahead / bytes + 1, half = (bytes / 2 + 63) / 64 * 64;
    const auto fetch = [&](int64_t i, int64_t from, int64_t to) {
        if (i < end) prefetch((const char *)call.address<T>(i) + from, to - from);
    };
    RowNoise noise(call.noise, call.columns);
    Row<T> rows[most_rows_a_batch];
    int64_t refused = 0, touched = begin + ahead;
    for (int64_t i = begin; i < begin + ahead; i++) fetch(i, 0, bytes);
    for (int64_t first = begin; first < end; first += batch) {
        const int64_t last = end - first < batch ? end : first + batch;
        // First and last line of some later rows at once: their pages are looked up side by side, while one look-up amid
        // the arithmetic would hold everything up.
        for (; touched < last + ahead; touched += pages_at_once)
            for (int64_t i = touched; i < touched + pages_at_once; i++) fetch(i, 0, 1), fetch(i, bytes - 1, bytes);
        for (int64_t i = first; i < last; i++) {
            Row<T> &row = rows[i - first];
            if (const int64_t reason = locate(call, i, row)) refused = earlier(refused, i * 8 + reason);
            else row.range = row_range(row.x, call.columns);
        }
        for (int64_t i = first; i < last; i++) {  // in a loop of their own the divisions need not wait for each other
            Row<T> &row = rows[i - first];
            if (!row.x) continue;
            const RowRange range = row.range;
            row.parameters = row_parameters(range.lowest, range.highest, range.has_nan, row.width, call.sixteen);
            write_params(call, i, row.parameters);
            if (row.parameters.finite) continue;
            row.x = nullptr;
            refused = earlier(refused, i * 8 + non_finite);
        }
        for (int64_t i = first; i < last; i++) {
            fetch(i + ahead, 0, half);
            const auto drawn = noise.draw(call.ids, i, end);
            fetch(i + ahead, half, bytes);
            if (rows[i - first].x) write_codes(call, rows[i - first], drawn);
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
    const EncodeCall call = {x, x_rows, x_stride, columns, {rows, rows_narrow != 0}, count, {ids, false}, bits, width, offsets,
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
