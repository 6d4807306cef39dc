// The rotated codec on rows that lie in the first cache: signs, Hadamard windows, codes, and back.
#include <vector>

#include "cpu/export.h"
#include "cpu/row_look.h"

namespace gnnqlab {
namespace {

constexpr int64_t rows_ahead = 4;

// Room for one row and its signs.
struct Desk {
    std::vector<float> y;
    std::vector<uint32_t> signs;
    explicit Desk(int64_t columns) : y(columns + lanes), signs(columns / 32 + 8) {}
};

void draw_signs(Desk &desk, const Noise &noise, uint32_t id, int64_t number, int64_t columns) {
    for (int64_t block = 0; 128 * block < columns; block++) {
        const Words drawn = sign_block(noise, id, number, block);
        memcpy(desk.signs.data() + 4 * block, drawn.w, sizeof drawn.w);
    }
}

GNNQLAB_FN uint32_t signs_at(const Desk &desk, int64_t column) {
    uint64_t two;
    memcpy(&two, desk.signs.data() + column / 32, sizeof two);
    return uint32_t(two >> (column % 32));
}

void flip_signs(Desk &desk, int64_t first, int64_t count) {
    float *y = desk.y.data() + first;
    int64_t c = 0;
    for (; c + lanes <= count; c += lanes) store(y + c, flip(load(y + c), signs_at(desk, first + c)));
    for (; c < count; c++)
        if (signs_at(desk, first + c) & 1) y[c] = -y[c];
}

// Where the signs of a window belong: before its first stage on the way there, after its last on the way back.
enum class Signs { none, first, last };

// All stages of up to 16 vectors, which stay in registers.
template <int count, Signs when>
GNNQLAB_FN void small_window(float *y, Lane factor, const Desk &desk, int64_t column) {
    Lane v[count];
#pragma GCC unroll 16
    for (int k = 0; k < count; k++) {
        v[k] = load(y + k * lanes);
        if (when == Signs::first) v[k] = flip(v[k], signs_at(desk, column + k * lanes));
        if (lanes > 1) v[k] = butterfly<1>(v[k]);
        if (lanes > 2) v[k] = butterfly<2>(v[k]);
        if (lanes > 4) v[k] = butterfly<4>(v[k]);
        if (lanes > 8) v[k] = butterfly<8>(v[k]);
    }
#pragma GCC unroll 4
    for (int stride = 1; stride < count; stride *= 2)
#pragma GCC unroll 16
        for (int k = 0; k < count; k++)
            if (!(k & stride)) {
                const Lane low = v[k], high = v[k + stride];
                v[k] = plus(low, high), v[k + stride] = minus(low, high);
            }
#pragma GCC unroll 16
    for (int k = 0; k < count; k++) {
        v[k] = times(v[k], factor);
        if (when == Signs::last) v[k] = flip(v[k], signs_at(desk, column + k * lanes));
        store(y + k * lanes, v[k]);
    }
}

void plain_window(float *y, int64_t size, float factor) {
    for (int64_t stride = 1; stride < size; stride *= 2)
        for (int64_t k = 0; k < size; k++)
            if (!(k & stride)) {
                const float low = y[k], high = y[k + stride];
                y[k] = low + high, y[k + stride] = low - high;
            }
    for (int64_t k = 0; k < size; k++) y[k] *= factor;
}

// A window of up to 16 vectors with its signs; false if it is wider or narrower than that.
template <Signs when>
bool whole_window(Desk &desk, int64_t first, int64_t size) {
    float *y = desk.y.data() + first;
    const Lane factor = all(window_scale(size));
    switch (size / lanes) {
        case 1: return small_window<1, when>(y, factor, desk, first), true;
        case 2: return small_window<2, when>(y, factor, desk, first), true;
        case 4: return small_window<4, when>(y, factor, desk, first), true;
        case 8: return small_window<8, when>(y, factor, desk, first), true;
        case 16: return small_window<16, when>(y, factor, desk, first), true;
    }
    return false;
}

void wide_window(Desk &desk, int64_t first, int64_t size) {
    float *y = desk.y.data() + first;
    const float factor = window_scale(size);
    constexpr int64_t block = 16 * lanes;
    if (size < lanes) return plain_window(y, size, factor);
    for (int64_t k = 0; k < size; k += block) small_window<16, Signs::none>(y + k, all(1.0f), desk, 0);
    for (int64_t stride = block; stride < size; stride *= 2) {
        const Lane last = all(2 * stride == size ? factor : 1.0f);
        for (int64_t k = 0; k < size; k += 2 * stride)
            for (int64_t c = k; c < k + stride; c += lanes) {
                const Lane low = load(y + c), high = load(y + c + stride);
                store(y + c, times(plus(low, high), last));
                store(y + c + stride, times(minus(low, high), last));
            }
    }
}

void turn(Desk &desk, const Pass &pass, const Noise &noise, uint32_t id, int64_t columns, bool back) {
    draw_signs(desk, noise, id, pass.number, columns);
    for (int64_t k = 0; k < pass.windows; k++) {
        const int64_t first = pass.first + k * pass.size;
        if (back ? whole_window<Signs::last>(desk, first, pass.size)
                 : whole_window<Signs::first>(desk, first, pass.size))
            continue;
        if (!back) flip_signs(desk, first, pass.size);
        wide_window(desk, first, pass.size);
        if (back) flip_signs(desk, first, pass.size);
    }
}

// Codes of a rotated row; returns the product of the row with its levels.
template <int b>
double write_codes(const float *y, int64_t columns, double energy, uint8_t *out) {
    const Thresholds row = row_thresholds(b, energy, columns);
    const Coder<b> coder(row);
    Sums products;
    int64_t c = 0;
    if (lanes * b >= 8)
        for (; c + lanes <= columns; c += lanes) {
            const Lane v = load(y + c);
            Lane level;
            const uint64_t packed = coder.codes(v, &level);
            memcpy(out + c * b / 8, &packed, lanes * b / 8);
            products.add(c, v, level);
        }
    double sums[sum_lanes];
    products.write(sums);
    out += c * b / 8;
    uint32_t packed = 0;
    int held = 0;  // bits of it
    for (; c < columns; c++) {
        const int code = rotated_code(b, y[c], row);
        sums[c % sum_lanes] += double(y[c]) * double(code_level(b, code));
        packed |= uint32_t(code) << held;
        held += b;
        if (held >= 8) *out++ = uint8_t(packed), packed >>= 8, held -= 8;
    }
    if (held) *out = uint8_t(packed);
    return total(sums);
}

template <int b>
void read_codes(const uint8_t *in, int64_t columns, float *y) {
    const Coder<b> coder;
    int64_t c = 0;
    if (lanes * b >= 8)
        for (; c + lanes <= columns; c += lanes) {
            uint64_t packed = 0;
            memcpy(&packed, in + c * b / 8, lanes * b / 8);
            store(y + c, coder.levels(packed));
        }
    for (; c < columns; c++) y[c] = code_level(b, code_at(b, in, c));
}

struct Places {
    int64_t limit, columns;
    const int64_t *rows, *ids;
    const uint8_t *bits;  // or null: `width` for all
    int64_t width;
    const int64_t *offsets;  // or null: one after another
    int64_t payload_bytes;

