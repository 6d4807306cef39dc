// Rows of codes of four bits from a byte each to two a byte.
#include "cpu/pairs.h"

#include "cpu/export.h"
#include "cpu/rows.h"

using namespace gnnqlab;

// Strides count bytes.
GNNQLAB_EXPORT(pack_pairs)
(const int8_t *codes, int64_t stride, int64_t rows, int64_t columns, Pair *out, int64_t out_stride, int64_t threads) {
    const int used = useful_threads(rows, columns, threads);
#pragma omp parallel for num_threads(used) schedule(static) if (used > 1)
    for (int64_t i = 0; i < rows; i++) pack_row(codes + i * stride, columns, out + i * out_stride);
    return 0;
}
