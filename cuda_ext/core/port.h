// What the arithmetic headers need to compile for a host processor and for CUDA alike.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define GNNQLAB_FN static __host__ __device__ __forceinline__
#else
#define GNNQLAB_FN static inline __attribute__((always_inline, unused))
#endif