    int64_t width_of(int64_t i) const { return bits ? bits[i] : width; }
    int64_t offset_of(int64_t i) const { return offsets ? offsets[i] : i * row_bytes(columns, width_of(i)); }
    int64_t refusal(int64_t i) const {
        if (rows[i] < 0 || rows[i] >= limit) return no_such_row;
        if (uint64_t(ids[i]) > UINT32_MAX) return id_too_large;
        if (!is_rotated_width(width_of(i))) return no_such_width;
        const int64_t offset = offset_of(i);
        if (offset < 0 || offset > payload_bytes - row_bytes(columns, width_of(i))) return outside_payload;
        return 0;
    }
};

// Writes one row; false if it cannot be encoded.
bool encode_row(Desk &desk, const float *x, const Places &places, int64_t i, const Passes &passes, const Noise &noise,
                uint8_t *out, float *scale, float *spread) {
    const int64_t columns = places.columns;
    const int b = int(places.width_of(i));
    float *y = desk.y.data();
    const Found found = look(x, columns, y);
    const float lowest = found.lowest + 0.0f;  // -0 becomes +0
    const float range = found.highest + 0.0f - lowest;
    double product = 1.0;
    if (found.finite && range >= smallest_range) {
        for (int k = 0; k < passes.count; k++) turn(desk, passes.of[k], noise, uint32_t(places.ids[i]), columns, false);
        switch (b) {
            case 1: product = write_codes<1>(y, columns, found.energy, out); break;
            case 2: product = write_codes<2>(y, columns, found.energy, out); break;
            case 3: product = write_codes<3>(y, columns, found.energy, out); break;
            default: product = write_codes<4>(y, columns, found.energy, out);
        }
    }
    const RotatedRow row = rotated_row(lowest, range, found.finite, found.energy, product);
    if (!row.finite) return false;
    if (row.constant) {
        memset(out, 0, row_bytes(columns, b));
        out[0] = lowest < 0.0f;
    }
    *scale = row.scale;
    spread[0] = row.constant ? 0.0f : float(sqrt(found.energy));
    spread[1] = range;
    return true;
}

void decode_row(Desk &desk, const uint8_t *in, const Places &places, int64_t i, const Passes &passes,
                const Noise &noise, float scale, float *out, bool accumulate) {
    const int64_t columns = places.columns, b = places.width_of(i);
    float *y = desk.y.data();
    if (scale > 0.0f) {
        switch (b) {
            case 1: read_codes<1>(in, columns, y); break;
            case 2: read_codes<2>(in, columns, y); break;
            case 3: read_codes<3>(in, columns, y); break;
            default: read_codes<4>(in, columns, y);
        }
        for (int k = passes.count; k-- > 0;) turn(desk, passes.of[k], noise, uint32_t(places.ids[i]), columns, true);
    } else {
        const float value = (in[0] & ((1 << b) - 1)) == 1 ? 1.0f : -1.0f;
        for (int64_t c = 0; c < columns; c++) y[c] = value;
    }
    int64_t c = 0;
    for (; c + lanes <= columns; c += lanes) {
        const Lane v = times(load(y + c), all(scale));
        store(out + c, accumulate ? plus(load(out + c), v) : v);
    }
    for (; c < columns; c++) out[c] = accumulate ? out[c] + y[c] * scale : y[c] * scale;
}

constexpr int64_t none = INT64_MAX;

}  // namespace
}  // namespace gnnqlab

