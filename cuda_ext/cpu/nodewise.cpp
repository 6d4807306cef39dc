// Normalise, activate and drop in one pass over the rows, and the gradient in another. A row that was read lies in the
// first cache while it is read again.
#include "core/nodewise.h"

#include <cmath>

#include "cpu/export.h"
#include "cpu/passes.h"

namespace gnnqlab {
namespace {

// What of a row's affine norm every row needs, filled up with zeros to whole vectors.
struct Affine {
    std::vector<float> weight, bias;
    Affine(const float *w, const float *b, int64_t columns) {
        const size_t padded = size_t(columns + kLanes);
        if (!w) return;
        weight.assign(padded, 0.0f);
        bias.assign(padded, 0.0f);
        std::memcpy(weight.data(), w, size_t(columns) * 4);
        std::memcpy(bias.data(), b, size_t(columns) * 4);
    }
};

template <class T> struct Forward {
    const T *x;
    int64_t stride, rows, columns;
    const float *weight, *bias;
    float eps;
    Drop drop;
    T *out, *whole;
    float *stats;
    bool past;
};

// Mean and 1 / sqrt(variance + eps) of a row.
template <class T> GNNQLAB_FN void row_stats(const T *x, int64_t columns, float eps, float *stats) {
    const float mean = sum_row(columns, [&](int64_t c, auto count) { return read(x + c, count); }) / float(columns);
    const float squares = sum_row(columns, [&](int64_t c, auto count) {
        const V apart = read(x + c, count, mean) - mean;
        return apart * apart;
    });
    stats[0] = mean;
    stats[1] = 1.0f / std::sqrt(squares / float(columns) + eps);
}

template <int activation, bool norms, bool drops, class T>
void forward_row(const Forward<T> &call, const Affine &affine, int64_t i, const uint16_t *bits) {
    const T *x = call.x + i * call.stride;
    T *out = call.out + i * call.columns, *whole = call.whole ? call.whole + i * call.columns : nullptr;
    float stats[2] = {0.0f, 1.0f};
    if (norms) {
        row_stats(x, call.columns, call.eps, stats);
        call.stats[2 * i] = stats[0];
        call.stats[2 * i + 1] = stats[1];
    }
    each_vector(call.columns, [&](int64_t c, auto count) {
        V z = read(x + c, count);
        if (norms) z = (z - stats[0]) * stats[1] * load_row(affine.weight.data() + c) + load_row(affine.bias.data() + c);
        z = activated<activation, I>(z);
        if (whole) put(whole + c, count, z, call.past);
        if (drops) z = masked(z, call.drop.factor, bits + c, call.drop.threshold);
        put(out + c, count, z, call.past);
    });
}

template <class T> struct Backward {
    const T *kept;
    int64_t stride, rows, columns;
    const float *weight, *bias, *stats;
    const T *gradient, *of_whole;
    int64_t gradient_stride, of_whole_stride;
    Drop drop;
    T *out;
    float *partials;
    bool past;
};

// Gradients of one row: of what came in, and, added to the sums so far, of weight and bias.
template <int activation, bool norms, bool drops, class T>
void backward_row(const Backward<T> &call, const Affine &affine, int64_t i, const uint16_t *bits, float *scratch,
                  float *of_weight, float *of_bias) {
    const T *kept = call.kept + i * call.stride, *gradient = call.gradient + i * call.gradient_stride;
    const T *of_whole = call.of_whole ? call.of_whole + i * call.of_whole_stride : nullptr;
    T *out = call.out + i * call.columns;
    const float mean = norms ? call.stats[2 * i] : 0.0f, scale = norms ? call.stats[2 * i + 1] : 1.0f;
    const float unscaled = activation == elu_output && drops && !of_whole ? 1.0f / call.drop.factor : 1.0f;
    const auto before = [&](int64_t c, auto count, V z) {
        V g = read(gradient + c, count);
        g = drops ? masked(g, call.drop.factor, bits + c, call.drop.threshold) : g * call.drop.factor;
        if (of_whole) g += read(of_whole + c, count);
        return through<activation, I>(z, g);
    };
    if (!norms) {
        each_vector(call.columns, [&](int64_t c, auto count) {
            V z = read(kept + c, count);
            if (activation == elu_output) z = z * unscaled;
            put(out + c, count, before(c, count, z), call.past);
        });
        return;
    }
    V sum[2] = {}, along[2] = {};
    int turn = 0;
    each_vector(call.columns, [&](int64_t c, auto count) {
        const V weight = load_row(affine.weight.data() + c);
        const V normal = (read(kept + c, count, mean) - mean) * scale;
        const V g = before(c, count, normal * weight + load_row(affine.bias.data() + c));
        store_row(of_bias + c, load_row(of_bias + c) + g);
        store_row(of_weight + c, load_row(of_weight + c) + g * normal);
        store_row(scratch + c, g * weight);
        sum[turn] += g * weight;
        along[turn] += g * weight * normal;
        turn ^= 1;
    });
    const float share = sum_of(sum[0] + sum[1]) / float(call.columns);
    const float slant = sum_of(along[0] + along[1]) / float(call.columns);
    each_vector(call.columns, [&](int64_t c, auto count) {
        const V normal = (read(kept + c, count, mean) - mean) * scale;
        put(out + c, count, (load_row(scratch + c) - share - normal * slant) * scale, call.past);
    });
}

// Calls run with each truth as a constant.
template <class Run> void with(bool first, bool second, const Run &run) {
    const auto rest = [&](auto one) { second ? run(one, std::true_type()) : run(one, std::false_type()); };
    first ? rest(std::true_type()) : rest(std::false_type());
}

template <int activation, class T> void forward(const Forward<T> &call, int64_t threads) {
    const Drop &drop = call.drop;
    in_parts(call.rows, call.columns, threads, [&](int64_t begin, int64_t end) {
        Masks masks(drop.noise, call.columns);
        const Affine affine(call.weight, call.bias, call.columns);
        with(call.weight, drop.threshold, [&](auto norms, auto drops) {
            for (int64_t i = begin; i < end; i++) {
                const uint16_t *bits = drops ? masks.draw(drop.ids, i, end) : nullptr;
                forward_row<activation, norms, drops>(call, affine, i, bits);
            }
        });
    });
}

template <int activation, class T> void backward(const Backward<T> &call, int64_t threads) {
    const Drop &drop = call.drop;
    in_parts(call.rows, call.columns, threads, [&](int64_t begin, int64_t end) {
        Masks masks(drop.noise, call.columns);
        const Affine affine(call.weight, call.bias, call.columns);
        const size_t padded = size_t(call.columns + kLanes);
        std::vector<float> scratch(padded), sums(2 * padded);
        with(call.weight, drop.threshold, [&](auto norms, auto drops) {
            for (int64_t i = begin; i < end; i++) {
                const uint16_t *bits = drops ? masks.draw(drop.ids, i, end) : nullptr;
                backward_row<activation, norms, drops>(call, affine, i, bits, scratch.data(), sums.data(),
                                                             sums.data() + padded);
                if (!norms || ((i + 1) % rows_a_partial && i + 1 < end)) continue;
                float *partial = call.partials + i / rows_a_partial * 2 * call.columns;
                std::memcpy(partial, sums.data(), size_t(call.columns) * 4);
                std::memcpy(partial + call.columns, sums.data() + padded, size_t(call.columns) * 4);
                std::fill(sums.begin(), sums.end(), 0.0f);
            }
        });
    });
}

template <class Run> void by_activation(int64_t activation, const Run &run) {
    switch (activation) {
        case relu: return run(std::integral_constant<int, relu>());
        case elu: return run(std::integral_constant<int, elu>());
        case gelu: return run(std::integral_constant<int, gelu>());
        case gelu_tanh: return run(std::integral_constant<int, gelu_tanh>());
        case elu_output: return run(std::integral_constant<int, elu_output>());
        default: return run(std::integral_constant<int, identity>());
    }
}

}  // namespace
}  // namespace gnnqlab

