// Vectors as the rotated codec needs them, for each instruction set; `lanes` float32 in a Lane.
//
// butterfly<stride>(v): a + b and a - b of elements `stride` apart within a vector.
// least_of(v), most_of(v): of the elements.
// whole(v): the largest whole number up to an element.
// flip(v, bits): minus where a bit is set, the first element lowest.
// add_up<b>(sums, terms...): squares or products with levels into the float64 lanes of a sum.
// Coder<b>: codes of a vector, b bits an element, and their levels; and levels of codes.
#pragma once

#include "core/rotate.h"

#if defined(__AVX512BW__) || defined(__AVX2__)
#include <immintrin.h>
#endif
#include <cstring>

namespace gnnqlab {
namespace {

#if defined(__AVX512BW__)

constexpr int lanes = 16;
using Lane = __m512;

GNNQLAB_FN Lane load(const float *x) { return _mm512_loadu_ps(x); }
GNNQLAB_FN void store(float *x, Lane v) { _mm512_storeu_ps(x, v); }
GNNQLAB_FN Lane all(float x) { return _mm512_set1_ps(x); }
GNNQLAB_FN Lane plus(Lane a, Lane b) { return _mm512_add_ps(a, b); }
GNNQLAB_FN Lane minus(Lane a, Lane b) { return _mm512_sub_ps(a, b); }
GNNQLAB_FN Lane times(Lane a, Lane b) { return _mm512_mul_ps(a, b); }
GNNQLAB_FN Lane least(Lane a, Lane b) { return _mm512_min_ps(a, b); }
GNNQLAB_FN Lane most(Lane a, Lane b) { return _mm512_max_ps(a, b); }
GNNQLAB_FN float least_of(Lane v) { return _mm512_reduce_min_ps(v); }
GNNQLAB_FN float most_of(Lane v) { return _mm512_reduce_max_ps(v); }
GNNQLAB_FN Lane whole(Lane v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
GNNQLAB_FN Lane flip(Lane v, uint32_t bits) { return _mm512_mask_xor_ps(v, __mmask16(bits), v, all(-0.0f)); }

// One rounding of b + a or b - a, as an addition has: v times 1 or -1 is exact.
template <int stride>
GNNQLAB_FN Lane butterfly(Lane v) {
    constexpr int swap = stride == 1 || stride == 4 ? 0xB1 : 0x4E;
    constexpr uint32_t upper = stride == 1 ? 0xAAAA : stride == 2 ? 0xCCCC : stride == 4 ? 0xF0F0 : 0xFF00;
    const Lane t = stride < 4 ? _mm512_permute_ps(v, swap) : _mm512_shuffle_f32x4(v, v, swap);
    return _mm512_fmadd_ps(v, _mm512_mask_blend_ps(__mmask16(upper), all(1.0f), all(-1.0f)), t);
}

struct Sums {
    __m512d of[2] = {_mm512_setzero_pd(), _mm512_setzero_pd()};
    void add(int64_t, Lane a, Lane b) {
        const __m256 a0 = _mm512_castps512_ps256(a), a1 = _mm512_extractf32x8_ps(a, 1);
        const __m256 b0 = _mm512_castps512_ps256(b), b1 = _mm512_extractf32x8_ps(b, 1);
        of[0] = _mm512_fmadd_pd(_mm512_cvtps_pd(a0), _mm512_cvtps_pd(b0), of[0]);  // products are exact in float64
        of[1] = _mm512_fmadd_pd(_mm512_cvtps_pd(a1), _mm512_cvtps_pd(b1), of[1]);
    }
    void write(double *out) const { _mm512_storeu_pd(out, of[0]), _mm512_storeu_pd(out + 8, of[1]); }
};

// A bit of each of 16 codes of b bits, at place `at` of it.
template <int b>
GNNQLAB_FN uint64_t spread(uint32_t mask, int at) {
    constexpr uint64_t lowest = b == 1 ? 0xFFFF : b == 2 ? 0x55555555 : b == 3 ? 0x249249249249 : 0x1111111111111111;
    return b == 1 ? mask : _pdep_u64(mask, lowest) << at;
}

template <int b>
struct Coder {
    Lane limits, positive, every;  // limits: threshold k of a row at place k

    explicit Coder(const Thresholds &row) : Coder() { limits = _mm512_castps256_ps512(_mm256_loadu_ps(row.of)); }
    Coder() {
        constexpr Levels of = levels_of(b);
        limits = all(0.0f), positive = _mm512_castps256_ps512(_mm256_loadu_ps(of.positive)), every = load(of.every);
    }
    Lane limit(__m512i place) const { return _mm512_permutexvar_ps(place, limits); }
    // A code is its sign, upwards, and its place, turned round below zero: bit by bit, each bit of all elements a mask.
    uint64_t codes(Lane y, Lane *level) const {
        const __mmask16 negative = _mm512_cmp_ps_mask(y, _mm512_setzero_ps(), _CMP_LT_OQ);
        const Lane size = _mm512_abs_ps(y);
        const __m512i one = _mm512_set1_epi32(1), two = _mm512_set1_epi32(2);
        __m512i place = _mm512_setzero_si512();  // how many thresholds a size is above: they rise, so b - 1 looks tell
        uint64_t packed = 0;
        if (b == 4) {
            const __mmask16 far = _mm512_cmp_ps_mask(size, limit(_mm512_set1_epi32(3)), _CMP_GT_OQ);
            place = _mm512_maskz_mov_epi32(far, _mm512_set1_epi32(4));
            packed = spread<b>(far ^ negative, 2);
        }
        if (b > 2) {
            const __mmask16 half_far = _mm512_cmp_ps_mask(size, limit(_mm512_add_epi32(place, one)), _CMP_GT_OQ);
            place = _mm512_mask_add_epi32(place, half_far, place, two);
            packed |= spread<b>(half_far ^ negative, 1);
        }
        if (b > 1) {
            const __mmask16 near = _mm512_cmp_ps_mask(size, limit(place), _CMP_GT_OQ);
            place = _mm512_mask_add_epi32(place, near, place, one);
            packed |= spread<b>(near ^ negative, 0);
        }
        const Lane value = b == 1 ? _mm512_broadcastss_ps(_mm512_castps512_ps128(positive)) : _mm512_permutexvar_ps(place, positive);
        *level = _mm512_mask_xor_ps(value, negative, value, all(-0.0f));
        return packed | spread<b>(uint16_t(~negative), b - 1);
    }
    Lane levels(uint64_t packed) const {
        constexpr uint64_t kept = 0x0101010101010101u * ((1u << b) - 1);
        const uint64_t low = _pdep_u64(packed, kept), high = _pdep_u64(packed >> (8 * b), kept);
        return _mm512_permutexvar_ps(_mm512_cvtepu8_epi32(_mm_set_epi64x(int64_t(high), int64_t(low))), every);
    }
};

#elif defined(__AVX2__)

constexpr int lanes = 8;
using Lane = __m256;

GNNQLAB_FN Lane load(const float *x) { return _mm256_loadu_ps(x); }
GNNQLAB_FN void store(float *x, Lane v) { _mm256_storeu_ps(x, v); }
GNNQLAB_FN Lane all(float x) { return _mm256_set1_ps(x); }
GNNQLAB_FN Lane plus(Lane a, Lane b) { return _mm256_add_ps(a, b); }
GNNQLAB_FN Lane minus(Lane a, Lane b) { return _mm256_sub_ps(a, b); }
GNNQLAB_FN Lane times(Lane a, Lane b) { return _mm256_mul_ps(a, b); }
GNNQLAB_FN Lane least(Lane a, Lane b) { return _mm256_min_ps(a, b); }
GNNQLAB_FN Lane most(Lane a, Lane b) { return _mm256_max_ps(a, b); }
GNNQLAB_FN float least_of(Lane v) {
    __m128 low = _mm_min_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    low = _mm_min_ps(low, _mm_movehl_ps(low, low));
    return _mm_cvtss_f32(_mm_min_ss(low, _mm_shuffle_ps(low, low, 1)));
}
GNNQLAB_FN float most_of(Lane v) {
    __m128 high = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    high = _mm_max_ps(high, _mm_movehl_ps(high, high));
    return _mm_cvtss_f32(_mm_max_ss(high, _mm_shuffle_ps(high, high, 1)));
}
GNNQLAB_FN Lane whole(Lane v) { return _mm256_floor_ps(v); }
GNNQLAB_FN Lane flip(Lane v, uint32_t bits) {
    const __m256i places = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i set = _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(int(bits)), places), places);
    return _mm256_xor_ps(v, _mm256_castsi256_ps(_mm256_slli_epi32(set, 31)));
}

template <int stride>
GNNQLAB_FN Lane butterfly(Lane v) {
    const Lane t = stride == 1   ? _mm256_permute_ps(v, 0xB1)
                   : stride == 2 ? _mm256_permute_ps(v, 0x4E)
                                 : _mm256_permute2f128_ps(v, v, 1);
    constexpr int upper = stride == 1 ? 0xAA : stride == 2 ? 0xCC : 0xF0;
    return _mm256_fmadd_ps(v, _mm256_blend_ps(all(1.0f), all(-1.0f), upper), t);  // v times 1 or -1 is exact
}

struct Sums {
    __m256d of[4] = {_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()};
    void add(int64_t column, Lane a, Lane b) {
        const int first = column & 8 ? 2 : 0;
        const __m128 a0 = _mm256_castps256_ps128(a), a1 = _mm256_extractf128_ps(a, 1);
        const __m128 b0 = _mm256_castps256_ps128(b), b1 = _mm256_extractf128_ps(b, 1);
        of[first] = _mm256_fmadd_pd(_mm256_cvtps_pd(a0), _mm256_cvtps_pd(b0), of[first]);
        of[first + 1] = _mm256_fmadd_pd(_mm256_cvtps_pd(a1), _mm256_cvtps_pd(b1), of[first + 1]);
    }
    void write(double *out) const {
        for (int k = 0; k < 4; k++) _mm256_storeu_pd(out + 4 * k, of[k]);
    }
};

template <int b>
struct Coder {
    static constexpr int half = 1 << (b - 1), inner = half - 1;
    Lane limits[inner + 1], positive;

