// xoshiro256++ (Blackman and Vigna, 2021), its lanes and their seeds.
//
// Eight generators draw side by side: a draw is a 64-bit word of each, lane 0 first, so 32 values of sixteen bits, low
// bits first. Rows are cut into blocks; a block's lanes begin at states of their own, which are successive words of one
// sequence of SplitMix64, and every row of the block begins with a new draw.
#pragma once

#include "core/port.h"

namespace gnnqlab {

constexpr int xoshiro_lanes = 8;
constexpr int xoshiro_words = 4;            // of a lane's state
constexpr int draw_columns = 4 * xoshiro_lanes; // that one draw rounds
constexpr int64_t block_rows = 64;
constexpr uint64_t golden = 0x9E3779B97F4A7C15u;

// Word `index` of the sequence of SplitMix64 that a seed begins.
GNNQLAB_FN uint64_t splitmix(uint64_t seed, uint64_t index) {
    uint64_t z = seed + (index + 1) * golden;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

// Word `word` of the state in which a lane of a block begins.
GNNQLAB_FN uint64_t xoshiro_state(int64_t seed, int64_t block, int lane, int word) {
    return splitmix(uint64_t(seed), uint64_t(block * xoshiro_lanes + lane) * xoshiro_words + uint64_t(word));
}

template <int by, class Word> GNNQLAB_FN Word rotated(Word x) { return (x << by) | (x >> (64 - by)); }

// The next word, of one generator or of a vector of them.
template <class Word> GNNQLAB_FN Word xoshiro_next(Word *s) {
    const Word drawn = rotated<23>(s[0] + s[3]) + s[0], shifted = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = rotated<45>(s[3]);
    return drawn;
}

} // namespace gnnqlab
