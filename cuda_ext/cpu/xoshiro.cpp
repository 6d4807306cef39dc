// Rows to symmetric codes with noise that never leaves the registers: xoshiro256++ beside the counter of quantize.cpp.
#include <algorithm>
#include <cstring>

#include "core/xoshiro.h"
#include "cpu/export.h"
#include "cpu/lanes.h"
#include "cpu/quantize_row.h"

namespace gnnqlab {
namespace {

constexpr int kRegister = kLanes / 2; // lanes of the generator in a register
constexpr int kRegisters = xoshiro_lanes / kRegister;
using Draws = Lanes<uint64_t, kRegister>;

struct Draw {
    Draws words[kRegisters];
};

class Generator {
  public:
    GNNQLAB_INLINE explicit Generator(const uint64_t *states) { // (lane, word)
        for (int word = 0; word < xoshiro_words; word++)
            for (int lane = 0; lane < xoshiro_lanes; lane++)
                states_[lane / kRegister][word][lane % kRegister] = states[lane * xoshiro_words + word];
    }
    GNNQLAB_INLINE Draw next() {
        Draw draw;
        GNNQLAB_UNROLL for (int k = 0; k < kRegisters; k++) draw.words[k] = xoshiro_next(states_[k]);
        return draw;
    }

  private:
    Draws states_[kRegisters][xoshiro_words];
};

Generator generator_of_block(int64_t seed, int64_t block) {
    uint64_t states[xoshiro_lanes * xoshiro_words];
    for (int lane = 0; lane < xoshiro_lanes; lane++)
        for (int word = 0; word < xoshiro_words; word++)
            states[lane * xoshiro_words + word] = xoshiro_state(seed, block, lane, word);
    return Generator(states);
}

#if defined(__AVX2__)
static_assert(kRounded == draw_columns);

GNNQLAB_FN void round_row(const float *x, int64_t columns, float steps, int levels, Generator &generator, int8_t *out) {
    for (int64_t c = 0; c < columns; c += draw_columns) {
        const Draw draw = generator.next();
        Longs words[kRegisters];
        memcpy(words, &draw, sizeof words);
        round_columns(x + c, columns - c, steps, levels, [&](int k) { return noise_of(words, k); }, out + c);
    }
}
#else
GNNQLAB_FN void round_row(const float *x, int64_t columns, float steps, int levels, Generator &generator, int8_t *out) {
    for (int64_t c = 0; c < columns; c += draw_columns) {
        const Draw draw = generator.next();
        uint16_t drawn[draw_columns];
        memcpy(drawn, &draw, sizeof drawn);
        for (int k = 0; k < std::min<int64_t>(columns - c, draw_columns); k++)
            out[c + k] = int8_t(symmetric_code(int(__builtin_rintf(x[c + k] * steps)), drawn[k], levels));
    }
}
#endif

} // namespace
} // namespace gnnqlab

using namespace gnnqlab;

// `draws` words of each of the eight lanes that begin at `states` (lane, word): (draw, lane).
GNNQLAB_EXPORT(xoshiro)(const uint64_t *states, int64_t draws, uint64_t *out) {
    Generator generator(states);
    for (int64_t i = 0; i < draws; i++) {
        const Draw draw = generator.next();
        memcpy(out + i * xoshiro_lanes, &draw, sizeof draw);
    }
    return 0;
}

// Codes and scales of all rows; returns 0, or the first row that is not finite, times 8, plus the reason.
GNNQLAB_EXPORT(quantize_xoshiro)
(const float *x, int64_t stride, int64_t rows, int64_t columns, float levels, int64_t seed, int8_t *codes,
 int64_t codes_stride, float *scales, int64_t threads) {
    const int64_t blocks = (rows + block_rows - 1) / block_rows;
    const int used = useful_threads(blocks, block_rows * columns, threads);
    int64_t refused = 0;
#pragma omp parallel for num_threads(used) schedule(static) if (used > 1)
    for (int64_t block = 0; block < blocks; block++) {
        Generator generator = generator_of_block(seed, block);
        int64_t bad = 0;
        for (int64_t i = block * block_rows; i < std::min(rows, (block + 1) * block_rows); i++) {
            const uint32_t largest = largest_bits(x + i * stride, columns);
            if (largest >= not_finite) {
                bad = earlier(bad, i * 8 + non_finite);
                continue;
            }
            const Symmetric row = symmetric(largest, levels);
            scales[i] = row.scale;
            round_row(x + i * stride, columns, row.steps, int(levels), generator, codes + i * codes_stride);
        }
        if (bad) {
#pragma omp critical(gnnqlab_refused)
            refused = earlier(refused, bad);
        }
    }
    return refused;
}
