// Philox4x32-7 (Salmon et al., SC 2011) and which sixteen bits belong to which element.
//
// Key: the two halves of the seed. Counter: (global node id, column / 8, epoch, stream). The four words of a block are
// eight 16-bit values, low half first, so column c owns half c % 2 of word (c % 8) / 2.
#pragma once

#include "core/port.h"

namespace gnnqlab {

constexpr uint32_t philox_multiplier0 = 0xD2511F53u, philox_multiplier1 = 0xCD9E8D57u;
constexpr uint32_t philox_weyl0 = 0x9E3779B9u, philox_weyl1 = 0xBB67AE85u;
constexpr int philox_rounds = 7;
constexpr int block_columns = 8;

struct Words {
    uint32_t w[4];
};

// What all elements of a call share.
struct Noise {
    uint32_t key0, key1, epoch, stream;
};

GNNQLAB_FN Noise make_noise(int64_t seed, int64_t epoch, int64_t stream) {
    return {uint32_t(seed), uint32_t(uint64_t(seed) >> 32), uint32_t(epoch), uint32_t(stream)};
}

GNNQLAB_FN Words philox(const Noise &noise, uint32_t id, uint32_t block) {
    uint32_t c0 = id, c1 = block, c2 = noise.epoch, c3 = noise.stream, key0 = noise.key0, key1 = noise.key1;
    for (int round = 0; round < philox_rounds; round++) {
        const uint64_t product0 = uint64_t(c0) * philox_multiplier0, product1 = uint64_t(c2) * philox_multiplier1;
        c0 = uint32_t(product1 >> 32) ^ c1 ^ key0;
        c1 = uint32_t(product1);
        c2 = uint32_t(product0 >> 32) ^ c3 ^ key1;
        c3 = uint32_t(product0);
        key0 += philox_weyl0;
        key1 += philox_weyl1;
    }
    return {{c0, c1, c2, c3}};
}

// The sixteen bits of one column of a block.
GNNQLAB_FN uint32_t noise_bits(const Words &words, int column) {
    return (words.w[(column % block_columns) / 2] >> (16 * (column % 2))) & 0xFFFFu;
}

}  // namespace gnnqlab
