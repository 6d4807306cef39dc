"""Rows that lie with their owners, fetched by id: what a sampled batch needs, and nobody knows before it is sampled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from gnnqlab.bits.policy import Fixed
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.codecs.codec import Codec
from gnnqlab.message.transport.transport import Transport
from gnnqlab.partition.plan import Plan, Route

__all__ = ["RemoteRows", "Sent"]

COUNT_BYTES = 8
"""Of the number of rows that a worker asks a peer for."""
ID_BYTES = 4
"""Of the id of a row, int32 as in the edges of a graph."""


@dataclass
class Sent:
    """Bytes that this worker has sent so far, to all peers."""

    asked: int = 0
    """How many rows it wants, and which."""
    rows: int = 0
    """Rows that others wanted: payload and parameters."""


class RemoteRows:
    """One worker's part of a table of rows, one row a node, and its way to the rows of the others.

    A fetch has three rounds of messages: how many rows are wanted, their ids, the rows. All workers fetch equally
    often, each what it wants. A row that stays with its owner is taken as it is; one that travels is encoded anew each
    time, with noise that is a function of (seed, step, id) and of who receives it.

    Args:
        rows: of owned nodes, float32 ``(n, D)``.
        owner: of every node, int64 ``(N,)``; rows are those of the nodes that ``rank`` owns, in ascending order.
        rank: this worker, of ``workers``.
        codec: how a row becomes bytes, each of ``bits``.
        transport: moves them; one that posts to peers, since others may use collectives meanwhile.
        seed: of the noise.

    Raises:
        ValueError: if there is not one row for each owned node, or the codec has no such width.
    """

    def __init__(
        self,
        rows: Tensor,
        owner: Tensor,
        *,
        rank: int,
        workers: int,
        codec: Codec,
        bits: int,
        transport: Transport,
        seed: int = 0,
    ) -> None:
        owned = (owner == rank).nonzero().flatten()
        if rows.dim() != 2 or rows.dtype != torch.float32 or len(rows) != len(owned):
            raise ValueError(
                f"rows must be float32, one for each of the {len(owned)} nodes of rank {rank}, got {rows.dtype} "
                f"{tuple(rows.shape)}"
            )
        if bits not in codec.widths:
            raise ValueError(f"bits must be one of {codec.widths}, which the codec writes, got {bits}")
        self._rows, self._owner = rows, owner
        self._place = torch.full(owner.shape, -1)
        self._place[owned] = torch.arange(len(owned))
        self._rank, self._peers = rank, [peer for peer in range(workers) if peer != rank]
        self._workers, self._codec, self._transport = workers, codec, transport
        self.sent = Sent()
        nobody = dict.fromkeys(self._peers, torch.empty(0, dtype=torch.int64))
        self._channel = Channel(
            layer=0,
            direction="forward",
            plan=self._plan(nobody, nobody, nobody),
            codec=codec,
            bits=Fixed(bits=bits),
            transport=transport,
            seed=seed,
            keeps_buffers=False,
        )

    @property
    def columns(self) -> int:
        """D."""
        return self._rows.shape[1]

    def fetch(self, ids: Tensor, step: int) -> Tensor:
        """Return rows, float32 ``(n, D)``, those of peers as their codes decode; all workers call this together.

        Args:
            ids: different nodes, int64 ``(n,)``.
            step: enters the noise.

        Raises:
            NonFiniteMessage: if a row that a peer asks for holds NaN or Inf.
        """
        if not self._peers:
            return self._own(ids)
        out, owner = self._codec.rows(len(ids), self.columns, self._rows.device), self._owner[ids]
        here = (owner == self._rank).nonzero().flatten()
        out.index_copy_(0, here, self._own(ids[here]))
        places = {peer: (owner == peer).nonzero().flatten() for peer in self._peers}
        wanted = {peer: ids[places[peer]] for peer in self._peers}
        plan = self._plan(self._ask(wanted), wanted, places)
        self._channel.post(self._rows, out, epoch=step, plan=plan).decode()
        self._channel.arrivals.clear()
        self.sent.rows = self._channel.bytes_payload + self._channel.bytes_params
        return out

    def _own(self, ids: Tensor) -> Tensor:
        return self._rows.index_select(0, self._place[ids])

    def _ask(self, wanted: Mapping[int, Tensor]) -> dict[int, Tensor]:
        """Return the ids that each peer wants of this worker."""
        counts = {peer: torch.tensor([len(ids)]).view(torch.uint8) for peer, ids in wanted.items()}
        told = {peer: _bytes(COUNT_BYTES) for peer in self._peers}
        self._move(counts, told)
        asked = {peer: torch.empty(int(told[peer].view(torch.int64)), dtype=torch.int32) for peer in self._peers}
        self._move(_as_bytes({peer: ids.int() for peer, ids in wanted.items()}), _as_bytes(asked))
        self.sent.asked += sum(COUNT_BYTES + ID_BYTES * len(ids) for ids in wanted.values())
        return {peer: ids.long() for peer, ids in asked.items()}

    def _plan(self, asked: Mapping[int, Tensor], wanted: Mapping[int, Tensor], places: Mapping[int, Tensor]) -> Plan:
        """Return who sends which rows to whom; those that are wanted go to these places of the result."""
        send = tuple(Route(peer, self._place[ids], ids, None) for peer, ids in asked.items())
        receive = tuple(Route(peer, places[peer], ids, None) for peer, ids in wanted.items())
        return Plan(self._rank, self._workers, send, receive, accumulate=False)

    def _move(self, send: Mapping[int, Tensor], receive: Mapping[int, Tensor]) -> None:
        self._transport.post(send, receive).wait()


def _bytes(count: int) -> Tensor:
    return torch.empty(count, dtype=torch.uint8)


def _as_bytes(several: Mapping[int, Tensor]) -> dict[int, Tensor]:
    return {peer: each.view(torch.uint8) for peer, each in several.items()}
