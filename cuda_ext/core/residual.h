// The gradients of `(1 - share) rows + share first`, where what every layer finds of `first` is added up on the way.
#pragma once

#include "core/port.h"

namespace gnnqlab {

template <class V> struct ResidualGradient {
    V of_rows, of_first;
};

// `keep` is 1 - share, rounded once; `later` what the layers behind found.
template <class V> GNNQLAB_FN ResidualGradient<V> residual_gradient(V gradient, float keep, float share, V later) {
    return {gradient * keep, later + gradient * share};
}

}  // namespace gnnqlab
