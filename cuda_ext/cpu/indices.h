// Row numbers and node ids as they come from Python.
#pragma once

#include <cstdint>

namespace gnnqlab {
namespace {

// An index list of int64 or int32; with neither, 0, 1, 2, ...
struct Indices {
    const void *list;
    bool narrow;
    int64_t operator[](int64_t i) const {
        if (!list) return i;
        return narrow ? int64_t(((const int32_t *)list)[i]) : ((const int64_t *)list)[i];
    }
};

}  // namespace
}  // namespace gnnqlab
