// A small vector vocabulary, so that each kernel is written once.
//
// Floats, Ints: `lanes` float32 or int32 values. Flags: what a comparison found. A *group* is four vectors; codes are
// packed by groups. Longs: `long_lanes` 64-bit values for the noise, whose lower halves hold a Philox word.
// store_codes<b>(v0, v1, v2, v3, out): the upper halves of a group, b bits each, as 4 * lanes * b / 8 bytes.
// Decoder<b>::values(in): one vector of decoded values from lanes * b / 8 bytes.
// store_blocks(out, c0, c1, c2, c3): the noise of 2 * long_lanes blocks in the order that `lane_block` gives.
#pragma once

#include "core/bfloat16.h"

#if defined(__AVX512BW__)
#include "cpu/simd_avx512.h"
#elif defined(__AVX2__)
#include "cpu/simd_avx2.h"
#endif
