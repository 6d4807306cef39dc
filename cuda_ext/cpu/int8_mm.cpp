// Dense products of int8 codes with 32-bit sums; scales, bias and what is added to meet the sums in the cache.
#include <algorithm>
#include <vector>

#include "cpu/export.h"
#include "cpu/int8_tile.h"

using namespace gnnqlab;

namespace {

// Words of four codes: word k of column j is codes 4 k to 4 k + 3 of column j, zeros beyond the end.
struct Factor {
    const int8_t *codes;
    int64_t stride, terms, columns;
    bool turned; // stored by columns: column j is row j
};

// One panel of T::columns columns from `first` on; `flip` shifts codes by 128 if the tile needs it.
template <class T>
void pack_panel(const Factor &b, int64_t first, int64_t from, int64_t words, uint32_t flip, int8_t *panel) {
    const int64_t width = std::min<int64_t>(T::columns, b.columns - first);
    for (int64_t k = 0; k < words; k++) {
        uint32_t *out = (uint32_t *)(panel + k * 4 * T::columns);
        const int64_t term = from + 4 * k, left = std::min<int64_t>(4, b.terms - term);
        if (b.turned) {
            for (int64_t j = 0; j < width; j++) {
                uint32_t word = 0;
                memcpy(&word, b.codes + (first + j) * b.stride + term, size_t(left));
                out[j] = word ^ flip;
            }
        } else {
            static const int8_t zeros[T::columns] = {};
            const uint8_t *row[4];
            for (int64_t i = 0; i < 4; i++)
                row[i] = (const uint8_t *)(i < left ? b.codes + (term + i) * b.stride + first : zeros);
            for (int64_t j = 0; j < width; j++)
                out[j] = (uint32_t(row[0][j]) | uint32_t(row[1][j]) << 8 | uint32_t(row[2][j]) << 16 |
                          uint32_t(row[3][j]) << 24) ^ flip;
        }
        for (int64_t j = width; j < T::columns; j++) out[j] = flip;
    }
}

template <class T> constexpr uint32_t kFlip = T::shift ? 0x80808080u : 0u;

struct Product {
    const int8_t *a;
    int64_t a_stride;
    const float *a_scales;
    float b_scale;
    int64_t rows, columns, terms;
    const float *bias;
    float *out;
    int64_t out_stride;
    bool accumulate;
    uint32_t *largest; // bits of the largest magnitude of what is delivered; a NaN is larger than all
};

uint32_t magnitude_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & 0x7fffffffu;
}

int32_t sum_of(const int8_t *codes, int64_t count) {
    int32_t sum = 0;
    for (int64_t k = 0; k < count; k++) sum += codes[k];
    return sum;
}

// Sums to float32: the shift out, scales in, bias and what was there added.
template <class T> void deliver(const Product &y, const int32_t *sums, int32_t shift, int64_t row, int64_t first) {
    const int64_t width = std::min<int64_t>(T::columns, y.columns - first);
    const float scale = y.a_scales[row] * y.b_scale;
    float *out = y.out + row * y.out_stride + first;
    const float *bias = y.bias ? y.bias + first : nullptr;
    const auto run = [&](int64_t columns) __attribute__((always_inline)) {
        if (bias && y.accumulate)
            for (int64_t j = 0; j < columns; j++) out[j] += float(sums[j] - shift) * scale + bias[j];
        else if (bias)
            for (int64_t j = 0; j < columns; j++) out[j] = float(sums[j] - shift) * scale + bias[j];
        else if (y.accumulate)
            for (int64_t j = 0; j < columns; j++) out[j] += float(sums[j] - shift) * scale;
        else
            for (int64_t j = 0; j < columns; j++) out[j] = float(sums[j] - shift) * scale;
    };
    if (width == T::columns) run(T::columns);
    else run(width);
}

// Of what was delivered to some rows, while it is in the cache. Apart from it, whose loop is to stay in registers.
__attribute__((noinline)) uint32_t largest_of(const float *out, int64_t stride, int64_t rows, int64_t columns) {
    uint32_t most = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) most = std::max(most, magnitude_bits(out[i * stride + j]));
    return most;
}

