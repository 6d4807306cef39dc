// Neighbouring columns of a row held in registers, in generic vectors of the compiler.
//
// A Block<T, C> reads C stored elements at once and keeps `parts` vectors of float32 for them. Blocks lie at any address;
// a row whose length is no multiple of C ends in a block that overlaps the one before, so nothing is masked.
#pragma once

#if defined(__AVX2__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized" // GCC 12 warns about its own _mm512_undefined
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

#include "core/aggregate.h"

#define GNNQLAB_INLINE inline __attribute__((always_inline))
#define GNNQLAB_UNROLL _Pragma("GCC unroll 16")

namespace gnnqlab {
namespace {

// Floats in one register, and how many registers may hold sums beside the operands.
#if defined(__AVX512BW__)
constexpr int kLanes = 16, kSums = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8, kSums = 8;
#else
constexpr int kLanes = 4, kSums = 8;
#endif

template <typename E, int L> struct LanesOf {
    typedef E type __attribute__((vector_size(L * sizeof(E))));
};
template <typename E, int L> using Lanes = typename LanesOf<E, L>::type;

template <typename V, typename E> GNNQLAB_FN V load_lanes(const E *from) {
    V lanes;
    memcpy(&lanes, from, sizeof lanes);
    return lanes;
}

template <typename V, typename E> GNNQLAB_FN void store_lanes(E *to, V lanes) { memcpy(to, &lanes, sizeof lanes); }

template <int L>
GNNQLAB_FN Lanes<float, L> multiply_add_lanes(Lanes<float, L> a, Lanes<float, L> b, Lanes<float, L> sum) {
#if defined(__AVX512BW__)
    if constexpr (L == 16) return (Lanes<float, L>)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)sum);
#endif
#if defined(__AVX2__)
    if constexpr (L == 8) return (Lanes<float, L>)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)sum);
    if constexpr (L == 4) return (Lanes<float, L>)_mm_fmadd_ps((__m128)a, (__m128)b, (__m128)sum);
#endif
    for (int lane = 0; lane < L; lane++) sum[lane] = multiply_add(a[lane], b[lane], sum[lane]);
    return sum;
}

template <int L> GNNQLAB_FN Lanes<float, L> broadcast(float value) { return value - Lanes<float, L>{}; }

template <typename T, int C> struct Block;

template <int C> struct Block<float, C> {
    static constexpr int columns = C, parts = 1, lanes = C;
    using V = Lanes<float, C>;
    static GNNQLAB_INLINE void load(const float *from, V *values) { values[0] = load_lanes<V>(from); }
    static GNNQLAB_INLINE void arrange(V *) {}
};

template <int C> struct Block<int8_t, C> {
    static constexpr int columns = C, parts = 1, lanes = C;
    using V = Lanes<float, C>;
    static GNNQLAB_INLINE void load(const int8_t *from, V *values) {
#if defined(__AVX512BW__)
        if constexpr (C == 16) {
            values[0] = (V)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)from)));
            return;
        }
#endif
#if defined(__AVX2__)
        if constexpr (C == 8) {
            values[0] = (V)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)from)));
            return;
        }
#endif
        for (int lane = 0; lane < C; lane++) values[0][lane] = float(from[lane]);
    }
    static GNNQLAB_INLINE void arrange(V *) {}
};

// Two bfloat16 share a 32-bit word: its lower half shifted up is one float32, its upper half the other. So the sums of
// even and odd columns grow in a vector each, and are interleaved once at the end.
template <int C> struct Block<uint16_t, C> {
    static constexpr int columns = C, parts = 2, lanes = C / 2;
    using V = Lanes<float, C / 2>;
    static GNNQLAB_INLINE void load(const uint16_t *from, V *values) {
        const auto words = load_lanes<Lanes<uint32_t, C / 2>>(from);
        values[0] = (V)(words << 16);
        values[1] = (V)(words & 0xffff0000u);
    }
    static GNNQLAB_INLINE void arrange(V *sums) {
        const V even = sums[0], odd = sums[1];
#if defined(__AVX512BW__)
        if constexpr (C == 32) {
            const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
            sums[0] = (V)_mm512_permutex2var_ps((__m512)even, low, (__m512)odd);
            sums[1] = (V)_mm512_permutex2var_ps((__m512)even, high, (__m512)odd);
            return;
        }
#endif
        for (int column = 0; column < C; column++)
            sums[column / lanes][column % lanes] = column % 2 ? odd[column / 2] : even[column / 2];
    }
};

template <> struct Block<uint16_t, 1> {
    static constexpr int columns = 1, parts = 1, lanes = 1;
    using V = Lanes<float, 1>;
    static GNNQLAB_INLINE void load(const uint16_t *from, V *values) { values[0][0] = element(from, 0); }
    static GNNQLAB_INLINE void arrange(V *) {}
};

// The widest block: one register of float32 or int8, two of bfloat16.
template <typename T> constexpr int kColumns = kLanes;
template <> constexpr int kColumns<uint16_t> = 2 * kLanes;

} // namespace
} // namespace gnnqlab
