"""Allocation of kernel outputs: large results use huge pages, if the system supports them.

The allocator requests large blocks from the system each time, which maps and clears their 4 KB pages one by one at the
first write: for a result that is written once, such as rows of edges, this takes most of the time.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.kernels import native

__all__ = ["empty_in_huge_pages"]

_MIN_BYTES = 32 << 20
"""Size from which glibc never reuses a freed block."""
_MAX_BYTES = 256 << 20
"""Size up to which huge pages pay: in a virtual machine that has returned free memory to its host, finding huge pages
may take longer than filling small ones: writing 512 MB took 0.1 to 1.0 s, with small pages 0.3 to 0.4 s."""

_large_pages = native.declare("large_pages", "p i")


def empty_in_huge_pages(like: Tensor, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Allocate an uninitialized tensor on the device of another.

    Args:
        like: tensor on the target device.
        shape: shape of the new tensor, as numbers.
        dtype: data type of the new tensor.

    Example:
        >>> empty_in_huge_pages(torch.ones(1), 2, 3).shape
        torch.Size([2, 3])
    """
    out = torch.empty(shape, dtype=dtype, device=like.device)
    # Smaller blocks are reused by the allocator, so their pages are mapped already.
    if out.is_cpu and _MIN_BYTES <= out.nbytes <= _MAX_BYTES and native.active(out.device):
        _large_pages(out, out.nbytes)  # advice to the system before the first write
    return out
