// Decode: unpack rows, bring them back to q S + Z, and scatter them into the halo or add them to owned rows.
#include "cuda/rows.cuh"

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
    IndexList rows;
    int64_t count;
    bool accumulate;
    unsigned long long *refused;
};

__device__ int64_t refusal(const DecodeCall &call, int64_t row, int64_t b, int64_t offset) {
    if (row < 0 || row >= call.out_rows) return no_such_row;
    if (!is_width(b)) return no_such_width;
    if (offset < 0 || offset > call.payload_bytes - row_bytes(call.columns, b)) return outside_payload;
    return 0;
}

template <int b>
__device__ void decode_block(const DecodeCall &call, const uint8_t *in, int64_t block, float scale, float zero, float *out) {
    const int count = columns_in_block(block, call.columns);
    const uint64_t packed = load_packed<b>(in + block * b, count);
    float values[block_columns], before[block_columns];
    if (call.accumulate) load_block(out, count, before);
#pragma unroll
    for (int c = 0; c < block_columns; c++) {
        const float decoded = decode_column<b>(packed, c, scale, zero);
        values[c] = call.accumulate ? before[c] + decoded : decoded;
    }
    store_block(out, count, values);
}

__global__ void __launch_bounds__(threads_a_block) decode(DecodeCall call, int log_size) {
    const Team team = row_team(log_size);
    const int64_t i = team.row, blocks = (call.columns + block_columns - 1) / block_columns;
    if (i >= call.count) return;
    const int64_t row = call.rows[i], b = call.bits ? call.bits[i] : call.width;
    const int64_t offset = call.offsets ? call.offsets[i] : i * row_bytes(call.columns, b);
    if (const int64_t reason = refusal(call, row, b, offset)) {
        if (team.lane == 0) refuse(call.refused, i, reason);
        return;
    }
    float zero, scale;
    if (call.sixteen) {
        const uint32_t pair = ((const uint32_t *)call.params)[i];
        zero = bits_float(pair << 16), scale = bits_float(pair & 0xFFFF0000u);
    } else {
        const float2 pair = ((const float2 *)call.params)[i];
        zero = pair.x, scale = pair.y;
    }
    const uint8_t *in = call.payload + offset;
    float *out = call.out + row * call.out_stride;
    for (int64_t block = team.lane; block < blocks; block += team.size) {
        float *place = out + block * block_columns;
        switch (b) {
            case 1: decode_block<1>(call, in, block, scale, zero, place); break;
            case 2: decode_block<2>(call, in, block, scale, zero, place); break;
            case 4: decode_block<4>(call, in, block, scale, zero, place); break;
            default: decode_block<8>(call, in, block, scale, zero, place); break;
        }
    }
}

}  // namespace
}  // namespace gnnqlab

using namespace gnnqlab;

GNNQLAB_CUDA_EXPORT(decode_rows)
(const uint8_t *payload, int64_t payload_bytes, const void *params, int64_t params_sixteen, const uint8_t *bits,
 int64_t width, const int64_t *offsets, float *out, int64_t out_rows, int64_t out_stride, int64_t columns,
 const void *rows, int64_t rows_narrow, int64_t count, int64_t accumulate, unsigned long long *refused, void *stream) {
    if (count == 0 || columns == 0) return cudaSuccess;
    const DecodeCall call = {payload, payload_bytes, params, params_sixteen != 0, bits, width, offsets, out, out_rows,
                             out_stride, columns, {rows, rows_narrow != 0}, count, accumulate != 0, refused};
    const int log_size = team_log_size(columns);
    decode<<<grid_size(count, log_size), threads_a_block, 0, cudaStream_t(stream)>>>(call, log_size);
    return cudaGetLastError();
}
