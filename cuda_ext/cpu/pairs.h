// Two codes of four bits to a byte.
#pragma once

#include "cpu/lanes.h"

namespace gnnqlab {
namespace {

GNNQLAB_FN void pack_row(const int8_t *codes, int64_t columns, Pair *out) {
    int64_t c = 0;
#if defined(__AVX512BW__)
    for (; c + 64 <= columns; c += 64) {
        const __m512i halves = _mm512_and_si512(_mm512_loadu_si512(codes + c), _mm512_set1_epi8(15));
        const __m512i pairs = _mm512_maddubs_epi16(halves, _mm512_set1_epi16(0x1001)); // even + 16 odd
        _mm256_storeu_si256((__m256i *)(out + c / 2), _mm512_cvtepi16_epi8(pairs));
    }
#elif defined(__AVX2__)
    for (; c + 32 <= columns; c += 32) {
        const __m256i halves = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(codes + c)), _mm256_set1_epi8(15));
        const __m256i pairs = _mm256_maddubs_epi16(halves, _mm256_set1_epi16(0x1001));
        const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(pairs, pairs), 0x08);
        _mm_storeu_si128((__m128i *)(out + c / 2), _mm256_castsi256_si128(bytes));
    }
#endif
    for (; c < columns; c += 2) out[c / 2] = pair_of(codes[c], c + 1 < columns ? codes[c + 1] : 0);
}

} // namespace
} // namespace gnnqlab
