#include "core/noise.h"

#include "cpu/export.h"

using namespace gnnqlab;

GNNQLAB_EXPORT(uniform16)
(const void *ids, int64_t rows, int64_t columns, int64_t seed, int64_t epoch, int64_t stream, int32_t *out) {
    const Noise noise = make_noise(seed, epoch, stream);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < columns; c++)
            out[i * columns + c] = noise_bits(philox(noise, uint32_t(((const int64_t *)ids)[i]), c / 8), c);
    return 0;
}