    explicit Coder(const Thresholds &row) : Coder() {
        for (int k = 0; k < inner; k++) limits[k] = all(row.of[k]);
    }
    Coder() {
        constexpr Levels of = levels_of(b);
        positive = load(of.positive);
    }
    uint64_t codes(Lane y, Lane *level) const {
        const Lane sign = _mm256_cmp_ps(y, _mm256_setzero_ps(), _CMP_LT_OQ);
        const Lane size = _mm256_andnot_ps(all(-0.0f), y);
        __m256i place = _mm256_setzero_si256();
        for (int k = 0; k < inner; k++)
            place = _mm256_sub_epi32(place, _mm256_castps_si256(_mm256_cmp_ps(size, limits[k], _CMP_GT_OQ)));
        const Lane value = _mm256_permutevar8x32_ps(positive, place);
        *level = _mm256_xor_ps(value, _mm256_and_ps(sign, all(-0.0f)));
        if (b == 1) return uint8_t(~_mm256_movemask_ps(sign));
        const __m256i up = _mm256_add_epi32(place, _mm256_set1_epi32(half));
        const __m256i down = _mm256_sub_epi32(_mm256_set1_epi32(half - 1), place);
        const __m256i code = _mm256_blendv_epi8(up, down, _mm256_castps_si256(sign));
        const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(code), _mm256_extracti128_si256(code, 1));
        const uint64_t bytes = uint64_t(_mm_cvtsi128_si64(_mm_packus_epi16(words, words)));
        return _pext_u64(bytes, 0x0101010101010101u * ((1u << b) - 1));
    }
    Lane levels(uint64_t packed) const {
        const uint64_t bytes = _pdep_u64(packed, 0x0101010101010101u * ((1u << b) - 1));
        const __m256i code = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(int64_t(bytes)));
        const __m256i up = _mm256_sub_epi32(code, _mm256_set1_epi32(half));
        const __m256i down = _mm256_srai_epi32(up, 31);  // all ones where the level is negative: -1 - up is its place
        const Lane value = _mm256_permutevar8x32_ps(positive, _mm256_xor_si256(up, down));
        return _mm256_xor_ps(value, _mm256_and_ps(_mm256_castsi256_ps(down), all(-0.0f)));
    }
};

