// The vector vocabulary in AVX-512 (F, BW, DQ, VL). simd.h says what each word means.
#pragma once

#include <immintrin.h>

#include "core/bfloat16.h"

namespace gnnqlab {
namespace {

constexpr int lanes = 16;
using Floats = __m512;
using Ints = __m512i;

GNNQLAB_FN Floats fill(float value) { return _mm512_set1_ps(value); }
GNNQLAB_FN Floats load(const float *x) { return _mm512_loadu_ps(x); }
GNNQLAB_FN Floats load(const Bfloat16 *x) {
    const __m512i words = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)x));
    return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
}
GNNQLAB_FN __mmask16 first_lanes(int count) { return __mmask16(_bzhi_u32(0xFFFF, unsigned(count < 0 ? 0 : count))); }
GNNQLAB_FN Floats load_first(const float *x, int count, Floats others) {
    return _mm512_mask_loadu_ps(others, first_lanes(count), x);
}
GNNQLAB_FN Floats load_first(const Bfloat16 *x, int count, Floats others) {
    const __m512i words = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first_lanes(count), x));
    return _mm512_mask_mov_ps(others, first_lanes(count), _mm512_castsi512_ps(_mm512_slli_epi32(words, 16)));
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

GNNQLAB_FN Ints bits(Floats x) { return _mm512_castps_si512(x); }
GNNQLAB_FN Ints in_register(Ints x) {
    asm("" : "+v"(x));
    return x;
}
GNNQLAB_FN Ints fill_ints(uint32_t value) { return _mm512_set1_epi32(int(value)); }
GNNQLAB_FN void store(uint32_t *out, Ints x) { _mm512_storeu_si512(out, x); }
GNNQLAB_FN Ints larger_signed(Ints a, Ints b) { return _mm512_max_epi32(a, b); }
GNNQLAB_FN Ints larger_unsigned(Ints a, Ints b) { return _mm512_max_epu32(a, b); }
GNNQLAB_FN Ints smaller_unsigned(Ints a, Ints b) { return _mm512_min_epu32(a, b); }

constexpr int rows_at_once = 4;
GNNQLAB_FN Ints fold_three(Ints a, Ints b, Ints c) {  // [a, b, c, c] in every 128-bit lane
    const Ints ab = larger_unsigned(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    const Ints cc = larger_unsigned(_mm512_unpacklo_epi32(c, c), _mm512_unpackhi_epi32(c, c));
    return larger_unsigned(_mm512_unpacklo_epi64(ab, cc), _mm512_unpackhi_epi64(ab, cc));
}
GNNQLAB_FN Ints fold_rows(Ints row0, Ints row1, Ints row2, Ints row3) {
    const auto halves = [](Ints a, Ints b) {
        return larger_unsigned(_mm512_shuffle_i32x4(a, b, 0x44), _mm512_shuffle_i32x4(a, b, 0xEE));
    };
    const Ints front = halves(row0, row1), back = halves(row2, row3);
    return larger_unsigned(_mm512_shuffle_i32x4(front, back, 0x88), _mm512_shuffle_i32x4(front, back, 0xDD));
}

GNNQLAB_FN void store_ends(float *lowest, float *highest, Ints folded) {
    const Ints plain = _mm512_broadcast_i32x4(_mm_setr_epi32(int(0x80000000u), 0, -1, -1));
    const Ints ends = _mm512_xor_si512(folded, plain);  // [top, most, least, least]
    const __mmask16 asked = _mm512_movepi32_mask(_mm512_shuffle_epi32(ends, _MM_PERM_ENUM(0x11)));
    const Ints otherwise = _mm512_shuffle_epi32(ends, _MM_PERM_ENUM(0x22));
    const Ints found = _mm512_mask_shuffle_epi32(otherwise, asked, ends, _MM_PERM_ENUM(0x99));
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 0, 0, 0, 0, 0, 0, 0, 0);
    const Ints both = _mm512_permutexvar_epi32(order, found);
    _mm_storeu_si128((__m128i *)lowest, _mm512_castsi512_si128(both));
    _mm_storeu_si128((__m128i *)highest, _mm512_extracti32x4_epi32(both, 1));
}

GNNQLAB_FN Ints round_to_ints(Floats x) { return _mm512_cvtps_epi32(x); }
GNNQLAB_FN Ints exclusive_or(Ints a, Ints b) { return _mm512_xor_si512(a, b); }
GNNQLAB_FN Ints add(Ints a, Ints b) { return _mm512_add_epi32(a, b); }
GNNQLAB_FN Ints load_noise(const uint16_t *noise) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)noise));
}
GNNQLAB_FN Ints upper_half(Ints x) { return _mm512_srai_epi32(x, 16); }
GNNQLAB_FN Ints within(Ints x, int most) {
    return _mm512_max_epi32(_mm512_min_epi32(x, _mm512_set1_epi32(most)), _mm512_set1_epi32(-most));
}
GNNQLAB_FN void store_bytes(int8_t *out, const Ints *x) {
    _mm_storeu_si128((__m128i *)out, _mm512_cvtepi32_epi8(x[0]));
    _mm_storeu_si128((__m128i *)(out + lanes), _mm512_cvtepi32_epi8(x[1]));
}
// Keep x * factor where the noise reaches the threshold (1 to 65535), else 0.
GNNQLAB_FN Floats keep(Floats x, Floats factor, const uint16_t *noise, uint16_t threshold) {
    const __m256i bits = _mm256_loadu_si256((const __m256i *)noise);
    return _mm512_maskz_mul_ps(_mm256_cmpge_epu16_mask(bits, _mm256_set1_epi16(int16_t(threshold))), x, factor);
}

// The upper halves of two vectors, one more where the noise carries out of the lower halves.
GNNQLAB_FN Ints round_up(Ints v0, Ints v1, const uint16_t *noise) {
    const __m512i column = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i fourfold = _mm512_mullo_epi32(column, _mm512_set1_epi32(0x00040004));
    const __m512i even = _mm512_add_epi32(fourfold, _mm512_set1_epi32(0x00020000));
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(0x00010001));
    const __m512i low = _mm512_permutex2var_epi16(v0, even, v1), high = _mm512_permutex2var_epi16(v0, odd, v1);
    const __mmask32 carry = _mm512_cmplt_epu16_mask(_mm512_add_epi16(low, _mm512_loadu_si512(noise)), low);
    return _mm512_mask_sub_epi16(high, carry, high, _mm512_set1_epi16(-1));
}

template <int b>
GNNQLAB_FN void store_codes(Ints v0, Ints v1, Ints v2, Ints v3, const uint16_t *noise, uint8_t *out) {
    // Packing works inside 128-bit lanes, and saturates.
    const __m512i packed = _mm512_packus_epi16(round_up(v0, v1, noise), round_up(v2, v3, noise + 2 * lanes));
    const __m512i codes = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), packed);
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

constexpr int long_lanes = 8, vectors_at_once = 4;
using Longs = __m512i;
GNNQLAB_FN Longs load_longs(const uint64_t *x) { return _mm512_loadu_si512(x); }
GNNQLAB_FN void store(uint64_t *out, Longs x) { _mm512_storeu_si512(out, x); }
GNNQLAB_FN Longs fill_longs(uint64_t value) { return _mm512_set1_epi64(int64_t(value)); }
GNNQLAB_FN Longs add_longs(Longs a, Longs b) { return _mm512_add_epi64(a, b); }
GNNQLAB_FN Longs multiply32(Longs a, Longs b) { return _mm512_mul_epu32(a, b); }
GNNQLAB_FN Longs high32(Longs a) { return _mm512_srli_epi64(a, 32); }
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
