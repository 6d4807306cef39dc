// Encode: gather rows, find their range, round stochastically, pack. Rows of up to 1024 columns are read once and stay in
// registers; longer ones are read a second time for the codes.
#include "cuda/rows.cuh"

namespace gnnqlab {
namespace {

struct EncodeCall {
    const void *x;
    int64_t x_rows, x_stride, columns;
    IndexList rows;
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
    unsigned long long *refused;
};

__device__ int64_t refusal(const EncodeCall &call, int64_t row, int64_t id, int64_t b, int64_t offset) {
    if (row < 0 || row >= call.x_rows) return no_such_row;
    if (id < 0 || id > int64_t(0xFFFFFFFF)) return id_too_large;
    if (!is_width(b)) return no_such_width;
    if (offset < 0 || offset > call.payload_bytes - row_bytes(call.columns, b)) return outside_payload;
    return 0;
}

template <int b>
__device__ void write_codes(const float *x, int64_t block, int count, const RowParameters &row, const Noise &noise,
                            uint32_t id, uint8_t *out) {
    store_packed<b>(out + block * b, count, encode_block<b>(x, count, row, philox(noise, id, uint32_t(block))));
}

// kept: blocks that a lane holds in registers; 0 reads the row again.
template <class T, int kept> __global__ void __launch_bounds__(threads_a_block) encode(EncodeCall call, int log_size) {
    const Team team = row_team(log_size);
    const int64_t i = team.row, blocks = (call.columns + block_columns - 1) / block_columns;
    const bool here = i < call.count;
    const int64_t row = here ? call.rows[i] : 0, id = here ? call.ids[i] : 0;
    const int64_t b = !here ? 1 : call.bits ? call.bits[i] : call.width;
    const int64_t offset = !here ? 0 : call.offsets ? call.offsets[i] : i * row_bytes(call.columns, b);
    const int64_t reason = here ? refusal(call, row, id, b, offset) : 0;
    const bool good = here && reason == 0;
    const T *x = (const T *)call.x + row * call.x_stride;

    float held[kept ? kept : 1][block_columns];
    Seen seen;
    if (good) {
        if constexpr (kept > 0) {
#pragma unroll
            for (int step = 0; step < kept; step++) {
                const int64_t block = team.lane + int64_t(step) * team.size;
                if (block >= blocks) break;
                const int count = columns_in_block(block, call.columns);
                load_block(x + block * block_columns, count, held[step]);
                seen.look(held[step], count);
            }
        } else {
            for (int64_t block = team.lane; block < blocks; block += team.size) {
                const int count = columns_in_block(block, call.columns);
                load_block(x + block * block_columns, count, held[0]);
                seen.look(held[0], count);
            }
        }
    }
    seen.share(team.size);
    if (!good) {
        if (here && team.lane == 0) refuse(call.refused, i, reason);
        return;
    }
    const RowParameters found = row_parameters(seen.lowest, seen.highest, seen.has_nan, int(b), call.sixteen);
    if (team.lane == 0) {
        if (!found.finite) refuse(call.refused, i, non_finite);
        if (call.sixteen) {  // exact: rounded already; both in one word
            ((uint32_t *)call.params)[i] = float_bits(found.zero) >> 16 | (float_bits(found.scale) & 0xFFFF0000u);
        } else {
            ((float2 *)call.params)[i] = make_float2(found.zero, found.scale);
        }
        if (call.ranges) call.ranges[i] = found.range;
    }
    if (!found.finite) return;

    uint8_t *out = call.payload + offset;
    const auto write = [&](const float *values, int64_t block) {
        const int count = columns_in_block(block, call.columns);
        switch (b) {
            case 1: write_codes<1>(values, block, count, found, call.noise, uint32_t(id), out); break;
            case 2: write_codes<2>(values, block, count, found, call.noise, uint32_t(id), out); break;
            case 4: write_codes<4>(values, block, count, found, call.noise, uint32_t(id), out); break;
            default: write_codes<8>(values, block, count, found, call.noise, uint32_t(id), out); break;
        }
    };
    if constexpr (kept > 0) {
#pragma unroll
        for (int step = 0; step < kept; step++) {
            const int64_t block = team.lane + int64_t(step) * team.size;
            if (block < blocks) write(held[step], block);
        }
    } else {
        for (int64_t block = team.lane; block < blocks; block += team.size) {
            load_block(x + block * block_columns, columns_in_block(block, call.columns), held[0]);
            write(held[0], block);
        }
    }
}

template <class T> int64_t launch(const EncodeCall &call, cudaStream_t stream) {
    const int log_size = team_log_size(call.columns);
    const unsigned grid = grid_size(call.count, log_size);
    if (call.columns <= 256) encode<T, 1><<<grid, threads_a_block, 0, stream>>>(call, log_size);
    else if (call.columns <= 512) encode<T, 2><<<grid, threads_a_block, 0, stream>>>(call, log_size);
    else if (call.columns <= 1024) encode<T, 4><<<grid, threads_a_block, 0, stream>>>(call, log_size);
    else encode<T, 0><<<grid, threads_a_block, 0, stream>>>(call, log_size);
    return cudaGetLastError();
}

}  // namespace
}  // namespace gnnqlab

using namespace gnnqlab;

GNNQLAB_CUDA_EXPORT(encode_rows)
(const void *x, int64_t x_sixteen, int64_t x_rows, int64_t x_stride, int64_t columns, const void *rows,
 int64_t rows_narrow, int64_t count, const int64_t *ids, const uint8_t *bits, int64_t width, const int64_t *offsets,
 uint8_t *payload, int64_t payload_bytes, void *params, int64_t params_sixteen, float *ranges, int64_t seed,
 int64_t epoch, int64_t noise_stream, unsigned long long *refused, void *stream) {
    if (count == 0 || columns == 0) return cudaSuccess;
    const EncodeCall call = {x, x_rows, x_stride, columns, {rows, rows_narrow != 0}, count, ids, bits, width, offsets,
                             payload, payload_bytes, params, params_sixteen != 0, ranges,
                             make_noise(seed, epoch, noise_stream), refused};
    return x_sixteen ? launch<Bfloat16>(call, cudaStream_t(stream)) : launch<float>(call, cudaStream_t(stream));
}
