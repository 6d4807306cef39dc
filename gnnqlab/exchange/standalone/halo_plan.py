"""The plan of an exchange alone: which local rows go to each peer, and how many come; no graph, no trainer.

Letters: N local rows, H rows that come, P ranks of the group.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from gnnqlab.bits.policy import Fixed
from gnnqlab.bits.row import EXACT
from gnnqlab.exchange.standalone.halo_lists import Lists, agree
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.codecs.codec import Codec, Float32
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.message.transport.header import run_number
from gnnqlab.message.transport.transport import make_transport
from gnnqlab.partition.plan import Plan, Route

__all__ = ["HaloPlan"]

_BACKENDS = ("gloo", "nccl")


class HaloPlan:
    """Which rows go to each peer, in order, and how many come from each: what codes that exchange halos hold.

    All ranks of a group make it together, and their lists are compared then, once. Peers are ranks within the group.
    A plan keeps the buffers of its messages from call to call.

    Args:
        send: for each peer the local rows to send, in order, integers ``(n,)``, each row once; none for this rank.
        receive: how many rows come from each peer; 0 for this rank.
        num_rows: N. By default one more than the largest row that is sent; an exchange then takes more rows too.
        ids: global id of each local row, integers ``(N,)`` in ``[0, 2**32)``: enters the noise, and names a row in
            errors. By default rows are counted through, rank after rank.
        seed: of the noise, the same on all ranks.
        group: whose ranks exchange, over Gloo or NCCL; by default all processes, or this one where there is no group.
        transport: ``direct``, ``ring`` or ``all-to-all``.

    Raises:
        ValueError: on every rank alike, if the lists of one break a rule or those of two do not fit; it names the rank.

    Example:
        >>> plan = HaloPlan([torch.empty(0, dtype=torch.int64)], [0], num_rows=5)  # one process has no peers
        >>> plan.rank, plan.workers, plan.num_halo
        (0, 1, 0)
    """

    def __init__(
        self,
        send: Sequence[Tensor],
        receive: Sequence[int],
        *,
        num_rows: int | None = None,
        ids: Tensor | None = None,
        seed: int = 0,
        group: dist.ProcessGroup | None = None,
        transport: str = "direct",
    ) -> None:
        self.rank, self.workers = _place_in(group)
        self._over_nccl = self.workers > 1 and dist.get_backend(group) == "nccl"
        self._transport = make_transport(transport, self.rank, self.workers, group)
        send = [torch.as_tensor(rows) for rows in send]
        receive = [int(count) for count in receive]
        if num_rows is None and ids is not None:
            num_rows = ids.numel()
        told = agree(
            send, receive, num_rows, ids,
            rank=self.rank, workers=self.workers, seed=seed, transport=transport, group=group,
        )  # fmt: skip
        self.seed = seed
        self.num_rows = told[self.rank].num_rows
        """N, or the fewest rows that an exchange takes."""
        self.num_halo = sum(receive)
        """H."""
        self._takes_more = num_rows is None
        self._run = run_number("exchange", *(str(lists) for lists in told))
        self._peers = [(self.rank + k) % self.workers for k in range(1, self.workers)]
        ids = _counted_through(told, self.rank) if ids is None else ids.to("cpu", torch.int64)
        rows = {peer: send[peer].to("cpu", torch.int64) for peer in self._peers}
        self._sent = {peer: (rows[peer], ids[rows[peer]]) for peer in self._peers}
        self._coming = self._tell_ids(receive)
        self._firsts = [0, *itertools.accumulate(receive)]
        self._plans: dict[tuple[str, torch.device], Plan] = {}
        self._channels: dict[tuple[ExchangeKey, Codec, int, torch.device], Channel] = {}

    @property
    def halo_ids(self) -> Tensor:
        """Global ids of the rows that come, in order of peers, int64 ``(H,)``."""
        return torch.cat([torch.empty(0, dtype=torch.int64), *(self._coming[peer] for peer in sorted(self._peers))])

    @property
    def sent_bytes(self) -> int:
        """Bytes of rows that this rank has sent so far, with their parameters, without headers."""
        return sum(channel.bytes_payload + channel.bytes_params for channel in self._channels.values())

    @property
    def header_bytes(self) -> int:
        """Bytes of headers that this rank has sent so far."""
        return sum(channel.bytes_headers for channel in self._channels.values())

    def check_rows(self, x: Tensor) -> None:
        """Refuse rows that this plan is not of.

        Raises:
            ValueError: if they are no ``(N, D)`` of a floating type.
            RuntimeError: if the group cannot move the memory that they are in.
        """
        fits = x.dim() == 2 and (x.shape[0] == self.num_rows or (self._takes_more and x.shape[0] > self.num_rows))
        if not fits or not x.is_floating_point():
            least = "at least " if self._takes_more else ""
            raise ValueError(
                f"rank {self.rank}: x must have {least}{self.num_rows} rows (N, D) of a floating type, got {x.dtype} "
                f"{tuple(x.shape)}; make a new HaloPlan where the rows of a rank change"
            )
        if self._over_nccl and x.device.type != "cuda":
            raise RuntimeError(
                f"rank {self.rank}: NCCL moves rows on a GPU, got x on {x.device}; move x, or give HaloPlan a group of "
                'dist.new_group(backend="gloo")'
            )

    def channel(self, place: ExchangeKey, codec: Codec, bits: int, device: torch.device) -> Channel:
        """Return the channel of a place, made at its first use.

        Args:
            place: layer and direction.
            codec: with 32 bits rows are float32 whatever it is.
            bits: width of every row.
            device: where the rows are.
        """
        key = place, codec, bits, device
        if key not in self._channels:
            self._channels[key] = Channel(
                layer=place.layer,
                direction=place.direction,
                plan=self._plan(place.direction, device),
                codec=Float32() if bits == EXACT else codec,
                bits=Fixed(bits=bits),
                transport=self._transport,
                seed=self.seed,
                run=self._run,
            )
        return self._channels[key]

    def _plan(self, direction: str, device: torch.device) -> Plan:
        """Return who sends which rows to whom: own rows out and halo rows in, or their gradients the other way."""
        if (direction, device) not in self._plans:
            own = tuple(Route(peer, rows.to(device), ids.to(device), None) for peer, (rows, ids) in self._sent.items())
            halo = tuple(self._come(peer, device) for peer in self._peers)
            send, receive = (own, halo) if direction == "forward" else (halo, own)
            made = Plan(self.rank, self.workers, send=send, receive=receive, accumulate=direction == "backward")
            self._plans[direction, device] = made
        return self._plans[direction, device]

    def _come(self, peer: int, device: torch.device) -> Route:
        first, end = self._firsts[peer], self._firsts[peer + 1]
        return Route(peer, torch.arange(first, end, device=device), self._coming[peer].to(device), first)

    def _tell_ids(self, receive: Sequence[int]) -> dict[int, Tensor]:
        """Return the ids of the rows from each peer, as it tells them."""
        device = torch.device("cuda" if self._over_nccl else "cpu")
        told = {peer: ids.to(device) for peer, (_, ids) in self._sent.items()}
        heard = {peer: torch.empty(receive[peer], dtype=torch.int64, device=device) for peer in self._peers}
        sends, receives = ({peer: ids.view(torch.uint8) for peer, ids in of.items()} for of in (told, heard))
        self._transport.post(sends, receives).wait()
        return {peer: ids.cpu() for peer, ids in heard.items()}


def _place_in(group: dist.ProcessGroup | None) -> tuple[int, int]:
    """Return this rank and the number of ranks; one that is alone needs no group."""
    if group is None and not (dist.is_available() and dist.is_initialized()):
        return 0, 1
    rank, workers = dist.get_rank(group), dist.get_world_size(group)
    if rank < 0:
        raise ValueError("a HaloPlan is made by the members of its group, got a group without this process")
    if workers > 1 and dist.get_backend(group) not in _BACKENDS:
        raise ValueError(
            f"rank {rank}: the backend must be one of {_BACKENDS}, got {dist.get_backend(group)!r}; give HaloPlan a "
            'group of dist.new_group(backend="gloo")'
        )
    return rank, workers


def _counted_through(told: Sequence[Lists], rank: int) -> Tensor:
    first = sum(lists.num_rows for lists in told[:rank])
    return torch.arange(first, first + told[rank].num_rows)
