// Both gradients of a residual join in one pass: each element of the two that come in is read once, of the two that go
// out written once.
#include "core/residual.h"

#include "cpu/export.h"
#include "cpu/lanes.h"
#include "cpu/rows.h"

namespace gnnqlab {
namespace {

using V = Lanes<float, kLanes>;
constexpr int64_t fits_in_cache = 1 << 21;  // bytes
constexpr int64_t a_part = 1 << 14;         // elements, a whole number of lines

struct Residual {
    const float *gradient, *later;  // later may be null: nothing yet
    float keep, share;
    float *of_rows, *of_first;
};

GNNQLAB_FN void put(float *to, V x, [[maybe_unused]] bool past) {
#if defined(__AVX2__)
    if (past) return stream(to, (Floats)x);
#endif
    store_lanes(to, x);
}

template <bool adds, bool past> void part(const Residual &call, int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
        const V later = adds ? load_lanes<V>(call.later + i) : V{};
        const auto found = residual_gradient(load_lanes<V>(call.gradient + i), call.keep, call.share, later);
        put(call.of_rows + i, found.of_rows, past);
        put(call.of_first + i, found.of_first, past);
    }
    for (; i < end; i++) {
        const auto found = residual_gradient(call.gradient[i], call.keep, call.share, adds ? call.later[i] : 0.0f);
        call.of_rows[i] = found.of_rows;
        call.of_first[i] = found.of_first;
    }
    stream_end();
}

}  // namespace
}  // namespace gnnqlab

using namespace gnnqlab;

GNNQLAB_EXPORT(residual_backward)
(const float *gradient, const float *later, int64_t count, float keep, float share, float *of_rows, float *of_first,
 int64_t threads) {
    const Residual call = {gradient, later, keep, share, of_rows, of_first};
    const bool past = count * 4 > fits_in_cache && (uintptr_t(of_rows) | uintptr_t(of_first)) % 64 == 0;
    const int64_t parts = (count + a_part - 1) / a_part;
    const int used = useful_threads(parts, a_part, threads);
    const auto run = later ? (past ? part<true, true> : part<true, false>) : (past ? part<false, true> : part<false, false>);
#pragma omp parallel for num_threads(used) schedule(static) if (used > 1)
    for (int64_t number = 0; number < parts; number++) {
        const int64_t begin = number * a_part;
        run(call, begin, begin + a_part < count ? begin + a_part : count);
    }
    return 0;
}
