"""Plan of a stand-alone halo exchange: local rows to send to each peer, and numbers of rows to receive.

Letters: N local rows, H received rows, P ranks of the group.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from gnnqlab.bits.policy import Fixed
from gnnqlab.bits.row import EXACT
from gnnqlab.halo.halo_lists import Lists, agree
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.codecs.codec import Codec, Float32, Stochastic
from gnnqlab.message.direction import ByDirection
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.message.transport.header import run_number
from gnnqlab.message.transport.transport import make_transport
from gnnqlab.partition.plan import Plan, Route

__all__ = ["PLANS", "HaloPlan"]

PLANS: weakref.WeakValueDictionary[int, HaloPlan] = weakref.WeakValueDictionary()
"""Plans of this process by number: an operator of PyTorch takes numbers, but no objects."""

_BACKENDS = ("gloo", "nccl")
_NUMBERS = itertools.count()


class HaloPlan:
    """Ordered lists of rows to send to each peer, and numbers of rows to receive from each.

    Collective over all ranks of a group, which compare their lists once. Peers are ranks within the group. A plan
    reuses its message buffers from call to call.

    Args:
        send: for each peer the local rows to send, in order, integers ``(n,)``, each row once; empty for this rank.
        receive: number of rows to receive from each peer; 0 for this rank.
        num_rows: N. By default one more than the largest row index sent; an exchange then accepts more rows too.
        ids: global id of each local row, integers ``(N,)`` in ``[0, 2**32)``, used for the noise and in errors. By
            default rows are numbered consecutively, rank after rank.
        seed: seed of the rounding noise, equal on all ranks.
        group: process group of Gloo or NCCL; by default all processes, or this process alone without a group.
        transport: ``direct``, ``ring`` or ``all-to-all``.

    Raises:
        ValueError: on all ranks, if the lists of one break a rule or those of two do not match; it names the rank.

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
        self.rank, self.workers = _rank_and_size(group)
        self._over_nccl = self.workers > 1 and dist.get_backend(group) == "nccl"
        self._transport = make_transport(transport, self.rank, self.workers, group)
        send = [torch.as_tensor(rows) for rows in send]
        receive = [int(count) for count in receive]
        if num_rows is None and ids is not None:
            num_rows = ids.numel()
        all_lists = agree(
            send, receive, num_rows, ids,
            rank=self.rank, workers=self.workers, seed=seed, transport=transport, group=group,
        )  # fmt: skip
        self.seed = seed
        self.num_rows = all_lists[self.rank].num_rows
        """N, or the minimum number of rows of an exchange."""
        self.num_halo = sum(receive)
        """H."""
        self._takes_more = num_rows is None
        # Equal on all ranks without another message, because all of them have the same lists.
        self._run = run_number("exchange", *(str(lists) for lists in all_lists))
        # Starting behind the own rank: no two ranks address the same peer first.
        self._peers = [(self.rank + k) % self.workers for k in range(1, self.workers)]
        ids = _consecutive_ids(all_lists, self.rank) if ids is None else ids.to("cpu", torch.int64)
        rows = {peer: send[peer].to("cpu", torch.int64) for peer in self._peers}  # peer -> (n,)
        self._sent = {peer: (rows[peer], ids[rows[peer]]) for peer in self._peers}
        self._received_ids = self._exchange_ids(receive)
        self._firsts = [0, *itertools.accumulate(receive)]  # first received row of each rank, in rank order
        self._plans: dict[tuple[str, torch.device], Plan] = {}
        self._channels: dict[tuple[ExchangeKey, Codec, int, torch.device], Channel] = {}
        self.codecs: list[Codec | ByDirection] = [Stochastic()]
        """Codecs of its exchanges, in the order of their first use."""
        self.number = next(_NUMBERS)
        """Key in ``PLANS``."""
        PLANS[self.number] = self

    def number_of(self, codecs: Codec | ByDirection) -> int:
        """Return the position of a codec, or a pair of them, in :attr:`codecs`; a new one is added."""
        if codecs not in self.codecs:
            self.codecs.append(codecs)
        return self.codecs.index(codecs)

    @property
    def halo_ids(self) -> Tensor:
        """Global ids of the received rows, in order of peers, int64 ``(H,)``."""
        by_peer = [self._received_ids[peer] for peer in sorted(self._peers)]
        return torch.cat([torch.empty(0, dtype=torch.int64), *by_peer])

    @property
    def sent_bytes(self) -> int:
        """Bytes of rows sent so far by this rank, with quantization parameters, without headers."""
        return sum(channel.bytes_payload + channel.bytes_params for channel in self._channels.values())

    @property
    def header_bytes(self) -> int:
        """Bytes of headers sent so far by this rank."""
        return sum(channel.bytes_headers for channel in self._channels.values())

    def check_rows(self, x: Tensor) -> None:
        """Check that rows fit this plan.

        Raises:
            ValueError: if they are not ``(N, D)`` of a floating-point type.
            RuntimeError: if the group cannot send the memory of their device.
        """
        fits = x.dim() == 2 and (x.shape[0] == self.num_rows or (self._takes_more and x.shape[0] > self.num_rows))
        if not fits or not x.is_floating_point():
            prefix = "at least " if self._takes_more else ""
            raise ValueError(
                f"rank {self.rank}: x must have {prefix}{self.num_rows} rows (N, D) of a floating type, got {x.dtype} "
                f"{tuple(x.shape)}; create a new HaloPlan if the rows of a rank change"
            )
        if self._over_nccl and x.device.type != "cuda":
            raise RuntimeError(
                f"rank {self.rank}: NCCL needs rows on a GPU, got x on {x.device}; move x, or pass HaloPlan a group of "
                'dist.new_group(backend="gloo")'
            )

    def channel(self, place: ExchangeKey, codec: Codec, bits: int, device: torch.device) -> Channel:
        """Return the channel of an exchange key, created at first use.

        Args:
            place: layer and direction.
            codec: codec of the rows; not used with 32 bits, which is float32.
            bits: bit-width of every row.
            device: device of the rows.
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
        """Return the plan of a direction: send own rows and receive halo rows, or send and receive their gradients."""
        if (direction, device) not in self._plans:
            own_routes = tuple(
                Route(peer, rows.to(device), ids.to(device), None) for peer, (rows, ids) in self._sent.items()
            )
            halo = tuple(self._halo_route(peer, device) for peer in self._peers)
            send, receive = (own_routes, halo) if direction == "forward" else (halo, own_routes)
            # Gradients of a row sent to several peers are added.
            plan = Plan(self.rank, self.workers, send=send, receive=receive, accumulate=direction == "backward")
            self._plans[direction, device] = plan
        return self._plans[direction, device]

    def _halo_route(self, peer: int, device: torch.device) -> Route:
        first, end = self._firsts[peer], self._firsts[peer + 1]
        return Route(peer, torch.arange(first, end, device=device), self._received_ids[peer].to(device), first)

    def _exchange_ids(self, receive: Sequence[int]) -> dict[int, Tensor]:
        """Send the ids of sent rows to their receivers; return those received from each peer.

        Both ends need the ids of a row, because they key its rounding noise.
        """
        device = torch.device("cuda" if self._over_nccl else "cpu")
        sent_ids = {peer: ids.to(device) for peer, (_, ids) in self._sent.items()}
        # NCCL sends device memory only, also for these few ids.
        received_ids = {peer: torch.empty(receive[peer], dtype=torch.int64, device=device) for peer in self._peers}
        sends, receives = (
            {peer: ids.view(torch.uint8) for peer, ids in ids_of.items()} for ids_of in (sent_ids, received_ids)
        )
        self._transport.post(sends, receives).wait()
        return {peer: ids.cpu() for peer, ids in received_ids.items()}


def _rank_and_size(group: dist.ProcessGroup | None) -> tuple[int, int]:
    """Return this rank and the number of ranks; (0, 1) without a process group."""
    if group is None and not (dist.is_available() and dist.is_initialized()):
        return 0, 1
    rank, workers = dist.get_rank(group), dist.get_world_size(group)
    if rank < 0:
        raise ValueError("a HaloPlan must be created by members of its group, got a group without this process")
    if workers > 1 and dist.get_backend(group) not in _BACKENDS:
        raise ValueError(
            f"rank {rank}: the backend must be one of {_BACKENDS}, got {dist.get_backend(group)!r}; pass HaloPlan a "
            'group of dist.new_group(backend="gloo")'
        )
    return rank, workers


def _consecutive_ids(all_lists: Sequence[Lists], rank: int) -> Tensor:
    # Numbered over all ranks, so that rows of different ranks have different noise.
    first = sum(lists.num_rows for lists in all_lists[:rank])
    return torch.arange(first, first + all_lists[rank].num_rows)  # (N,) int64
