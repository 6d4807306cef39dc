// Layers side by side, or the largest of them, and dropout: eight columns of a row of the join to a thread.
#include "core/joins.h"

#include "cuda/masks.cuh"

namespace gnnqlab {
namespace {

struct Layers {  // goes to the device by value
    const float *rows[most_joined];
    int64_t strides[most_joined];
    int count;
};

struct Outs {
    float *rows[most_joined];
    int count;
};

struct Shape {
    int64_t rows, columns, blocks;
};

struct Place {
    int64_t row, block, at;  // at: the first column
    int count;
};

// Returns false beyond the last block.
__device__ inline bool find_place(const Shape &shape, Place *place) {
    const int64_t thread = int64_t(blockIdx.x) * threads_a_block + threadIdx.x;
    if (thread >= shape.rows * shape.blocks) return false;
    const int64_t row = thread / shape.blocks, block = thread - row * shape.blocks;
    *place = {row, block, block * block_columns, columns_in_block(block, shape.columns)};
    return true;
}

__device__ inline void drop_block(const Drop &drop, const Place &place, float *values, unsigned long long *refused) {
    if (!drop.threshold) return;
    const int64_t id = drop.ids[place.row];
    if (id < 0 || id > int64_t(0xFFFFFFFF)) refuse(refused, place.row, id_too_large);
    mask(drop, uint32_t(id), place.block, values);
}

__global__ void __launch_bounds__(threads_a_block)
    joined_columns(Layers layers, int64_t wide, Shape shape, Drop drop, float *out, unsigned long long *refused) {
    Place place;
    if (!find_place(shape, &place)) return;
    float values[block_columns] = {};
    const int64_t first = place.at / wide;
    if ((first + 1) * wide >= place.at + place.count) {  // all of one layer
        load_block(layers.rows[first] + place.row * layers.strides[first] + place.at - first * wide, place.count, values);
    } else {
#pragma unroll
        for (int c = 0; c < block_columns; c++)
            if (c < place.count) {
                const int64_t layer = (place.at + c) / wide;
                values[c] = layers.rows[layer][place.row * layers.strides[layer] + place.at + c - layer * wide];
            }
    }
    drop_block(drop, place, values, refused);
    store_block(out + place.row * shape.columns + place.at, place.count, values);
}

__global__ void __launch_bounds__(threads_a_block)
    largest_of_layers(Layers layers, Shape shape, Drop drop, float *out, uint8_t *from, unsigned long long *refused) {
    Place place;
    if (!find_place(shape, &place)) return;
    float best[block_columns], values[block_columns];
    uint32_t which[block_columns] = {};
    load_block(layers.rows[0] + place.row * layers.strides[0] + place.at, place.count, best);
    for (int layer = 1; layer < layers.count; layer++) {
        load_block(layers.rows[layer] + place.row * layers.strides[layer] + place.at, place.count, values);
#pragma unroll
        for (int c = 0; c < block_columns; c++) take_larger(values[c], uint32_t(layer), &best[c], &which[c]);
    }
    const int64_t at = place.row * shape.columns + place.at;
#pragma unroll
    for (int c = 0; c < block_columns; c++)
        if (c < place.count) from[at + c] = uint8_t(which[c]);
    drop_block(drop, place, best, refused);
    store_block(out + at, place.count, best);
}

__global__ void __launch_bounds__(threads_a_block)
    gradients_of_largest(const float *gradient, int64_t stride, const uint8_t *from, Shape shape, Drop drop, Outs outs) {
    Place place;
    if (!find_place(shape, &place)) return;
    float g[block_columns], share[block_columns];
    uint32_t which[block_columns];
    const int64_t at = place.row * shape.columns + place.at;
    load_block(gradient + place.row * stride + place.at, place.count, g);
    if (drop.threshold) mask(drop, uint32_t(drop.ids[place.row]), place.block, g);
#pragma unroll
    for (int c = 0; c < block_columns; c++) which[c] = c < place.count ? from[at + c] : 0;
    for (int layer = 0; layer < outs.count; layer++) {
#pragma unroll
        for (int c = 0; c < block_columns; c++) share[c] = which[c] == uint32_t(layer) ? g[c] : 0.0f;
        store_block(outs.rows[layer] + at, place.count, share);
    }
}

Layers gather(const float *const *rows, const int64_t *strides, int64_t count) {
    Layers layers = {};
    layers.count = int(count);
    for (int64_t layer = 0; layer < count; layer++) layers.rows[layer] = rows[layer], layers.strides[layer] = strides[layer];
    return layers;
}

Shape make_shape(int64_t rows, int64_t columns) { return {rows, columns, (columns + block_columns - 1) / block_columns}; }

unsigned blocks_of(const Shape &shape) {
    return unsigned((shape.rows * shape.blocks + threads_a_block - 1) / threads_a_block);
}

Drop make_drop(const void *ids, int64_t narrow, int64_t threshold, int64_t seed, int64_t epoch, int64_t noise_stream) {
    const float factor = 65536.0f / float(65536 - threshold);
    return {make_noise(seed, epoch, noise_stream), {ids, narrow != 0}, uint32_t(threshold), factor};
}

}  // namespace
}  // namespace gnnqlab

