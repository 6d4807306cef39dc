// What the kernels do to a row: row_ranges, RowNoise, encode_row, decode_row, drop_row; and helpers around rows.
#pragma once

#if defined(__AVX2__)
#include "cpu/rows_vector.h"
#else
#include "cpu/rows_scalar.h"
#endif

namespace gnnqlab {
namespace {

// Worth a thread: a share of rows that takes longer than waking the thread.
GNNQLAB_FN int useful_threads(int64_t rows, int64_t columns, int64_t threads) {
    const int64_t worth = rows * columns / 16384 + 1, most = worth < rows ? worth : rows;
    return int(most < threads ? (most < 1 ? 1 : most) : threads);
}

// Into the second cache: random rows came in at 18 to 22 GB/s this way, at 5 to 12 into the first, whose few buffers for
// misses were always taken.
GNNQLAB_FN void prefetch_line(uintptr_t address) { __builtin_prefetch((const void *)address, 0, 2); }

GNNQLAB_FN void prefetch(uintptr_t from, uintptr_t to) {
    asm volatile("");  // without an effect that GCC can see, it takes the whole function away
    for (uintptr_t line = from & ~uintptr_t(63); line < to; line += 64) prefetch_line(line);
}

// The first position that was refused wins, whatever thread saw it: smaller is earlier, 0 is none.
GNNQLAB_FN int64_t earlier(int64_t a, int64_t b) { return a == 0 || (b != 0 && b < a) ? b : a; }

}  // namespace
}  // namespace gnnqlab
