// The rotated codec's arithmetic: passes of signs and Hadamard windows, Lloyd-Max levels, the scale without bias.
// gnnqlab/kernels/reference/rotate.py is the definition.
#pragma once

#include "core/codec.h"

namespace gnnqlab {

constexpr int64_t widest_window = 4096;
constexpr int most_passes = 4, sum_lanes = 16, most_levels = 8;

// Windows of `size` columns side by side, the first one at column `first`.
struct Pass {
    int64_t number, first, size, windows;
};

struct Passes {
    Pass of[most_passes];
    int count;
};

GNNQLAB_FN Passes row_passes(int64_t columns, int64_t rotations) {
    int64_t size = 1;
    while (size < widest_window && 2 * size <= columns) size *= 2;
    Passes found = {};
    for (int64_t turn = 0; turn < rotations; turn++) {
        found.of[found.count++] = {2 * turn, 0, size, columns / size};
        if (columns % size) found.of[found.count++] = {2 * turn + 1, columns - size, size, 1};
    }
    return found;
}

// The factor that makes a window orthonormal.
GNNQLAB_FN float window_scale(int64_t size) { return float(1.0 / sqrt(double(size))); }

// The signs of 128 columns, a bit each; 1 is minus.
GNNQLAB_FN Words sign_block(const Noise &noise, uint32_t id, int64_t number, int64_t block) {
    return philox(noise, id, uint32_t(block + (number << 20)));
}

GNNQLAB_FN bool is_rotated_width(int64_t b) { return b >= 1 && b <= 4; }

GNNQLAB_FN constexpr float positive_level(int b, int place) {
    constexpr float one[1] = {0.7978845608028654f};
    constexpr float two[2] = {0.4527800346364921f, 1.510417608499096f};
    constexpr float three[4] = {0.24509417894422184f, 0.7560052812058781f, 1.343909278505002f, 2.1519457045369887f};
    constexpr float four[8] = {0.12839502985114673f, 0.38804829949029046f, 0.6567591185324635f, 0.9423404564869587f,
                               1.2562311973471756f,  1.6180463860218834f,  2.069017226531378f,  2.732589570995156f};
    return b == 1 ? one[0] : b == 2 ? two[place & 1] : b == 3 ? three[place & 3] : four[place & 7];
}

// Where level `place` + 1 begins, in root mean squares of a row: half way to it.
GNNQLAB_FN float threshold(int b, int place) {
    constexpr double two[2] = {0.4527800346364921, 1.510417608499096};
    constexpr double three[4] = {0.24509417894422184, 0.7560052812058781, 1.343909278505002, 2.1519457045369887};
    constexpr double four[8] = {0.12839502985114673, 0.38804829949029046, 0.6567591185324635, 0.9423404564869587,
                                1.2562311973471756,  1.6180463860218834,  2.069017226531378,  2.732589570995156};
    return b == 2   ? float((two[0] + two[1]) / 2)
           : b == 3 ? float((three[place & 3] + three[(place + 1) & 3]) / 2)
                    : float((four[place & 7] + four[(place + 1) & 7]) / 2);
}

// The level of a code: codes rise with their levels.
GNNQLAB_FN constexpr float code_level(int b, int code) {
    const int half = 1 << (b - 1);
    return code < half ? -positive_level(b, half - 1 - code) : positive_level(b, code - half);
}

// The code of an element among packed ones; one of 3 bits may go on in the next byte.
GNNQLAB_FN int code_at(int b, const uint8_t *in, int64_t column) {
    const int64_t bit = column * b;
    const int at = int(bit % 8);
    uint32_t packed = in[bit / 8];
    if (at + b > 8) packed |= uint32_t(in[bit / 8 + 1]) << 8;
    return int(packed >> at) & ((1 << b) - 1);
}

// The levels of a width in tables: positive ones by place, all by code.
struct Levels {
    float positive[most_levels], every[2 * most_levels];
};

GNNQLAB_FN constexpr Levels levels_of(int b) {
    Levels found = {};
    const int half = 1 << (b - 1);
    for (int place = 0; place < half; place++) found.positive[place] = positive_level(b, place);
    for (int code = 0; code < 2 * half; code++) found.every[code] = code_level(b, code);
    return found;
}

// A row's thresholds, in its own unit.
struct Thresholds {
    float of[most_levels];
};

GNNQLAB_FN Thresholds row_thresholds(int b, double energy, int64_t columns) {
    const float deviation = float(sqrt(energy / double(columns)));
    Thresholds row = {};
    for (int place = 0; place < (1 << (b - 1)) - 1; place++) row.of[place] = deviation * threshold(b, place);
    return row;
}

GNNQLAB_FN int rotated_code(int b, float y, const Thresholds &row) {
    const int half = 1 << (b - 1);
    const float size = y < 0.0f ? -y : y;
    int place = 0;
    for (int k = 0; k < half - 1; k++) place += size > row.of[k];
    return y < 0.0f ? half - 1 - place : half + place;
}

struct RotatedRow {
    float scale;  // S, or -|c| of a constant row
    bool constant, finite;
};

GNNQLAB_FN RotatedRow rotated_row(float least, float range, bool finite, double energy, double product) {
    const bool constant = range < smallest_range;
    const float scale = float(energy / product);
    const float size = least < 0.0f ? -least : least;
    return {constant ? -size : scale, constant, finite && is_finite(range) && (constant || is_finite(scale))};
}

}  // namespace gnnqlab
