// Normalise, activate and drop: a row to a team of lanes, which read it again where it lies in the cache; the gradients of
// weight and bias are summed by columns in a kernel of their own. Nothing is kept of a mask: it is drawn again.
#include "core/nodewise.h"

#include "cuda/masks.cuh"

namespace gnnqlab {
namespace {

template <class T> struct Forward {
    const T *x;
    int64_t stride, rows, columns;
    const float *weight, *bias;  // or null: no norm
    float eps;
    int activation;
    Drop drop;
    T *out, *whole;  // whole may be null
    float *stats;
    unsigned long long *refused;
};

template <class T> struct Backward {
    const T *kept;
    int64_t stride, rows, columns;
    const float *weight, *bias, *stats;
    int activation;
    const T *gradient, *of_whole;  // of_whole may be null
    int64_t gradient_stride, of_whole_stride;
    Drop drop;
    T *out;
    float *partials;
};

__device__ inline float activate(int activation, float z) {
    switch (activation) {
        case relu: return activated<relu, uint32_t>(z);
        case elu: return activated<elu, uint32_t>(z);
        case gelu: return activated<gelu, uint32_t>(z);
        case gelu_tanh: return activated<gelu_tanh, uint32_t>(z);
        default: return z;
    }
}

__device__ inline float slope(int activation, float z, float gradient) {
    switch (activation) {
        case relu: return through<relu, uint32_t>(z, gradient);
        case elu: return through<elu, uint32_t>(z, gradient);
        case gelu: return through<gelu, uint32_t>(z, gradient);
        case gelu_tanh: return through<gelu_tanh, uint32_t>(z, gradient);
        case elu_output: return through<elu_output, uint32_t>(z, gradient);
        default: return gradient;
    }
}

__device__ inline float sum_team(float value, int team_size) {  // every lane of the warp comes here
    for (int step = team_size / 2; step; step /= 2) value += __shfl_xor_sync(all_lanes, value, step);
    return value;
}

template <class T> __global__ void __launch_bounds__(threads_a_block) nodewise_rows(Forward<T> call, int log_size) {
    const Team team = row_team(log_size);
    const int64_t i = team.row, blocks = (call.columns + block_columns - 1) / block_columns;
    const bool here = i < call.rows;
    const T *x = call.x + (here ? i : 0) * call.stride;
    float mean = 0.0f, scale = 1.0f, values[block_columns], weight[block_columns], bias[block_columns];
    if (call.weight) {
        float sum = 0.0f, squares = 0.0f;
        for (int64_t block = team.lane; here && block < blocks; block += team.size) {
            load_block(x + block * block_columns, columns_in_block(block, call.columns), values);
#pragma unroll
            for (int c = 0; c < block_columns; c++) sum += values[c];  // those past the row are 0
        }
        mean = sum_team(sum, team.size) / float(call.columns);
        for (int64_t block = team.lane; here && block < blocks; block += team.size) {
            const int count = columns_in_block(block, call.columns);
            load_block(x + block * block_columns, count, values);
#pragma unroll
            for (int c = 0; c < block_columns; c++)
                if (c < count) squares += (values[c] - mean) * (values[c] - mean);
        }
        scale = 1.0f / sqrtf(sum_team(squares, team.size) / float(call.columns) + call.eps);
        if (here && team.lane == 0) ((float2 *)call.stats)[i] = make_float2(mean, scale);
    }
    if (!here) return;
    int64_t id = 0;
    if (call.drop.threshold) {
        id = call.drop.ids[i];
        if (id < 0 || id > int64_t(0xFFFFFFFF)) refuse(call.refused, i, id_too_large);
    }
    for (int64_t block = team.lane; block < blocks; block += team.size) {
        const int64_t at = block * block_columns;
        const int count = columns_in_block(block, call.columns);
        load_block(x + at, count, values);
        if (call.weight) {
            load_block(call.weight + at, count, weight);
            load_block(call.bias + at, count, bias);
#pragma unroll
            for (int c = 0; c < block_columns; c++) values[c] = (values[c] - mean) * scale * weight[c] + bias[c];
        }
#pragma unroll
        for (int c = 0; c < block_columns; c++) values[c] = activate(call.activation, values[c]);
        if (call.whole) store_block(call.whole + i * call.columns + at, count, values);
        if (call.drop.threshold) mask(call.drop, uint32_t(id), block, values);
        store_block(call.out + i * call.columns + at, count, values);
    }
}

// A block of a row's gradient before the activation, and with a norm the normalised values beside it.
template <class T>
__device__ inline void before(const Backward<T> &call, int64_t i, int64_t block, int count, float *normal,
                              float *g) {
    const int64_t at = block * block_columns;
    load_block(call.kept + i * call.stride + at, count, normal);
    load_block(call.gradient + i * call.gradient_stride + at, count, g);
    if (call.drop.threshold) {
        mask(call.drop, uint32_t(call.drop.ids[i]), block, g);
    } else {
#pragma unroll
        for (int c = 0; c < block_columns; c++) g[c] *= call.drop.factor;
    }
    if (call.of_whole) {
        float more[block_columns];
        load_block(call.of_whole + i * call.of_whole_stride + at, count, more);
#pragma unroll
        for (int c = 0; c < block_columns; c++) g[c] += more[c];
    }
    if (call.weight) {
        const float2 stats = ((const float2 *)call.stats)[i];
#pragma unroll
        for (int c = 0; c < block_columns; c++) {  // one number at a time: registers are scarce
            normal[c] = (normal[c] - stats.x) * stats.y;
            if (c < count) g[c] = slope(call.activation, normal[c] * call.weight[at + c] + call.bias[at + c], g[c]);
        }
    } else {
        const bool scaled = call.activation == elu_output && call.drop.threshold && !call.of_whole;
        const float unscaled = scaled ? 1.0f / call.drop.factor : 1.0f;
#pragma unroll
        for (int c = 0; c < block_columns; c++) g[c] = slope(call.activation, normal[c] * unscaled, g[c]);
    }
}

template <class T> __global__ void __launch_bounds__(threads_a_block) nodewise_gradient(Backward<T> call, int log_size) {
    const Team team = row_team(log_size);
    const int64_t i = team.row, blocks = (call.columns + block_columns - 1) / block_columns;
    const bool here = i < call.rows;
    float normal[block_columns], g[block_columns], share = 0.0f, slant = 0.0f;
    if (call.weight) {
        for (int64_t block = team.lane; here && block < blocks; block += team.size) {
            const int count = columns_in_block(block, call.columns);
            before(call, i, block, count, normal, g);
#pragma unroll
            for (int c = 0; c < block_columns; c++)
                if (c < count) {
                    const float gradient = g[c] * call.weight[block * block_columns + c];
                    share += gradient;
                    slant += gradient * normal[c];
                }
        }
        share = sum_team(share, team.size) / float(call.columns);
        slant = sum_team(slant, team.size) / float(call.columns);
    }
    if (!here) return;
    for (int64_t block = team.lane; block < blocks; block += team.size) {
        const int64_t at = block * block_columns;
        const int count = columns_in_block(block, call.columns);
        before(call, i, block, count, normal, g);
        if (call.weight) {
            const float scale = call.stats[2 * i + 1];
#pragma unroll
            for (int c = 0; c < block_columns; c++)
                if (c < count) g[c] = (g[c] * call.weight[at + c] - share - normal[c] * slant) * scale;
        }
        store_block(call.out + i * call.columns + at, count, g);
    }
}

// Sums over rows_a_partial rows: lanes along columns, the rest of the block along rows, put together in their order.
template <class T> __global__ void __launch_bounds__(threads_a_block, 4) nodewise_sums(Backward<T> call, int log_size) {
    __shared__ float sums[2][block_columns][threads_a_block];  // a thread's own column: registers are scarce
    const int lanes = 1 << log_size, own = int(threadIdx.x), lane = own & (lanes - 1), turn = own >> log_size;
    const int turns = threads_a_block >> log_size;
    const int64_t blocks = (call.columns + block_columns - 1) / block_columns, block = int64_t(blockIdx.y) * lanes + lane;
    const bool here = block < blocks;
    const int count = here ? columns_in_block(block, call.columns) : 0;
    const int64_t begin = int64_t(blockIdx.x) * rows_a_partial;
    const int64_t end = begin + rows_a_partial < call.rows ? begin + rows_a_partial : call.rows;
    float normal[block_columns], g[block_columns];
#pragma unroll
    for (int c = 0; c < block_columns; c++) sums[0][c][own] = sums[1][c][own] = 0.0f;
    for (int64_t i = begin + turn; here && i < end; i += turns) {
        before(call, i, block, count, normal, g);
#pragma unroll
        for (int c = 0; c < block_columns; c++) {
            sums[0][c][own] += g[c] * normal[c];
            sums[1][c][own] += g[c];
        }
    }
    __syncthreads();
    if (!here || turn != 0) return;
    for (int which = 0; which < 2; which++) {
        float *out = call.partials + (2 * int64_t(blockIdx.x) + which) * call.columns + block * block_columns;
#pragma unroll
        for (int c = 0; c < block_columns; c++) {
            g[c] = sums[which][c][own];
            for (int other = 1; other < turns; other++) g[c] += sums[which][c][other * lanes + lane];
        }
        store_block(out, count, g);
    }
}

template <class T> int64_t run_forward(const Forward<T> &call, cudaStream_t stream) {
    const int log_size = team_log_size(call.columns);
    nodewise_rows<<<grid_size(call.rows, log_size), threads_a_block, 0, stream>>>(call, log_size);
    return cudaGetLastError();
}

template <class T> int64_t run_backward(const Backward<T> &call, cudaStream_t stream) {
    const int log_size = team_log_size(call.columns);
    nodewise_gradient<<<grid_size(call.rows, log_size), threads_a_block, 0, stream>>>(call, log_size);
    if (call.weight) {
        const int64_t wide = int64_t(block_columns) << log_size;
        const dim3 grid(unsigned((call.rows + rows_a_partial - 1) / rows_a_partial), unsigned((call.columns + wide - 1) / wide));
        nodewise_sums<<<grid, threads_a_block, 0, stream>>>(call, log_size);
    }
    return cudaGetLastError();
}

}  // namespace
}  // namespace gnnqlab

