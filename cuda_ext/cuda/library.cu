// What the CUDA library is; see cpu/library.cpp.
#include <cuda_runtime.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

// Raised together with the CPU library's.
EXPORT int gnnqlab_abi() { return 6; }

EXPORT const char *gnnqlab_cuda_error(int code) { return cudaGetErrorString(cudaError_t(code)); }
