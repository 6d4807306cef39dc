// Random calls of the codec, of sums of codes and of dropout in buffers of exactly the promised size, for the address sanitizer: every
// instruction set that the processor has against the scalar one.   codec_fuzz [rows] [seed]
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#define DECLARE(isa)                                                                                                   \
    int64_t gnnqlab_encode_rows_##isa(const void *, int64_t, int64_t, int64_t, int64_t, const void *, int64_t,         \
                                      int64_t, const int64_t *, const uint8_t *, int64_t, const int64_t *, uint8_t *,  \
                                      int64_t, void *, int64_t, float *, int64_t, int64_t, int64_t, int64_t);          \
    int64_t gnnqlab_decode_rows_##isa(const uint8_t *, int64_t, const void *, int64_t, const uint8_t *, int64_t,       \
                                      const int64_t *, float *, int64_t, int64_t, int64_t, const void *, int64_t,      \
                                      int64_t, int64_t, int64_t);                                                      \
    int64_t gnnqlab_dropout_##isa(const void *, int64_t, int64_t, int64_t, int64_t, const void *, int64_t, int64_t,    \
                                  int64_t, int64_t, int64_t, void *, int64_t);                                          \
    int64_t gnnqlab_locate_codes_##isa(const uint8_t *, int64_t, const void *, int64_t, const uint8_t *, int64_t,      \
                                       const int64_t *, void *, int64_t, int64_t, const int64_t *, int64_t);           \
    int64_t gnnqlab_codec_sum_##isa(const int64_t *, const int32_t *, const float *, int64_t, int64_t, int64_t,        \
                                    const float *, int64_t, int64_t, const void *, float *, int64_t, int64_t, int64_t);
extern "C" {
int gnnqlab_has_isa(const char *);
DECLARE(scalar)
#if defined(GNNQLAB_WITH_AVX2)
DECLARE(avx2)
#endif
#if defined(GNNQLAB_WITH_AVX512)
DECLARE(avx512)
#endif
}

struct Kernels {
    const char *isa;
    decltype(&gnnqlab_encode_rows_scalar) encode;
    decltype(&gnnqlab_decode_rows_scalar) decode;
    decltype(&gnnqlab_dropout_scalar) dropout;
    decltype(&gnnqlab_locate_codes_scalar) locate;
    decltype(&gnnqlab_codec_sum_scalar) sum;
};

