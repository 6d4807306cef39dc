"""Room for what a kernel writes: large results lie in large pages, where the system has them.

An allocator takes large blocks from the system each time, which gives and clears their pages of 4 KB one by one as they
are first written: of a result that is written once, as rows of edges are, that is most of the time.
"""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.kernels import native

__all__ = ["empty_in_huge_pages"]

_LEAST_BYTES = 32 << 20
"""From here on glibc never keeps a freed block for the next one."""
_MOST_BYTES = 256 << 20
"""Beyond it a system that has given free memory back to a host, as virtual machines do, may take longer to find large
pages than small ones take to fill: 512 MB were written in 0.1 to 1.0 s, in 0.3 to 0.4 s in small ones."""

_large_pages = native.declare("large_pages", "p i")


def empty_in_huge_pages(like: Tensor, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return a tensor to write into, on the device of another.

    Args:
        like: gives the device.
        shape: of the tensor, as numbers.

    Example:
        >>> empty_in_huge_pages(torch.ones(1), 2, 3).shape
        torch.Size([2, 3])
    """
    out = torch.empty(shape, dtype=dtype, device=like.device)
    if out.is_cpu and _LEAST_BYTES <= out.nbytes <= _MOST_BYTES and native.active(out.device):
        _large_pages(out, out.nbytes)
    return out
