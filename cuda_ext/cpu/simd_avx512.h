// The vector vocabulary in AVX-512 (F, BW, DQ, VL). simd.h says what each word means.
#pragma once

#include <immintrin.h>

#include "core/bfloat16.h"

namespace gnnqlab {
namespace {

constexpr int lanes = 16;
using Floats = __m512;
using Ints = __m512i;
using Flags = __mmask16;

GNNQLAB_FN Floats fill(float value) { return _mm512_set1_ps(value); }
GNNQLAB_FN Floats load(const float *x) { return _mm512_loadu_ps(x); }
GNNQLAB_FN Floats load(const Bfloat16 *x) {
    const __m512i words = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)x));
    return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
}
GNNQLAB_FN void store(float *out, Floats x) { _mm512_storeu_ps(out, x); }
GNNQLAB_FN void stream(float *out, Floats x) { _mm512_stream_ps(out, x); }
GNNQLAB_FN void stream_end() { _mm_sfence(); }
GNNQLAB_FN void store(Bfloat16 *out, Floats x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i even = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const __m512i chosen = _mm512_mask_mov_epi32(even, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), quiet);
    _mm256_storeu_si256((__m256i *)out, _mm512_cvtepi32_epi16(_mm512_srli_epi32(chosen, 16)));
}
GNNQLAB_FN Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
GNNQLAB_FN Floats subtract(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
GNNQLAB_FN Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
GNNQLAB_FN Floats smaller(Floats a, Floats b) { return _mm512_min_ps(a, b); }
GNNQLAB_FN Floats larger(Floats a, Floats b) { return _mm512_max_ps(a, b); }
GNNQLAB_FN float smallest(Floats x) { return _mm512_reduce_min_ps(x); }
GNNQLAB_FN float largest(Floats x) { return _mm512_reduce_max_ps(x); }
GNNQLAB_FN Flags unordered(Floats a, Floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q); }
GNNQLAB_FN Flags either(Flags a, Flags b) { return _kor_mask16(a, b); }
GNNQLAB_FN bool any(Flags flags) { return !_kortestz_mask16_u8(flags, flags); }

GNNQLAB_FN Ints round_to_ints(Floats x) { return _mm512_cvtps_epi32(x); }
GNNQLAB_FN Ints add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
GNNQLAB_FN Ints load_noise(const uint16_t *noise) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)noise));
}

// Keep x * factor where the noise reaches the threshold (1 to 65535), else 0.
GNNQLAB_FN Floats keep(Floats x, Floats factor, const uint16_t *noise, uint16_t threshold) {
    const __m256i bits = _mm256_loadu_si256((const __m256i *)noise);
    return _mm512_maskz_mul_ps(_mm256_cmpge_epu16_mask(bits, _mm256_set1_epi16(int16_t(threshold))), x, factor);
}

template <int b>
GNNQLAB_FN void store_codes(Ints v0, Ints v1, Ints v2, Ints v3, uint8_t *out) {
    const __m512i low = _mm512_packus_epi32(_mm512_srli_epi32(v0, 16), _mm512_srli_epi32(v1, 16));
    const __m512i high = _mm512_packus_epi32(_mm512_srli_epi32(v2, 16), _mm512_srli_epi32(v3, 16));
    // Packing works inside 128-bit lanes: 4-byte piece 4 * lane + k belongs at 4 * k + lane.
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i packed = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(low, high));
    const __m512i codes = b == 8 ? packed : _mm512_min_epu8(packed, _mm512_set1_epi8((1 << b) - 1));
    if constexpr (b == 8) {
        _mm512_storeu_si512(out, codes);
    } else if constexpr (b == 1) {
        const uint64_t word = _mm512_test_epi8_mask(codes, codes);
        __builtin_memcpy(out, &word, 8);
    } else {
        const __m512i pairs = _mm512_maddubs_epi16(codes, _mm512_set1_epi16(b == 4 ? 0x1001 : 0x0401));
        if constexpr (b == 4) {
            _mm256_storeu_si256((__m256i *)out, _mm512_cvtepi16_epi8(pairs));
        } else {
            const __m512i quads = _mm512_madd_epi16(pairs, _mm512_set1_epi32(0x00100001));
            _mm_storeu_si128((__m128i *)out, _mm512_cvtepi32_epi8(quads));
        }
    }
}

