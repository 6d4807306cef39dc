"""CDFGNN's codec: linear quantization of differences, rounded to the nearest level (section 5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from gnnqlab.kernels.codec.linear import encode_linear
from gnnqlab.kernels.codec.rows import decode_rows
from gnnqlab.message.codecs.codec import Noise, PartCodec, PartRows
from gnnqlab.message.codecs.wide_codes import decode_32, encode_32

__all__ = ["Linear"]


@dataclass(frozen=True)
class Linear(PartCodec):
    """Linear integer quantization, rounded to the nearest level (CDFGNN Eqs. 22 and 23).

    ``q = min(floor((m - Z) / S + 1/2), 2^B - 1)``, ``Z = min``, ``S = (max - min) / 2^B``; decoding gives ``q S + Z``.
    Rounding is deterministic, so it is biased. Combine it with a cache that sends differences to the receiver's copy:
    each difference then contains, and corrects, the error of the previous message.

    Differs: Eq. 22 gives the largest element the code 2^B, which B bits cannot hold; here it is clamped (erratum CD-1).
    So the error is at most S / 2, the paper's bound, up to ``max - S / 2``, and at most S above it: see :meth:`bound`.
    The paper sends min and max; here Z and S are sent, in as many bytes.

    Example:
        >>> codec, rows = Linear(), torch.tensor([[0.0, 1.4, 4.0]])
        >>> layout = codec.layout(2, 1, 3)
        >>> segment, out = torch.zeros(layout.num_bytes, dtype=torch.uint8), torch.zeros(1, 3)
        >>> first = torch.tensor([0])
        >>> _ = codec.encode(rows, first, first, layout, segment, Noise(0, 0, 0))
        >>> codec.decode(segment, layout, out, first, accumulate=False)
        >>> out.tolist()
        [[0.0, 1.0, 3.0]]
    """

    aligned: ClassVar[bool] = False
    integer_codes: ClassVar[bool] = True
    """True: the payload holds integer codes, which can be counted."""

    @property
    def same_at_receivers(self) -> bool:
        """True: rounding is a function of the row alone."""
        return True

    @property
    def widths(self) -> tuple[int, ...]:
        return (1, 2, 4, 8, 32)

    def biased(self, direction: str) -> str:
        """Return the reason why messages are biased."""
        return "rounds to the nearest level, so a row has the same error in every draw"

    @staticmethod
    def bound(spread: float, bits: int) -> float:
        """Return the maximum error of a decoded element, in the unit of the rows.

        Twice the paper's ``(max - min) / 2^(B+1)``, because the largest element is clamped.

        Args:
            spread: ``max - min`` of the row.
            bits: B; rows of 32 bits have no error.

        Example:
            >>> Linear.bound(4.0, 2)
            1.0
        """
        # One whole step S, from the clamped largest element; half a step elsewhere.
        return 0.0 if bits == 32 else spread / 2**bits

    def param_bytes(self, bits: int, columns: int) -> int:
        return 0 if bits == 32 else 8

    def encode_part(self, part: PartRows, x: Tensor, noted: Tensor, noise: Noise) -> None:
        if part.width == 32:
            encode_32(x, part.rows, part.payload, noted)
        else:
            params = part.params.view(torch.float32).view(-1, 2)
            # Deterministic rounding: neither ids nor noise are needed, and decoding is that of `Stochastic`.
            encode_linear(x, part.rows, part.bits, part.offsets, part.payload, params, noted)

    def decode_part(self, part: PartRows, out: Tensor, noise: Noise | None, *, accumulate: bool) -> None:
        if part.width == 32:
            decode_32(part.payload, out, part.rows, accumulate=accumulate)
        else:
            params = part.params.view(torch.float32).view(-1, 2)
            decode_rows(part.payload, params, part.bits, part.offsets, out, part.rows, accumulate=accumulate)
