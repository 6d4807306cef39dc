// A small vector vocabulary, so that each kernel is written once.
//
// Floats, Ints: `lanes` float32 or int32 values. A *group* is four vectors; codes are packed by groups.
// Longs: `long_lanes` 64-bit values for the noise, whose lower halves hold a Philox word.
// load_first(x, count, others): the first values from memory, the others from a vector.
// in_register(x): a value that is loaded once; GCC would load it anew for every operation.
// fold_three, fold_rows: the largest unsigned elements of a, b and c of each of `rows_at_once` rows; those of row r are
// elements 4 r to 4 r + 2. Vectors are merged while they are folded, which takes a third of the steps of one by one.
// store_ends(lowest, highest, folded): what `fold_rows` has of each row's Extremes as its least and largest value: the
// least is `most` if that is negative, else `least`; the largest `top`, unless that is negative.
// store_codes<b>(v0, v1, v2, v3, noise, out): the upper halves of a group plus its noise, b bits each.
// upper_half(x), within(x, most): x / 65536, rounded down; x kept in [-most, most].
// store_bytes(out, x): 32 values, each of which a byte holds.
// Decoder<b>::values(in): one vector of decoded values from lanes * b / 8 bytes.
// vectors_at_once: vectors of blocks whose noise is drawn at once; more than the registers hold go to memory and back.
// store_blocks(out, ...): the last round of Philox from its two products, and the noise of long_lanes blocks in their
// order; lane i holds block block_of_lane[i] of them.
#pragma once

#include "core/bfloat16.h"

#if defined(__AVX512BW__)
#include "cpu/simd_avx512.h"
#elif defined(__AVX2__)
#include "cpu/simd_avx2.h"
#endif
