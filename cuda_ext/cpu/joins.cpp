// Layers side by side, or the largest of them, and dropout, in one pass: every row of every layer is read once, the join
// written once.
#include "core/joins.h"

#include "cpu/export.h"
#include "cpu/passes.h"

namespace gnnqlab {
namespace {

using Bytes = Lanes<uint8_t, kLanes>;

struct Layers {
    const float *const *rows;
    const int64_t *strides;
    int64_t count;
    const float *row(int64_t layer, int64_t i) const { return rows[layer] + i * strides[layer]; }
};

GNNQLAB_FN void put_bytes(uint8_t *to, std::integral_constant<int, kLanes>, I x) {
    store_lanes(to, __builtin_convertvector(x, Bytes));
}
GNNQLAB_FN void put_bytes(uint8_t *to, int count, I x) {
    for (int lane = 0; lane < count; lane++) to[lane] = uint8_t(x[lane]);
}
GNNQLAB_FN I read_bytes(const uint8_t *from, std::integral_constant<int, kLanes>) {
    return __builtin_convertvector(load_lanes<Bytes>(from), I);
}
GNNQLAB_FN I read_bytes(const uint8_t *from, int count) {
    I all = {};
    for (int lane = 0; lane < count; lane++) all[lane] = from[lane];
    return all;
}

// Calls row(i, bits) for every row; bits are null where nothing is dropped. Noise is of `columns` columns.
template <class Row> void each_row(int64_t rows, int64_t columns, const Drop &drop, int64_t threads, const Row &row) {
    in_parts(rows, columns, threads, [&](int64_t begin, int64_t end) {
        Masks masks(drop.noise, columns);
        for (int64_t i = begin; i < end; i++) row(i, drop.threshold ? masks.draw(drop.ids, i, end) : nullptr);
    });
}

template <bool drops>
void side_by_side(const Layers &layers, int64_t i, int64_t columns, const Drop &drop, const uint16_t *bits, float *out,
                  bool past) {
    for (int64_t layer = 0; layer < layers.count; layer++, out += columns) {
        const float *x = layers.row(layer, i);
        const uint16_t *of_layer = drops ? bits + layer * columns : nullptr;
        each_vector(columns, [&](int64_t c, auto count) {
            V z = read(x + c, count);
            if (drops) z = masked(z, drop.factor, of_layer + c, drop.threshold);
            put(out + c, count, z, past);
        });
    }
}

template <bool drops>
void largest(const Layers &layers, int64_t i, int64_t columns, const Drop &drop, const uint16_t *bits, float *out,
             uint8_t *from, bool past) {
    each_vector(columns, [&](int64_t c, auto count) {
        V best = read(layers.row(0, i) + c, count);
        I which = {};
        for (int64_t layer = 1; layer < layers.count; layer++)
            take_larger(read(layers.row(layer, i) + c, count), which * 0u + uint32_t(layer), &best, &which);
        put_bytes(from + c, count, which);
        put(out + c, count, drops ? masked(best, drop.factor, bits + c, drop.threshold) : best, past);
    });
}

template <bool drops>
void of_largest(const float *gradient, const uint8_t *from, float *const *outs, int64_t num_layers, int64_t at,
                int64_t columns, const Drop &drop, const uint16_t *bits, bool past) {
    each_vector(columns, [&](int64_t c, auto count) {
        V g = read(gradient + c, count);
        if (drops) g = masked(g, drop.factor, bits + c, drop.threshold);
        const I which = read_bytes(from + c, count);
        for (int64_t layer = 0; layer < num_layers; layer++)
            put(outs[layer] + at + c, count, which == uint32_t(layer) ? g : V{}, past);
    });
}

Drop make_drop(const void *ids, int64_t narrow, int64_t threshold, int64_t seed, int64_t epoch, int64_t noise_stream) {
    const float factor = 65536.0f / float(65536 - threshold);
    return {make_noise(seed, epoch, noise_stream), {ids, narrow != 0}, uint32_t(threshold), factor};
}

}  // namespace
}  // namespace gnnqlab

using namespace gnnqlab;

// `layers`: addresses of the first rows of `num_layers` matrices (rows, columns), whose rows are `strides` apart. `out`:
// (rows, num_layers * columns). Returns 0, or 8 * the first position whose id is refused + why.
GNNQLAB_EXPORT(join_columns)
(const float *const *layers, const int64_t *strides, int64_t num_layers, int64_t rows, int64_t columns, const void *ids,
 int64_t ids_narrow, int64_t threshold, int64_t seed, int64_t epoch, int64_t noise_stream, float *out, int64_t threads) {
    const Drop drop = make_drop(ids, ids_narrow, threshold, seed, epoch, noise_stream);
    if (const int64_t refused = threshold ? first_refused(drop.ids, rows) : 0) return refused;
    const Layers call = {layers, strides, num_layers};
    const bool past = goes_past(out, rows * num_layers, columns);
    const int64_t width = num_layers * columns;
    each_row(rows, width, drop, threads, [&](int64_t i, const uint16_t *bits) {
        if (bits) side_by_side<true>(call, i, columns, drop, bits, out + i * width, past);
        else side_by_side<false>(call, i, columns, drop, bits, out + i * width, past);
    });
    return 0;
}

// The same, and `out`, `from`: (rows, columns), where `from` receives the layer that each element came from.
GNNQLAB_EXPORT(join_largest)
(const float *const *layers, const int64_t *strides, int64_t num_layers, int64_t rows, int64_t columns, const void *ids,
 int64_t ids_narrow, int64_t threshold, int64_t seed, int64_t epoch, int64_t noise_stream, float *out, uint8_t *from,
 int64_t threads) {
    const Drop drop = make_drop(ids, ids_narrow, threshold, seed, epoch, noise_stream);
    if (const int64_t refused = threshold ? first_refused(drop.ids, rows) : 0) return refused;
    const Layers call = {layers, strides, num_layers};
    const bool past = goes_past(out, rows, columns);
    each_row(rows, columns, drop, threads, [&](int64_t i, const uint16_t *bits) {
        const int64_t at = i * columns;
        if (bits) largest<true>(call, i, columns, drop, bits, out + at, from + at, past);
        else largest<false>(call, i, columns, drop, bits, out + at, from + at, past);
    });
    return 0;
}

// `outs`: addresses of `num_layers` matrices (rows, columns), which receive the gradients of the layers.
GNNQLAB_EXPORT(join_largest_backward)
(const float *gradient, int64_t stride, const uint8_t *from, int64_t num_layers, int64_t rows, int64_t columns,
 const void *ids, int64_t ids_narrow, int64_t threshold, int64_t seed, int64_t epoch, int64_t noise_stream,
 float *const *outs, int64_t threads) {
    const Drop drop = make_drop(ids, ids_narrow, threshold, seed, epoch, noise_stream);
    bool past = true;
    for (int64_t layer = 0; layer < num_layers; layer++) past = past && goes_past(outs[layer], rows, columns);
    each_row(rows, columns, drop, threads, [&](int64_t i, const uint16_t *bits) {
        const float *g = gradient + i * stride;
        const int64_t at = i * columns;
        if (bits) of_largest<true>(g, from + at, outs, num_layers, at, columns, drop, bits, past);
        else of_largest<false>(g, from + at, outs, num_layers, at, columns, drop, bits, past);
    });
    return 0;
}
