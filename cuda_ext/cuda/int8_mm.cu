// Dense products of int8 codes with 32-bit sums, on tensor cores; arguments as on the CPU (cpu/int8_mm.cpp).
//
// A block of eight warps makes a tile of 64 x 64 sums, 32 terms at a time. Half of the threads bring one factor's pieces, half the
// other's, through registers, while the pieces before them are multiplied, into shared memory, where the terms of a row lie side by side whichever way
// the factor is stored. Factors come in whole pieces (kernels/int8_mm.py pads what does not): stored by rows, addresses and
// strides are multiples of 16 and zeros follow the last term up to one; stored by columns, multiples of 4.
#include "cuda/teams.cuh"
#include "cuda/tensor_core.cuh"

namespace gnnqlab {
namespace {

static_assert(mma_terms == 32);
constexpr int kTile = 64, kTerms = 32; // rows and columns of sums, and terms at a time
constexpr int kPitch = kTerms + 16;             // bytes between rows in shared memory: their words lie in different banks
constexpr int64_t kMostTerms = 131072;          // times 127 * 127, less than 2^31
constexpr int kWarpRows = 16, kWarpColumns = 32; // of a warp: four by two of them

// A factor: rows of the result's row (or column), over terms.
struct Factor {
    const int8_t *codes;
    int64_t stride, rows;
};

// Sixteen codes of a tile. Stored by rows: sixteen terms of a row. By columns: four terms of four rows.
template <bool kByColumns> struct Piece {
    int row, term; // in the tile
    const int8_t *from;
    bool here;

    __device__ Piece(const Factor &factor, int64_t first_row) {
        const int number = threadIdx.x % (kThreads / 2);
        // By columns eight lanes side by side read 32 bytes of a row of storage.
        row = kByColumns ? number % 8 * 4 + number / 64 * 32 : number / 2;
        term = kByColumns ? number / 8 % 8 * 4 : number % 2 * 16;
        here = first_row + row < factor.rows;
        from = factor.codes + (kByColumns ? first_row + row : (first_row + row) * factor.stride);
    }

    __device__ uint4 load(int64_t stride, int64_t first, int64_t terms) const {
        const int64_t t = first + term;
        if (kByColumns) {
            const int8_t *at = from + t * stride;
            const auto word = [&](int k) { return here && t + k < terms ? *(const uint32_t *)(at + k * stride) : 0u; };
            return make_uint4(word(0), word(1), word(2), word(3));
        }
        return here && t < terms ? *(const uint4 *)(from + t) : make_uint4(0, 0, 0, 0);
    }

    __device__ void store(uint4 piece, int8_t *tile) const {
        int8_t *to = tile + row * kPitch + term;
        if (kByColumns) {
            // Byte r of each word: the four terms of a row.
            const uint32_t low = __byte_perm(piece.x, piece.y, 0x5140), high = __byte_perm(piece.z, piece.w, 0x5140);
            const uint32_t low2 = __byte_perm(piece.x, piece.y, 0x7362), high2 = __byte_perm(piece.z, piece.w, 0x7362);
            *(uint32_t *)to = __byte_perm(low, high, 0x5410);
            *(uint32_t *)(to + kPitch) = __byte_perm(low, high, 0x7632);
            *(uint32_t *)(to + 2 * kPitch) = __byte_perm(low2, high2, 0x5410);
            *(uint32_t *)(to + 3 * kPitch) = __byte_perm(low2, high2, 0x7632);
        } else {
            *(uint4 *)to = piece;
        }
    }
};

// What becomes of a sum: float32 times the scales, plus a bias and what is there; or 64-bit totals of several blocks.
struct Result {
    const float *row_scales;
    float scale;
    const float *bias;
    float *out;
    int64_t out_stride;
    bool accumulate;
    unsigned long long *totals;

    __device__ void put(int64_t row, int64_t column, int64_t columns, int32_t sum) const {
        if (totals) {
            atomicAdd(totals + row * columns + column, (unsigned long long)(int64_t(sum)));
            return;
        }
        float value = float(sum) * (row_scales[row] * scale);
        if (bias) value += bias[column];
        float *to = out + row * out_stride + column;
        *to = accumulate ? *to + value : value;
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
        if (brings_a) of_a.store(next, a_tiles[half]);
        else of_b.store(next, b_tiles[half]);
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
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const int64_t row = first_row + warp_row + sum_row(lane, e);
            const int64_t column = first_column + warp_column + j * mma_columns + sum_column(lane, e);
            if (row < a.rows && column < b.rows) to.put(row, column, b.rows, sums[j][e]);
        }
}

// Whether a factor comes in pieces of so many bytes.
bool fits(const Factor &factor, int64_t width) {
    return uintptr_t(factor.codes) % width == 0 && factor.stride % width == 0;
}

unsigned tiles(const Factor &a, const Factor &b) {
    return unsigned((a.rows + kTile - 1) / kTile * ((b.rows + kTile - 1) / kTile));
}

} // namespace

// `threads` is not used.
GNNQLAB_CUDA_EXPORT(int8_mm)
(const int8_t *a, int64_t a_stride, const float *a_scales, const int8_t *b, int64_t b_stride, float b_scale,
 int64_t turned, int64_t rows, int64_t columns, int64_t terms, const float *bias, float *out, int64_t out_stride,
 int64_t accumulate, int64_t, void *stream) {
    if (rows == 0 || columns == 0) return cudaSuccess;
    const Result to{a_scales, b_scale, bias, out, out_stride, accumulate != 0, nullptr};
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
    const Result to{nullptr, 0.0f, nullptr, nullptr, 0, false, totals};
    const Factor left{a, a_stride, rows}, right{b, b_stride, columns};
    if (!fits(left, 4) || !fits(right, 4)) return cudaErrorInvalidValue;
    const unsigned over = tiles(left, right);
    // As many shares of the terms as fill the device, none longer than 32 bits hold the sum of.
    const int64_t wanted = (blocks + over - 1) / over, pieces = (terms + kTerms - 1) / kTerms;
    int64_t share = (pieces + wanted - 1) / wanted * kTerms;
    if (share > kMostTerms) share = kMostTerms;
    const dim3 grid(over, unsigned((terms + share - 1) / share));
    multiply<true, true><<<grid, kThreads, 0, cudaStream_t(stream)>>>(left, right, terms, share, to);
    return cudaGetLastError();
}

} // namespace gnnqlab
