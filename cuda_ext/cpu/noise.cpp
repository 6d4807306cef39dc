// The noise itself, and dropout: one pass that draws the bits and multiplies; the gradient is the same pass.
#include "cpu/export.h"
#include "cpu/rows.h"

namespace gnnqlab {
namespace {

template <class Row>
int64_t each_row(const Noise &noise, const Indices &ids, int64_t columns, int64_t begin, int64_t end, const Row &visit) {
    RowNoise rows(noise, columns);
    int64_t refused = 0;
    for (int64_t i = begin; i < end; i++) {
        if (ids[i] < 0 || ids[i] > int64_t(UINT32_MAX)) refused = earlier(refused, i * 8 + id_too_large);
        visit(i, rows.draw(ids, i, end));
    }
    return refused;
}

template <class Span>
int64_t in_parallel(int64_t rows, int64_t columns, int64_t threads, const Span &span) {
    const int used = useful_threads(rows, columns, threads);
    int64_t refused = 0;
#pragma omp parallel for num_threads(used) schedule(static) if (used > 1)
    for (int part = 0; part < used; part++) {
        const int64_t found = span(rows * part / used, rows * (part + 1) / used);
#pragma omp critical(gnnqlab_refused)
        refused = earlier(refused, found);
    }
    return refused;
}

template <class T>
int64_t drop(const void *x, int64_t stride, int64_t rows, int64_t columns, Indices ids, int64_t threshold, float factor,
             const Noise &noise, void *out, int64_t threads) {
    return in_parallel(rows, columns, threads, [&](int64_t begin, int64_t end) {
        return each_row(noise, ids, columns, begin, end, [&](int64_t i, auto row_noise) {
            drop_row((const T *)x + i * stride, columns, factor, row_noise, uint16_t(threshold), (T *)out + i * columns);
        });
    });
}

}  // namespace
}  // namespace gnnqlab

using namespace gnnqlab;

GNNQLAB_EXPORT(uniform16)
(const void *ids, int64_t ids_narrow, int64_t rows, int64_t columns, int64_t seed, int64_t epoch, int64_t stream,
 int32_t *out, int64_t threads) {
    const Noise noise = make_noise(seed, epoch, stream);
    const Indices list = {ids, ids_narrow != 0};
    return in_parallel(rows, columns, threads, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++) {
            for (int64_t c = 0; c < columns; c += block_columns) {
                const Words words = philox(noise, uint32_t(list[i]), uint32_t(c / block_columns));
                for (int k = 0; k < block_columns && c + k < columns; k++)
                    out[i * columns + c + k] = int32_t(noise_bits(words, k));
            }
        }
        return int64_t(0);
    });
}

GNNQLAB_EXPORT(dropout)
(const void *x, int64_t sixteen, int64_t stride, int64_t rows, int64_t columns, const void *ids, int64_t ids_narrow,
 int64_t threshold, int64_t seed, int64_t epoch, int64_t stream, void *out, int64_t threads) {
    const Noise noise = make_noise(seed, epoch, stream);
    const float factor = 65536.0f / float(65536 - threshold);
    const Indices list = {ids, ids_narrow != 0};
    return sixteen ? drop<Bfloat16>(x, stride, rows, columns, list, threshold, factor, noise, out, threads)
                   : drop<float>(x, stride, rows, columns, list, threshold, factor, noise, out, threads);
}

// The stored elements of a sparse matrix: element e sits in row ids[e], column columns[e].
GNNQLAB_EXPORT(dropout_values)
(const float *values, int64_t count, const void *ids, int64_t ids_narrow, const void *columns, int64_t columns_narrow,
 int64_t threshold, int64_t seed, int64_t epoch, int64_t stream, float *out, int64_t threads) {
    const Noise noise = make_noise(seed, epoch, stream);
    const float factor = 65536.0f / float(65536 - threshold);
    const Indices id_of = {ids, ids_narrow != 0}, column_of = {columns, columns_narrow != 0};
    return in_parallel(count, 16, threads, [&](int64_t begin, int64_t end) {
        int64_t refused = 0;
        for (int64_t e = begin; e < end; e++) {
            const int64_t id = id_of[e], column = column_of[e];
            if (id < 0 || id > int64_t(UINT32_MAX)) refused = earlier(refused, e * 8 + id_too_large);
            const Words words = philox(noise, uint32_t(id), uint32_t(column / block_columns));
            const bool kept = int64_t(noise_bits(words, int(column % block_columns))) >= threshold;
            out[e] = kept ? values[e] * factor : 0.0f;
        }
        return refused;
    });
}
