"""Channels of a halo plan: one for each layer, direction, codec, bit-width and device, created at first use."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from gnnqlab.bits.policy import Fixed
from gnnqlab.bits.row import EXACT
from gnnqlab.halo.halo_lists import RowLists
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.codecs.codec import Codec, Float32
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.message.transport.transport import Transport
from gnnqlab.partition.plan import Plan, Route

__all__ = ["PlanChannels"]


class PlanChannels:
    """Channels of one plan, whose rows may be replaced.

    Args:
        transport: transport of the messages.
        rank, workers: this rank, and the number of ranks.
        seed: seed of the rounding noise.
    """

    def __init__(self, transport: Transport, *, rank: int, workers: int, seed: int) -> None:
        self._transport, self._rank, self._workers, self._seed = transport, rank, workers, seed
        # Starting behind the own rank: no two ranks address the same peer first.
        self._peers = [(rank + k) % workers for k in range(1, workers)]
        self._channels: dict[tuple[ExchangeKey, Codec, int, torch.device], Channel] = {}

    def use(self, lists: RowLists, run: int) -> None:
        """Use these rows from the next exchange on; channels keep their buffers.

        Args:
            lists: rows to send and to receive.
            run: number in the headers of messages, equal on all ranks.
        """
        counts = [ids.numel() for ids in lists.receive_ids]
        self._lists, self._run = lists, run
        self._firsts = [0, *itertools.accumulate(counts)]  # first received row of each rank, in rank order
        self._plans: dict[tuple[str, torch.device], Plan] = {}
        for (key, _, _, device), channel in self._channels.items():
            channel.use_plan(self._plan(key.direction, device), run)

    @property
    def sent_bytes(self) -> int:
        """Bytes of rows sent so far, with quantization parameters, without headers."""
        return sum(channel.bytes_payload + channel.bytes_params for channel in self._channels.values())

    @property
    def header_bytes(self) -> int:
        """Bytes of headers sent so far."""
        return sum(channel.bytes_headers for channel in self._channels.values())

    def channel(self, place: ExchangeKey, codec: Codec, bits: int, device: torch.device) -> Channel:
        """Return the channel of an exchange key, created at first use.

        Args:
            place: layer, direction, and as its round half the number of differentiations.
            codec: codec of the rows; not used with 32 bits, which is float32.
            bits: bit-width of every row.
            device: device of the rows.
        """
        key = place, codec, bits, device
        if key not in self._channels:
            self._channels[key] = Channel(
                layer=place.layer,
                direction=place.direction,
                round=place.round,
                plan=self._plan(place.direction, device),
                codec=Float32() if bits == EXACT else codec,
                bits=Fixed(bits=bits),
                transport=self._transport,
                seed=self._seed,
                run=self._run,
            )
        return self._channels[key]

    def _plan(self, direction: str, device: torch.device) -> Plan:
        """Return the plan of a direction: send own rows and receive halo rows, or send and receive their gradients."""
        if (direction, device) not in self._plans:
            lists = self._lists
            own_routes = tuple(
                Route(peer, lists.send[peer].to(device), lists.send_ids[peer].to(device), None) for peer in self._peers
            )
            halo = tuple(self._halo_route(peer, device) for peer in self._peers)
            send, receive = (own_routes, halo) if direction == "forward" else (halo, own_routes)
            # Gradients of a row sent to several peers are added.
            plan = Plan(self._rank, self._workers, send=send, receive=receive, accumulate=direction == "backward")
            self._plans[direction, device] = plan
        return self._plans[direction, device]

    def _halo_route(self, peer: int, device: torch.device) -> Route:
        first, end = self._firsts[peer], self._firsts[peer + 1]
        return Route(peer, torch.arange(first, end, device=device), self._lists.receive_ids[peer].to(device), first)

    def exchange_ids(self, sent_ids: Sequence[Tensor], receive: Sequence[int], device: str) -> list[Tensor]:
        """Send the ids of sent rows to their receivers; return those received from each rank.

        Both ends need the ids of a row, because they key its rounding noise.

        Args:
            sent_ids: ids for each rank.
            receive: number of ids from each rank.
            device: type of the device whose memory the group sends.
        """
        # NCCL sends device memory only, also for these few ids.
        received_ids = [torch.empty(count, dtype=torch.int64, device=device) for count in receive]
        sends = {peer: sent_ids[peer].to(device).view(torch.uint8) for peer in self._peers}
        receives = {peer: received_ids[peer].view(torch.uint8) for peer in self._peers}
        self._transport.post(sends, receives).wait()
        return [ids.cpu() for ids in received_ids]
