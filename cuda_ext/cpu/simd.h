// A small vector vocabulary, so that each kernel is written once.
//
// Floats, Ints: `lanes` float32 or int32 values. Flags: what a comparison found. A *group* is four vectors; codes are
// packed by groups. Longs: `long_lanes` 64-bit values for the noise, whose lower halves hold a Philox word.
// store_codes<b>(v0, v1, v2, v3, out): the upper halves of a group, no more than 2^b - 1 each, b bits each.
// Decoder<b>::values(in): one vector of decoded values from lanes * b / 8 bytes.
// store_blocks(out, ...): the last round of Philox from its two products, and the noise of long_lanes blocks in their
// order; lane i holds block block_of_lane[i] of them.
#pragma once

#include "core/bfloat16.h"

#if defined(__AVX512BW__)
#include "cpu/simd_avx512.h"
#elif defined(__AVX2__)
#include "cpu/simd_avx2.h"
#endif