using namespace gnnqlab;

GNNQLAB_CUDA_EXPORT(nodewise)
(const void *x, int64_t sixteen, int64_t stride, int64_t rows, int64_t columns, const float *weight, const float *bias,
 float eps, int64_t activation, const void *ids, int64_t ids_narrow, int64_t threshold, int64_t seed, int64_t epoch,
 int64_t noise_stream, void *out, void *whole, float *stats, unsigned long long *refused, void *stream) {
    if (rows == 0 || columns == 0) return cudaSuccess;
    const Drop drop = {make_noise(seed, epoch, noise_stream), {ids, ids_narrow != 0}, uint32_t(threshold),
                       65536.0f / float(65536 - threshold)};
    if (sixteen)
        return run_forward<Bfloat16>({(const Bfloat16 *)x, stride, rows, columns, weight, bias, eps, int(activation), drop,
                                      (Bfloat16 *)out, (Bfloat16 *)whole, stats, refused}, cudaStream_t(stream));
    return run_forward<float>({(const float *)x, stride, rows, columns, weight, bias, eps, int(activation), drop,
                               (float *)out, (float *)whole, stats, refused}, cudaStream_t(stream));
}

// `threads` is not used.
GNNQLAB_CUDA_EXPORT(nodewise_backward)
(const void *kept, int64_t sixteen, int64_t stride, int64_t rows, int64_t columns, const float *weight,
 const float *bias, const float *stats, int64_t activation, const void *gradient, int64_t gradient_stride,
 const void *of_whole, int64_t of_whole_stride, const void *ids, int64_t ids_narrow, int64_t threshold, float factor,
 int64_t seed, int64_t epoch, int64_t noise_stream, void *out, float *partials, int64_t, void *stream) {
    if (rows == 0 || columns == 0) return cudaSuccess;
    const Drop drop = {make_noise(seed, epoch, noise_stream), {ids, ids_narrow != 0}, uint32_t(threshold), factor};
    if (sixteen)
        return run_backward<Bfloat16>({(const Bfloat16 *)kept, stride, rows, columns, weight, bias, stats, int(activation),
                                       (const Bfloat16 *)gradient, (const Bfloat16 *)of_whole, gradient_stride,
                                       of_whole_stride, drop, (Bfloat16 *)out, partials}, cudaStream_t(stream));
    return run_backward<float>({(const float *)kept, stride, rows, columns, weight, bias, stats, int(activation),
                                (const float *)gradient, (const float *)of_whole, gradient_stride, of_whole_stride, drop,
                                (float *)out, partials}, cudaStream_t(stream));
}
