// Where a row's codes lie and how they are read: 16 bytes, in place of the decoded row.
#pragma once

#include "core/codec.h"

namespace gnnqlab {

// A row of 1, 2, 4 or 8 bits, or of float32, in a received message.
struct CodedRow {
    uint64_t place;    // address of its first byte, and in the top byte, which addresses of a process do not use, its bits
    float zero, scale; // unused by float32
};

constexpr int place_bits = 56;

GNNQLAB_FN CodedRow coded_row(const uint8_t *at, int64_t bits, float zero, float scale) {
    return {uint64_t(uintptr_t(at)) | uint64_t(bits) << place_bits, zero, scale};
}
GNNQLAB_FN int bits_of(const CodedRow &row) { return int(row.place >> place_bits); }
GNNQLAB_FN const uint8_t *bytes_of(const CodedRow &row) {
    return (const uint8_t *)uintptr_t(row.place & ((uint64_t(1) << place_bits) - 1));
}

} // namespace gnnqlab
