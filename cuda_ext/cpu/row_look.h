// A row read once: its ends, whether it is finite, and its square, summed by the 16 lanes of the reference.
#pragma once

#include "cpu/rotate_lanes.h"

namespace gnnqlab {
namespace {

// Adds the lanes of a sum half to half.
template <class T>
T total(T *sums) {
    for (int half = sum_lanes / 2; half; half /= 2)
        for (int k = 0; k < half; k++) sums[k] += sums[k + half];
    return sums[0];
}

struct Found {
    float lowest, highest;
    double energy;
    bool finite;
};

// Copies a row; its ends and its square on the way. A square of float32 is finite where the element is.
Found look(const float *x, int64_t columns, float *y) {
    Lane low = all(x[0]), high = low;
    Sums squares;
    int64_t c = 0;
    for (; c + lanes <= columns; c += lanes) {
        const Lane v = load(x + c);
        low = least(low, v), high = most(high, v);
        squares.add(c, v, v);
        store(y + c, v);
    }
    double sums[sum_lanes];
    squares.write(sums);
    Found found = {least_of(low), most_of(high), 0.0, true};
    for (; c < columns; c++) {
        found.lowest = x[c] < found.lowest ? x[c] : found.lowest;
        found.highest = x[c] > found.highest ? x[c] : found.highest;
        sums[c % sum_lanes] += double(x[c]) * double(x[c]);
        y[c] = x[c];
    }
    found.energy = total(sums);
    found.finite = std::isfinite(found.energy);
    return found;
}

}  // namespace
}  // namespace gnnqlab
