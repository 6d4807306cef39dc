// Weighted neighbour sums that read the halo as codes, where they were received: each code becomes the same float32
// value as in codec_decode.cpp, and is added in the same order as in aggregate.cpp, so the sums are the same bit for bit.
//
// A row of codes is 4 to 32 times shorter than its values, so that all columns of a row stay near while an output row's
// edges are read once for every few columns.
#include "core/codec_sum.h"

#include "cpu/export.h"
#include "cpu/lanes.h"
#include "cpu/rows.h"
#include "cpu/schedule.h"

namespace gnnqlab {
namespace {

struct CodesCall {
    Matrix matrix;
    const float *x;
    int64_t num_x, x_stride, columns;
    const CodedRow *halo;
    float *out; // of row `start`
    int64_t out_stride, start;
    bool accumulate;
};

#if defined(__AVX2__)

using Sums = Lanes<float, lanes>;
constexpr int most_blocks = lanes == 16 ? 16 : 8; // of a row, whose sums registers hold

template <int b, int blocks>
GNNQLAB_FN void add_codes(const uint8_t *in, const CodedRow &from, Sums weight, Sums *sums) {
    const auto decoder = Decoder<b>::make(from.scale, from.zero);
    GNNQLAB_UNROLL for (int block = 0; block < blocks; block++)
        sums[block] = multiply_add_lanes<lanes>(weight, (Sums)decoder.values(in + block * lanes * b / 8), sums[block]);
}

template <int blocks> GNNQLAB_FN void add_values(const float *in, Sums weight, Sums *sums) {
    GNNQLAB_UNROLL for (int block = 0; block < blocks; block++)
        sums[block] = multiply_add_lanes<lanes>(weight, load_lanes<Sums>(in + block * lanes), sums[block]);
}

// Columns [first, first + blocks * lanes) of one output row.
template <int blocks> __attribute__((noinline)) void sum_blocks(const CodesCall &call, int64_t row, int64_t first) {
    Sums sums[blocks] = {};
    for (int64_t edge = call.matrix.indptr[row]; edge < call.matrix.indptr[row + 1]; edge++) {
        const int64_t column = call.matrix.indices[edge];
        const Sums weight = broadcast<lanes>(call.matrix.weights ? call.matrix.weights[edge] : 1.0f);
        if (column < call.num_x) {
            add_values<blocks>(call.x + column * call.x_stride + first, weight, sums);
            continue;
        }
        const CodedRow from = call.halo[column - call.num_x];
        const int bits = bits_of(from);
        const uint8_t *in = bytes_of(from) + first * bits / 8;
        switch (bits) {
            case 1: add_codes<1, blocks>(in, from, weight, sums); break;
            case 2: add_codes<2, blocks>(in, from, weight, sums); break;
            case 4: add_codes<4, blocks>(in, from, weight, sums); break;
            case 8: add_codes<8, blocks>(in, from, weight, sums); break;
            case 32: add_values<blocks>((const float *)in, weight, sums); break;
            default: break; // a row of no message
        }
    }
    float *to = call.out + (row - call.start) * call.out_stride + first;
    GNNQLAB_UNROLL for (int block = 0; block < blocks; block++) {
        if (call.accumulate) sums[block] += load_lanes<Sums>(to + block * lanes);
        store_lanes(to + block * lanes, sums[block]);
    }
}

template <int blocks> void sum_some(const CodesCall &call, int64_t row, int64_t first, int64_t wanted) {
    if constexpr (blocks > 1)
        if (wanted < blocks) return sum_some<blocks - 1>(call, row, first, wanted);
    sum_blocks<blocks>(call, row, first);
}

template <int b> GNNQLAB_FN Sums last_values(const uint8_t *in, int64_t left, const CodedRow &from) {
    uint8_t bytes[lanes * b / 8] = {}; // beyond the last byte of a row may be the end of the message
    memcpy(bytes, in, size_t(row_bytes(left, b)));
    return (Sums)Decoder<b>::make(from.scale, from.zero).values(bytes);
}

// The last columns of a row, fewer than a vector.
void sum_rest(const CodesCall &call, int64_t row, int64_t first) {
    const int64_t left = call.columns - first;
    Sums sums = {};
    for (int64_t edge = call.matrix.indptr[row]; edge < call.matrix.indptr[row + 1]; edge++) {
        const int64_t column = call.matrix.indices[edge];
        const Sums weight = broadcast<lanes>(call.matrix.weights ? call.matrix.weights[edge] : 1.0f);
        const CodedRow from = column < call.num_x
                                  ? coded_row((const uint8_t *)(call.x + column * call.x_stride), 32, 0.0f, 0.0f)
                                  : call.halo[column - call.num_x];
        const int bits = bits_of(from);
        const uint8_t *in = bytes_of(from) + first * bits / 8;
        Sums values;
        switch (bits) {
            case 1: values = last_values<1>(in, left, from); break;
            case 2: values = last_values<2>(in, left, from); break;
            case 4: values = last_values<4>(in, left, from); break;
            case 8: values = last_values<8>(in, left, from); break;
            case 32: values = (Sums)load_first((const float *)in, int(left), fill(0.0f)); break;
            default: continue;
        }
        sums = multiply_add_lanes<lanes>(weight, values, sums);
    }
    float *to = call.out + (row - call.start) * call.out_stride + first;
    if (call.accumulate) sums += (Sums)load_first(to, int(left), fill(0.0f));
    memcpy(to, &sums, size_t(left) * sizeof(float));
}

GNNQLAB_FN void sum_row(const CodesCall &call, int64_t row) {
    const int64_t blocks = call.columns / lanes, tiles = (blocks + most_blocks - 1) / most_blocks;
    for (int64_t tile = 0; tile < tiles; tile++) {
        const int64_t first = blocks * tile / tiles;
        sum_some<most_blocks>(call, row, first * lanes, blocks * (tile + 1) / tiles - first);
    }
    if (blocks * lanes < call.columns) sum_rest(call, row, blocks * lanes);
}

#else

template <int b>
GNNQLAB_FN void add_codes(const uint8_t *in, int64_t count, const CodedRow &from, float weight, float *sums) {
    for (int64_t c = 0; c < count; c++) {
        const float decoded = decode_column<b>(in[c * b / 8], int(c % (8 / b)), from.scale, from.zero);
        sums[c] = multiply_add(weight, decoded, sums[c]);
    }
}

GNNQLAB_FN void add_values(const float *in, int64_t count, float weight, float *sums) {
    for (int64_t c = 0; c < count; c++) sums[c] = multiply_add(weight, in[c], sums[c]);
}

GNNQLAB_FN void sum_row(const CodesCall &call, int64_t row) {
    constexpr int64_t at_once = 64; // a multiple of 8, so that each run of columns begins with a byte
    for (int64_t first = 0; first < call.columns; first += at_once) {
        const int64_t count = std::min(at_once, call.columns - first);
        float sums[at_once] = {};
        for (int64_t edge = call.matrix.indptr[row]; edge < call.matrix.indptr[row + 1]; edge++) {
            const int64_t column = call.matrix.indices[edge];
            const float weight = call.matrix.weights ? call.matrix.weights[edge] : 1.0f;
            if (column < call.num_x) {
                add_values(call.x + column * call.x_stride + first, count, weight, sums);
                continue;
            }
            const CodedRow from = call.halo[column - call.num_x];
            const int bits = bits_of(from);
            const uint8_t *in = bytes_of(from) + first * bits / 8;
            switch (bits) {
                case 1: add_codes<1>(in, count, from, weight, sums); break;
                case 2: add_codes<2>(in, count, from, weight, sums); break;
                case 4: add_codes<4>(in, count, from, weight, sums); break;
                case 8: add_codes<8>(in, count, from, weight, sums); break;
                case 32: add_values((const float *)in, count, weight, sums); break;
                default: break;
            }
        }
        float *to = call.out + (row - call.start) * call.out_stride + first;
        for (int64_t c = 0; c < count; c++) to[c] = call.accumulate ? sums[c] + to[c] : sums[c];
    }
}

#endif

constexpr int64_t edges_ahead = 12; // between fetching a row and adding it; its entry is fetched as long before

GNNQLAB_FN void fetch_edge(const CodesCall &call, int64_t edge, int64_t last) {
    const int64_t later = call.matrix.indices[std::min(edge + edges_ahead, last - 1)] - call.num_x;
    if (later >= 0) __builtin_prefetch(call.halo + later);
    const int64_t column = call.matrix.indices[edge];
    uintptr_t from;
    int64_t bits = 32;
    if (column < call.num_x) {
        from = uintptr_t(call.x + column * call.x_stride);
    } else {
        bits = bits_of(call.halo[column - call.num_x]);
        from = uintptr_t(bytes_of(call.halo[column - call.num_x]));
    }
    const uintptr_t end = from + uintptr_t(row_bytes(call.columns, bits));
    for (uintptr_t line = from & ~uintptr_t(63); line < end; line += 64) __builtin_prefetch((const void *)line);
}

} // namespace
} // namespace gnnqlab