#define KERNELS(isa)                                                                                                   \
    {#isa, gnnqlab_encode_rows_##isa, gnnqlab_decode_rows_##isa, gnnqlab_dropout_##isa, gnnqlab_locate_codes_##isa,    \
     gnnqlab_codec_sum_##isa}
static const Kernels all_kernels[] = {
    KERNELS(scalar),
#if defined(GNNQLAB_WITH_AVX2)
    KERNELS(avx2),
#endif
#if defined(GNNQLAB_WITH_AVX512)
    KERNELS(avx512),
#endif
};

static std::mt19937_64 generator;
static int64_t below(int64_t limit) { return int64_t(generator() % uint64_t(limit)); }
template <class T>
static T pick(std::initializer_list<T> values) {
    return values.begin()[below(int64_t(values.size()))];
}

static float any_value(int kind) {
    const float unit = float(below(1 << 24)) / float(1 << 23) - 1.0f;
    switch (kind) {
        case 0: return unit;
        case 1: return unit * 1e30f;
        case 2: return unit * 1e-41f;
        case 3: return below(2) ? 0.0f : -0.0f;
        case 4: return 2.5f;
        case 5: return unit * 1.7e38f;
        case 6: return 1000.0f + unit * 1e-4f;
        default: {  // any bits at all, NaN and Inf among them
            const uint32_t bits = uint32_t(generator());
            float value;
            std::memcpy(&value, &bits, 4);
            return value;
        }
    }
}

struct Result {
    int64_t encoded, decoded, dropped, located;
    std::vector<uint8_t> payload, params;
    std::vector<float> ranges, out, sums;
    std::vector<uint8_t> kept;
};

struct Case {
    int64_t columns, stride, sources, count, threads, seed, epoch, stream;
    bool sixteen, params_sixteen, accumulate, narrow, mixed;
    int width;
    std::vector<uint8_t> x, bits;
    std::vector<int64_t> rows, ids, offsets;
    std::vector<int32_t> narrow_rows;
    int64_t bytes;
};

static Case make_case() {
    Case c;
    c.columns = below(20) ? 1 + below(150) : 1 + below(2000);
    c.stride = c.columns + pick<int64_t>({0, 0, 1, 13});
    c.sources = 1 + below(12);
    c.count = below(20);
    c.threads = 1 + below(2);
    c.seed = int64_t(generator() >> 1), c.epoch = below(1ll << 32), c.stream = below(1ll << 32);
    c.sixteen = below(3) == 0, c.params_sixteen = below(2), c.accumulate = below(2);
    c.narrow = below(2), c.mixed = below(4) != 0;
    c.width = pick({1, 2, 4, 8});
    // The last row ends with its last column: reading a padded row to its stride would be out of bounds.
    const int64_t elements = c.stride * (c.sources - 1) + c.columns;
    c.x.resize(size_t(elements) * (c.sixteen ? 2 : 4));
    const int kind = int(below(9));
    for (int64_t i = 0; i < elements; i++) {
        const float value = any_value(kind == 8 ? int(below(7)) : kind);
        if (c.sixteen) std::memcpy(&c.x[size_t(2 * i)], (const char *)&value + 2, 2);
        else std::memcpy(&c.x[size_t(4 * i)], &value, 4);
    }
    c.bytes = 0;
    for (int64_t i = 0; i < c.count; i++) {
        c.rows.push_back(below(c.sources));
        c.narrow_rows.push_back(int32_t(c.rows.back()));
        c.ids.push_back(below(1ll << 32));
        c.bits.push_back(uint8_t(c.mixed ? pick({1, 2, 4, 8}) : c.width));
        c.offsets.push_back(c.bytes);
        c.bytes += (c.columns * c.bits.back() + 7) / 8;
    }
    return c;
}

static const void *rows_of(const Case &c) { return c.narrow ? (const void *)c.narrow_rows.data() : c.rows.data(); }

static Result run(const Kernels &kernels, const Case &c) {
    Result r;
    r.payload.assign(size_t(c.bytes), 0), r.params.assign(size_t(c.count) * (c.params_sixteen ? 4 : 8), 0);
    r.ranges.assign(size_t(c.count), 0.0f);
    const uint8_t *bits = c.mixed ? c.bits.data() : nullptr;
    const int64_t *offsets = c.mixed ? c.offsets.data() : nullptr;
    r.encoded = kernels.encode(c.x.data(), c.sixteen, c.sources, c.stride, c.columns, rows_of(c), c.narrow, c.count,
                               c.ids.data(), bits, c.width, offsets, r.payload.data(), c.bytes, r.params.data(),
                               c.params_sixteen, r.ranges.data(), c.seed, c.epoch, c.stream, c.threads);
    // Decode to rows 0, 1, ... of a strided matrix that ends with its last column.
    const int64_t elements = c.count ? c.stride * (c.count - 1) + c.columns : 0;
    r.out.assign(size_t(elements), 1.5f);
    r.decoded = kernels.decode(r.payload.data(), c.bytes, r.params.data(), c.params_sixteen, bits, c.width, offsets,
                               r.out.data(), c.count, c.stride, c.columns, nullptr, 0, c.count, c.accumulate, c.threads);
    // Row i of the product has one edge, to coded row count - 1 - i of a table in exact memory, with weight 1.
    std::vector<int64_t> indptr, places;
    std::vector<int32_t> columns_of;
    for (int64_t i = 0; i <= c.count; i++) indptr.push_back(i);
    for (int64_t i = 0; i < c.count; i++) places.push_back(c.count - 1 - i), columns_of.push_back(int32_t(i));
    std::vector<uint64_t> table(size_t(2 * c.count), 0);
    r.located = kernels.locate(r.payload.data(), c.bytes, r.params.data(), c.params_sixteen, bits, c.width, offsets,
                               table.data(), c.count, c.columns, places.data(), c.count);
    r.sums.assign(size_t(elements), 1.5f);
    kernels.sum(indptr.data(), columns_of.data(), nullptr, 0, c.count, c.columns, nullptr, 0, 0, table.data(),
                r.sums.data(), c.stride, c.accumulate, c.threads);
    std::vector<int64_t> ids(size_t(c.sources), 0);
    for (int64_t i = 0; i < c.sources; i++) ids[size_t(i)] = i * 7919 + c.epoch;
    r.kept.assign(size_t(c.sources * c.columns) * (c.sixteen ? 2 : 4), 0);
    r.dropped = kernels.dropout(c.x.data(), c.sixteen, c.stride, c.sources, c.columns, ids.data(), 0, 1 + c.seed % 65535,
                                c.seed, c.epoch, c.stream, r.kept.data(), c.threads);
    return r;
}

static bool equal_floats(const std::vector<float> &a, const std::vector<float> &b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * 4) == 0);
}

static const char *difference(const Case &c, const Result &a, const Result &b) {
    if (a.encoded != b.encoded) return "first refused row";
    if (a.decoded != b.decoded || a.dropped != b.dropped || a.located != b.located) return "refusals";
    if (a.encoded == 0) {  // nothing is promised for a call with a row that cannot be encoded
        if (a.payload != b.payload) return "payload";
        if (a.params != b.params) return "parameters";
        if (!equal_floats(a.ranges, b.ranges)) return "ranges";
        if (!equal_floats(a.out, b.out)) return "decoded rows";
        if (!equal_floats(a.sums, b.sums)) return "sums of codes";
    }
    for (size_t i = 0; i < a.kept.size(); i += c.sixteen ? 2 : 4) {
        uint32_t x = 0, y = 0;
        std::memcpy((char *)&x + (c.sixteen ? 2 : 0), &a.kept[i], c.sixteen ? 2 : 4);
        std::memcpy((char *)&y + (c.sixteen ? 2 : 0), &b.kept[i], c.sixteen ? 2 : 4);
        const bool both_nan = (x & 0x7FFFFFFFu) > 0x7F800000u && (y & 0x7FFFFFFFu) > 0x7F800000u;
        if (x != y && !both_nan) return "dropout";
    }
    return nullptr;
}

int main(int argc, char **argv) {
    const int64_t wanted = argc > 1 ? std::atoll(argv[1]) : 100000;
    const uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
    generator.seed(seed);
    int64_t rows = 0, calls = 0;
    for (; rows < wanted; calls++) {
        const Case c = make_case();
        const Result expected = run(all_kernels[0], c);
        for (const Kernels &kernels : all_kernels) {
            if (&kernels == all_kernels || !gnnqlab_has_isa(kernels.isa)) continue;
            if (const char *what = difference(c, run(kernels, c), expected)) {
                std::printf("%s differs: %s, call %lld of seed %llu (%lld columns, %lld rows)\n", kernels.isa, what,
                            (long long)calls, (unsigned long long)seed, (long long)c.columns, (long long)c.count);
                return 1;
            }
        }
        rows += c.count;
    }
    std::printf("%lld rows in %lld calls: no difference\n", (long long)rows, (long long)calls);
    return 0;
}
