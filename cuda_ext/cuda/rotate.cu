// The rotated codec on CUDA devices; arguments as on the CPU (cpu/rotate.cpp), which takes threads where refusals are noted
// here. A block has one row, which lies in shared memory between its passes. Sums are those of the reference: sixteen
// lanes in float64, each in the order of its columns, then half to half.
#include "core/rotate.h"
#include "cuda/rows.cuh"

namespace gnnqlab {
namespace {

constexpr int rotate_threads = 128, most_columns = 8192, half_warp = 16;
static_assert(half_warp == sum_lanes);

template <int room> struct Desk {
    double energy, product;
    float lowest, range;
    Thresholds limits;
    float levels[2 * most_levels];
    uint32_t signs[room / 32];
    float y[room];
    uint8_t codes[room];
};

struct Places {
    int64_t limit, columns;
    const int64_t *rows, *ids;
    const uint8_t *bits;  // or null: `width` for all
    int64_t width;
    const int64_t *offsets;  // or null: one after another
    int64_t payload_bytes;

    __device__ int64_t width_of(int64_t i) const { return bits ? bits[i] : width; }
    __device__ int64_t offset_of(int64_t i) const { return offsets ? offsets[i] : i * row_bytes(columns, width_of(i)); }
    __device__ int64_t refusal(int64_t i) const {
        if (rows[i] < 0 || rows[i] >= limit) return no_such_row;
        if (ids[i] < 0 || ids[i] > int64_t(0xFFFFFFFF)) return id_too_large;
        if (!is_rotated_width(width_of(i))) return no_such_width;
        const int64_t offset = offset_of(i);
        return offset < 0 || offset > payload_bytes - row_bytes(columns, width_of(i)) ? int64_t(outside_payload) : 0;
    }
};

struct Call {
    Places places;
    Noise noise;
    int64_t rotations;
    unsigned long long *refused;
};

// Over the sixteen lanes, in all of them; every lane of the warp comes here.
template <class T> __device__ inline T half_to_half(T value) {
    for (int step = half_warp / 2; step; step /= 2) value += __shfl_xor_sync(all_lanes, value, step);
    return value;
}

template <int room>
__device__ void flip_signs(Desk<room> &desk, const Pass &pass) {
    const int first = int(pass.first), end = first + int(pass.size * pass.windows);
    for (int c = first + int(threadIdx.x); c < end; c += rotate_threads)
        if (desk.signs[c / 32] >> (c % 32) & 1) desk.y[c] = -desk.y[c];
    __syncthreads();
}

// Every thread of the block comes here, and finds the row as it was left before.
template <int room>
__device__ void turn(Desk<room> &desk, const Pass &pass, const Noise &noise, uint32_t id, int columns, bool back) {
    for (int block = int(threadIdx.x); 128 * block < columns; block += rotate_threads) {
        const Words drawn = sign_block(noise, id, pass.number, block);
        for (int word = 0; word < 4 && 128 * block + 32 * word < columns; word++)
            desk.signs[4 * block + word] = drawn.w[word];
    }
    __syncthreads();
    if (!back) flip_signs(desk, pass);
    const int first = int(pass.first), size = int(pass.size), count = size * int(pass.windows);
    for (int stride = 1; stride < size; stride *= 2) {
        for (int pair = int(threadIdx.x); pair < count / 2; pair += rotate_threads) {
            const int at = first + pair / stride * 2 * stride + pair % stride;
            const float low = desk.y[at], high = desk.y[at + stride];
            desk.y[at] = low + high, desk.y[at + stride] = low - high;
        }
        __syncthreads();
    }
    const float factor = window_scale(size);
    for (int c = first + int(threadIdx.x); c < first + count; c += rotate_threads) desk.y[c] *= factor;
    __syncthreads();
    if (back) flip_signs(desk, pass);
}

// Ends and square of the row on the desk, by the first warp.
template <int room> __device__ void look(Desk<room> &desk, int columns) {
    if (threadIdx.x < 2 * half_warp) {
        const int lane = int(threadIdx.x) % half_warp;
        float lowest = desk.y[0], highest = lowest;
        double square = 0.0;
        for (int c = lane; c < columns; c += half_warp) {
            const float v = desk.y[c];
            lowest = v < lowest ? v : lowest, highest = v > highest ? v : highest;
            square += double(v) * double(v);
        }
        square = half_to_half(square);
        for (int step = half_warp / 2; step; step /= 2) {
            const float low = __shfl_xor_sync(all_lanes, lowest, step), high = __shfl_xor_sync(all_lanes, highest, step);
            lowest = low < lowest ? low : lowest, highest = high > highest ? high : highest;
        }
        if (threadIdx.x == 0) {
            desk.energy = square;
            desk.lowest = lowest + 0.0f;  // -0 becomes +0
            desk.range = highest + 0.0f - desk.lowest;
        }
    }
    __syncthreads();
}

template <int room> __device__ void lay_levels(Desk<room> &desk, int b) {
    if (int(threadIdx.x) < 1 << b) desk.levels[threadIdx.x] = code_level(b, int(threadIdx.x));
    __syncthreads();
}

template <int room>
__global__ void __launch_bounds__(rotate_threads, 8)
    encode(Call call, const float *x, int64_t x_stride, uint8_t *payload, float *scales, float *spreads) {
    __shared__ Desk<room> desk;
    const int64_t i = blockIdx.x, reason = call.places.refusal(i);
    const int columns = int(call.places.columns);
    if (reason) {  // of the whole block
        if (threadIdx.x == 0) refuse(call.refused, i, reason);
        return;
    }
    const int b = int(call.places.width_of(i));
    const uint32_t id = uint32_t(call.places.ids[i]);
    uint8_t *out = payload + call.places.offset_of(i);
    const float *row = x + call.places.rows[i] * x_stride;
    for (int c = int(threadIdx.x); c < columns; c += rotate_threads) desk.y[c] = row[c];
    __syncthreads();
    look(desk, columns);
    const double energy = desk.energy;
    const float lowest = desk.lowest, range = desk.range;
    const bool finite = energy <= 1.7976931348623157e308;  // not if an element is NaN or infinite
    if (finite && range >= smallest_range) {
        if (threadIdx.x == 0) desk.limits = row_thresholds(b, energy, columns);
        lay_levels(desk, b);
        const Passes passes = row_passes(columns, call.rotations);
        for (int k = 0; k < passes.count; k++) turn(desk, passes.of[k], call.noise, id, columns, false);
        for (int c = int(threadIdx.x); c < columns; c += rotate_threads)
            desk.codes[c] = uint8_t(rotated_code(b, desk.y[c], desk.limits));
        __syncthreads();
        for (int block = int(threadIdx.x); 8 * block < columns; block += rotate_threads) {
            const int count = columns - 8 * block < 8 ? columns - 8 * block : 8;
            uint32_t packed = 0;
            for (int c = 0; c < count; c++) packed |= uint32_t(desk.codes[8 * block + c]) << (c * b);
            for (int byte = 0; 8 * byte < count * b; byte++) out[block * b + byte] = uint8_t(packed >> (8 * byte));
        }
        if (threadIdx.x < 2 * half_warp) {
            double product = 0.0;
            for (int c = int(threadIdx.x) % half_warp; c < columns; c += half_warp)
                product += double(desk.y[c]) * double(desk.levels[desk.codes[c]]);
            product = half_to_half(product);
            if (threadIdx.x == 0) desk.product = product;
        }
    } else {
        for (int64_t byte = threadIdx.x; byte < row_bytes(columns, b); byte += rotate_threads)
            out[byte] = uint8_t(byte == 0 && lowest < 0.0f);
        if (threadIdx.x == 0) desk.product = 1.0;
    }
    if (threadIdx.x != 0) return;
    const RotatedRow found = rotated_row(lowest, range, finite, energy, desk.product);
    if (!found.finite) return refuse(call.refused, i, non_finite);
    scales[i] = found.scale;
    spreads[2 * i] = found.constant ? 0.0f : float(sqrt(energy));
    spreads[2 * i + 1] = range;
}

template <int room>
__global__ void __launch_bounds__(rotate_threads, 8)
    decode(Call call, const uint8_t *payload, const float *scales, float *out, int64_t out_stride, bool accumulate) {
    __shared__ Desk<room> desk;
    const int64_t i = blockIdx.x, reason = call.places.refusal(i);
    const int columns = int(call.places.columns);
    if (reason) {
        if (threadIdx.x == 0) refuse(call.refused, i, reason);
        return;
    }
    const int b = int(call.places.width_of(i));
    const uint8_t *in = payload + call.places.offset_of(i);
    const float scale = scales[i];
    if (scale > 0.0f) {
        lay_levels(desk, b);
        for (int c = int(threadIdx.x); c < columns; c += rotate_threads) desk.y[c] = desk.levels[code_at(b, in, c)];
        __syncthreads();
        const Passes passes = row_passes(columns, call.rotations);
        for (int k = passes.count; k-- > 0;)
            turn(desk, passes.of[k], call.noise, uint32_t(call.places.ids[i]), columns, true);
    } else {
        const float value = code_at(b, in, 0) == 1 ? 1.0f : -1.0f;
        for (int c = int(threadIdx.x); c < columns; c += rotate_threads) desk.y[c] = value;
    }
    float *row = out + call.places.rows[i] * out_stride;
    for (int c = int(threadIdx.x); c < columns; c += rotate_threads) {  // each thread's own, or of before a barrier
        const float value = desk.y[c] * scale;
        row[c] = accumulate ? row[c] + value : value;
    }
}

}  // namespace
}  // namespace gnnqlab

