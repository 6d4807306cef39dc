// Names of the C interface: GNNQLAB_EXPORT(decode_rows)(...) { } defines int64_t gnnqlab_decode_rows_<isa>(...).
#pragma once

#include <cstdint>

#define GNNQLAB_JOIN(name, isa) gnnqlab_##name##_##isa
#define GNNQLAB_NAME(name, isa) GNNQLAB_JOIN(name, isa)
#define GNNQLAB_EXPORT(name) \
    extern "C" __attribute__((visibility("default"))) int64_t GNNQLAB_NAME(name, GNNQLAB_ISA)
