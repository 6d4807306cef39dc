// Rows to symmetric codes on CUDA devices, a team of lanes a row; arguments as on the CPU (cpu/quantize.cpp), which takes
// threads where refusals are noted here.
#include "core/quantize.h"
#include "cuda/rows.cuh"

namespace gnnqlab {
namespace {

struct QuantizeCall {
    const float *x;
    int64_t stride, rows, columns;
    IndexList ids;
    int levels;
    const float *whole; // the largest magnitude of all rows, or null: each row goes by its own
    bool stochastic;
    Noise noise;
    uint8_t *codes;
    int64_t codes_stride; // bytes
    float *scales;
    unsigned long long *refused;
};

// Codes of b bits lie in eight of them, or two in a byte.
template <int b>
__global__ void __launch_bounds__(threads_a_block) quantize_rows(QuantizeCall call, int log_size) {
    const Team team = row_team(log_size);
    const int64_t i = team.row, blocks = (call.columns + block_columns - 1) / block_columns;
    const bool here = i < call.rows;
    const float *x = call.x + (here ? i * call.stride : 0);
    float values[block_columns];
    uint32_t largest = 0;
    for (int64_t block = team.lane; here && block < blocks; block += team.size) {
        load_block(x + block * block_columns, columns_in_block(block, call.columns), values);
#pragma unroll
        for (int c = 0; c < block_columns; c++) {
            const uint32_t bits = magnitude_bits(values[c]);
            largest = bits > largest ? bits : largest;
        }
    }
    for (int step = team.size / 2; step; step /= 2) { // every lane of the warp comes here
        const uint32_t other = __shfl_xor_sync(all_lanes, largest, step);
        largest = other > largest ? other : largest;
    }
    if (!here) return;
    if (largest >= not_finite) {
        if (team.lane == 0) refuse(call.refused, i, non_finite);
        return;
    }
    const Symmetric row = symmetric(call.whole ? magnitude_bits(*call.whole) : largest, float(call.levels));
    if (team.lane == 0) call.scales[i] = row.scale;
    const uint32_t id = uint32_t(call.ids[i]);
    for (int64_t block = team.lane; block < blocks; block += team.size) {
        const int count = columns_in_block(block, call.columns);
        if (blocks > team.size) load_block(x + block * block_columns, count, values); // else they are there still
        Words words = {};
        if (call.stochastic) words = philox(call.noise, id, uint32_t(block));
        uint64_t packed = 0;
#pragma unroll
        for (int c = 0; c < block_columns; c++) {
            const int noise = call.stochastic ? int(noise_bits(words, c)) : half_step;
            const int code = symmetric_code(round_to_int(values[c] * row.steps), noise, call.levels);
            if (c < count) packed |= uint64_t(uint32_t(code) & ((1u << b) - 1u)) << (b * c);
        }
        store_packed<b>(call.codes + i * call.codes_stride + block * b, count, packed);
    }
}

template <int b> int64_t launch(const QuantizeCall &call, void *stream) {
    if (call.rows == 0 || call.columns == 0) return cudaSuccess;
    const int log_size = team_log_size(call.columns);
    const unsigned grid = grid_size(call.rows, log_size);
    quantize_rows<b><<<grid, threads_a_block, 0, cudaStream_t(stream)>>>(call, log_size);
    return cudaGetLastError();
}

__global__ void __launch_bounds__(threads_a_block)
    pack_codes(const int8_t *codes, int64_t stride, int64_t rows, int64_t columns, uint8_t *out, int64_t out_stride,
               int log_size) {
    const Team team = row_team(log_size);
    if (team.row >= rows) return;
    for (int64_t block = team.lane; block * block_columns < columns; block += team.size) {
        const int count = columns_in_block(block, columns);
        const uint64_t wide = load_packed<8>((const uint8_t *)codes + team.row * stride + block * block_columns, count);
        uint64_t packed = 0;
#pragma unroll
        for (int c = 0; c < block_columns; c++) packed |= ((wide >> (8 * c)) & 15) << (4 * c);
        store_packed<4>(out + team.row * out_stride + block * 4, count, packed);
    }
}

} // namespace
} // namespace gnnqlab

using namespace gnnqlab;

GNNQLAB_CUDA_EXPORT(quantize)
(const float *x, int64_t stride, int64_t rows, int64_t columns, const void *ids, int64_t ids_narrow, float levels,
 const float *whole, int64_t stochastic, int64_t seed, int64_t epoch, int64_t noise_stream, uint8_t *codes,
 int64_t codes_stride, float *scales, unsigned long long *refused, void *stream) {
    return launch<8>({x, stride, rows, columns, {ids, ids_narrow != 0}, int(levels), whole, stochastic != 0,
                      make_noise(seed, epoch, noise_stream), codes, codes_stride, scales, refused}, stream);
}

GNNQLAB_CUDA_EXPORT(quantize_pairs)
(const float *x, int64_t stride, int64_t rows, int64_t columns, const void *ids, int64_t ids_narrow, float levels,
 const float *whole, int64_t stochastic, int64_t seed, int64_t epoch, int64_t noise_stream, uint8_t *codes,
 int64_t codes_stride, float *scales, unsigned long long *refused, void *stream) {
    return launch<4>({x, stride, rows, columns, {ids, ids_narrow != 0}, int(levels), whole, stochastic != 0,
                      make_noise(seed, epoch, noise_stream), codes, codes_stride, scales, refused}, stream);
}

GNNQLAB_CUDA_EXPORT(pack_pairs)
(const int8_t *codes, int64_t stride, int64_t rows, int64_t columns, uint8_t *out, int64_t out_stride, int64_t,
 void *stream) {
    if (rows == 0 || columns == 0) return cudaSuccess;
    const int log_size = team_log_size(columns);
    const unsigned grid = grid_size(rows, log_size);
    pack_codes<<<grid, threads_a_block, 0, cudaStream_t(stream)>>>(codes, stride, rows, columns, out, out_stride,
                                                                   log_size);
    return cudaGetLastError();
}