using namespace gnnqlab;

// Codes, scales and spreads (norm, range) of x[rows]; returns 0, or 8 * the first position that is refused + why.
GNNQLAB_EXPORT(encode_rotated)
(const float *x, int64_t x_rows, int64_t x_stride, int64_t columns, const int64_t *rows, int64_t count,
 const int64_t *ids, const uint8_t *bits, int64_t width, const int64_t *offsets, uint8_t *payload,
 int64_t payload_bytes, float *scales, float *spreads, int64_t rotations, int64_t seed, int64_t epoch, int64_t stream,
 int64_t threads) {
    const Places places = {x_rows, columns, rows, ids, bits, width, offsets, payload_bytes};
    const Passes passes = row_passes(columns, rotations);
    const Noise noise = make_noise(seed, epoch, stream);
    int64_t first = none;
#pragma omp parallel num_threads(threads) reduction(min : first) if (threads > 1 && count * columns > 65536)
    {
        Desk desk(columns);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < count; i++) {
            if (i + rows_ahead < count && uint64_t(rows[i + rows_ahead]) < uint64_t(x_rows)) {
                const char *ahead = (const char *)(x + rows[i + rows_ahead] * x_stride);
                for (int64_t byte = 0; byte < 4 * columns; byte += 64) __builtin_prefetch(ahead + byte, 0, 2);
            }
            int64_t reason = places.refusal(i);
            if (!reason) {
                const bool fits = encode_row(desk, x + rows[i] * x_stride, places, i, passes, noise,
                                             payload + places.offset_of(i), scales + i, spreads + 2 * i);
                if (!fits) reason = non_finite;
            }
            if (reason && i * 8 + reason < first) first = i * 8 + reason;
        }
    }
    return first == none ? 0 : first;
}

// Rows into out[rows], or added there; returns as above.
GNNQLAB_EXPORT(decode_rotated)
(const uint8_t *payload, int64_t payload_bytes, const float *scales, const uint8_t *bits, int64_t width,
 const int64_t *offsets, float *out, int64_t out_rows, int64_t out_stride, int64_t columns, const int64_t *rows,
 const int64_t *ids, int64_t count, int64_t accumulate, int64_t rotations, int64_t seed, int64_t epoch,
 int64_t stream, int64_t threads) {
    const Places places = {out_rows, columns, rows, ids, bits, width, offsets, payload_bytes};
    const Passes passes = row_passes(columns, rotations);
    const Noise noise = make_noise(seed, epoch, stream);
    int64_t first = none;
#pragma omp parallel num_threads(threads) reduction(min : first) if (threads > 1 && count * columns > 65536)
    {
        Desk desk(columns);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < count; i++) {
            const int64_t reason = places.refusal(i);
            if (!reason)
                decode_row(desk, payload + places.offset_of(i), places, i, passes, noise, scales[i],
                           out + rows[i] * out_stride, accumulate != 0);
            else if (i * 8 + reason < first) first = i * 8 + reason;
        }
    }
    return first == none ? 0 : first;
}
