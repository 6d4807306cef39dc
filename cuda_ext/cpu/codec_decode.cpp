// Decode: unpack rows, bring them back to q S + Z, and scatter them into the halo or add them to owned rows.
#include "cpu/export.h"
#include "cpu/rows.h"

namespace gnnqlab {
namespace {

struct DecodeCall {
    const uint8_t *payload;
    int64_t payload_bytes;
    const void *params;
    bool sixteen;
    const uint8_t *bits;  // or null: `width` for all
    int64_t width;
    const int64_t *offsets;  // or null: one after another
    float *out;
    int64_t out_rows, out_stride, columns;
    Indices rows;
    bool accumulate, streaming;

    int64_t width_of(int64_t i) const { return bits ? bits[i] : width; }
    int64_t offset_of(int64_t i) const { return offsets ? offsets[i] : i * row_bytes(columns, width); }
};

constexpr int64_t rows_ahead = 8;
constexpr int64_t streaming_bytes = 1 << 20;  // smaller results are better left in the cache

GNNQLAB_FN int64_t refusal(const DecodeCall &call, int64_t i) {
    const int64_t row = call.rows[i], b = call.width_of(i), offset = call.offset_of(i);
    if (row < 0 || row >= call.out_rows) return no_such_row;
    if (!is_width(b)) return no_such_width;
    if (offset < 0 || offset > call.payload_bytes - row_bytes(call.columns, b)) return outside_payload;
    return 0;
}

template <int b>
GNNQLAB_FN void decode_to(const DecodeCall &call, const uint8_t *in, float scale, float zero, float *out) {
    if (call.accumulate) return decode_row<b, Target::accumulate>(in, call.columns, scale, zero, out);
    if (call.streaming && (uintptr_t(out) & 63) == 0) return decode_row<b, Target::stream>(in, call.columns, scale, zero, out);
    decode_row<b, Target::put>(in, call.columns, scale, zero, out);
}

int64_t decode_span(const DecodeCall &call, int64_t begin, int64_t end) {
    int64_t refused = 0;
    for (int64_t i = begin; i < end; i++) {
        if (i + rows_ahead < end && (call.accumulate || call.streaming)) {
            const float *later = call.out + call.rows[i + rows_ahead] * call.out_stride;
            if (call.accumulate) prefetch(uintptr_t(later), uintptr_t(later + call.columns));
            else prefetch_line(uintptr_t(later));  // its page is looked up before stores that pass the cache wait for it
        }
        if (const int64_t reason = refusal(call, i)) {
            refused = earlier(refused, i * 8 + reason);
            continue;
        }
        float zero, scale;
        if (call.sixteen) {
            zero = to_float(((const Bfloat16 *)call.params)[2 * i]);
            scale = to_float(((const Bfloat16 *)call.params)[2 * i + 1]);
        } else {
            zero = ((const float *)call.params)[2 * i];
            scale = ((const float *)call.params)[2 * i + 1];
        }
        const uint8_t *in = call.payload + call.offset_of(i);
        float *out = call.out + call.rows[i] * call.out_stride;
        switch (call.width_of(i)) {
            case 1: decode_to<1>(call, in, scale, zero, out); break;
            case 2: decode_to<2>(call, in, scale, zero, out); break;
            case 4: decode_to<4>(call, in, scale, zero, out); break;
            default: decode_to<8>(call, in, scale, zero, out); break;
        }
    }
    if (call.streaming) stream_end();
    return refused;
}

}  // namespace
}  // namespace gnnqlab

using namespace gnnqlab;

GNNQLAB_EXPORT(decode_rows)
(const uint8_t *payload, int64_t payload_bytes, const void *params, int64_t params_sixteen, const uint8_t *bits,
 int64_t width, const int64_t *offsets, float *out, int64_t out_rows, int64_t out_stride, int64_t columns,
 const void *rows, int64_t rows_narrow, int64_t count, int64_t accumulate, int64_t threads) {
    const bool streaming = !accumulate && count * columns * 4 >= streaming_bytes;
    const DecodeCall call = {payload, payload_bytes, params, params_sixteen != 0, bits, width, offsets, out, out_rows,
                             out_stride, columns, {rows, rows_narrow != 0}, accumulate != 0, streaming};
    const int used = useful_threads(count, columns, threads);
    int64_t refused = 0;
#pragma omp parallel for num_threads(used) schedule(static) if (used > 1)
    for (int part = 0; part < used; part++) {
        const int64_t found = decode_span(call, count * part / used, count * (part + 1) / used);
#pragma omp critical(gnnqlab_refused)
        refused = earlier(refused, found);
    }
    return refused;
}
