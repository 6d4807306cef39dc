// The vector vocabulary in AVX2. simd.h says what each word means.
#pragma once

#include <immintrin.h>

#include "core/bfloat16.h"

namespace gnnqlab {
namespace {

constexpr int lanes = 8;
using Floats = __m256;
using Ints = __m256i;

GNNQLAB_FN Floats fill(float value) { return _mm256_set1_ps(value); }
GNNQLAB_FN Floats load(const float *x) { return _mm256_loadu_ps(x); }
GNNQLAB_FN Floats load(const Bfloat16 *x) {
    const __m256i words = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)x));
    return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
}
GNNQLAB_FN Floats load_first(const float *x, int count, Floats others) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i first = _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lane);
    return _mm256_blendv_ps(others, _mm256_maskload_ps(x, first), _mm256_castsi256_ps(first));
}
GNNQLAB_FN Floats load_first(const Bfloat16 *x, int count, Floats others) {
    float all[lanes];
    _mm256_storeu_ps(all, others);
    for (int lane = 0; lane < lanes && lane < count; lane++) all[lane] = to_float(x[lane]);
    return _mm256_loadu_ps(all);
}
GNNQLAB_FN void store(float *out, Floats x) { _mm256_storeu_ps(out, x); }
GNNQLAB_FN void stream(float *out, Floats x) { _mm256_stream_ps(out, x); }
GNNQLAB_FN void stream_end() { _mm_sfence(); }
GNNQLAB_FN void store(Bfloat16 *out, Floats x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i even = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(even, quiet, nan), 16);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(high, high), 0x08);
    _mm_storeu_si128((__m128i *)out, _mm256_castsi256_si128(packed));
}
GNNQLAB_FN Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
GNNQLAB_FN Floats subtract(Floats a, Floats b) { return _mm256_sub_ps(a, b); }
GNNQLAB_FN Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }

GNNQLAB_FN Ints bits(Floats x) { return _mm256_castps_si256(x); }
GNNQLAB_FN Ints in_register(Ints x) {
    asm("" : "+x"(x));
    return x;
}
GNNQLAB_FN Ints fill_ints(uint32_t value) { return _mm256_set1_epi32(int(value)); }
GNNQLAB_FN void store(uint32_t *out, Ints x) { _mm256_storeu_si256((__m256i *)out, x); }
GNNQLAB_FN Ints larger_signed(Ints a, Ints b) { return _mm256_max_epi32(a, b); }
GNNQLAB_FN Ints larger_unsigned(Ints a, Ints b) { return _mm256_max_epu32(a, b); }
GNNQLAB_FN Ints smaller_unsigned(Ints a, Ints b) { return _mm256_min_epu32(a, b); }

