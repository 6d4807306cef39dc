// Normalise, activate and drop in one pass over the rows, and the gradient in another. A row that was read lies in the
// first cache while it is read again.
#include "core/nodewise.h"

#include <cmath>
#include <vector>

#include "cpu/export.h"
#include "cpu/lanes.h"
#include "cpu/rows.h"

namespace gnnqlab {
namespace {

using V = Lanes<float, kLanes>;
using I = Lanes<uint32_t, kLanes>;
using Half = Lanes<uint16_t, kLanes>;

GNNQLAB_FN V load_row(const float *from) { return load_lanes<V>(from); }
GNNQLAB_FN V load_row(const Bfloat16 *from) {
    return same_bits<V>(__builtin_convertvector(load_lanes<Half>(from), I) << 16);
}
GNNQLAB_FN void store_row(float *to, V x) { store_lanes(to, x); }
GNNQLAB_FN void store_row(Bfloat16 *to, V x) {  // to the nearest, ties to even; NaN stays NaN
    const I bits = same_bits<I>(x), even = bits + 0x7FFFu + ((bits >> 16) & 1u), quiet = bits | 0x400000u;
    store_lanes(to, __builtin_convertvector((x != x ? quiet : even) >> 16, Half));
}
// The first values from memory, the others given.
template <class T> GNNQLAB_FN V load_some(const T *from, int64_t count, float others) {
    V all = broadcast<kLanes>(others);
    for (int lane = 0; lane < kLanes && lane < count; lane++) all[lane] = to_float(from[lane]);
    return all;
}
template <class T> GNNQLAB_FN void store_some(T *to, int64_t count, V x) {
    T all[kLanes];
    store_row(all, x);
    std::memcpy(to, all, size_t(count) * sizeof(T));
}

// Past the caches: a matrix that does not fit into them is written without being read first.
GNNQLAB_FN void put_row(Bfloat16 *to, V x, bool) { store_row(to, x); }
GNNQLAB_FN void put_row(float *to, V x, [[maybe_unused]] bool past) {
#if defined(__AVX2__)
    if (past) return stream(to, (Floats)x);
#endif
    store_row(to, x);
}
constexpr int64_t fits_in_cache = 1 << 21;  // bytes

template <class T> bool goes_past(const T *out, int64_t rows, int64_t columns) {
    const int64_t bytes = columns * int64_t(sizeof(T));
    return sizeof(T) == 4 && rows * bytes > fits_in_cache && (uintptr_t(out) | uintptr_t(bytes)) % 64 == 0;
}

GNNQLAB_FN float sum_of(V x) {
    float sum = 0.0f;
    for (int lane = 0; lane < kLanes; lane++) sum += x[lane];
    return sum;
}

// Calls visit(column, count) for each vector of a row; count is the lanes in use, a constant in all but the last.
template <class Visit> GNNQLAB_FN void each_vector(int64_t columns, const Visit &visit) {
    int64_t c = 0;
    for (; c + kLanes <= columns; c += kLanes) visit(c, std::integral_constant<int, kLanes>());
    if (c < columns) visit(c, int(columns - c));
}
template <class T> GNNQLAB_FN V read(const T *from, std::integral_constant<int, kLanes>, float = 0.0f) { return load_row(from); }
template <class T> GNNQLAB_FN V read(const T *from, int count, float others = 0.0f) { return load_some(from, count, others); }
template <class T> GNNQLAB_FN void put(T *to, std::integral_constant<int, kLanes>, V x, bool past) { put_row(to, x, past); }
template <class T> GNNQLAB_FN void put(T *to, int count, V x, bool) { store_some(to, count, x); }

// The sum over a row of some vector of each place: four sums grow side by side, because each waits for itself.
template <class Value> GNNQLAB_FN float sum_row(int64_t columns, const Value &value) {
    V sums[4] = {};
    int64_t c = 0;
    for (; c + 4 * kLanes <= columns; c += 4 * kLanes)
        for (int k = 0; k < 4; k++) sums[k] += value(c + k * kLanes, std::integral_constant<int, kLanes>());
    for (; c + kLanes <= columns; c += kLanes) sums[0] += value(c, std::integral_constant<int, kLanes>());
    if (c < columns) sums[1] += value(c, int(columns - c));
    return sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// Sixteen bits a column of one row after another, as dropout draws them.
class Masks {
  public:
    Masks(const Noise &noise, int64_t columns) : rows_(noise, columns), bits_(size_t(columns) + kLanes + block_columns), columns_(columns) {}

    __attribute__((noinline)) const uint16_t *draw(const Indices &ids, int64_t i, int64_t end) {
        return bits_of(rows_.draw(ids, i, end));
    }

  private:
    const uint16_t *bits_of(const uint16_t *drawn) { return drawn; }
    template <class At> const uint16_t *bits_of(const At &at) {
        for (int64_t c = 0; c < columns_; c += block_columns) {
            const Words words = at.block(c);
            for (int k = 0; k < block_columns; k++) bits_[size_t(c + k)] = uint16_t(noise_bits(words, k));
        }
        return bits_.data();
    }

    RowNoise rows_;
    std::vector<uint16_t> bits_;  // filled where noise comes block by block
    int64_t columns_;
};

GNNQLAB_FN V masked(V x, float factor, const uint16_t *bits, uint32_t threshold) {
    const I drawn = __builtin_convertvector(load_lanes<Half>(bits), I);
    return drawn >= threshold ? x * factor : V{};
}

struct Drop {
    Noise noise;
    Indices ids;
    uint32_t threshold;  // 0: no mask is drawn
    float factor;
};

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
    const auto before = [&](int64_t c, auto count, V z) {
        V g = read(gradient + c, count);
        g = drops ? masked(g, call.drop.factor, bits + c, call.drop.threshold) : g * call.drop.factor;
        if (of_whole) g += read(of_whole + c, count);
        return through<activation, I>(z, g);
    };
    if (!norms) {
        each_vector(call.columns, [&](int64_t c, auto count) {
            put(out + c, count, before(c, count, read(kept + c, count)), call.past);
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

// Parts of the rows on threads; each begins where a partial sum does.
template <class Part> void in_parts(int64_t rows, int64_t columns, int64_t threads, const Part &part) {
    const int64_t partials = (rows + rows_a_partial - 1) / rows_a_partial;
    const int64_t useful = useful_threads(rows, columns, threads), used = useful < partials ? useful : partials;
#pragma omp parallel for num_threads(int(used)) schedule(static) if (used > 1)
    for (int64_t number = 0; number < used; number++) {
        const int64_t begin = partials * number / used * rows_a_partial;
        const int64_t end = partials * (number + 1) / used * rows_a_partial;
        part(begin, end < rows ? end : rows);
        stream_end();
    }
}

int64_t first_refused(const Indices &ids, int64_t rows) {
    for (int64_t i = 0; i < rows; i++)
        if (ids[i] < 0 || ids[i] > int64_t(UINT32_MAX)) return i * 8 + id_too_large;
    return 0;
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

// `kept`: the rows that came in; with relu and no norm also what came out. `partials`: (ceil(rows / 256), 2, columns),
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
