// A tile of a product of int8 codes: rows of one factor times a panel of the other, summed in 32-bit integers.
//
// Four codes that follow each other in the sum make a word. A panel holds `columns` neighbouring columns of a factor,
// word after word: panel[k4][column], so that one instruction multiplies a word of the other factor with a whole vector.
// Where the instruction takes unsigned codes on one side (VNNI), a panel's codes are shifted by 128, and the tile is off
// by 128 times the sum of the other factor's row, which whoever reads the tile takes away again.
#pragma once

#include <cstring>

#include "cpu/lanes.h"

namespace gnnqlab {
namespace {

constexpr int kMostRows = 6;
constexpr int kWidest = 64;

// Words of a tile's rows: row r begins at words + r * row_step, its words lie word_step apart, the last one in `last`.
struct TileRows {
    const int8_t *words;
    int64_t row_step, word_step, count; // whole words
    const int32_t *last;                // of each row, or null if the count is even
};

GNNQLAB_INLINE int32_t word_at(const int8_t *from) {
    int32_t word;
    memcpy(&word, from, sizeof word);
    return word;
}

struct ScalarTile {
    static constexpr int rows = 4, columns = 16, shift = 0;
    template <int R> static void multiply(const TileRows &a, const int8_t *panel, int32_t *sums) {
        int32_t found[R][columns] = {};
        const auto add = [&](int r, int32_t word, const int8_t *b) {
            int8_t codes[4];
            memcpy(codes, &word, sizeof codes);
            for (int j = 0; j < columns; j++)
                found[r][j] += codes[0] * b[4 * j] + codes[1] * b[4 * j + 1] + codes[2] * b[4 * j + 2] + codes[3] * b[4 * j + 3];
        };
        for (int64_t k = 0; k < a.count; k++)
            for (int r = 0; r < R; r++) add(r, word_at(a.words + r * a.row_step + k * a.word_step), panel + k * 4 * columns);
        if (a.last)
            for (int r = 0; r < R; r++) add(r, a.last[r], panel + a.count * 4 * columns);
        memcpy(sums, found, sizeof found);
    }
};

#if defined(__AVX2__)
// Products of pairs are summed in 16 bits, which two of at most 127 * 127 fit into.
struct Avx2Tile {
    static constexpr int rows = 4, columns = 16, shift = 0;
    template <int R> static void multiply(const TileRows &a, const int8_t *panel, int32_t *sums) {
        __m256i found[R][2];
        GNNQLAB_UNROLL for (int r = 0; r < R; r++) found[r][0] = found[r][1] = _mm256_setzero_si256();
        const __m256i ones = _mm256_set1_epi16(1);
        const auto add = [&](int64_t k, auto word) __attribute__((always_inline)) {
            const __m256i *b = (const __m256i *)(panel + k * 4 * columns);
            const __m256i b0 = _mm256_loadu_si256(b), b1 = _mm256_loadu_si256(b + 1);
            GNNQLAB_UNROLL for (int r = 0; r < R; r++) {
                const __m256i codes = _mm256_set1_epi32(word(r)), size = _mm256_abs_epi8(codes);
                const __m256i p0 = _mm256_maddubs_epi16(size, _mm256_sign_epi8(b0, codes));
                const __m256i p1 = _mm256_maddubs_epi16(size, _mm256_sign_epi8(b1, codes));
                found[r][0] = _mm256_add_epi32(found[r][0], _mm256_madd_epi16(p0, ones));
                found[r][1] = _mm256_add_epi32(found[r][1], _mm256_madd_epi16(p1, ones));
            }
        };
        for (int64_t k = 0; k < a.count; k++) {
            const int8_t *at = a.words + k * a.word_step;
            add(k, [&](int r) { return word_at(at + r * a.row_step); });
        }
        if (a.last) add(a.count, [&](int r) { return a.last[r]; });
        GNNQLAB_UNROLL for (int r = 0; r < R; r++) {
            _mm256_storeu_si256((__m256i *)(sums + r * columns), found[r][0]);
            _mm256_storeu_si256((__m256i *)(sums + r * columns + 8), found[r][1]);
        }
    }
};
#endif

#if defined(__AVX512BW__)
// sums += four products of unsigned and signed codes each. As an intrinsic GCC copies every sum before it adds to it.
GNNQLAB_INLINE void multiply_words(__m512i &sums, __m512i shifted, __m512i codes) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(shifted), "v"(codes));
}

struct VnniTile {
    static constexpr int rows = 6, columns = 64, shift = 128;
    template <int R> static void multiply(const TileRows &a, const int8_t *panel, int32_t *sums) {
        __m512i found[R][4];
        GNNQLAB_UNROLL for (int r = 0; r < R; r++)
            GNNQLAB_UNROLL for (int v = 0; v < 4; v++) found[r][v] = _mm512_setzero_si512();
        const int8_t *at = a.words;
        const int64_t row_step = a.row_step, word_step = a.word_step, count = a.count;
        for (int64_t k = 0; k < count; k++, at += word_step, panel += 4 * columns) {
            __m512i b[4];
            GNNQLAB_UNROLL for (int v = 0; v < 4; v++) b[v] = _mm512_loadu_si512(panel + 64 * v);
            GNNQLAB_UNROLL for (int r = 0; r < R; r++) {
                const __m512i codes = _mm512_set1_epi32(word_at(at + r * row_step));
                GNNQLAB_UNROLL for (int v = 0; v < 4; v++) multiply_words(found[r][v], b[v], codes);
            }
        }
        if (a.last)
            GNNQLAB_UNROLL for (int r = 0; r < R; r++)
                GNNQLAB_UNROLL for (int v = 0; v < 4; v++)
                    multiply_words(found[r][v], _mm512_loadu_si512(panel + 64 * v), _mm512_set1_epi32(a.last[r]));
        GNNQLAB_UNROLL for (int r = 0; r < R; r++)
            GNNQLAB_UNROLL for (int v = 0; v < 4; v++) _mm512_storeu_si512(sums + r * columns + 16 * v, found[r][v]);
    }
};
#endif

template <class T, int R = T::rows> GNNQLAB_INLINE void multiply_tile(int rows, const TileRows &a, const int8_t *panel, int32_t *sums) {
    if constexpr (R > 1)
        if (rows < R) return multiply_tile<T, R - 1>(rows, a, panel, sums);
    T::template multiply<R>(a, panel, sums);
}

// 0 scalar, 1 AVX2, 2 VNNI.
int instructions() {
#if defined(__AVX512BW__)
    if (__builtin_cpu_supports("avx512vnni")) return 2;
#endif
#if defined(__AVX2__)
    return 1;
#endif
    return 0;
}

template <class Use> int64_t with_tile(const Use &use) {
#if defined(__AVX512BW__)
    if (instructions() == 2) return use(VnniTile());
#endif
#if defined(__AVX2__)
    return use(Avx2Tile());
#else
    return use(ScalarTile());
#endif
}

} // namespace
} // namespace gnnqlab