constexpr int rows_at_once = 2;
GNNQLAB_FN Ints fold_three(Ints a, Ints b, Ints c) {  // [a, b, c, c] in either 128-bit lane
    const Ints ab = larger_unsigned(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    const Ints cc = larger_unsigned(_mm256_unpacklo_epi32(c, c), _mm256_unpackhi_epi32(c, c));
    return larger_unsigned(_mm256_unpacklo_epi64(ab, cc), _mm256_unpackhi_epi64(ab, cc));
}
GNNQLAB_FN Ints fold_rows(Ints row0, Ints row1) {
    return larger_unsigned(_mm256_permute2x128_si256(row0, row1, 0x20), _mm256_permute2x128_si256(row0, row1, 0x31));
}

GNNQLAB_FN void store_ends(float *lowest, float *highest, Ints folded) {
    const Ints plain = _mm256_broadcastsi128_si256(_mm_setr_epi32(int(0x80000000u), 0, -1, -1));
    const Ints ends = _mm256_xor_si256(folded, plain);  // [top, most, least, least]
    const auto pick = [](Ints x) { return _mm256_castsi256_ps(x); };
    const __m256 asked = pick(_mm256_shuffle_epi32(ends, 0x11)), negative = pick(_mm256_shuffle_epi32(ends, 0x99));
    const __m256 found = _mm256_blendv_ps(pick(_mm256_shuffle_epi32(ends, 0x22)), negative, asked);
    const __m128 both = _mm_unpacklo_ps(_mm256_castps256_ps128(found), _mm256_extractf128_ps(found, 1));
    _mm_storel_pi((__m64 *)lowest, both);
    _mm_storeh_pi((__m64 *)highest, both);
}

GNNQLAB_FN Ints round_to_ints(Floats x) { return _mm256_cvtps_epi32(x); }
GNNQLAB_FN Ints add(Ints a, Ints b) { return _mm256_add_epi32(a, b); }
GNNQLAB_FN Ints upper_half(Ints x) { return _mm256_srai_epi32(x, 16); }
GNNQLAB_FN Ints within(Ints x, int most) {
    return _mm256_max_epi32(_mm256_min_epi32(x, _mm256_set1_epi32(most)), _mm256_set1_epi32(-most));
}
GNNQLAB_FN void store_bytes(int8_t *out, const Ints *x) {
    const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(x[0], x[1]), _mm256_packs_epi32(x[2], x[3]));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7); // packing works inside 128-bit lanes
    _mm256_storeu_si256((__m256i *)out, _mm256_permutevar8x32_epi32(packed, order));
}
GNNQLAB_FN Ints load_noise(const uint16_t *noise) {
    return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)noise));
}

// Keep x * factor where the noise reaches the threshold (1 to 65535), else 0.
GNNQLAB_FN Floats keep(Floats x, Floats factor, const uint16_t *noise, uint16_t threshold) {
    const __m256i kept = _mm256_cmpgt_epi32(load_noise(noise), _mm256_set1_epi32(threshold - 1));
    return _mm256_and_ps(_mm256_castsi256_ps(kept), multiply(x, factor));
}

template <int b>
GNNQLAB_FN void store_codes(Ints v0, Ints v1, Ints v2, Ints v3, const uint16_t *noise, uint8_t *out) {
    const auto noisy = [&](Ints v, int k) { return add(v, load_noise(noise + k * lanes)); };
    // The codes are upper halves; those of the second vector stay where they are.
    const auto upper = [](Ints v0, Ints v1) { return _mm256_blend_epi16(_mm256_srli_epi32(v0, 16), v1, 0xAA); };
    const __m256i front = upper(noisy(v0, 0), noisy(v1, 1)), back = upper(noisy(v2, 2), noisy(v3, 3));
    // Packing works inside 128-bit lanes, and saturates. 4-byte piece 4 * lane + k belongs at 2 * k + lane.
    const __m128i apart = _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15);
    const __m256i together = _mm256_packus_epi16(front, back);
    const __m256i packed = _mm256_shuffle_epi8(together, _mm256_broadcastsi128_si256(apart));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    if constexpr (b == 2) {
        // Each piece becomes a byte; those of the upper lane are made 8 bits higher, where they belong, and put in.
        const __m256i weights = _mm256_setr_epi32(0x00100001, 0x00100001, 0x00100001, 0x00100001,  //
                                                  0x10000100, 0x10000100, 0x10000100, 0x10000100);
        const __m256i quads = _mm256_madd_epi16(_mm256_maddubs_epi16(packed, _mm256_set1_epi16(0x0401)), weights);
        const __m128i words = _mm_or_si128(_mm256_castsi256_si128(quads), _mm256_extracti128_si256(quads, 1));
        _mm_storel_epi64((__m128i *)out, _mm_packus_epi32(words, words));
        return;
    }
    const __m256i codes = _mm256_permutevar8x32_epi32(packed, order);
    if constexpr (b == 8) {
        _mm256_storeu_si256((__m256i *)out, codes);
    } else if constexpr (b == 1) {
        const uint32_t word = uint32_t(_mm256_movemask_epi8(_mm256_slli_epi16(codes, 7)));
        __builtin_memcpy(out, &word, 4);
    } else if constexpr (b == 4) {
        const __m256i pairs = _mm256_maddubs_epi16(codes, _mm256_set1_epi16(0x1001));
        const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(pairs, pairs), 0x08);
        _mm_storeu_si128((__m128i *)out, _mm256_castsi256_si128(bytes));
    }
}