using namespace gnnqlab;

// table[rows[i]] = where row i of a message lies; the arguments are those of decode_rows, and a width may be 32 for all.
GNNQLAB_EXPORT(locate_codes)
(const uint8_t *payload, int64_t payload_bytes, const void *params, int64_t params_sixteen, const uint8_t *bits,
 int64_t width, const int64_t *offsets, CodedRow *table, int64_t table_rows, int64_t columns, const int64_t *rows,
 int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const int64_t b = bits ? bits[i] : width, offset = offsets ? offsets[i] : i * row_bytes(columns, width);
        const auto refuse = [&](int64_t reason) { return i * 8 + reason; };
        if (rows[i] < 0 || rows[i] >= table_rows) return refuse(no_such_row);
        if (!is_width(b) && (bits || b != 32)) return refuse(no_such_width);
        if (offset < 0 || offset > payload_bytes - row_bytes(columns, b)) return refuse(outside_payload);
        float zero = 0.0f, scale = 0.0f;
        if (b != 32 && params_sixteen) {
            zero = to_float(((const Bfloat16 *)params)[2 * i]);
            scale = to_float(((const Bfloat16 *)params)[2 * i + 1]);
        } else if (b != 32) {
            zero = ((const float *)params)[2 * i];
            scale = ((const float *)params)[2 * i + 1];
        }
        table[rows[i]] = coded_row(payload + offset, b, zero, scale);
    }
    return 0;
}

// As spmm, with float32 rows x and a table of the halo's rows.
GNNQLAB_EXPORT(codec_sum)
(const int64_t *indptr, const int32_t *indices, const float *weights, int64_t start, int64_t stop, int64_t columns,
 const float *x, int64_t num_x, int64_t x_stride, const CodedRow *halo, float *out, int64_t out_stride,
 int64_t accumulate, int64_t threads) {
    const CodesCall call{{indptr, indices, weights}, x, num_x, x_stride, columns, halo, out, out_stride, start, accumulate != 0};
    const Chunks chunks(indptr, start, stop, threads);
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1 && chunks.count > 1)
    for (int64_t chunk = 0; chunk < chunks.count; chunk++) {
        const int64_t end = chunks.bound(chunk + 1), last = indptr[end];
        int64_t fetched = indptr[chunks.bound(chunk)];
        for (int64_t row = chunks.bound(chunk); row < end; row++) {
            for (const int64_t until = std::min(indptr[row + 1] + edges_ahead, last); fetched < until; fetched++)
                fetch_edge(call, fetched, last);
            sum_row(call, row);
        }
    }
    return 0;
}
