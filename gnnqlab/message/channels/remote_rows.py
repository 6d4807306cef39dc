"""Fetch remote feature rows by node id, for mini-batches that are sampled at run time."""

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

__all__ = ["RemoteRows", "SentBytes"]

COUNT_BYTES = 8
"""Bytes of the number of rows requested from a peer, int64."""
ID_BYTES = 4
"""Bytes of a node id, int32 as in the edges of a graph."""


@dataclass
class SentBytes:
    """Bytes sent so far by this worker to all peers."""

    request_bytes: int = 0
    """Bytes of requests: number of rows and their ids."""
    row_bytes: int = 0
    """Bytes of rows sent on request: payload and parameters."""


class RemoteRows:
    """Feature rows of one worker's nodes, with access to the rows of all other workers.

    A fetch has three communication rounds: number of requested rows, their ids, the rows. All workers call it equally
    often, each with its own ids. Local rows are returned unchanged; a remote row is encoded again at each request, with
    noise that is a function of (seed, step, id, receiver).

    Args:
        rows: features of the owned nodes in ascending order of their ids, float32 ``(n, D)``.
        owner: rank that owns each node, int64 ``(N,)``.
        rank: this worker, of ``workers``.
        codec: encodes the rows that are sent, with ``bits`` bits per element.
        transport: a point-to-point transport, since collectives may run at the same time.
        seed: seed of the rounding noise.

    Raises:
        ValueError: if there is not one row for each owned node, or the codec does not support ``bits``.
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
        owned_ids = (owner == rank).nonzero().flatten()  # (N,) -> (n,) int64, ascending
        if rows.dim() != 2 or rows.dtype != torch.float32 or len(rows) != len(owned_ids):
            raise ValueError(
                f"rows must be float32, one for each of the {len(owned_ids)} nodes of rank {rank}, got {rows.dtype} "
                f"{tuple(rows.shape)}"
            )
        if bits not in codec.widths:
            raise ValueError(f"bits must be one of {codec.widths}, which the codec writes, got {bits}")
        self._rows, self._owner = rows, owner
        self._place = torch.full(owner.shape, -1)  # (N,) int64: row of each owned node, -1 for others
        self._place[owned_ids] = torch.arange(len(owned_ids))
        self._rank, self._peers = rank, [peer for peer in range(workers) if peer != rank]
        self._workers, self._codec, self._transport = workers, codec, transport
        self.sent = SentBytes()
        no_ids = dict.fromkeys(self._peers, torch.empty(0, dtype=torch.int64))
        self._channel = Channel(
            layer=0,
            direction="forward",
            plan=self._plan(no_ids, no_ids, no_ids),  # each fetch has a plan of its own
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
        """Return the rows of nodes, float32 ``(n, D)``, remote ones as decoded; collective over all workers.

        Args:
            ids: distinct global node ids, int64 ``(n,)``.
            step: index of the fetch; part of the noise key.

        Raises:
            NonFiniteMessage: if a row requested by a peer holds NaN or Inf.
        """
        if not self._peers:
            return self._own(ids)
        out, owner = self._codec.rows(len(ids), self.columns, self._rows.device), self._owner[ids]  # (n, D), (n,)
        local_positions = (owner == self._rank).nonzero().flatten()
        # Rows of this worker are copied in float32, without the rounding of a message.
        out.index_copy_(0, local_positions, self._own(ids[local_positions]))
        positions = {peer: (owner == peer).nonzero().flatten() for peer in self._peers}  # peer -> rows of ``out``
        remote_ids = {peer: ids[positions[peer]] for peer in self._peers}
        # Both ends keep the order of the request, so the reply needs no ids.
        plan = self._plan(self._exchange_requests(remote_ids), remote_ids, positions)
        self._channel.post(self._rows, out, epoch=step, plan=plan).decode()
        self._channel.arrivals.clear()
        self.sent.row_bytes = self._channel.bytes_payload + self._channel.bytes_params
        return out

    def _own(self, ids: Tensor) -> Tensor:
        return self._rows.index_select(0, self._place[ids])

    def _exchange_requests(self, remote_ids: Mapping[int, Tensor]) -> dict[int, Tensor]:
        """Send requested ids to their owners; return the ids that each peer requests from this worker."""
        counts = {peer: torch.tensor([len(ids)]).view(torch.uint8) for peer, ids in remote_ids.items()}
        peer_counts = {peer: _bytes(COUNT_BYTES) for peer in self._peers}  # (8,) uint8: one int64
        self._move(counts, peer_counts)  # receive buffers of the ids need their sizes
        requests = {
            peer: torch.empty(int(peer_counts[peer].view(torch.int64)), dtype=torch.int32) for peer in self._peers
        }
        # Ids as int32, half the bytes of int64.
        self._move(_as_bytes({peer: ids.int() for peer, ids in remote_ids.items()}), _as_bytes(requests))
        self.sent.request_bytes += sum(COUNT_BYTES + ID_BYTES * len(ids) for ids in remote_ids.values())
        return {peer: ids.long() for peer, ids in requests.items()}

    def _plan(
        self, requests: Mapping[int, Tensor], remote_ids: Mapping[int, Tensor], positions: Mapping[int, Tensor]
    ) -> Plan:
        """Return the plan of one fetch; received rows go to ``positions`` of the result."""
        send = tuple(Route(peer, self._place[ids], ids, None) for peer, ids in requests.items())
        receive = tuple(Route(peer, positions[peer], ids, None) for peer, ids in remote_ids.items())
        return Plan(self._rank, self._workers, send, receive, accumulate=False)

    def _move(self, send: Mapping[int, Tensor], receive: Mapping[int, Tensor]) -> None:
        self._transport.post(send, receive).wait()


def _bytes(count: int) -> Tensor:
    return torch.empty(count, dtype=torch.uint8)


def _as_bytes(tensors: Mapping[int, Tensor]) -> dict[int, Tensor]:
    return {peer: tensor.view(torch.uint8) for peer, tensor in tensors.items()}
