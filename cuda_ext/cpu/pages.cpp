// Large pages under memory that Python has allocated.
#include "cpu/pages.h"

#include "cpu/export.h"

using namespace gnnqlab;

GNNQLAB_EXPORT(large_pages)(void *from, int64_t bytes) {
    ask_for_large_pages(from, bytes);
    return 0;
}