// What one row needs for decoding: the values of all codes of 1, 2 or 4 bits, or scale and zero-point for 8.
template <int b>
struct Decoder {
    Floats scale, zero, table;

    GNNQLAB_FN Decoder make(float scale, float zero) {
        const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        const __m512 code = _mm512_cvtepi32_ps(_mm512_and_si512(lane, _mm512_set1_epi32((1 << b) - 1)));
        return {fill(scale), fill(zero), add(multiply(code, fill(scale)), fill(zero))};
    }

    // Sixteen values from 2 * b bytes.
    __attribute__((always_inline)) inline Floats values(const uint8_t *in) const {
        const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        if constexpr (b == 8) {
            const __m512i codes = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)in));
            return add(multiply(_mm512_cvtepi32_ps(codes), scale), zero);
        } else if constexpr (b == 4) {
            int64_t word;
            __builtin_memcpy(&word, in, 8);
            const __m512i halves = _mm512_permutexvar_epi32(_mm512_srli_epi32(lane, 3), _mm512_set1_epi64(word));
            const __m512i by = _mm512_slli_epi32(_mm512_and_si512(lane, _mm512_set1_epi32(7)), 2);
            return _mm512_permutexvar_ps(_mm512_srlv_epi32(halves, by), table);
        } else {
            uint32_t word = 0;
            __builtin_memcpy(&word, in, 2 * b);
            const __m512i by = _mm512_mullo_epi32(lane, _mm512_set1_epi32(b));
            return _mm512_permutexvar_ps(_mm512_srlv_epi32(_mm512_set1_epi32(int(word)), by), table);
        }
    }
};

constexpr int long_lanes = 8;
using Longs = __m512i;
GNNQLAB_FN Longs load_longs(const uint64_t *x) { return _mm512_loadu_si512(x); }
GNNQLAB_FN Longs fill_longs(uint64_t value) { return _mm512_set1_epi64(int64_t(value)); }
GNNQLAB_FN Longs add_longs(Longs a, Longs b) { return _mm512_add_epi64(a, b); }
GNNQLAB_FN Longs multiply32(Longs a, Longs b) { return _mm512_mul_epu32(a, b); }
GNNQLAB_FN Longs high32(Longs a) { return _mm512_srli_epi64(a, 32); }
GNNQLAB_FN Longs exclusive_or(Longs a, Longs b) { return _mm512_xor_si512(a, b); }
GNNQLAB_FN Longs exclusive_or(Longs a, Longs b, Longs c) { return _mm512_ternarylogic_epi64(a, b, c, 0x96); }
constexpr uint64_t block_of_lane[long_lanes] = {0, 4, 1, 5, 2, 6, 3, 7};
GNNQLAB_FN void store_blocks(uint16_t *out, Longs p0, Longs p1, Longs c1, Longs c3, Longs key0, Longs key1) {
    const __m512i swapped0 = _mm512_shuffle_epi32(p0, _MM_PERM_CDAB), swapped1 = _mm512_shuffle_epi32(p1, _MM_PERM_CDAB);
    const __m512i front = _mm512_mask_ternarylogic_epi32(swapped1, 0x5555, c1, key0, 0x96);
    const __m512i back = _mm512_mask_ternarylogic_epi32(swapped0, 0x5555, c3, key1, 0x96);
    _mm512_storeu_si512(out, _mm512_unpacklo_epi64(front, back));
    _mm512_storeu_si512(out + 32, _mm512_unpackhi_epi64(front, back));
}

}  // namespace
}  // namespace gnnqlab
