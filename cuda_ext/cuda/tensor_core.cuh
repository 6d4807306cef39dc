// One product of a warp's tensor core: 16 x 8 sums over 32 terms of int8 codes (PTX ISA, mma.m16n8k32) or 16 terms of bfloat16
// (mma.m16n8k16), and which elements of the factors and of the sums a lane holds.
//
// With group = lane / 4 and place = lane % 4, words of four terms from term 4 place on: the left factor's of rows group and
// group + 8, then the same 16 terms further on; the right factor's of column group, then 16 terms further on. Of bfloat16 a
// word has two terms, from term 2 place on, and what was 16 is 8: the bytes of a row are the same. Sums: of rows group (two) and
// group + 8 (two), in columns 2 place and 2 place + 1.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace gnnqlab {
namespace {

constexpr int mma_rows = 16, mma_columns = 8, mma_terms = 32;

__device__ inline int sum_row(int lane, int element) { return lane / 4 + element / 2 * 8; }
__device__ inline int sum_column(int lane, int element) { return lane % 4 * 2 + element % 2; }

__device__ inline uint32_t word_of(const int8_t *tile, int pitch, int row, int term) {
    return *(const uint32_t *)(tile + row * pitch + term);
}

// From a tile in shared memory, `pitch` bytes from row to row: rows of the left factor, columns of the right one.
__device__ inline void load_left(const int8_t *tile, int pitch, int lane, uint32_t (&words)[4]) {
    const int group = lane / 4, term = lane % 4 * 4;
    words[0] = word_of(tile, pitch, group, term);
    words[1] = word_of(tile, pitch, group + 8, term);
    words[2] = word_of(tile, pitch, group, term + 16);
    words[3] = word_of(tile, pitch, group + 8, term + 16);
}

__device__ inline void load_right(const int8_t *tile, int pitch, int lane, uint32_t (&words)[2]) {
    const int group = lane / 4, term = lane % 4 * 4;
    words[0] = word_of(tile, pitch, group, term);
    words[1] = word_of(tile, pitch, group, term + 16);
}

// sums += left * right; every lane of the warp comes here.
__device__ inline void multiply_add_tile(int32_t (&sums)[4], const uint32_t (&left)[4], const uint32_t (&right)[2]) {
#if defined(__CUDACC__)
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
#else
    host_cuda::mma_m16n8k32(sums, left, right); // by the instruction's own definition (tests/kernels/host_cuda)
#endif
}

// The same of bfloat16 terms, with float32 sums.
__device__ inline void multiply_add_tile(float (&sums)[4], const uint32_t (&left)[4], const uint32_t (&right)[2]) {
#if defined(__CUDACC__)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
#else
    host_cuda::mma_m16n8k16(sums, left, right);
#endif
}

} // namespace
} // namespace gnnqlab
