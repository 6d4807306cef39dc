// Linear codes: gather rows, find their range, round to the nearest level, pack. A row is read twice: the second time it
// lies in the cache.
#include "core/linear.h"
#include "cuda/rows.cuh"

namespace gnnqlab {
namespace {

struct LinearCall {
    const float *x;
    int64_t x_rows, x_stride, columns;
    const int64_t *rows;
    int64_t count;
    const uint8_t *bits;  // or null: `width` for all
    int64_t width;
    const int64_t *offsets;  // or null: one after another
    uint8_t *payload;
    int64_t payload_bytes;
    float *params, *ranges;
    unsigned long long *refused;
};

__device__ int64_t refusal(const LinearCall &call, int64_t row, int64_t b, int64_t offset) {
    if (row < 0 || row >= call.x_rows) return no_such_row;
    if (!is_width(b)) return no_such_width;
    if (offset < 0 || offset > call.payload_bytes - row_bytes(call.columns, b)) return outside_payload;
    return 0;
}

template <int b> __device__ void write_linear(const float *x, int64_t block, int count, const LinearRow &row, uint8_t *out) {
    store_packed<b>(out + block * b, count, linear_block<b>(x, count, row));
}

__global__ void __launch_bounds__(threads_a_block) encode_linear(LinearCall call, int log_size) {
    const Team team = row_team(log_size);
    const int64_t i = team.row, blocks = (call.columns + block_columns - 1) / block_columns;
    const bool here = i < call.count;
    const int64_t row = here ? call.rows[i] : 0, b = !here ? 1 : call.bits ? call.bits[i] : call.width;
    const int64_t offset = !here ? 0 : call.offsets ? call.offsets[i] : i * row_bytes(call.columns, b);
    const int64_t reason = here ? refusal(call, row, b, offset) : 0;
    const bool good = here && reason == 0;
    const float *x = call.x + row * call.x_stride;

    float values[block_columns];
    Seen seen;
    for (int64_t block = team.lane; good && block < blocks; block += team.size) {
        const int count = columns_in_block(block, call.columns);
        load_block(x + block * block_columns, count, values);
        seen.look(values, count);
    }
    seen.share(team.size);
    if (!good) {
        if (here && team.lane == 0) refuse(call.refused, i, reason);
        return;
    }
    const LinearRow found = linear_row(seen.lowest, seen.highest, seen.has_nan, int(b));
    if (team.lane == 0) {
        if (!found.finite) refuse(call.refused, i, non_finite);
        ((float2 *)call.params)[i] = make_float2(found.zero, found.scale);
        call.ranges[i] = found.range;
    }
    if (!found.finite) return;

    uint8_t *out = call.payload + offset;
    for (int64_t block = team.lane; block < blocks; block += team.size) {
        const int count = columns_in_block(block, call.columns);
        load_block(x + block * block_columns, count, values);
        switch (b) {
            case 1: write_linear<1>(values, block, count, found, out); break;
            case 2: write_linear<2>(values, block, count, found, out); break;
            case 4: write_linear<4>(values, block, count, found, out); break;
            default: write_linear<8>(values, block, count, found, out); break;
        }
    }
}

}  // namespace
}  // namespace gnnqlab

using namespace gnnqlab;

GNNQLAB_CUDA_EXPORT(encode_linear)
(const float *x, int64_t x_rows, int64_t x_stride, int64_t columns, const int64_t *rows, int64_t count,
 const uint8_t *bits, int64_t width, const int64_t *offsets, uint8_t *payload, int64_t payload_bytes, float *params,
 float *ranges, unsigned long long *refused, void *stream) {
    if (count == 0 || columns == 0) return cudaSuccess;
    const int log_size = team_log_size(columns);
    const unsigned grid = grid_size(count, log_size);
    const LinearCall call = {x, x_rows, x_stride, columns, rows, count, bits, width, offsets, payload, payload_bytes,
                             params, ranges, refused};
    encode_linear<<<grid, threads_a_block, 0, cudaStream_t(stream)>>>(call, log_size);
    return cudaGetLastError();
}
