// What codes between a row's ends leave of it: S^2 sum f (1 - f), f the fraction of a step of each element.
// gnnqlab/kernels/reference/row_errors.py is the definition.
#pragma once

#include "core/rotate.h"

namespace gnnqlab {

constexpr int error_widths = 3, noted_of_row = error_widths + 2;  // 1, 2 and 4 bits; norm and range

GNNQLAB_FN float fraction_left(float x, float zero, float steps) {
    const float at = (x - zero) * steps, fraction = at - floorf(at);
    return fraction * (1.0f - fraction);
}

}  // namespace gnnqlab