// What one row needs for decoding: the values of all codes of 1 or 2 bits, or scale and zero-point for 4 and 8.
template <int b>
struct Decoder {
    Floats scale, zero, table;

    GNNQLAB_FN Decoder make(float scale, float zero) {
        const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        const __m256 code = _mm256_cvtepi32_ps(_mm256_and_si256(lane, _mm256_set1_epi32((1 << b) - 1)));
        return {fill(scale), fill(zero), add(multiply(code, fill(scale)), fill(zero))};
    }

    // Eight values from b bytes.
    __attribute__((always_inline)) inline Floats values(const uint8_t *in) const {
        if constexpr (b == 8) {
            const __m256i codes = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)in));
            return add(multiply(_mm256_cvtepi32_ps(codes), scale), zero);
        } else {
            uint32_t word = 0;
            __builtin_memcpy(&word, in, b);
            const __m256i lane = _mm256_setr_epi32(0, b, 2 * b, 3 * b, 4 * b, 5 * b, 6 * b, 7 * b);
            const __m256i codes = _mm256_srlv_epi32(_mm256_set1_epi32(int(word)), lane);
            if constexpr (b < 4) return _mm256_permutevar8x32_ps(table, codes);
            const __m256i only = _mm256_and_si256(codes, _mm256_set1_epi32(15));
            return add(multiply(_mm256_cvtepi32_ps(only), scale), zero);
        }
    }
};

constexpr int long_lanes = 4, vectors_at_once = 2;
using Longs = __m256i;
GNNQLAB_FN Longs load_longs(const uint64_t *x) { return _mm256_loadu_si256((const __m256i *)x); }
GNNQLAB_FN void store(uint64_t *out, Longs x) { _mm256_storeu_si256((__m256i *)out, x); }
GNNQLAB_FN Longs fill_longs(uint64_t value) { return _mm256_set1_epi64x(int64_t(value)); }
GNNQLAB_FN Longs add_longs(Longs a, Longs b) { return _mm256_add_epi64(a, b); }
GNNQLAB_FN Longs multiply32(Longs a, Longs b) { return _mm256_mul_epu32(a, b); }
GNNQLAB_FN Longs high32(Longs a) { return _mm256_srli_epi64(a, 32); }
GNNQLAB_FN Longs exclusive_or(Longs a, Longs b) { return _mm256_xor_si256(a, b); }
GNNQLAB_FN Longs exclusive_or(Longs a, Longs b, Longs c) { return _mm256_xor_si256(_mm256_xor_si256(a, b), c); }
constexpr uint64_t block_of_lane[long_lanes] = {0, 2, 1, 3};
GNNQLAB_FN void store_blocks(uint16_t *out, Longs p0, Longs p1, Longs c1, Longs c3, Longs key0, Longs key1) {
    const __m256i low = _mm256_set1_epi64x(0xFFFFFFFF);
    const __m256i front = _mm256_xor_si256(_mm256_shuffle_epi32(p1, 0xB1), _mm256_and_si256(_mm256_xor_si256(c1, key0), low));
    const __m256i back = _mm256_xor_si256(_mm256_shuffle_epi32(p0, 0xB1), _mm256_and_si256(_mm256_xor_si256(c3, key1), low));
    _mm256_storeu_si256((__m256i *)out, _mm256_unpacklo_epi64(front, back));
    _mm256_storeu_si256((__m256i *)(out + 16), _mm256_unpackhi_epi64(front, back));
}

}  // namespace
}  // namespace gnnqlab
