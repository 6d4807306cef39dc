// Dense products of int8 codes with 32-bit sums, on tensor cores; arguments as on the CPU (cpu/int8_mm.cpp).
//
// A block of eight warps makes a tile of 64 x 64 sums, 32 terms at a time. Half of the threads bring one factor's pieces, half
// the other's, through registers, while the pieces before them are multiplied, into shared memory, where the terms of a row
// lie side by side whichever way the factor is stored. Factors come in whole pieces (kernels/dense/int8_mm.py pads what does not):
// stored by rows, addresses and strides are multiples of 16 and zeros follow the last term up to one; stored by columns,
// multiples of 4.
#include "cuda/code_pieces.cuh"
#include "cuda/tensor_core.cuh"

namespace gnnqlab {
namespace {

static_assert(mma_terms == 32);
constexpr int kPitch = kTerms + 16;    // bytes between rows in shared memory: their words lie in different banks
constexpr int64_t kMostTerms = 131072; // times 127 * 127, less than 2^31

template <bool kByColumns> __device__ void store_piece(const Piece<kByColumns> &of, uint4 piece, int8_t *tile) {
    int8_t *to = tile + of.row * kPitch + of.term;
    if (kByColumns) {
        const uint4 rows = turned(piece);
        *(uint32_t *)to = rows.x;
        *(uint32_t *)(to + kPitch) = rows.y;
        *(uint32_t *)(to + 2 * kPitch) = rows.z;
        *(uint32_t *)(to + 3 * kPitch) = rows.w;
    } else {
        *(uint4 *)to = piece;
    }
}

// What becomes of a sum: float32 times the scales, plus a bias and what is there; or 64-bit totals of several blocks.
struct Result {
    const float *row_scales;
    float scale;
    const float *bias;
    float *out;
    int64_t out_stride;
    bool accumulate;
    unsigned long long *totals;
    unsigned *largest; // bits of the largest magnitude, if it is asked for; a NaN is larger than all

    // Returns the bits of the magnitude that it has put.
    __device__ unsigned put(int64_t row, int64_t column, int64_t columns, int32_t sum) const {
        if (totals) {
            atomicAdd(totals + row * columns + column, (unsigned long long)(int64_t(sum)));
            return 0;
        }
        float value = float(sum) * (row_scales[row] * scale);
        if (bias) value += bias[column];
        float *to = out + row * out_stride + column;
        if (accumulate) value += *to;
        *to = value;
        unsigned bits;
        memcpy(&bits, &value, sizeof bits);
        return bits & 0x7fffffffu;
    }
};

// Block x: a tile, those of the same rows one after another. Block y: a share of the terms.
template <bool kAByColumns, bool kBByColumns>
__global__ void __launch_bounds__(kThreads, 4)
    multiply(Factor a, Factor b, int64_t all_terms, int64_t share, Result to) {
    alignas(16) __shared__ int8_t a_tiles[2][kTile * kPitch], b_tiles[2][kTile * kPitch];
    const int64_t across = (b.rows + kTile - 1) / kTile;
    const int64_t first_row = int64_t(blockIdx.x) / across * kTile, first_column = blockIdx.x % across * kTile;
    const int64_t begin = int64_t(blockIdx.y) * share, end = begin + share < all_terms ? begin + share : all_terms;
    const int warp = threadIdx.x / kWarpSize, lane = threadIdx.x % kWarpSize;
    const int warp_row = warp % 4 * kWarpRows, warp_column = warp / 4 * kWarpColumns;

    const bool brings_a = threadIdx.x < kThreads / 2;
    const Piece<kAByColumns> of_a(a, first_row);
    const Piece<kBByColumns> of_b(b, first_column);
    uint4 next;
    const auto load = [&](int64_t term) {
        next = brings_a ? of_a.load(a.stride, term, end) : of_b.load(b.stride, term, end);
    };
    const auto store = [&](int half) {
        if (brings_a) store_piece(of_a, next, a_tiles[half]);
        else store_piece(of_b, next, b_tiles[half]);
    };
    int32_t sums[4][4] = {};
    load(begin);
    store(0);
    for (int64_t term = begin; term < end; term += kTerms) {
        const int half = (term - begin) / kTerms % 2;
        __syncthreads(); // this half is full, and nobody reads the other one any more
        const bool more = term + kTerms < end;
        if (more) load(term + kTerms);
        uint32_t left[4], right[2];
        load_left(a_tiles[half] + warp_row * kPitch, kPitch, lane, left);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            load_right(b_tiles[half] + (warp_column + j * mma_columns) * kPitch, kPitch, lane, right);
            multiply_add_tile(sums[j], left, right);
        }
        if (more) store(1 - half);
    }
    unsigned most = 0;
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int64_t row = first_row + warp_row + sum_row(lane, e);
            const int64_t column = first_column + warp_column + j * mma_columns + sum_column(lane, e);
            if (row < a.rows && column < b.rows) {
                const unsigned put = to.put(row, column, b.rows, sums[j][e]);
                most = put > most ? put : most;
            }
        }
    if (!to.largest) return;
    for (int step = kWarpSize / 2; step; step /= 2) {
        const unsigned other = __shfl_xor_sync(kAllLanes, most, step);
        most = other > most ? other : most;
    }
    if (lane == 0) atomicMax(to.largest, most);
}

} // namespace

// `threads` is not used.
GNNQLAB_CUDA_EXPORT(int8_mm)
(const int8_t *a, int64_t a_stride, const float *a_scales, const int8_t *b, int64_t b_stride, float b_scale,
 int64_t turned, int64_t rows, int64_t columns, int64_t terms, const float *bias, float *out, int64_t out_stride,
 int64_t accumulate, unsigned *largest, int64_t, void *stream) {
    if (rows == 0 || columns == 0) return cudaSuccess;
    const Result to{a_scales, b_scale, bias, out, out_stride, accumulate != 0, nullptr, largest};
    const Factor left{a, a_stride, rows}, right{b, b_stride, columns};
    if (!fits(left, 16) || !fits(right, turned ? 16 : 4)) return cudaErrorInvalidValue;
    const unsigned grid = tiles(left, right);
    if (turned) multiply<false, false><<<grid, kThreads, 0, cudaStream_t(stream)>>>(left, right, terms, terms, to);
    else multiply<false, true><<<grid, kThreads, 0, cudaStream_t(stream)>>>(left, right, terms, terms, to);
    return cudaGetLastError();
}

// totals[m, n] += sum_k a[k, m] b[k, n], 64-bit integers (rows, columns), zeros before; the order does not matter to them.
GNNQLAB_CUDA_EXPORT(int8_mm_totals)
(const int8_t *a, int64_t a_stride, const int8_t *b, int64_t b_stride, int64_t rows, int64_t columns, int64_t terms,
 unsigned long long *totals, int64_t blocks, void *stream) {
    if (rows == 0 || columns == 0 || terms == 0) return cudaSuccess;
    const Result to{nullptr, 0.0f, nullptr, nullptr, 0, false, totals, nullptr};
    const Factor left{a, a_stride, rows}, right{b, b_stride, columns};
    if (!fits(left, 4) || !fits(right, 4)) return cudaErrorInvalidValue;
    const unsigned over = tiles(left, right);
    const int64_t share = share_of(terms, over, blocks, kMostTerms);
    const dim3 grid(over, unsigned((terms + share - 1) / share));
    multiply<true, true><<<grid, kThreads, 0, cudaStream_t(stream)>>>(left, right, terms, share, to);
    return cudaGetLastError();
}

} // namespace gnnqlab
