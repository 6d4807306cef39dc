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
template <int C> GNNQLAB_FN void interleave(Lanes<float, C / 2> *sums) {
    using V = Lanes<float, C / 2>;
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
#if defined(__AVX2__)
    if constexpr (C == 16) {
        const __m256 low = _mm256_unpacklo_ps((__m256)even, (__m256)odd);
        const __m256 high = _mm256_unpackhi_ps((__m256)even, (__m256)odd);
        sums[0] = (V)_mm256_permute2f128_ps(low, high, 0x20);
        sums[1] = (V)_mm256_permute2f128_ps(low, high, 0x31);
        return;
    }
#endif
    for (int column = 0; column < C; column++)
        sums[2 * column / C][column % (C / 2)] = column % 2 ? odd[column / 2] : even[column / 2];
}

template <int C> struct Block<uint16_t, C> {
    static constexpr int columns = C, parts = 2, lanes = C / 2;
    using V = Lanes<float, C / 2>;
    static GNNQLAB_INLINE void load(const uint16_t *from, V *values) {
        const auto words = load_lanes<Lanes<uint32_t, C / 2>>(from);
        values[0] = (V)(words << 16);
        values[1] = (V)(words & 0xffff0000u);
    }
    static GNNQLAB_INLINE void arrange(V *sums) { interleave<C>(sums); }
};

template <> struct Block<uint16_t, 1> {
    static constexpr int columns = 1, parts = 1, lanes = 1;
    using V = Lanes<float, 1>;
    static GNNQLAB_INLINE void load(const uint16_t *from, V *values) { values[0][0] = element(from, 0); }
    static GNNQLAB_INLINE void arrange(V *) {}
};

// Two codes of four bits share a byte, and their sums are kept as those of bfloat16 are. A block that begins at an odd
// column begins with the upper half of a byte.
template <int C> struct Block<Pair, C> {
    static constexpr int columns = C, parts = 2, lanes = C / 2;
    using V = Lanes<float, C / 2>;
    static GNNQLAB_INLINE void load(const Pair *from, V *values) {
        values[0] = even_codes(from);
        values[1] = odd_codes(from);
    }
    static GNNQLAB_INLINE void load_from_odd(const Pair *from, V *values) {
        values[0] = odd_codes(from);
        values[1] = even_codes(from + 1);
    }
    static GNNQLAB_INLINE void arrange(V *sums) { interleave<C>(sums); }

  private:
    static GNNQLAB_INLINE V even_codes(const Pair *from) {
#if defined(__AVX512BW__)
        if constexpr (C == 32) { // the lower four bits of a lane choose its value
            const __m512 values = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);
            return (V)_mm512_permutexvar_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)from)), values);
        }
#endif
#if defined(__AVX2__)
        if constexpr (C == 16) {
            const __m256i bytes = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)from));
            return (V)_mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(bytes, 28), 28));
        }
#endif
        V values;
        for (int lane = 0; lane < lanes; lane++) values[lane] = float(even_code(from[lane]));
        return values;
    }
    static GNNQLAB_INLINE V odd_codes(const Pair *from) {
#if defined(__AVX512BW__)
        if constexpr (C == 32) {
            const __m512i bytes = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)from));
            return (V)_mm512_cvtepi32_ps(_mm512_srai_epi32(bytes, 4));
        }
#endif
#if defined(__AVX2__)
        if constexpr (C == 16) {
            const __m256i bytes = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)from));
            return (V)_mm256_cvtepi32_ps(_mm256_srai_epi32(bytes, 4));
        }
#endif
        V values;
        for (int lane = 0; lane < lanes; lane++) values[lane] = float(odd_code(from[lane]));
        return values;
    }
};

template <> struct Block<Pair, 1> { // an even column
    static constexpr int columns = 1, parts = 1, lanes = 1;
    using V = Lanes<float, 1>;
    static GNNQLAB_INLINE void load(const Pair *from, V *values) { values[0][0] = float(even_code(*from)); }
    static GNNQLAB_INLINE void arrange(V *) {}
};

// The widest block: one register of float32 or int8, two of bfloat16 or pairs.
template <typename T> constexpr int kColumns = kLanes;
template <> constexpr int kColumns<uint16_t> = 2 * kLanes;
template <> constexpr int kColumns<Pair> = 2 * kLanes;

// Of pairs a whole line in one go, though some sums of AVX2 leave the registers: with half of them every line was fetched
// twice, and 30 thousand rows of 256 columns took 1.5 times as long.
template <typename T> constexpr int kSumsOf = kSums;
template <> constexpr int kSumsOf<Pair> = 16;

// The block that begins at a column of a row: any column of the last block, otherwise multiples of C.
template <typename T, int C>
GNNQLAB_FN void load_block(const T *row, int64_t column, bool last, typename Block<T, C>::V *values) {
    const T *from = row + column / kHeld<T>;
    if constexpr (kHeld<T> > 1 && C > 1)
        if (last && column % kHeld<T>) return Block<T, C>::load_from_odd(from, values);
    Block<T, C>::load(from, values);
}

} // namespace
} // namespace gnnqlab
