// Memory in large pages if the system has them: to look up a page of 4 KB for every few rows, or to be given one, costs more
// than the rows.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace gnnqlab {
namespace {

constexpr size_t kLargePage = size_t(1) << 21;

// Asks for large pages under what was allocated elsewhere and will be written whole, the part that fills such pages. Where
// the memory has its pages already, nothing changes.
inline void ask_for_large_pages(void *from, int64_t bytes) {
#if defined(MADV_HUGEPAGE)
    const uintptr_t begin = (uintptr_t(from) + kLargePage - 1) / kLargePage * kLargePage;
    const uintptr_t end = (uintptr_t(from) + uintptr_t(bytes)) / kLargePage * kLargePage;
    if (end > begin) madvise((void *)begin, size_t(end - begin), MADV_HUGEPAGE);
#else
    (void)from, (void)bytes;
#endif
}

using Buffer = std::unique_ptr<void, decltype(&std::free)>;

inline Buffer large_pages(int64_t bytes) {
    const size_t size = (size_t(bytes) + kLargePage - 1) / kLargePage * kLargePage;
    void *memory = std::aligned_alloc(kLargePage, size);
    if (memory) ask_for_large_pages(memory, int64_t(size));
    return Buffer(memory, &std::free);
}

} // namespace
} // namespace gnnqlab
