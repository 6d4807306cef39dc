// Which rows moved: max |x - held| > epsilon max |x|, a team of lanes a row. Whoever asks lists the marked rows.
#include "cuda/rows.cuh"

namespace gnnqlab {
namespace {

__global__ void __launch_bounds__(threads_a_block)
    moved_rows(const float *x, int64_t num_x, int64_t x_stride, const float *held, int64_t columns, const int64_t *rows,
               int64_t count, float epsilon, uint8_t *moved, unsigned long long *refused, int log_size) {
    const Team team = row_team(log_size);
    const int64_t i = team.row, row = i < count ? rows[i] : -1;
    const bool good = row >= 0 && row < num_x;
    float change = 0.0f, size = 0.0f;
    int doubt = 0;
    for (int64_t block = team.lane; good && block * block_columns < columns; block += team.size) {
        const int used = columns_in_block(block, columns);
        float now[block_columns], then[block_columns];
        load_block(x + row * x_stride + block * block_columns, used, now);
        load_block(held + i * columns + block * block_columns, used, then);
#pragma unroll
        for (int c = 0; c < block_columns; c++)
            if (c < used) {
                const float difference = fabsf(now[c] - then[c]);
                change = fmaxf(change, difference);
                size = fmaxf(size, fabsf(now[c]));
                doubt |= !is_finite(difference);
            }
    }
    for (int step = team.size / 2; step; step /= 2) {  // every lane of the warp comes here
        change = fmaxf(change, __shfl_xor_sync(all_lanes, change, step));
        size = fmaxf(size, __shfl_xor_sync(all_lanes, size, step));
        doubt |= __shfl_xor_sync(all_lanes, doubt, step);
    }
    if (i >= count || team.lane != 0) return;
    if (!good) refuse(refused, i, no_such_row);
    moved[i] = !good || doubt || !(change <= epsilon * size);
}

}  // namespace
}  // namespace gnnqlab

using namespace gnnqlab;

GNNQLAB_CUDA_EXPORT(moved_rows)
(const float *x, int64_t num_x, int64_t x_stride, const float *held, int64_t columns, const int64_t *rows, int64_t count,
 float epsilon, uint8_t *moved, unsigned long long *refused, void *stream) {
    if (count == 0 || columns == 0) return cudaSuccess;
    const int log_size = team_log_size(columns);
    moved_rows<<<grid_size(count, log_size), threads_a_block, 0, cudaStream_t(stream)>>>(
        x, num_x, x_stride, held, columns, rows, count, epsilon, moved, refused, log_size);
    return cudaGetLastError();
}
