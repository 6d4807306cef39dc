"""Events for observers: a message was encoded by its sender, or decoded by its receiver."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gnnqlab.message.codecs.codec import Codec, Noise
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.message.layout import Layout
from gnnqlab.observe import MessageDecoded, MessageEncoded, Observers

__all__ = ["Sent", "report_decoded", "report_encoded"]


@dataclass(frozen=True, eq=False)
class Sent:
    """An encoded message with everything needed to decode it."""

    place: ExchangeKey
    sender: int
    receiver: int
    ids: Tensor
    """Global node ids of its rows, int64 ``(n,)`` in wire order."""
    codec: Codec
    layout: Layout
    segment: Tensor
    """Bytes of the message, uint8; a view of a buffer that the next epoch overwrites."""
    noise: Noise

    def copied(self) -> Sent:
        """Return the message with a copy of its bytes."""
        return replace(self, segment=self.segment.clone())

    def decode(self) -> Tensor:
        """Decode the message to float32 ``(n, D)``, in wire order."""
        layout, device = self.layout, self.segment.device
        out, places = torch.empty(layout.num_rows, layout.columns, device=device), torch.arange(layout.num_rows)
        if layout.num_rows:  # a cache may skip every row
            self.codec.decode(
                self.segment, layout, out, places.to(device), accumulate=False, ids=self.ids, noise=self.noise
            )
        return out


def report_encoded(observers: Observers, message: Sent, *, values: Tensor, offered_ids: Tensor) -> None:
    """Emit the event of an encoded message.

    Args:
        values: the rows before encoding, float32 ``(n, D)``.
        offered_ids: global node ids of all rows that could have been sent.
    """
    place, layout = message.place, message.layout
    event = MessageEncoded(
        rank=message.sender,
        epoch=message.noise.epoch,
        layer=place.layer,
        direction=place.direction,
        round=place.round,
        receiver=message.receiver,
        node_ids=message.ids,
        offered_ids=offered_ids,
        values=values,
        bit_widths=layout.bit_widths,
        num_bytes=layout.num_bytes,
        decode=message.copied().decode,  # an observer may decode after the buffer was overwritten
    )
    observers.emit(observers.message_encoded, event)


def report_decoded(observers: Observers, message: Sent) -> None:
    """Emit the event of a decoded message."""
    place = message.place
    event = MessageDecoded(
        rank=message.receiver,
        epoch=observers.epoch,
        layer=place.layer,
        direction=place.direction,
        round=place.round,
        sender=message.sender,
        node_ids=message.ids,
        staleness=observers.epoch - message.noise.epoch,  # the noise epoch is that of the encoding
        decode=message.copied().decode,
    )
    observers.emit(observers.message_decoded, event)
