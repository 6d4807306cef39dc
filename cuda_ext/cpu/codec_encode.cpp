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
constexpr int64_t batch_bytes = 8192, bytes_ahead = 16384, page_bytes = 4096;

// Rows on their way from memory. Of some rows at once the first line is asked for, and the last one if another page has
// it: their pages are looked up side by side, while one look-up amid the arithmetic would hold everything up. The other
// lines follow row by row.
template <class T>
class Upcoming {
  public:
    Upcoming(const EncodeCall &call, int64_t begin, int64_t end)
        : call_(call), bytes_(call.columns * int64_t(sizeof(T))), end_(end), seen_(begin) {
        ahead_ = bytes_ahead / bytes_ < most_rows_ahead ? bytes_ahead / bytes_ + 1 : most_rows_ahead;
        see(begin);
        for (int64_t i = begin - ahead_; i < begin; i++) fetch_front(i), fetch_back(i);
    }

    // Row i, or the first row of x if there is no such row; seen before.
    const T *operator[](int64_t i) const { return rows_[i % ring]; }

    // Looks up all rows that are asked for before row `last` is encoded.
    __attribute__((always_inline)) inline void see(int64_t last) {
        for (; seen_ < last + ahead_; seen_ += rows_looked_up)
            for (int64_t i = seen_; i < seen_ + rows_looked_up && i < end_; i++) {
                const int64_t row = call_.rows[i];
                const bool fits = row >= 0 && row < call_.x_rows;
                if (!fits) refused_ = earlier(refused_, i * 8 + no_such_row);
                const T *x = rows_[i % ring] = (const T *)call_.x + (fits ? row : 0) * call_.x_stride;
                const uintptr_t start = uintptr_t(x), last = start + uintptr_t(bytes_ - 1);
                prefetch_line(start);
                prefetch_line((start ^ last) < page_bytes ? start : last);
            }
    }

    // While row i is encoded: half of the lines of a later row.
    __attribute__((always_inline)) inline void fetch_front(int64_t i) const {
        if (i + ahead_ < end_) prefetch(second_line(i + ahead_), middle(i + ahead_));
    }
    __attribute__((always_inline)) inline void fetch_back(int64_t i) const {
        if (i + ahead_ < end_) prefetch(middle(i + ahead_), uintptr_t(rows_[(i + ahead_) % ring]) + uintptr_t(bytes_));
    }

    int64_t refused() const { return refused_; }

  private:
    static constexpr int64_t ring = 128;
    static_assert(ring >= most_rows_ahead + most_rows_a_batch + rows_looked_up);

    uintptr_t second_line(int64_t i) const { return (uintptr_t(rows_[i % ring]) & ~uintptr_t(63)) + 64; }
    uintptr_t middle(int64_t i) const { return second_line(i) + uintptr_t(bytes_) / 128 * 64; }

    const EncodeCall &call_;
    int64_t bytes_, ahead_, end_, seen_, refused_ = 0;
    const T *rows_[ring];
};

// Where some rows come from and go to, and what the first pass finds; `out` is null if a row is refused.
template <class T>
struct Batch {
    const T *x[most_rows_a_batch];
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
        for (int64_t k = 0; k < count; k++) {
            batch.out[k] = call.payload + (first + k) * bytes;
            batch.width[k] = int32_t(call.width);
        }
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

template <class T, class RowNoise>
GNNQLAB_FN void write_codes(const Batch<T> &batch, int64_t k, int64_t columns, RowNoise noise) {
    const T *x = batch.x[k];
    uint8_t *out = batch.out[k];
    const float zero = batch.zero[k], steps = batch.steps[k];
    switch (batch.width[k]) {
        case 1: return encode_row<1>(x, columns, zero, steps, noise, out);
        case 2: return encode_row<2>(x, columns, zero, steps, noise, out);
        case 4: return encode_row<4>(x, columns, zero, steps, noise, out);
        default: return encode_row<8>(x, columns, zero, steps, noise, out);
    }
}

// A batch of rows stays in the first cache between the pass over ranges and the pass over codes. Meanwhile later rows
// are on their way from memory, a part of a row with every step, so that memory and arithmetic are busy side by side.
template <class T>
int64_t encode_span(const EncodeCall &call, int64_t begin, int64_t end) {
    int64_t rows = batch_bytes / (call.columns * int64_t(sizeof(T))) / rows_at_once * rows_at_once;
    rows = rows < rows_at_once ? rows_at_once : rows > most_rows_a_batch ? most_rows_a_batch : rows;
    const Indices ids = {call.ids, false};
    RowNoise noise(call.noise, call.columns);
    Upcoming<T> upcoming(call, begin, end);
    Batch<T> batch = {};
    int64_t refused = 0;
    for (int64_t first = begin; first < end; first += rows) {
        const int64_t count = end - first < rows ? end - first : rows;
        upcoming.see(first + count);
        refused = earlier(refused, place(call, first, count, batch));
        refused = earlier(refused, refused_id(call, first, count));
        for (int64_t k = 0; k < rows; k++) batch.x[k] = upcoming[first + (k < count ? k : 0)];
        for (int64_t k = 0; k < count; k += rows_at_once)
            row_ranges(batch.x + k, call.columns, batch.lowest + k, batch.highest + k);
        if (call.sixteen) find_parameters<true>(batch);
        else find_parameters<false>(batch);
        write_params(call, first, count, batch);
        for (int64_t k = 0; k < count; k++) {
            upcoming.fetch_front(first + k);
            const auto drawn = noise.draw(ids, first + k, end);
            upcoming.fetch_back(first + k);
            if (!batch.out[k]) continue;
            if (batch.finite[k]) write_codes(batch, k, call.columns, drawn);
            else refused = earlier(refused, (first + k) * 8 + non_finite);
        }
    }
    return earlier(refused, upcoming.refused());
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