using namespace gnnqlab;

// `whole`: where rows before the mask go too, or null. `stats`: (rows, 2), with a norm. Returns 0, or 8 * the first
// position whose id is refused + why.
GNNQLAB_EXPORT(nodewise)
(const void *x, int64_t sixteen, int64_t stride, int64_t rows, int64_t columns, const float *weight, const float *bias,
 float eps, int64_t activation, const void *ids, int64_t ids_narrow, int64_t threshold, int64_t seed, int64_t epoch,
 int64_t noise_stream, void *out, void *whole, float *stats, int64_t threads) {
    const Indices list = {ids, ids_narrow != 0};
    if (const int64_t refused = threshold ? first_refused(list, rows) : 0) return refused;
    const Drop drop = {make_noise(seed, epoch, noise_stream), list, uint32_t(threshold), 65536.0f / float(65536 - threshold)};
    const auto run = [&](auto element) {
        using T = decltype(element);
        const Forward<T> call = {(const T *)x, stride, rows, columns, weight, bias, eps, drop, (T *)out, (T *)whole, stats,
                                 out != x && goes_past((const T *)out, rows, columns) && goes_past((const T *)whole, rows, columns)};
        by_activation(activation, [&](auto kind) { forward<kind>(call, threads); });
    };
    if (sixteen) run(Bfloat16());
    else run(float());
    return 0;
}

// `kept`: the rows that came in; with relu and no norm also what came out; with elu_output what came out: before the mask
// where `of_whole` is given, else after. `partials`: (ceil(rows / 256), 2, columns),
// receives sums over rows of the gradients of weight and bias.
GNNQLAB_EXPORT(nodewise_backward)
(const void *kept, int64_t sixteen, int64_t stride, int64_t rows, int64_t columns, const float *weight,
 const float *bias, const float *stats, int64_t activation, const void *gradient, int64_t gradient_stride,
 const void *of_whole, int64_t of_whole_stride, const void *ids, int64_t ids_narrow, int64_t threshold, float factor,
 int64_t seed, int64_t epoch, int64_t noise_stream, void *out, float *partials, int64_t threads) {
    const Drop drop = {make_noise(seed, epoch, noise_stream), {ids, ids_narrow != 0}, uint32_t(threshold), factor};
    const auto run = [&](auto element) {
        using T = decltype(element);
        const Backward<T> call = {(const T *)kept, stride, rows, columns, weight, bias, stats, (const T *)gradient,
                                  (const T *)of_whole, gradient_stride, of_whole_stride, drop, (T *)out, partials,
                                  goes_past((const T *)out, rows, columns)};
        by_activation(activation, [&](auto kind) { backward<kind>(call, threads); });
    };
    if (sixteen) run(Bfloat16());
    else run(float());
    return 0;
}
