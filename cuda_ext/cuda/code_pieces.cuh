// Codes of two factors on their way to a tile of their product: a block makes 64 x 64 sums, 32 terms at a time, and each of
// its threads brings sixteen codes of one factor.
#pragma once

#include "cuda/teams.cuh"

namespace gnnqlab {
namespace {

constexpr int kTile = 64, kTerms = 32; // rows and columns of sums, and terms at a time
constexpr int kWarpRows = 16, kWarpColumns = 32; // of a warp: four by two of them

// A factor: rows of the result's row (or column), over terms.
struct Factor {
    const int8_t *codes;
    int64_t stride, rows;
};

// Sixteen codes of a tile. Stored by rows: sixteen terms of a row. By columns: four terms of four rows.
template <bool kByColumns> struct Piece {
    int row, term; // in the tile
    const int8_t *from;
    bool here;

    __device__ Piece(const Factor &factor, int64_t first_row) {
        const int number = threadIdx.x % (kThreads / 2);
        // By columns eight lanes side by side read 32 bytes of a row of storage.
        row = kByColumns ? number % 8 * 4 + number / 64 * 32 : number / 2;
        term = kByColumns ? number / 8 % 8 * 4 : number % 2 * 16;
        here = first_row + row < factor.rows;
        from = factor.codes + (kByColumns ? first_row + row : (first_row + row) * factor.stride);
    }

    __device__ uint4 load(int64_t stride, int64_t first, int64_t terms) const {
        const int64_t t = first + term;
        if (kByColumns) {
            const int8_t *at = from + t * stride;
            const auto word = [&](int k) { return here && t + k < terms ? *(const uint32_t *)(at + k * stride) : 0u; };
            return make_uint4(word(0), word(1), word(2), word(3));
        }
        return here && t < terms ? *(const uint4 *)(from + t) : make_uint4(0, 0, 0, 0);
    }
};

// Words of four terms of one row each, out of words of four rows of one term each: byte r of word k goes to byte k of word r.
__device__ inline uint4 turned(uint4 piece) {
    const uint32_t low = __byte_perm(piece.x, piece.y, 0x5140), high = __byte_perm(piece.z, piece.w, 0x5140);
    const uint32_t low2 = __byte_perm(piece.x, piece.y, 0x7362), high2 = __byte_perm(piece.z, piece.w, 0x7362);
    return make_uint4(__byte_perm(low, high, 0x5410), __byte_perm(low, high, 0x7632), __byte_perm(low2, high2, 0x5410),
                      __byte_perm(low2, high2, 0x7632));
}

// Whether a factor comes in pieces of so many bytes.
inline bool fits(const Factor &factor, int64_t width) {
    return uintptr_t(factor.codes) % width == 0 && factor.stride % width == 0;
}

inline unsigned tiles(const Factor &a, const Factor &b) {
    return unsigned((a.rows + kTile - 1) / kTile * ((b.rows + kTile - 1) / kTile));
}

// Terms of each of the shares that fill the device, which has room for so many blocks: whole pieces, `most` at most.
inline int64_t share_of(int64_t terms, unsigned over, int64_t blocks, int64_t most) {
    const int64_t wanted = (blocks + over - 1) / over, pieces = (terms + kTerms - 1) / kTerms;
    const int64_t share = (pieces + wanted - 1) / wanted * kTerms;
    return share < most ? share : most;
}

} // namespace
} // namespace gnnqlab
