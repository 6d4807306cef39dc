// Both gradients of a residual join in one pass, a thread an element.
#include "core/residual.h"

#include "cuda/rows.cuh"

namespace gnnqlab {
namespace {

__global__ void __launch_bounds__(threads_a_block)
    residual_gradients(const float *gradient, const float *later, int64_t count, float keep, float share, float *of_rows,
                       float *of_first) {
    const int64_t i = int64_t(blockIdx.x) * threads_a_block + threadIdx.x;
    if (i >= count) return;
    const auto found = residual_gradient(gradient[i], keep, share, later ? later[i] : 0.0f);
    of_rows[i] = found.of_rows;
    of_first[i] = found.of_first;
}

}  // namespace
}  // namespace gnnqlab

using namespace gnnqlab;

// `threads` is not used.
GNNQLAB_CUDA_EXPORT(residual_backward)
(const float *gradient, const float *later, int64_t count, float keep, float share, float *of_rows, float *of_first, int64_t,
 void *stream) {
    if (count == 0) return cudaSuccess;
    const unsigned grid = unsigned((count + threads_a_block - 1) / threads_a_block);
    residual_gradients<<<grid, threads_a_block, 0, cudaStream_t(stream)>>>(gradient, later, count, keep, share, of_rows,
                                                                           of_first);
    return cudaGetLastError();
}
