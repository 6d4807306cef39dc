"""Plan of a halo exchange: local rows to send to each peer, and numbers of rows to receive.

Letters: N local rows, H received rows, P ranks of the group.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from gnnqlab.halo.exchange_failures import FailureRecords
from gnnqlab.halo.halo_lists import Lists, RowLists, agree
from gnnqlab.halo.local_edges import EdgeOwners, LocalEdges, Localized
from gnnqlab.halo.plan_channels import PlanChannels
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.codecs.codec import Codec, Stochastic
from gnnqlab.message.direction import ByDirection
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.message.transport.header import run_number
from gnnqlab.message.transport.transport import make_transport
from gnnqlab.plain_values import all_gather_values

__all__ = ["PLANS", "STOCHASTIC", "HaloPlan"]

PLANS: weakref.WeakValueDictionary[int, HaloPlan] = weakref.WeakValueDictionary()
"""Plans of this process by number: an operator of PyTorch takes numbers, but no objects."""

STOCHASTIC = Stochastic()
"""Default codec of an exchange."""
_BACKENDS = ("gloo", "nccl")
_NUMBERS = itertools.count()


class HaloPlan:
    """Ordered lists of rows to send to each peer, and numbers of rows to receive from each.

    Collective over all ranks of a group, which compare their lists once. Peers are ranks within the group. A plan
    reuses its message buffers from call to call. :meth:`from_edges` makes the lists from edges and owners.

    Args:
        send: for each peer the local rows to send, in order, integers ``(n,)``, each row once; empty for this rank.
        receive: number of rows to receive from each peer; 0 for this rank.
        num_rows: N. By default one more than the largest row index sent; an exchange then accepts more rows too.
        ids: global id of each local row, integers ``(N,)`` in ``[0, 2**32)``, used for the noise and in errors. By
            default rows are numbered consecutively, rank after rank.
        seed: seed of the rounding noise, equal on all ranks.
        group: process group of Gloo or NCCL; by default all processes, or this process alone without a group.
        transport: ``direct``, ``ring`` or ``all-to-all``.
        name: name of the plan in errors, equal on all ranks; by default its number in the process.
        timeout_s: seconds after which a missing message over Gloo is an error, at most the time limit of the group and
            by default that. The group cannot be used after such an error.
        check_order: True to compare layer, direction and epoch of all ranks before each exchange, with one more
            collective. By default True under ``TORCH_DISTRIBUTED_DEBUG=DETAIL``.

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
        name: str = "",
        timeout_s: float | None = None,
        check_order: bool | None = None,
    ) -> None:
        self._open(group, seed=seed, transport=transport, name=name, timeout_s=timeout_s, check_order=check_order)
        send = [torch.as_tensor(rows) for rows in send]
        receive = [int(count) for count in receive]
        if num_rows is None and ids is not None:
            num_rows = ids.numel()
        all_lists = agree(
            send, receive, num_rows, ids, seed=seed, transport=transport, name=name, group=group,
            rank=self.rank, workers=self.workers, number=self.number,
        )  # fmt: skip
        ids = _consecutive_ids(all_lists, self.rank) if ids is None else ids.to("cpu", torch.int64)
        send = [rows.to("cpu", torch.int64) for rows in send]
        sent_ids = [ids[rows] for rows in send]
        received_ids = self._channels.exchange_ids(sent_ids, receive, "cuda" if self._over_nccl else "cpu")
        # Equal on all ranks without another message, because all of them have the same lists.
        run = run_number("exchange", *(str(lists) for lists in all_lists))
        self._use(RowLists(all_lists[self.rank].num_rows, send, sent_ids, received_ids), run)
        self._takes_more = num_rows is None

    @classmethod
    def from_edges(
        cls,
        edge_index: Tensor,
        owner: Tensor,
        group: dist.ProcessGroup | None = None,
        *,
        target_owner: Tensor | None = None,
        hops: int = 1,
        seed: int = 0,
        transport: str = "direct",
        name: str = "",
        timeout_s: float | None = None,
        check_order: bool | None = None,
    ) -> HaloPlan:
        """Create a plan from the edges of a graph and the owner of each node; collective over the group.

        A rank owns the nodes with its number in ``owner``, in ascending order, and computes the edges to them. Sources
        that others own are its halo nodes. :attr:`edges` has the edges in local numbers.

        Args:
            edge_index: source and target of each edge in global ids, ``(2, E)``: all edges on every rank, or on each
                rank the edges to its own targets.
            owner: rank that owns each node, ``(V,)``, equal on all ranks.
            group: process group; by default all processes.
            target_owner: rank that owns each target node, if sources and targets are different nodes, such as those
                of a grid and of a mesh. Each direction needs a plan.
            hops: number of layers that one exchange serves: the halo then has all nodes within ``hops`` hops, and
                :attr:`edges` also those to halo nodes within ``hops - 1`` hops.
            seed, transport, name, timeout_s, check_order: as for the class.

        Raises:
            ValueError: on all ranks, if edges or owners of one break a rule or those of two do not match.

        Example:
            >>> edges, owner = torch.tensor([[0, 1, 2], [1, 2, 0]]), torch.tensor([0, 0, 0])
            >>> HaloPlan.from_edges(edges, owner).edges.edge_index.tolist()  # one process owns all nodes
            [[0, 1, 2], [1, 2, 0]]
        """
        plan = cls.__new__(cls)
        plan._open(group, seed=seed, transport=transport, name=name, timeout_s=timeout_s, check_order=check_order)
        plan._owners = EdgeOwners(
            owner, target_owner, hops, settings=(seed, transport, name),
            rank=plan.rank, workers=plan.workers, group=group, number=plan.number,
        )  # fmt: skip
        plan._take(plan._owners.localize(torch.as_tensor(edge_index)))
        return plan

    def _open(
        self,
        group: dist.ProcessGroup | None,
        *,
        seed: int,
        transport: str,
        name: str,
        timeout_s: float | None,
        check_order: bool | None,
    ) -> None:
        """Set what does not depend on the lists."""
        self.rank, self.workers = _rank_and_size(group)
        if timeout_s is not None and not timeout_s > 0:
            raise ValueError(f"timeout_s must be a positive number of seconds, got {timeout_s}")
        timeout = None if timeout_s is None else timedelta(seconds=timeout_s)
        if check_order is None:
            check_order = self.workers > 1 and dist.get_debug_level() == dist.DebugLevel.DETAIL
        self._group, self._checks_order = group, check_order
        self._over_nccl = self.workers > 1 and dist.get_backend(group) == "nccl"
        # No one reads the times of messages, so no thread measures them: it would be one more to wake up.
        sender = make_transport(transport, self.rank, self.workers, group, timeout, times_messages=False)
        self._channels = PlanChannels(sender, rank=self.rank, workers=self.workers, seed=seed)
        self._settings: dict[str, Any] = {"transport": transport, "timeout_s": timeout_s, "check_order": check_order}
        self.seed = seed
        self.number = next(_NUMBERS)
        """Key in ``PLANS``."""
        self.name = name or str(self.number)
        self.failures = FailureRecords(group, rank=self.rank, workers=self.workers)
        self.calls = {"forward": 0, "backward": 0}
        """Number of exchanges started so far in each direction."""
        self.in_flight: set[ExchangeKey] = set()
        """Exchanges that are started and not yet waited for."""
        self._owners: EdgeOwners | None = None
        self._edges: LocalEdges | None = None
        self._all_rows: HaloPlan | None = None
        self.codecs: list[Codec | ByDirection] = [STOCHASTIC]
        """Codecs of its exchanges, in the order of their first use."""
        self.opened: dict[tuple[ExchangeKey, int, int, torch.device], Channel] = {}
        """Channels by exchange key, position in ``codecs``, bit-width and device."""
        self._takes_more = False
        self._updates = 0
        PLANS[self.number] = self

    def _use(self, lists: RowLists, run: int) -> None:
        """Use these rows from the next exchange on; channels keep their buffers."""
        self.num_rows = lists.num_rows
        """N, or the minimum number of rows of an exchange."""
        self.num_halo = sum(ids.numel() for ids in lists.receive_ids)
        """H."""
        self._lists = lists
        self._channels.use(lists, run)
        self.failures.key = f"gnnqlab/halo/{run:x}"

    def _take(self, localized: Localized) -> None:
        self._edges = localized.edges
        if localized.lists is not None:
            # The number of updates is part of it, so that a rank that leaves one out gets an error and no wrong rows.
            numbers = ",".join(map(str, localized.numbers))
            self._use(localized.lists, run_number("edges", self.name, numbers, str(self._updates)))
        self._updates += 1

    def update(self, edge_index: Tensor) -> None:
        """Replace the edges of a plan of :meth:`from_edges`, such as a neighbour list; collective over the group.

        Owners stay, and message buffers are reused. One small collective replaces the two of a new plan, unless a rank
        has more halo nodes than in all earlier updates.

        Args:
            edge_index: as for :meth:`from_edges`.

        Raises:
            ValueError: on all ranks, as for :meth:`from_edges`; the plan then keeps its edges.
            RuntimeError: if an exchange is in flight, or the plan was not made from edges.

        Example:
            >>> plan = HaloPlan.from_edges(torch.tensor([[0], [1]]), torch.tensor([0, 0]))
            >>> plan.update(torch.tensor([[1, 0], [0, 1]]))
            >>> plan.edges.edge_index.tolist()
            [[1, 0], [0, 1]]
        """
        if self._owners is None:
            raise RuntimeError(f"update needs a plan of HaloPlan.from_edges, got plan {self.name} of lists")
        if self.in_flight:
            raise RuntimeError(
                f"a plan must have no exchange in flight when it is updated, got {len(self.in_flight)} in plan "
                f"{self.name}; call wait() first"
            )
        self._take(self._owners.localize(torch.as_tensor(edge_index)))

    @property
    def edges(self) -> LocalEdges:
        """Edges in local numbers, own ids, and positions of the edges in the list given.

        Raises:
            RuntimeError: if the plan was not made from edges.
        """
        if self._edges is None:
            raise RuntimeError(f"edges needs a plan of HaloPlan.from_edges, got plan {self.name} of lists")
        return self._edges

    @property
    def boundary_rows(self) -> Tensor:
        """Local rows that at least one peer receives, ascending, int64 ``(n,)``."""
        return torch.cat([torch.empty(0, dtype=torch.int64), *self._lists.send]).unique()

    @property
    def send_rows(self) -> tuple[Tensor, ...]:
        """Local rows that each peer receives, in the order in which they are sent, int64 ``(n,)`` each."""
        return tuple(self._lists.send)

    def all_rows(self) -> HaloPlan:
        """Return a plan by which every rank receives all rows of all others; the first call is collective."""
        if self._all_rows is None:
            counts = all_gather_values(self.num_rows, group=self._group) if self.workers > 1 else [self.num_rows]
            empty, rows = torch.empty(0, dtype=torch.int64), torch.arange(self.num_rows)
            self._all_rows = HaloPlan(
                [empty if peer == self.rank else rows for peer in range(self.workers)],
                [0 if peer == self.rank else count for peer, count in enumerate(counts)],
                num_rows=self.num_rows, seed=self.seed, group=self._group, name=f"all rows of {self.name}",
                **self._settings,
            )  # fmt: skip
        return self._all_rows

    def number_of(self, codecs: Codec | ByDirection) -> int:
        """Return the position of a codec, or a pair of them, in :attr:`codecs`; a new one is added."""
        if codecs not in self.codecs:
            self.codecs.append(codecs)
        return self.codecs.index(codecs)

    @property
    def halo_ids(self) -> Tensor:
        """Global ids of the received rows, in order of peers, int64 ``(H,)``."""
        return torch.cat([torch.empty(0, dtype=torch.int64), *self._lists.receive_ids])

    def first_row_after(self, rank: int) -> int:
        """Return the number of received rows from ranks before ``rank``."""
        return sum(ids.numel() for ids in self._lists.receive_ids[:rank])

    @property
    def sent_bytes(self) -> int:
        """Bytes of rows sent so far by this rank, with quantization parameters, without headers."""
        return self._channels.sent_bytes

    @property
    def header_bytes(self) -> int:
        """Bytes of headers sent so far by this rank."""
        return self._channels.header_bytes

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
        if self._over_nccl:
            self._check_device(x)

    def _check_device(self, x: Tensor) -> None:
        if x.device.type != "cuda":
            raise RuntimeError(
                f"rank {self.rank}: NCCL needs rows on a GPU, got x on {x.device}; move x, or pass HaloPlan a group of "
                'dist.new_group(backend="gloo")'
            )

    def check_halo_rows(self, partial: Tensor) -> None:
        """Check that rows fit the received rows of this plan.

        Raises:
            ValueError: if they are not ``(H, D)`` of a floating-point type.
            RuntimeError: as :meth:`check_rows`.
        """
        if partial.dim() != 2 or partial.shape[0] != self.num_halo or not partial.is_floating_point():
            raise ValueError(
                f"rank {self.rank}: halo rows must be {self.num_halo} rows (H, D) of a floating type, got "
                f"{partial.dtype} {tuple(partial.shape)}; pass one row for each of plan.halo_ids"
            )
        if self._over_nccl:
            self._check_device(partial)

    def channel(self, place: ExchangeKey, codec: Codec, bits: int, device: torch.device) -> Channel:
        """Return the channel of an exchange key, created at first use.

        Args:
            place: layer, direction, and as its round half the number of differentiations.
            codec: codec of the rows; not used with 32 bits, which is float32.
            bits: bit-width of every row.
            device: device of the rows.
        """
        return self._channels.channel(place, codec, bits, device)

    def begin(self, key: ExchangeKey, epoch: int) -> int:
        """Count an exchange that starts, and return its number in its direction, from 1.

        Raises:
            ValueError: if one with this key is in flight.
            RuntimeError: on all ranks, if they start different ones and the order is checked.
        """
        if key in self.in_flight:
            raise ValueError(
                f"exchanges in flight must have different layers, got layer {key.layer} twice, {key.direction}, in "
                f"plan {self.name}; wait() for the first one, or pass another layer"
            )
        self.calls[key.direction] += 1
        number = self.calls[key.direction]
        if self._checks_order and self.workers > 1:
            own = f"{key.direction} call {number}, layer {key.layer}, epoch {epoch}"
            started = all_gather_values(own, group=self._group)
            if len(set(started)) > 1:
                peer = next(rank for rank, text in enumerate(started) if text != started[0])
                raise RuntimeError(
                    f"exchanges must start in the same order on all ranks, got {started[0]} on rank 0 and "
                    f"{started[peer]} on rank {peer}, in plan {self.name}"
                )
        self.in_flight.add(key)
        return number


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
