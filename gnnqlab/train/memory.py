"""Keeps the pages of large tensors mapped from epoch to epoch.

Every epoch of full-graph training allocates and frees the same large tensors. By default the C library asks
the kernel for fresh, zeroed pages each time: 200 000 page faults and a third of the time of an epoch on a graph of
50 000 nodes. Told to keep freed memory, it faults in the first epoch only, for about a third more memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

__all__ = ["has_large_pages", "keep_pages", "large_pages"]

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
"""Options of glibc's ``mallopt``."""
_LARGE = "glibc.malloc.hugetlb"


def large_pages(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what the environment of a process must say for the C library to ask for large pages (glibc from 2.35).

    Rows in random order need fewer look-ups then. PyTorch's own switch (``THP_MEM_ALLOC_ENABLE``) is not used: it
    starts each tensor on a large page, so what one leaves behind is too small for the next of its size, and the heap
    grows as long as a training lasts.

    Args:
        environ: the environment so far; what it says about large pages already stands.

    Example:
        >>> large_pages({})
        {'GLIBC_TUNABLES': 'glibc.malloc.hugetlb=1'}
        >>> large_pages({"GLIBC_TUNABLES": "glibc.malloc.hugetlb=0"})
        {}
    """
    said = environ.get("GLIBC_TUNABLES", "")
    return {} if _LARGE in said else {"GLIBC_TUNABLES": ":".join(filter(None, [said, f"{_LARGE}=1"]))}


def has_large_pages(environ: Mapping[str, str]) -> bool:
    """Whether an environment asks for large pages."""
    return f"{_LARGE}=1" in environ.get("GLIBC_TUNABLES", "")


def keep_pages() -> bool:
    """Tell the C library to keep freed memory; return whether it can (glibc can)."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = {_MMAP_MAX: 0, _TRIM_THRESHOLD: 2**31 - 1, _TOP_PAD: 64 * 2**20}
    accepted = [mallopt(option, value) == 1 for option, value in settings.items()]
    return all(accepted)