template <class T> int64_t rows_by_panels(const Product &y, const Factor &b, int64_t threads) {
    const int64_t words = (y.terms + 3) / 4, whole = y.terms / 4, rest = y.terms % 4;
    const int64_t panels = (y.columns + T::columns - 1) / T::columns, panel_bytes = words * 4 * T::columns;
    std::vector<int8_t> packed(size_t(panels * panel_bytes) + 64);
    int8_t *start = (int8_t *)((uintptr_t(packed.data()) + 63) & ~uintptr_t(63));
    constexpr int64_t kBlock = 8 * T::rows; // rows whose words stay in the first cache
    const int64_t blocks = (y.rows + kBlock - 1) / kBlock;
    const bool many = threads > 1 && y.rows * y.columns * y.terms > (int64_t(1) << 20);
#pragma omp parallel num_threads(threads) if (many)
    {
        uint32_t most = 0;
#pragma omp for schedule(static)
        for (int64_t panel = 0; panel < panels; panel++)
            pack_panel<T>(b, panel * T::columns, 0, words, kFlip<T>, start + panel * panel_bytes);
#pragma omp for schedule(dynamic, 4)
        for (int64_t block = 0; block < blocks; block++) {
            const int64_t begin = block * kBlock, end = std::min(begin + kBlock, y.rows);
            int32_t shift[kBlock] = {}, last[kBlock] = {};
            for (int64_t row = begin; row < end; row++) {
                const int8_t *codes = y.a + row * y.a_stride;
                if (T::shift) shift[row - begin] = T::shift * sum_of(codes, y.terms);
                memcpy(last + (row - begin), codes + 4 * whole, size_t(rest));
            }
            for (int64_t panel = 0; panel < panels; panel++)
                for (int64_t row = begin; row < end; row += T::rows) {
                    const int count = int(std::min<int64_t>(T::rows, end - row));
                    alignas(64) int32_t sums[T::rows * T::columns];
                    const TileRows a = {y.a + row * y.a_stride, y.a_stride, 4, whole, rest ? last + (row - begin) : nullptr};
                    multiply_tile<T>(count, a, start + panel * panel_bytes, sums);
                    for (int r = 0; r < count; r++)
                        deliver<T>(y, sums + r * T::columns, shift[row - begin + r], row + r, panel * T::columns);
                }
            if (y.largest)
                most = std::max(most, largest_of(y.out + begin * y.out_stride, y.out_stride, end - begin, y.columns));
        }
        if (y.largest) {
#pragma omp critical(gnnqlab_largest)
            *y.largest = std::max(*y.largest, most);
        }
    }
    return 0;
}

// Sums over rows: a share of them for each thread, packed piece by piece, in 32-bit sums that move into 64-bit ones before
// they could overflow. Integers, so their order does not matter.
constexpr int64_t kPiece = 256;        // rows whose panels stay in the second cache
constexpr int64_t kMostTerms = 65280;  // times 255 * 127, less than 2^31

template <class T> struct Shares {
    const Factor a, b;
    int64_t a_panels = (a.columns + T::columns - 1) / T::columns, b_panels = (b.columns + T::columns - 1) / T::columns;
    int64_t width = b_panels * T::columns;

    void add_piece(int64_t from, int64_t to, int8_t *scratch, int32_t *sums) const {
        const int64_t words = (to - from + 3) / 4, bytes = words * 4 * T::columns;
        int8_t *packed_a = scratch, *packed_b = scratch + a_panels * bytes;
        const Factor a_part = {a.codes, a.stride, to, a.columns, false}, b_part = {b.codes, b.stride, to, b.columns, false};
        for (int64_t panel = 0; panel < a_panels; panel++)
            pack_panel<T>(a_part, panel * T::columns, from, words, 0, packed_a + panel * bytes);
        for (int64_t panel = 0; panel < b_panels; panel++)
            pack_panel<T>(b_part, panel * T::columns, from, words, kFlip<T>, packed_b + panel * bytes);
        for (int64_t panel = 0; panel < b_panels; panel++)
            for (int64_t a_panel = 0; a_panel < a_panels; a_panel++) {
                const int64_t first = a_panel * T::columns, left = std::min<int64_t>(T::columns, a.columns - first);
                for (int64_t row = 0; row < left; row += T::rows) {
                    const int count = int(std::min<int64_t>(T::rows, left - row));
                    const TileRows rows = {packed_a + a_panel * bytes + 4 * row, 4, 4 * T::columns, words, nullptr};
                    alignas(64) int32_t tile[T::rows * T::columns];
                    multiply_tile<T>(count, rows, packed_b + panel * bytes, tile);
                    for (int r = 0; r < count; r++) {
                        int32_t *total = sums + (first + row + r) * width + panel * T::columns;
                        for (int j = 0; j < T::columns; j++) total[j] += tile[r * T::columns + j];
                    }
                }
            }
    }
};

