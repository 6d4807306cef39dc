"""The axis ``codec``: float32, and AdaQP's stochastic integer quantization.

Letters: n rows of a message, m of one part of it, D columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from gnnqlab.bits.policy import USUAL
from gnnqlab.bits.variance import RowVariance, min_max
from gnnqlab.kernels.codec.rows import decode_rows, encode_rows
from gnnqlab.kernels.sparse.codec_sum import MessageCodes
from gnnqlab.message.codecs.base import Codec, Noise, PartCodec, PartRows, require_finite
from gnnqlab.message.codecs.wide_codes import decode_16, decode_32, encode_16, encode_32
from gnnqlab.message.layout import Layout, make_layout
from gnnqlab.settings import OneOf, check

__all__ = ["Codec", "Float32", "Noise", "PartCodec", "PartRows", "Stochastic"]


@dataclass(frozen=True)
class Float32(Codec):
    """Send rows in full precision: four bytes per element, no quantization parameters.

    Contiguous rows are sent without a copy, see `send_view`.
    """

    @property
    def same_at_receivers(self) -> bool:
        """True: rows are not rounded."""
        return True

    @property
    def widths(self) -> tuple[int, ...]:
        return (32,)

    def param_bytes(self, bits: int, columns: int) -> int:
        return 0

    def rows(self, num_rows: int, columns: int, device: torch.device) -> Tensor:
        return torch.empty(num_rows, columns, device=device)  # contiguous, so that messages are received in place

    def layout(self, widths: int | Tensor, num_rows: int, columns: int) -> Layout:
        return make_layout(32, num_rows, columns, param_bytes=self.param_bytes)

    def encode(
        self, x: Tensor, rows: Tensor, ids: Tensor, layout: Layout, segment: Tensor, noise: Noise
    ) -> Tensor | None:
        """Gather rows.

        Raises:
            NonFiniteRow: if a row holds NaN or Inf; on CUDA `raise_refused` raises it later.
        """
        payload_nD = segment.view(torch.float32).view(layout.num_rows, layout.columns)  # (4 n D,) uint8 -> (n, D)
        torch.index_select(x, 0, rows, out=payload_nD)
        require_finite(payload_nD)
        return None

    def send_view(self, x: Tensor) -> Tensor | None:
        """Return a uint8 view of ``x`` if it may be sent without encoding, else ``None``; errors as :meth:`encode`.

        A subclass with its own :meth:`encode` always gets ``None``.
        """
        # A strided view has gaps between its rows, which are no part of the message.
        if type(self).encode is not Float32.encode or not x.is_contiguous():
            return None
        require_finite(x)
        return x.view(torch.uint8).flatten()  # (n, D) float32 -> (4 n D,) uint8, the same memory

    def decode(
        self,
        segment: Tensor,
        layout: Layout,
        out: Tensor,
        rows: Tensor,
        *,
        accumulate: bool,
        ids: Tensor | None = None,
        noise: Noise | None = None,
    ) -> None:
        payload_nD = segment.view(torch.float32).view(layout.num_rows, layout.columns)  # (4 n D,) uint8 -> (n, D)
        if accumulate:
            out.index_add_(0, rows, payload_nD)
        else:
            out.index_copy_(0, rows, payload_nD)

    def receive_view(self, out: Tensor) -> Tensor | None:
        # A subclass with its own decode() must get the bytes that were sent, not rows.
        if type(self).decode is not Float32.decode or not out.is_contiguous():
            return None
        return out.view(torch.uint8).flatten()


@dataclass(frozen=True, kw_only=True)
class Stochastic(PartCodec):
    """Stochastic integer quantization with one scale and zero-point per row (AdaQP Eqs. 4, 5; SYLVIE Eq. 3).

    ``q = floor((h - Z) / S + u)``, ``u ~ U[0, 1)``, ``S = (max - min) / (2^b - 1)``, ``Z = min``, so
    ``E[q S + Z] = h``. One message may mix rows of 1, 2, 4, 8 and 16 bits with rows of 32 bits, which are float32.
    """

    integer_codes: ClassVar[bool] = True
    """True: the payload holds integer codes, which can be counted."""
    min_contractive_bits: ClassVar[int] = 2
    """Smallest bit-width at which fed-back errors shrink: an element is off by up to one step either way, so the error
    has a range of up to ``2 / (2^b - 1)`` of the row's; at one bit that is twice the row's range."""

    parameters: Annotated[str, OneOf(_PARAMETERS)] = "float32"
    """Type of Z and S on the wire: ``float32``; ``bfloat16``, rounded outwards before encoding; or ``bfloat16-after``,
    converted after encoding with float32 values, as in AdaQP's published code, which makes decoding biased."""
    noise: Annotated[str, OneOf(("receiver", "node"))] = "receiver"
    """``receiver``: rounding errors of a row are independent at each of its receivers, as AdaQP's Eq. 24 assumes;
    ``node``: identical at all of them. Differs with ``node``: identical errors do not average out, so the gradient has
    more variance at the same bytes: 1.36 ± 0.20 times on ``amazon_computers`` in 1 bit with GCN on 8 workers, measured
    by :func:`gnnqlab.simulation.gradient_noise.gradient_noise`. With two workers a row has one receiver, and both
    settings are identical, bit for bit."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def widths(self) -> tuple[int, ...]:
        return USUAL

    @property
    def reads_in_place(self) -> bool:
        """True, except in subclasses with their own decoding; see `Codec.reads_in_place`."""
        return type(self).decode is PartCodec.decode and type(self).decode_part is Stochastic.decode_part

    def param_bytes(self, bits: int, columns: int) -> int:
        return 0 if bits == 32 else 2 * _PARAMETERS[self.parameters].itemsize

    def row_variance(self, columns: int) -> RowVariance:
        """Return ``D · range^2 / 6 / (2^b - 1)^2`` (AdaQP Theorem 1), for any type of the parameters."""
        return min_max(columns)

    def encode_part(self, part: PartRows, x: Tensor, noted: Tensor, noise: Noise) -> None:
        rows, ids, payload, key = part.rows, part.ids, part.payload, noise.key(self.noise)
        assert ids is not None
        wire_params = part.params.view(_PARAMETERS[self.parameters]).view(-1, 2)  # (m, 2): Z and S
        # With "bfloat16-after" codes are computed with float32 parameters, which are converted only when copied below.
        params = torch.empty(wire_params.shape, device=x.device) if self.parameters == "bfloat16-after" else wire_params
        # Wide rows are few, so they are encoded by tensor operations; all smaller bit-widths by one kernel.
        if part.width == 32:
            encode_32(x, rows, payload, noted)
        elif part.width == 16:
            encode_16(x, rows, ids, payload, params, noted, **key)
        else:
            encode_rows(x, rows, ids, part.bits, part.offsets, payload, params, ranges=noted, **key)
        if params is not wire_params:
            wire_params.copy_(params)

    def decode_part(self, part: PartRows, out: Tensor, noise: Noise | None, *, accumulate: bool) -> None:
        rows, payload, params = part.rows, part.payload, part.params.view(_PARAMETERS[self.parameters]).view(-1, 2)
        if part.width == 32:
            decode_32(payload, out, rows, accumulate=accumulate)
        elif part.width == 16:
            decode_16(payload, params, out, rows, accumulate=accumulate)
        else:
            decode_rows(payload, params, part.bits, part.offsets, out, rows, accumulate=accumulate)

    def message_codes(self, segment: Tensor, layout: Layout, rows: Tensor) -> tuple[MessageCodes, ...] | None:
        parts, dtype = layout.parts(self.separate_widths), _PARAMETERS[self.parameters]
        if not self.reads_in_place or any(part.width == 16 for part in parts):  # no kernel reads codes of 16 bits
            return None
        return tuple(
            MessageCodes(
                segment[part.payload],
                None if part.width == 32 else segment[part.params].view(dtype).view(-1, 2),  # (m, 2): Z and S
                part.bits,
                part.offsets,
                rows[part.rows],
            )
            for part in parts
        )


_PARAMETERS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "bfloat16-after": torch.bfloat16}
"""Name -> type of Z and S on the wire."""
