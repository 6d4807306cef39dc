"""Bit-widths and byte layouts of the messages of one exchange key, computed once and not for every message."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

from torch import Tensor

from gnnqlab.bits.policy import BitPolicy, Rows
from gnnqlab.message.codecs.codec import Codec
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.message.layout import Layout
from gnnqlab.message.transport.header import Header, Headers
from gnnqlab.partition.plan import Plan

__all__ = ["KnownLayouts", "Layouts", "MessageLayouts", "Widths", "lay_out_messages", "widths_in_force"]

Layouts = dict[tuple[str, int], Layout]
"""(``send`` or ``receive``, peer) -> layout."""
Widths = dict[tuple[str, int], int | Tensor]
"""(``send`` or ``receive``, peer) -> bit-widths in force for all rows of a plan's route."""
KnownLayouts = MutableMapping[Tensor, dict[int, Layout]]
"""Tensor of bit-widths, by identity -> columns -> layout: layers that send the same rows share their layouts."""


@dataclass(frozen=True, eq=False)
class MessageLayouts:
    """Layouts of the messages of one plan, for one number of columns and one version of the bit policy."""

    plan: Plan
    """Rows to send; with a sampler, those of one epoch."""
    columns: int
    """D."""
    version: int
    """Version of the bit-widths in force."""
    widths: Widths
    layouts: Layouts
    lengths: Mapping[tuple[str, int], int]
    """Maximum bytes of each message: size of its buffer, and length in its header."""

    def headers(self, place: ExchangeKey, run: int | None, epoch: int) -> Headers | None:
        """Build the headers of one epoch's messages; ``None`` for a run without a number."""
        if run is None:
            return None
        rank, sent_headers, expected_headers = self.plan.rank, dict[int, Header](), dict[int, Header]()
        layer, direction, round_ = place
        for (side, peer), layout in self.layouts.items():
            sender, receiver, headers = (rank, peer, sent_headers) if side == "send" else (peer, rank, expected_headers)
            # Peers without rows exchange no message, so no header is expected from them either.
            if layout.num_bytes:
                body = self.columns, self.lengths[side, peer], layout.digest
                headers[peer] = Header(direction, run, epoch, layer, sender, receiver, *body, round_)
        return Headers(sent_headers, expected_headers)


def widths_in_force(place: ExchangeKey, plan: Plan, bits: BitPolicy, *, seed: int, epoch: int) -> Widths:
    """Look up the bit-widths of all rows of a plan; sender and receiver of a route get the same ones."""
    widths: Widths = {}
    for side, routes in (("send", plan.send), ("receive", plan.receive)):
        for route in routes:
            sender, receiver = (plan.rank, route.peer) if side == "send" else (route.peer, plan.rank)
            if plan.to_all:  # a broadcast block has one encoding, so its bit-widths depend on the sender only
                receiver = sender
            rows = Rows(
                layer=place.layer,
                direction=place.direction,
                round=place.round,
                sender=sender,
                receiver=receiver,
                ids=route.ids,
                seed=seed,
            )
            widths[side, route.peer] = bits.widths(rows, epoch)
    return widths


def lay_out_messages(plan: Plan, widths: Widths, columns: int, codec: Codec, known: KnownLayouts) -> Layouts:
    """Compute the layout of each message of a plan.

    Args:
        plan: rows to send.
        widths: bit-widths of all rows, including those not sampled.
        columns: D.
        codec: codec of the messages.
        known: cached layouts of tensors of bit-widths; new layouts are added.
    """
    layouts: Layouts = {}
    for side, routes in (("send", plan.send), ("receive", plan.receive)):
        for route in routes:
            row_widths = widths[side, route.peer]
            # Not cached: a single bit-width is cheap to lay out, and a sample changes in every epoch.
            if isinstance(row_widths, int) or route.sampled_positions is not None:
                # The policy assigns all rows of the route; take the sampled ones, (n,).
                row_widths = row_widths if isinstance(row_widths, int) else row_widths[route.sampled_positions]
                layouts[side, route.peer] = codec.layout(row_widths, route.num_rows, columns)
                continue
            # Sorting the rows by bit-width is the expensive part; layers that send the same rows share it.
            by_columns = known.setdefault(row_widths, {})
            if columns not in by_columns:
                by_columns[columns] = codec.layout(row_widths, route.num_rows, columns)
            layouts[side, route.peer] = by_columns[columns]
    return layouts