template <class T>
int64_t over_rows(const Factor &a, const Factor &b, float scale, float *out, int64_t out_stride, bool accumulate,
                  int64_t threads) {
    const Shares<T> shares = {a, b};
    const int64_t terms = a.terms, size = a.columns * shares.width;
    const int64_t pieces = (terms + kPiece - 1) / kPiece;
    const int used = int(std::max<int64_t>(1, std::min(threads, pieces)));
    std::vector<int64_t> totals(size_t(size), 0), of_columns(size_t(a.columns), 0);
#pragma omp parallel for schedule(static, 1) num_threads(used) if (used > 1)
    for (int part = 0; part < used; part++) {
        std::vector<int32_t> sums(size_t(size), 0), columns(size_t(a.columns), 0);
        std::vector<int8_t> scratch(size_t((shares.a_panels + shares.b_panels) * kPiece * T::columns) + 64);
        int8_t *start = (int8_t *)((uintptr_t(scratch.data()) + 63) & ~uintptr_t(63));
        int64_t held = 0;
        const auto move = [&] {
#pragma omp critical(gnnqlab_totals)
            {
                for (int64_t i = 0; i < size; i++) totals[size_t(i)] += sums[size_t(i)];
                for (int64_t m = 0; m < a.columns; m++) of_columns[size_t(m)] += columns[size_t(m)];
            }
            std::fill(sums.begin(), sums.end(), 0);
            std::fill(columns.begin(), columns.end(), 0);
            held = 0;
        };
        for (int64_t piece = pieces * part / used; piece < pieces * (part + 1) / used; piece++) {
            const int64_t from = piece * kPiece, to = std::min(from + kPiece, terms);
            if (held + kPiece > kMostTerms) move();
            shares.add_piece(from, to, start, sums.data());
            if (T::shift)
                for (int64_t k = from; k < to; k++)
                    for (int64_t m = 0; m < a.columns; m++) columns[size_t(m)] += a.codes[k * a.stride + m];
            held += to - from;
        }
        move();
    }
    for (int64_t m = 0; m < a.columns; m++)
        for (int64_t n = 0; n < b.columns; n++) {
            const int64_t sum = totals[size_t(m * shares.width + n)] - T::shift * of_columns[size_t(m)];
            const float value = float(double(sum) * double(scale));
            float *to = out + m * out_stride + n;
            *to = accumulate ? *to + value : value;
        }
    return 0;
}

} // namespace

GNNQLAB_EXPORT(int8_instructions)() { return instructions(); }

// out[m, n] = or += a_scales[m] b_scale sum_k a[m, k] b[k, n] + bias[n]; `turned`: b is stored (columns, terms). `largest`, if
// it is asked for, rises to the bits of the largest magnitude of out: the scale of whoever makes codes of it next.
GNNQLAB_EXPORT(int8_mm)
(const int8_t *a, int64_t a_stride, const float *a_scales, const int8_t *b, int64_t b_stride, float b_scale,
 int64_t turned, int64_t rows, int64_t columns, int64_t terms, const float *bias, float *out, int64_t out_stride,
 int64_t accumulate, uint32_t *largest, int64_t threads) {
    if (rows == 0 || columns == 0) return 0;
    const Product y = {a, a_stride, a_scales, b_scale, rows, columns, terms, bias, out, out_stride, accumulate != 0, largest};
    const Factor factor = {b, b_stride, terms, columns, turned != 0};
    return with_tile([&](auto tile) { return rows_by_panels<decltype(tile)>(y, factor, threads); });
}

// out[m, n] = or += scale sum_k a[k, m] b[k, n].
GNNQLAB_EXPORT(int8_mm_transposed)
(const int8_t *a, int64_t a_stride, const int8_t *b, int64_t b_stride, float scale, int64_t rows, int64_t columns,
 int64_t terms, float *out, int64_t out_stride, int64_t accumulate, int64_t threads) {
    if (rows == 0 || columns == 0) return 0;
    const Factor left = {a, a_stride, terms, rows, false}, right = {b, b_stride, terms, columns, false};
    return with_tile([&](auto tile) {
        return over_rows<decltype(tile)>(left, right, scale, out, out_stride, accumulate != 0, threads);
    });
}
