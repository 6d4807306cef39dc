// What the library is and which of its instruction sets this processor can run.
#include <cstring>

#define EXPORT extern "C" __attribute__((visibility("default")))

// Raised with every change of a C function's arguments; native.py refuses another version.
EXPORT int gnnqlab_abi() { return 7; }

EXPORT int gnnqlab_has_isa(const char *name) {
#if defined(GNNQLAB_WITH_SCALAR)
    if (std::strcmp(name, "scalar") == 0) return 1;
#endif
#if defined(GNNQLAB_WITH_AVX2)
    if (std::strcmp(name, "avx2") == 0)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
#endif
#if defined(GNNQLAB_WITH_AVX512)
    if (std::strcmp(name, "avx512") == 0)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512cd");
#endif
    return 0;
}
