// The noise itself, and dropout: one pass that draws the bits and multiplies; the gradient is the same pass.
#include "cuda/rows.cuh"

namespace gnnqlab {
namespace {

__device__ uint32_t checked_id(const IndexList &ids, int64_t i, unsigned long long *refused) {
    const int64_t id = ids[i];
    if (id < 0 || id > int64_t(0xFFFFFFFF)) refuse(refused, i, id_too_large);
    return uint32_t(id);
}

// Calls visit(row, block, words) for each block of each row.
template <class Visit>
__device__ void each_block(const IndexList &ids, int64_t rows, int64_t columns, const Noise &noise,
                           unsigned long long *refused, int log_size, const Visit &visit) {
    const Team team = row_team(log_size);
    if (team.row >= rows) return;
    const uint32_t id = checked_id(ids, team.row, refused);
    const int64_t blocks = (columns + block_columns - 1) / block_columns;
    for (int64_t block = team.lane; block < blocks; block += team.size)
        visit(team.row, block, philox(noise, id, uint32_t(block)));
}

__global__ void __launch_bounds__(threads_a_block)
    uniform16(IndexList ids, int64_t rows, int64_t columns, Noise noise, int32_t *out, unsigned long long *refused,
              int log_size) {
    each_block(ids, rows, columns, noise, refused, log_size, [&](int64_t row, int64_t block, const Words &words) {
        for (int c = 0; c < columns_in_block(block, columns); c++)
            out[row * columns + block * block_columns + c] = int32_t(noise_bits(words, c));
    });
}

template <class T>
__global__ void __launch_bounds__(threads_a_block)
    drop(const T *x, int64_t stride, int64_t rows, int64_t columns, IndexList ids, uint32_t threshold, float factor,
         Noise noise, T *out, unsigned long long *refused, int log_size) {
    each_block(ids, rows, columns, noise, refused, log_size, [&](int64_t row, int64_t block, const Words &words) {
        const int count = columns_in_block(block, columns);
        float values[block_columns];
        load_block(x + row * stride + block * block_columns, count, values);
#pragma unroll
        for (int c = 0; c < block_columns; c++)
            values[c] = noise_bits(words, c) >= threshold ? values[c] * factor : 0.0f;
        store_block(out + row * columns + block * block_columns, count, values);
    });
}

__global__ void __launch_bounds__(threads_a_block)
    drop_values(const float *values, int64_t count, IndexList ids, IndexList columns, uint32_t threshold, float factor,
                Noise noise, float *out, unsigned long long *refused) {
    const int64_t e = int64_t(blockIdx.x) * threads_a_block + threadIdx.x;
    if (e >= count) return;
    const int64_t column = columns[e];
    const Words words = philox(noise, checked_id(ids, e, refused), uint32_t(column / block_columns));
    out[e] = noise_bits(words, int(column % block_columns)) >= threshold ? values[e] * factor : 0.0f;
}

float kept_factor(int64_t threshold) { return 65536.0f / float(65536 - threshold); }

}  // namespace
}  // namespace gnnqlab

using namespace gnnqlab;

GNNQLAB_CUDA_EXPORT(uniform16)
(const void *ids, int64_t ids_narrow, int64_t rows, int64_t columns, int64_t seed, int64_t epoch, int64_t noise_stream,
 int32_t *out, unsigned long long *refused, void *stream) {
    if (rows == 0 || columns == 0) return cudaSuccess;
    const int log_size = team_log_size(columns);
    uniform16<<<grid_size(rows, log_size), threads_a_block, 0, cudaStream_t(stream)>>>(
        {ids, ids_narrow != 0}, rows, columns, make_noise(seed, epoch, noise_stream), out, refused, log_size);
    return cudaGetLastError();
}

GNNQLAB_CUDA_EXPORT(dropout)
(const void *x, int64_t sixteen, int64_t stride, int64_t rows, int64_t columns, const void *ids, int64_t ids_narrow,
 int64_t threshold, int64_t seed, int64_t epoch, int64_t noise_stream, void *out, unsigned long long *refused,
 void *stream) {
    if (rows == 0 || columns == 0) return cudaSuccess;
    const int log_size = team_log_size(columns);
    const unsigned grid = grid_size(rows, log_size);
    const IndexList list = {ids, ids_narrow != 0};
    const Noise noise = make_noise(seed, epoch, noise_stream);
    const float factor = kept_factor(threshold);
    if (sixteen)
        drop<<<grid, threads_a_block, 0, cudaStream_t(stream)>>>((const Bfloat16 *)x, stride, rows, columns, list,
                                                                 uint32_t(threshold), factor, noise, (Bfloat16 *)out,
                                                                 refused, log_size);
    else
        drop<<<grid, threads_a_block, 0, cudaStream_t(stream)>>>((const float *)x, stride, rows, columns, list,
                                                                 uint32_t(threshold), factor, noise, (float *)out,
                                                                 refused, log_size);
    return cudaGetLastError();
}

GNNQLAB_CUDA_EXPORT(dropout_values)
(const float *values, int64_t count, const void *ids, int64_t ids_narrow, const void *columns, int64_t columns_narrow,
 int64_t threshold, int64_t seed, int64_t epoch, int64_t noise_stream, float *out, unsigned long long *refused,
 void *stream) {
    if (count == 0) return cudaSuccess;
    const unsigned grid = unsigned((count + threads_a_block - 1) / threads_a_block);
    drop_values<<<grid, threads_a_block, 0, cudaStream_t(stream)>>>(
        values, count, {ids, ids_narrow != 0}, {columns, columns_narrow != 0}, uint32_t(threshold),
        kept_factor(threshold), make_noise(seed, epoch, noise_stream), out, refused);
    return cudaGetLastError();
}