#else

constexpr int lanes = 1;
using Lane = float;

GNNQLAB_FN Lane load(const float *x) { return *x; }
GNNQLAB_FN void store(float *x, Lane v) { *x = v; }
GNNQLAB_FN Lane all(float x) { return x; }
GNNQLAB_FN Lane plus(Lane a, Lane b) { return a + b; }
GNNQLAB_FN Lane minus(Lane a, Lane b) { return a - b; }
GNNQLAB_FN Lane times(Lane a, Lane b) { return a * b; }
GNNQLAB_FN Lane least(Lane a, Lane b) { return b < a ? b : a; }
GNNQLAB_FN Lane most(Lane a, Lane b) { return b > a ? b : a; }
GNNQLAB_FN float least_of(Lane v) { return v; }
GNNQLAB_FN float most_of(Lane v) { return v; }
GNNQLAB_FN Lane whole(Lane v) { return floorf(v); }
GNNQLAB_FN Lane flip(Lane v, uint32_t bits) { return bits & 1 ? -v : v; }

template <int stride>
GNNQLAB_FN Lane butterfly(Lane v) { return v; }

struct Sums {
    double of[sum_lanes] = {};
    void add(int64_t column, Lane a, Lane b) { of[column % sum_lanes] += double(a) * double(b); }
    void write(double *out) const { memcpy(out, of, sizeof of); }
};

template <int b>
struct Coder {
    Thresholds row = {};
    explicit Coder(const Thresholds &of) : row(of) {}
    Coder() = default;
    uint64_t codes(Lane y, Lane *level) const {
        const int code = rotated_code(b, y, row);
        *level = code_level(b, code);
        return uint64_t(code);
    }
    Lane levels(uint64_t packed) const { return code_level(b, int(packed & ((1u << b) - 1))); }
};

#endif

}  // namespace
}  // namespace gnnqlab