using namespace gnnqlab;

GNNQLAB_CUDA_EXPORT(encode_rotated)
(const float *x, int64_t x_rows, int64_t x_stride, int64_t columns, const int64_t *rows, int64_t count,
 const int64_t *ids, const uint8_t *bits, int64_t width, const int64_t *offsets, uint8_t *payload,
 int64_t payload_bytes, float *scales, float *spreads, int64_t rotations, int64_t seed, int64_t epoch,
 int64_t noise_stream, unsigned long long *refused, void *stream) {
    if (count == 0 || columns == 0) return cudaSuccess;
    if (columns > most_columns) return cudaErrorInvalidValue;
    const Call call = {{x_rows, columns, rows, ids, bits, width, offsets, payload_bytes},
                       make_noise(seed, epoch, noise_stream), rotations, refused};
    const unsigned grid = unsigned(count);
    const cudaStream_t on = cudaStream_t(stream);
    if (columns <= 512) encode<512><<<grid, rotate_threads, 0, on>>>(call, x, x_stride, payload, scales, spreads);
    else if (columns <= 2048) encode<2048><<<grid, rotate_threads, 0, on>>>(call, x, x_stride, payload, scales, spreads);
    else encode<most_columns><<<grid, rotate_threads, 0, on>>>(call, x, x_stride, payload, scales, spreads);
    return cudaGetLastError();
}

