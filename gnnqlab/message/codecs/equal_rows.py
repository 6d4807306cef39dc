"""Messages of codecs that encode rows of one bit-width at a time, with equally many bytes per row.

Letters: n rows of one bit-width, D columns, B bytes per row: ``ceil(D b / 8)`` of payload, and parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gnnqlab.bits.row import ParamBytes, row_bytes
from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels.noise import uniform16
from gnnqlab.message.layout import Layout

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["EqualRows", "RowNoise", "equal_rows", "surplus_bytes", "written_width"]

EncodeRows = Callable[[Tensor, int, "RowNoise | None"], "Tensor | NDArray[Any]"]
"""Type of a codec's method ``encode_rows``."""
_PROBED = 1024
"""Columns of the row used to detect a bit-width; so many that parameters are negligible."""
_ROUNDED = (16, 8, 4, 3, 2, 1)
"""Bit-widths that may be detected; rows of 32 bits are assumed to be float32."""


@dataclass(frozen=True, eq=False)
class RowNoise:
    """Random numbers for some rows of a message, identical at sender and receiver."""

    ids: Tensor
    """Global node ids, int64 ``(n,)``."""
    seed: int
    epoch: int
    stream: int

    def uniform(self, columns: int) -> Tensor:
        """Draw float32 ``(n, columns)``, uniform multiples of ``2^-16`` in [0, 1).

        Example:
            >>> drawn = RowNoise(torch.arange(3), seed=0, epoch=2, stream=5).uniform(4)
            >>> drawn.shape, bool((drawn < 1).all())
            (torch.Size([3, 4]), True)
        """
        return uniform16(self.ids, columns, seed=self.seed, epoch=self.epoch, stream=self.stream) / 65536


@dataclass(frozen=True, eq=False)
class EqualRows:
    """Views of the rows of one bit-width in a message."""

    bits: int
    rows: slice
    params_nB: Tensor
    """View of the parameters, uint8."""
    payload_nB: Tensor
    """View of the payload, uint8."""

    def write(self, encoded: Tensor | NDArray[Any], codec: object) -> None:
        """Copy encoded rows into the message.

        Raises:
            NonFiniteRow: if an element became NaN or Inf by encoding, for instance in float16.
            ValueError: if their size differs from the layout.
        """
        tensor = torch.from_numpy(np.ascontiguousarray(encoded)) if isinstance(encoded, np.ndarray) else encoded
        num_rows, payload_bytes = self.payload_nB.shape
        num_bytes = payload_bytes + self.params_nB.shape[1]
        if tensor.shape[:1] != (num_rows,) or tensor.nbytes != num_rows * num_bytes:
            raise ValueError(
                f"encode_rows of {type(codec).__name__} must return {num_bytes} bytes for each of {num_rows} rows at "
                f"{self.bits} bits, got {tensor.dtype} {tuple(tensor.shape)}; write equally many bytes for every row"
            )
        # On CUDA this check would synchronize; there only the input of the codec is checked.
        if tensor.is_floating_point() and not tensor.is_cuda:
            finite_n = torch.isfinite(tensor).flatten(1).all(dim=1)
            if not bool(finite_n.all()):
                raise NonFiniteRow(int((~finite_n).nonzero()[0, 0]))
        bytes_nB = tensor.contiguous().view(num_rows, -1).view(torch.uint8)  # (n, ...) of any type -> (n, B) bytes
        self.payload_nB.copy_(bytes_nB[:, :payload_bytes])  # payload first, surplus bytes are parameters
        self.params_nB.copy_(bytes_nB[:, payload_bytes:])

    def read(self) -> Tensor:
        """Return a copy of the bytes of the rows, uint8 ``(n, B)``, aligned so that any type can view them."""
        return torch.cat([self.payload_nB, self.params_nB], dim=1)  # (n, B), in the order of `encode_rows`


def equal_rows(layout: Layout, segment: Tensor, param_bytes: ParamBytes) -> Iterator[EqualRows]:
    """Yield views of the rows of a message by bit-width, widest first, in wire order."""
    params, payload = layout.split(segment)  # (bytes,) uint8 each
    first = 0
    for share in sorted(layout.shares, key=lambda each: each.bits, reverse=True):
        if not share.rows:
            continue
        yield EqualRows(
            share.bits,
            slice(first, first + share.rows),
            params[: share.param_bytes].view(share.rows, -1) if share.param_bytes else params.new_empty(share.rows, 0),
            payload[: share.payload_bytes].view(share.rows, -1),  # (n, ceil(D b / 8))
        )
        params, payload, first = params[share.param_bytes :], payload[share.payload_bytes :], first + share.rows


def written_width(encode_rows: EncodeRows) -> int:
    """Detect the bit-width of the rows that ``encode_rows`` returns; surplus bytes are parameters.

    Raises:
        ValueError: if it returns less than one bit per element.

    Example:
        >>> written_width(lambda rows, bits, noise: rows.bfloat16())
        16
    """
    # Encode one row of zeros, without a bit-width, and count its bits.
    num_bits = 8 * _encoded_bytes(encode_rows, 0, _PROBED)
    for width in _ROUNDED:
        if num_bits >= width * _PROBED:
            return width
    raise ValueError(
        f"encode_rows must return at least one bit per element, got {num_bits} bits for {_PROBED} elements"
    )


def surplus_bytes(encode_rows: EncodeRows, bits: int, columns: int) -> int:
    """Return the parameter bytes of a row: those that ``encode_rows`` returns beyond ``ceil(D bits / 8)``.

    Raises:
        ValueError: if it returns fewer bytes.

    Example:
        >>> surplus_bytes(lambda rows, bits, noise: np.zeros((len(rows), 14), np.uint8), 8, 10)
        4
    """
    num_bytes, min_bytes = _encoded_bytes(encode_rows, bits, columns), row_bytes(bits, columns, lambda bits, columns: 0)
    if num_bytes < min_bytes:
        raise ValueError(
            f"encode_rows must return at least the {min_bytes} bytes of {columns} elements at {bits} bits, got "
            f"{num_bytes}; list the bit-widths that it supports as widths"
        )
    return num_bytes - min_bytes


def _encoded_bytes(encode_rows: EncodeRows, bits: int, columns: int) -> int:
    row, noise = torch.zeros(1, columns), RowNoise(torch.zeros(1, dtype=torch.int64), seed=0, epoch=0, stream=0)
    return int(encode_rows(row, bits, noise).nbytes)
