// Encode: gather rows, find their range, round stochastically, pack.
#include "cpu/export.h"
#include "cpu/rows.h"

namespace gnnqlab {
namespace {

struct EncodeCall {
    const void *x;
    int64_t x_rows, x_stride, columns;
    Indices rows;
    int64_t count;
    const int64_t *ids;
    const uint8_t *bits;  // or null: `width` for all
    int64_t width;
    const int64_t *offsets;  // or null: one after another
    uint8_t *payload;
    int64_t payload_bytes;
    void *params;
    bool sixteen;
    float *ranges;  // or null
    Noise noise;
};

constexpr int most_rows_a_batch = 16, most_rows_ahead = 64, rows_looked_up = 16;
constexpr int64_t batch_bytes = 8192, bytes_ahead = 16384, page_bytes = 4096, line_bytes = 64;

// Rows on their way from memory, counted from the first of a span. Of some rows at once the first line is asked for, and
// the last one if another page has it: their pages are looked up side by side, while one look-up amid the arithmetic
// would hold everything up. The other lines follow row by row. What comes after the last row is the first one of x.
template <class T>
class Upcoming {
  public:
    Upcoming(const EncodeCall &call, int64_t begin, int64_t count)
        : call_(call), bytes_(call.columns * int64_t(sizeof(T))), begin_(begin), count_(count) {
        const bool whole = (uintptr_t(call.x) | uintptr_t(call.x_stride) * sizeof(T)) % line_bytes == 0;
        reach_ = bytes_ + (whole ? 0 : line_bytes - 1);  // a row that begins within a line ends in one more
        middle_ = (reach_ / 2 / line_bytes + 1) * line_bytes;
        ahead_ = bytes_ahead / bytes_ < most_rows_ahead ? bytes_ahead / bytes_ + 1 : most_rows_ahead;
        see(0);
        for (int64_t i = -ahead_; i < 0; i++) fetch_front(i), fetch_back(i);
    }

    // Row i and those after it up to the next multiple of most_rows_a_batch, all seen before.
    const T *const *operator+(int64_t i) const { return rows_ + (i & last_place); }

    // Looks up all rows that are asked for before row `last` is encoded.
    void see(int64_t last) {
        if (call_.rows.narrow) see_in((const int32_t *)call_.rows.list + begin_, last);
        else see_in((const int64_t *)call_.rows.list + begin_, last);
    }

    // While row i is encoded: half of the lines of a later row.
    __attribute__((always_inline)) inline void fetch_front(int64_t i) const { fetch(i, line_bytes, middle_); }
    __attribute__((always_inline)) inline void fetch_back(int64_t i) const { fetch(i, middle_, reach_); }

    int64_t refused() const { return refused_; }

  private:
    static constexpr int64_t ring = 128, last_place = ring - 1;
    static_assert(ring >= most_rows_ahead + most_rows_a_batch + rows_looked_up);

    __attribute__((always_inline)) inline void fetch(int64_t i, int64_t from, int64_t to) const {
        const uintptr_t row = uintptr_t(rows_[(i + ahead_) & last_place]);
        asm volatile("");  // without an effect that GCC can see, it takes the whole function away
        for (; from < to; from += line_bytes) prefetch_line(row + uintptr_t(from));
    }

    template <class Index>
    __attribute__((noinline)) void see_in(const Index *list, int64_t last) {
        const int64_t bytes_a_row = call_.x_stride * int64_t(sizeof(T));
        for (; seen_ < last + ahead_; seen_ += rows_looked_up)
            for (int64_t i = seen_; i < seen_ + rows_looked_up; i++) {
                const bool there = i < count_, fits = there && uint64_t(list[i]) < uint64_t(call_.x_rows);
                if (there && !fits) refused_ = earlier(refused_, (begin_ + i) * 8 + no_such_row);
                const uintptr_t start = uintptr_t(call_.x) + uintptr_t(fits ? list[i] * bytes_a_row : 0);
                const uintptr_t end = start + uintptr_t(bytes_ - 1);
                prefetch_line(start);
                if ((start ^ end) >= page_bytes) prefetch_line(end);
                rows_[i & last_place] = (const T *)start;
            }
    }

