"""Empirical entropy of the codes in a message, to compare with the bits that they take.

Letters: m rows of one width, D columns, B bytes of a packed row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gnnqlab.bits.row import EXACT
from gnnqlab.kernels.reference.codec import unpack
from gnnqlab.message.direction import of_direction
from gnnqlab.message.layout import Layout
from gnnqlab.observe import NO_OBSERVERS, Observers

__all__ = ["Counting", "code_counts", "code_entropies", "entropy_of", "without_codes"]


@dataclass
class Counting:
    """Switch for counting the codes of received messages; shared by the channels of one worker."""

    on: bool = False
    observers: Observers = NO_OBSERVERS
    """Observers that receive events of the messages of training passes."""


def without_codes(codec: Any) -> list[str]:
    """Return the directions whose messages have no integer codes, each with the name of its codec.

    Args:
        codec: codec of both directions, or a pair.

    Example:
        >>> from gnnqlab.message import Float32, Stochastic
        >>> from gnnqlab.message.direction import ByDirection
        >>> without_codes(ByDirection(Stochastic(), Float32()))
        ['backward Float32']
    """
    parts = {direction: of_direction(codec, direction) for direction in ("forward", "backward")}
    return [f"{way} {type(part).__name__}" for way, part in parts.items() if not part.integer_codes]


def code_entropies(layout: Layout, segment: Tensor) -> dict[int, float]:
    """Compute the empirical entropy of a message's codes, ``H = -sum_q p_q log2 p_q``, in bits per element, by width.

    p_q is the frequency of code q among all elements of the rows with one bit-width, without the padding of their last
    bytes. H is the lower bound for an entropy coder of single elements with one table per message (Shannon 1948); it
    excludes the quantization parameters. Differs: as an estimate from n elements, it is too low by about
    ``(2^b - 1) / (2 n ln 2)`` bits (Miller 1955) and at most log2 n, so it means little for 16 bits in short messages.

    Args:
        layout: layout of a message whose codec has ``integer_codes``.
        segment: bytes of the message, uint8.

    Returns:
        Bit-width -> entropy in [0, bit-width]; rows of 32 bits have no codes.

    Example:
        >>> from gnnqlab.message.layout import make_layout
        >>> layout = make_layout(2, 1, 4, param_bytes=lambda bits, columns: 0)
        >>> code_entropies(layout, torch.tensor([0b01_00_01_00], dtype=torch.uint8))
        {2: 1.0}
    """
    payload, entropies = layout.split(segment)[1], {}
    # Shares are ascending, rows of the message are widest first.
    for share in sorted(layout.shares, key=lambda share: share.bits, reverse=True):
        body, payload = payload[: share.payload_bytes], payload[share.payload_bytes :]
        if share.bits < EXACT and body.numel():
            entropies[share.bits] = entropy_of(code_counts(body.view(share.rows, -1), share.bits, layout.columns))
    return entropies


def code_counts(packed_mB: Tensor, bits: int, columns: int) -> Tensor:
    """Count each code in packed rows; return int64 ``(2^bits,)``.

    Args:
        packed_mB: uint8, the first column in the lowest bits.
        bits: bit-width of a code, 1, 2, 3, 4, 8 or 16.
        columns: D.

    Example:
        >>> code_counts(torch.tensor([[0b1101], [0b0100]], dtype=torch.uint8), 1, 3).tolist()  # 1 0 1 and 0 0 1
        [3, 3]
    """
    if bits == 16:
        words = packed_mB.contiguous().view(torch.int16).to(torch.int32) & 0xFFFF  # (m, D) codes in [0, 65536)
        return torch.bincount(words.flatten(), minlength=1 << 16)
    # Codes of 3 bits cross byte boundaries, so bytes cannot be counted in place of codes.
    if 8 % bits:
        return torch.bincount(unpack(packed_mB, bits, columns).flatten(), minlength=1 << bits)
    # Count whole bytes with a histogram of 256 bins, then add each byte's count to the codes in it.
    a_byte, border = 8 // bits, columns * bits // 8
    codes = unpack(torch.arange(256, dtype=torch.uint8, device=packed_mB.device)[:, None], bits, a_byte).long()
    counts = torch.zeros(1 << bits, dtype=torch.int64, device=packed_mB.device)  # (2^b,)
    # The last byte of a row may be padded: only its first codes count.
    for byte_block, num_codes in ((packed_mB[:, :border], a_byte), (packed_mB[:, border:], columns - border * a_byte)):
        byte_counts = torch.bincount(byte_block.flatten(), minlength=256)  # (256,)
        counts.index_add_(0, codes[:, :num_codes].flatten(), byte_counts.repeat_interleave(num_codes))
    return counts


def entropy_of(counts: Tensor) -> float:
    """Return the entropy ``-sum p log2 p`` of counts, in bits; 0 if all are zero."""
    shares = counts.double() / max(int(counts.sum()), 1)  # p_q; 0 log 0 = 0 by ``xlogy``
    return abs(float(-torch.special.xlogy(shares, shares).sum() / torch.log(torch.tensor(2.0, dtype=torch.float64))))