GNNQLAB_CUDA_EXPORT(decode_rotated)
(const uint8_t *payload, int64_t payload_bytes, const float *scales, const uint8_t *bits, int64_t width,
 const int64_t *offsets, float *out, int64_t out_rows, int64_t out_stride, int64_t columns, const int64_t *rows,
 const int64_t *ids, int64_t count, int64_t accumulate, int64_t rotations, int64_t seed, int64_t epoch,
 int64_t noise_stream, unsigned long long *refused, void *stream) {
    if (count == 0 || columns == 0) return cudaSuccess;
    if (columns > most_columns) return cudaErrorInvalidValue;
    const Call call = {{out_rows, columns, rows, ids, bits, width, offsets, payload_bytes},
                       make_noise(seed, epoch, noise_stream), rotations, refused};
    const unsigned grid = unsigned(count);
    const bool add = accumulate != 0;
    const cudaStream_t on = cudaStream_t(stream);
    if (columns <= 512) decode<512><<<grid, rotate_threads, 0, on>>>(call, payload, scales, out, out_stride, add);
    else if (columns <= 2048) decode<2048><<<grid, rotate_threads, 0, on>>>(call, payload, scales, out, out_stride, add);
    else decode<most_columns><<<grid, rotate_threads, 0, on>>>(call, payload, scales, out, out_stride, add);
    return cudaGetLastError();
}
