// The largest of several layers, element by element, and which layer it came from.
// gnnqlab/kernels/reference/jumping_knowledge.py is the definition.
#pragma once

#include "core/port.h"

namespace gnnqlab {

constexpr int most_joined = 32;  // layers in one call

// The first of equal ones stays; NaN is larger than anything. I is the unsigned integer, or vector of them, of V's size.
template <class I, class V> GNNQLAB_FN void take_larger(V x, I layer, V *best, I *from) {
    const auto newer = (x > *best) | (x != x);
    *best = newer ? x : *best;
    *from = newer ? layer : *from;
}

}  // namespace gnnqlab
