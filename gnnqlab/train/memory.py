"""Keeps the pages of large tensors mapped from epoch to epoch.

Every epoch of full-graph training allocates and frees the same large tensors. By default the C library asks
the kernel for fresh, zeroed pages each time: 200 000 page faults and a third of the time of an epoch on a graph of
50 000 nodes. Told to keep freed memory, it faults in the first epoch only, for about a third more memory.
"""

from __future__ import annotations

import ctypes
import os

__all__ = ["keep_pages"]

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
"""Options of glibc's ``mallopt``."""


def keep_pages() -> bool:
    """Tell the C library to keep freed memory; return whether it can (glibc can).

    PyTorch is asked for large pages too; it listens if its first tensor is still to come.
    """
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = {_MMAP_MAX: 0, _TRIM_THRESHOLD: 2**31 - 1, _TOP_PAD: 64 * 2**20}
    accepted = [mallopt(option, value) == 1 for option, value in settings.items()]
    return all(accepted)