using namespace gnnqlab;

// At most `most_joined` layers; their addresses lie on the host.
GNNQLAB_CUDA_EXPORT(join_columns)
(const float *const *layers, const int64_t *strides, int64_t num_layers, int64_t rows, int64_t columns, const void *ids,
 int64_t ids_narrow, int64_t threshold, int64_t seed, int64_t epoch, int64_t noise_stream, float *out,
 unsigned long long *refused, void *stream) {
    if (num_layers > most_joined) return cudaErrorInvalidValue;
    if (rows == 0 || columns == 0) return cudaSuccess;
    const Shape shape = make_shape(rows, num_layers * columns);
    const Drop drop = make_drop(ids, ids_narrow, threshold, seed, epoch, noise_stream);
    joined_columns<<<blocks_of(shape), threads_a_block, 0, cudaStream_t(stream)>>>(gather(layers, strides, num_layers),
                                                                                columns, shape, drop, out, refused);
    return cudaGetLastError();
}

GNNQLAB_CUDA_EXPORT(join_largest)
(const float *const *layers, const int64_t *strides, int64_t num_layers, int64_t rows, int64_t columns, const void *ids,
 int64_t ids_narrow, int64_t threshold, int64_t seed, int64_t epoch, int64_t noise_stream, float *out, uint8_t *from,
 unsigned long long *refused, void *stream) {
    if (num_layers > most_joined) return cudaErrorInvalidValue;
    if (rows == 0 || columns == 0) return cudaSuccess;
    const Shape shape = make_shape(rows, columns);
    const Drop drop = make_drop(ids, ids_narrow, threshold, seed, epoch, noise_stream);
    largest_of_layers<<<blocks_of(shape), threads_a_block, 0, cudaStream_t(stream)>>>(gather(layers, strides, num_layers),
                                                                                   shape, drop, out, from, refused);
    return cudaGetLastError();
}

// `threads` is not used.
GNNQLAB_CUDA_EXPORT(join_largest_backward)
(const float *gradient, int64_t stride, const uint8_t *from, int64_t num_layers, int64_t rows, int64_t columns,
 const void *ids, int64_t ids_narrow, int64_t threshold, int64_t seed, int64_t epoch, int64_t noise_stream,
 float *const *outs, int64_t, void *stream) {
    if (num_layers > most_joined) return cudaErrorInvalidValue;
    if (rows == 0 || columns == 0) return cudaSuccess;
    const Shape shape = make_shape(rows, columns);
    const Drop drop = make_drop(ids, ids_narrow, threshold, seed, epoch, noise_stream);
    Outs to = {};
    to.count = int(num_layers);
    for (int64_t layer = 0; layer < num_layers; layer++) to.rows[layer] = outs[layer];
    gradients_of_largest<<<blocks_of(shape), threads_a_block, 0, cudaStream_t(stream)>>>(gradient, stride, from, shape, drop,
                                                                                      to);
    return cudaGetLastError();
}
