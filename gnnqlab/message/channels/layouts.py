"""The widths and the byte layouts of one place's messages, resolved once and not at every message."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from functools import partial

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
"""(``send`` or ``receive``, peer) -> widths in force of all rows of a plan's route."""
KnownLayouts = MutableMapping[Tensor, dict[int, Layout]]
"""Widths of every row, by identity -> columns -> layout: layers that send the same rows lay them out once."""


@dataclass(frozen=True, eq=False)
class MessageLayouts:
    """The layouts of messages of so many columns, under one version of the bit policy."""

    plan: Plan
    """The rows that are sent; under a sampler those of an epoch."""
    columns: int
    """D."""
    version: int
    """Which assignment of widths is in force."""
    widths: Widths
    layouts: Layouts
    lengths: Mapping[tuple[str, int], int]
    """Most bytes of each message: those of its buffer and in its header."""

    def fit(self, plan: Plan, columns: int, version: int) -> bool:
        """Return True if messages of these rows and columns are laid out so."""
        return plan is self.plan and columns == self.columns and version == self.version

    def headers(self, place: ExchangeKey, run: int | None, epoch: int) -> Headers | None:
        """Return the headers of the messages of an epoch; ``None``: a run without a number sends none."""
        if run is None:
            return None
        rank, sent, expected = self.plan.rank, dict[int, Header](), dict[int, Header]()
        of = partial(Header, direction=place.direction, run=run, epoch=epoch, layer=place.layer, round=place.round)
        for (side, peer), layout in self.layouts.items():
            sender, receiver, headers = (rank, peer, sent) if side == "send" else (peer, rank, expected)
            if layout.num_bytes:
                of_body = partial(of, columns=self.columns, length=self.lengths[side, peer], layout=layout.digest)
                headers[peer] = of_body(sender=sender, receiver=receiver)
        return Headers(sent, expected)


def widths_in_force(place: ExchangeKey, plan: Plan, bits: BitPolicy, *, seed: int, epoch: int) -> Widths:
    """Return the widths in force of all rows of a plan: sender and receiver find the same ones."""
    widths: Widths = {}
    for side, routes in (("send", plan.send), ("receive", plan.receive)):
        for route in routes:
            sender, receiver = (plan.rank, route.peer) if side == "send" else (route.peer, plan.rank)
            if plan.to_all:
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
    """Return the layout of each message of a plan.

    Args:
        plan: the rows that are sent.
        widths: of all rows, those left out by a sampler too.
        columns: D.
        codec: writes the messages.
        known: layouts that were made for the same widths; new ones are added.
    """
    layouts: Layouts = {}
    for side, routes in (("send", plan.send), ("receive", plan.receive)):
        for route in routes:
            of_rows = widths[side, route.peer]
            if isinstance(of_rows, int) or route.kept is not None:
                of_rows = of_rows if isinstance(of_rows, int) else of_rows[route.kept]
                layouts[side, route.peer] = codec.layout(of_rows, route.num_rows, columns)
                continue
            made = known.setdefault(of_rows, {})
            if columns not in made:
                made[columns] = codec.layout(of_rows, route.num_rows, columns)
            layouts[side, route.peer] = made[columns]
    return layouts