    const EncodeCall &call_;
    int64_t bytes_, begin_, count_, reach_, middle_, ahead_, seen_ = 0, refused_ = 0;
    const T *rows_[ring];
};

// Where some rows come from and go to, and what the first pass finds; `out` is null if a row is refused.
template <class T>
struct Batch {
    uint8_t *out[most_rows_a_batch];
    int32_t width[most_rows_a_batch];
    float lowest[most_rows_a_batch], highest[most_rows_a_batch];
    float zero[most_rows_a_batch], scale[most_rows_a_batch], steps[most_rows_a_batch], range[most_rows_a_batch];
    int32_t finite[most_rows_a_batch];
};

// Widths and places of the rows from `first` on; the result is the first one refused, or 0.
template <class T>
GNNQLAB_FN int64_t place(const EncodeCall &call, int64_t first, int64_t count, Batch<T> &batch) {
    if (!call.bits && !call.offsets) {  // checked for all rows at once
        const int64_t bytes = row_bytes(call.columns, call.width);
        uint8_t *out = call.payload + first * bytes;
        for (int k = 0; k < most_rows_a_batch; k++, out += bytes) batch.out[k] = out;
        for (int k = 0; k < most_rows_a_batch; k++) batch.width[k] = int32_t(call.width);
        return 0;
    }
    int64_t refused = 0;
    for (int64_t k = 0; k < count; k++) {
        const int64_t i = first + k, b = call.bits ? call.bits[i] : call.width;
        const int64_t offset = call.offsets ? call.offsets[i] : i * row_bytes(call.columns, b);
        const bool known = is_width(b), fits = offset >= 0 && offset <= call.payload_bytes - row_bytes(call.columns, b);
        if (!known || !fits) refused = earlier(refused, i * 8 + (known ? outside_payload : no_such_width));
        batch.out[k] = known && fits ? call.payload + offset : nullptr;
        batch.width[k] = known ? int32_t(b) : 1;
    }
    return refused;
}

GNNQLAB_FN int64_t refused_id(const EncodeCall &call, int64_t first, int64_t count) {
    uint64_t any = 0;
    for (int64_t k = 0; k < count; k++) any |= uint64_t(call.ids[first + k]);
    if (any <= UINT32_MAX) return 0;
    while (uint64_t(call.ids[first]) <= UINT32_MAX) first++;
    return first * 8 + id_too_large;
}

template <bool sixteen, class T>
GNNQLAB_FN void find_parameters(Batch<T> &batch) {
    for (int k = 0; k < most_rows_a_batch; k++) {  // of whole batches, which is what compilers make vectors of
        const float lowest = batch.lowest[k], highest = batch.highest[k];
        const RowParameters row = row_parameters(lowest, highest, !(lowest <= highest), batch.width[k], sixteen);
        batch.zero[k] = row.zero;
        batch.scale[k] = row.scale;
        batch.steps[k] = row.steps;
        batch.range[k] = row.range;
        batch.finite[k] = row.finite;
    }
}

template <class T>
GNNQLAB_FN void write_params(const EncodeCall &call, int64_t first, int64_t count, const Batch<T> &batch) {
    for (int64_t k = 0; k < count; k++) {
        const int64_t i = first + k;
        if (call.sixteen) {  // exact: rounded already
            ((Bfloat16 *)call.params)[2 * i] = {uint16_t(float_bits(batch.zero[k]) >> 16)};
            ((Bfloat16 *)call.params)[2 * i + 1] = {uint16_t(float_bits(batch.scale[k]) >> 16)};
        } else {
            ((float *)call.params)[2 * i] = batch.zero[k];
            ((float *)call.params)[2 * i + 1] = batch.scale[k];
        }
        if (call.ranges) call.ranges[i] = batch.range[k];
    }
}

// Rows of a call that one thread encodes, a batch at a time.
template <class T>
struct Span {
    const EncodeCall &call;
    int64_t begin, end;
    RowNoise noise;
    Upcoming<T> upcoming;
    Batch<T> batch;
};

// Rows `from` to `to` of the batch that begins at row `first`, all of b bits. A function of its own for each width: of what
// one function for everything executed, half kept count and moved values to memory and back.
template <int b, class T>
__attribute__((noinline)) int64_t write_codes(Span<T> &span, int64_t first, int64_t from, int64_t to) {
    const Indices ids = {span.call.ids, false};
    const Batch<T> &batch = span.batch;
    const int64_t place = first - span.begin;
    const T *const *rows = span.upcoming + place;
    int64_t refused = 0;
    for (int64_t k = from; k < to; k++) {
        span.upcoming.fetch_front(place + k);
        const auto drawn = span.noise.draw(ids, first + k, span.end);
        span.upcoming.fetch_back(place + k);
        if (!batch.out[k]) continue;
        if (batch.finite[k])
            encode_row<b>(rows[k], span.call.columns, batch.zero[k], batch.steps[k], drawn, batch.out[k]);
        else
            refused = earlier(refused, (first + k) * 8 + non_finite);
    }
    return refused;
}

// A batch of rows stays in the first cache between the pass over ranges and the pass over codes. Meanwhile later rows
// are on their way from memory, a part of a row with every step, so that memory and arithmetic are busy side by side.
template <class T>
int64_t encode_span(const EncodeCall &call, int64_t begin, int64_t end) {
    int64_t rows = most_rows_a_batch;
    while (rows > rows_at_once && rows * call.columns * int64_t(sizeof(T)) > batch_bytes) rows /= 2;
    Span<T> span = {call, begin, end, {call.noise, call.columns}, {call, begin, end - begin}, {}};
    Batch<T> &batch = span.batch;
    int64_t refused = 0;
    for (int64_t first = begin; first < end; first += rows) {
        const int64_t count = end - first < rows ? end - first : rows;
        span.upcoming.see(first - begin + count);
        refused = earlier(refused, place(call, first, count, batch));
        refused = earlier(refused, refused_id(call, first, count));
        const T *const *x = span.upcoming + (first - begin);
        for (int64_t k = 0; k < count; k += rows_at_once)
            row_ranges(x + k, call.columns, batch.lowest + k, batch.highest + k);
        if (call.sixteen) find_parameters<true>(batch);
        else find_parameters<false>(batch);
        write_params(call, first, count, batch);
        for (int64_t from = 0, to; from < count; from = to) {
            const int32_t width = batch.width[from];
            for (to = from + 1; to < count && batch.width[to] == width;) to++;
            const auto write = width == 1   ? write_codes<1, T>
                               : width == 2 ? write_codes<2, T>
                               : width == 4 ? write_codes<4, T>
                                            : write_codes<8, T>;
            refused = earlier(refused, write(span, first, from, to));
        }
    }
    return earlier(refused, span.upcoming.refused());
}

template <class T>
int64_t encode_all(const EncodeCall &call, int64_t threads) {
    if (!call.x_rows) return no_such_row;  // of the first row
    int64_t count = call.count, refused = 0;
    if (!call.bits && !call.offsets) {
        const int64_t fitting = call.payload_bytes / row_bytes(call.columns, call.width);
        if (fitting < count) refused = fitting * 8 + outside_payload, count = fitting;
    }
    const int used = useful_threads(count, call.columns, threads);
#pragma omp parallel for num_threads(used) schedule(static) if (used > 1)
    for (int part = 0; part < used; part++) {
        const int64_t found = encode_span<T>(call, count * part / used, count * (part + 1) / used);
#pragma omp critical(gnnqlab_refused)
        refused = earlier(refused, found);
    }
    return refused;
}

}  // namespace
}  // namespace gnnqlab

using namespace gnnqlab;

GNNQLAB_EXPORT(encode_rows)
(const void *x, int64_t x_sixteen, int64_t x_rows, int64_t x_stride, int64_t columns, const void *rows,
 int64_t rows_narrow, int64_t count, const int64_t *ids, const uint8_t *bits, int64_t width, const int64_t *offsets,
 uint8_t *payload, int64_t payload_bytes, void *params, int64_t params_sixteen, float *ranges, int64_t seed,
 int64_t epoch, int64_t stream, int64_t threads) {
    const EncodeCall call = {x, x_rows, x_stride, columns, {rows, rows_narrow != 0}, count, ids, bits, width, offsets,
                             payload, payload_bytes, params, params_sixteen != 0, ranges,
                             make_noise(seed, epoch, stream)};
    return x_sixteen ? encode_all<Bfloat16>(call, threads) : encode_all<float>(call, threads);
}
