"""The axis ``codec``: how a row becomes bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from gnnqlab.bits.policy import WIDTHS
from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels.codec import decode_rows, encode_rows
from gnnqlab.message.wire import Layout, lay_out

__all__ = ["Codec", "Float32", "Noise", "Stochastic"]

_LINE = 16
"""Elements of a cache line: rows that begin on one are written past the caches."""


@dataclass(frozen=True)
class Noise:
    """The key of a message's noise; with row id and column it fixes every random bit."""

    seed: int
    epoch: int
    stream: int


class Codec(Protocol):
    """Turns rows into the bytes of a message and back."""

    @property
    def widths(self) -> tuple[int, ...]:
        """Bit-widths this codec can write."""

    def rows(self, num_rows: int, columns: int, device: torch.device) -> Tensor:
        """Return an uninitialised ``(n, D)`` buffer in the form that decoding fills fastest."""

    def layout(self, widths: int | Tensor, num_rows: int, columns: int) -> Layout:
        """Lay out a message."""

    def encode(
        self, x: Tensor, rows: Tensor, ids: Tensor, layout: Layout, segment: Tensor, noise: Noise
    ) -> Tensor | None:
        """Write ``x[rows]`` (both in wire order) into a uint8 segment of ``layout.num_bytes``.

        Returns:
            The range (max - min) of each row, float32 ``(n,)`` in wire order, if encoding finds it anyway.
        """

    def decode(self, segment: Tensor, layout: Layout, out: Tensor, rows: Tensor, *, accumulate: bool) -> None:
        """Put the rows of a segment at ``out[rows]``, or add them there."""

    def landing(self, out: Tensor) -> Tensor | None:
        """Return the bytes of ``out`` if a message may be received there directly, else ``None``."""


@dataclass(frozen=True)
class Float32:
    """Rows as they are: four bytes an element, no parameters."""

    @property
    def widths(self) -> tuple[int, ...]:
        return (32,)

    def rows(self, num_rows: int, columns: int, device: torch.device) -> Tensor:
        return torch.empty(num_rows, columns, device=device)  # without gaps, so that messages land in it

    def layout(self, widths: int | Tensor, num_rows: int, columns: int) -> Layout:
        return lay_out(32, num_rows, columns, bytes_per_parameter=0)

    def encode(
        self, x: Tensor, rows: Tensor, ids: Tensor, layout: Layout, segment: Tensor, noise: Noise
    ) -> Tensor | None:
        """Gather rows.

        Raises:
            NonFiniteRow: if a row holds NaN or Inf.
        """
        gathered = segment.view(torch.float32).view(layout.num_rows, layout.columns)
        torch.index_select(x, 0, rows, out=gathered)
        if not torch.isfinite(gathered.sum()):
            finite = torch.isfinite(gathered).all(dim=1)
            if not bool(finite.all()):
                raise NonFiniteRow(int((~finite).nonzero()[0, 0]))
        return None

    def decode(self, segment: Tensor, layout: Layout, out: Tensor, rows: Tensor, *, accumulate: bool) -> None:
        received = segment.view(torch.float32).view(layout.num_rows, layout.columns)
        if accumulate:
            out.index_add_(0, rows, received)
        else:
            out.index_copy_(0, rows, received)

    def landing(self, out: Tensor) -> Tensor | None:
        return out.view(torch.uint8).flatten() if out.is_contiguous() else None


@dataclass(frozen=True, kw_only=True)
class Stochastic:
    """Stochastic integer quantization, one scale and zero-point a row (AdaQP Eqs. 4, 5; SYLVIE Eq. 3).

    ``q = floor((h - Z) / S + u)``, ``S = (max - min) / (2^b - 1)``, ``Z = min``, so ``E[q S + Z] = h``.
    """

    parameters: str = "float32"
    """Type in which Z and S travel: ``float32``, or ``bfloat16`` (rounded outwards before encoding)."""

    def __post_init__(self) -> None:
        if self.parameters not in ("float32", "bfloat16"):
            raise ValueError(f"codec parameters must be 'float32' or 'bfloat16', got {self.parameters!r}")

    @property
    def widths(self) -> tuple[int, ...]:
        return WIDTHS

    def rows(self, num_rows: int, columns: int, device: torch.device) -> Tensor:
        stride = -(-columns // _LINE) * _LINE
        return torch.empty(num_rows, stride, device=device)[:, :columns]

    @property
    def _parameter_dtype(self) -> torch.dtype:
        return torch.float32 if self.parameters == "float32" else torch.bfloat16

    def layout(self, widths: int | Tensor, num_rows: int, columns: int) -> Layout:
        return lay_out(widths, num_rows, columns, bytes_per_parameter=self._parameter_dtype.itemsize)

    def encode(
        self, x: Tensor, rows: Tensor, ids: Tensor, layout: Layout, segment: Tensor, noise: Noise
    ) -> Tensor | None:
        """Quantize and pack rows; their ranges are found on the way.

        Raises:
            NonFiniteRow: if a row holds NaN or Inf, or its range overflows.
        """
        parameters, payload = layout.split(segment)
        ranges = torch.empty(layout.num_rows, device=x.device)
        encode_rows(
            x,
            rows,
            ids,
            layout.bits,
            layout.offsets,
            payload,
            parameters.view(self._parameter_dtype).view(layout.num_rows, 2),
            seed=noise.seed,
            epoch=noise.epoch,
            stream=noise.stream,
            ranges=ranges,
        )
        return ranges

    def decode(self, segment: Tensor, layout: Layout, out: Tensor, rows: Tensor, *, accumulate: bool) -> None:
        parameters, payload = layout.split(segment)
        decode_rows(
            payload,
            parameters.view(self._parameter_dtype).view(layout.num_rows, 2),
            layout.bits,
            layout.offsets,
            out,
            rows,
            accumulate=accumulate,
        )

    def landing(self, out: Tensor) -> Tensor | None:
        return None
