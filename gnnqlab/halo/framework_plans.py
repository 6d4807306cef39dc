"""Plans and owners from the partitions of other frameworks, by their arrays; the frameworks are not imported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from gnnqlab.halo.halo_plan import HaloPlan

__all__ = [
    "GPContextLike",
    "HaloInfoLike",
    "PartitionBookLike",
    "PyGPartitionLike",
    "from_gp_context",
    "from_halo_info",
    "owner_of_dgl",
    "owner_of_pyg",
    "owner_of_sizes",
]


class HaloInfoLike(Protocol):
    """Fields of anemoi's ``HaloInfo`` that a plan needs."""

    num_local_src_nodes: int
    send_indices: Sequence[Tensor]
    recv_counts: Sequence[int]


class GPContextLike(Protocol):
    """Fields of fairchem's ``GPContext`` that a plan needs."""

    total_local_atoms: int
    send_indices: Tensor
    send_counts: Sequence[int] | Tensor
    recv_counts: Sequence[int] | Tensor


class PyGPartitionLike(Protocol):
    """Fields of PyTorch Geometric's ``ClusterData.partition`` that owners need."""

    partptr: Tensor
    node_perm: Tensor


class PartitionBookLike(Protocol):
    """Methods of DGL's ``GraphPartitionBook`` that owners need."""

    def num_partitions(self) -> int: ...

    def partid2nids(self, partid: int) -> Tensor: ...


def from_halo_info(info: HaloInfoLike, group: dist.ProcessGroup | None = None, **settings: Any) -> HaloPlan:
    """Create a plan from lists as in anemoi's ``HaloInfo``; collective over the group.

    Local edges stay those of ``info``, which numbers halo nodes in the order in which the plan receives them.

    Args:
        info: number of own source nodes, for each rank the local rows to send, and numbers of rows to receive.
        group: process group; by default all processes.
        settings: further arguments of :class:`gnnqlab.halo.halo_plan.HaloPlan`.

    Raises:
        ValueError: as the class.

    Example:
        >>> from types import SimpleNamespace
        >>> info = SimpleNamespace(num_local_src_nodes=4, send_indices=(torch.empty(0).long(),), recv_counts=(0,))
        >>> from_halo_info(info).num_rows
        4
    """
    return HaloPlan(
        list(info.send_indices), list(info.recv_counts), num_rows=info.num_local_src_nodes, group=group, **settings
    )


def from_gp_context(context: GPContextLike, group: dist.ProcessGroup | None = None, **settings: Any) -> HaloPlan:
    """Create a plan from lists as in fairchem's ``GPContext``; collective over the group.

    Args:
        context: number of own atoms, local rows to send in order of ranks, and numbers of rows to send and receive.
        group: process group; by default all processes.
        settings: further arguments of :class:`gnnqlab.halo.halo_plan.HaloPlan`.

    Raises:
        ValueError: as the class.

    Example:
        >>> from types import SimpleNamespace
        >>> context = SimpleNamespace(
        ...     total_local_atoms=4, send_indices=torch.empty(0).long(), send_counts=[0], recv_counts=torch.tensor([0])
        ... )
        >>> from_gp_context(context).num_rows
        4
    """
    send_counts, receive_counts = (
        torch.as_tensor(counts).tolist() for counts in (context.send_counts, context.recv_counts)
    )
    send = context.send_indices.split(send_counts)
    return HaloPlan(send, receive_counts, num_rows=context.total_local_atoms, group=group, **settings)


def owner_of_sizes(sizes: Sequence[int]) -> Tensor:
    """Return the owner of each node if ranks own consecutive nodes, int64 ``(V,)``.

    Args:
        sizes: number of nodes of each rank, such as the shard sizes of anemoi.

    Example:
        >>> owner_of_sizes([2, 0, 1]).tolist()
        [0, 0, 2]
    """
    return torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes, dtype=torch.int64))


def owner_of_pyg(partition: PyGPartitionLike) -> Tensor:
    """Return the owner of each node of a partition of PyTorch Geometric, int64 ``(V,)``.

    The ``node_pb`` of ``torch_geometric.distributed`` is such a tensor already.

    Args:
        partition: ``ClusterData(data, num_parts).partition``.

    Example:
        >>> from types import SimpleNamespace
        >>> owner_of_pyg(SimpleNamespace(partptr=torch.tensor([0, 2, 3]), node_perm=torch.tensor([0, 2, 1]))).tolist()
        [0, 1, 0]
    """
    owner = torch.empty(partition.node_perm.numel(), dtype=torch.int64)
    owner[partition.node_perm] = owner_of_sizes(partition.partptr.diff().tolist())
    return owner


def owner_of_dgl(book: PartitionBookLike) -> Tensor:
    """Return the owner of each node of a DGL partition book, int64 ``(V,)``.

    Args:
        book: ``graph.get_partition_book()`` of a ``DistGraph``, or that of ``dgl.distributed.load_partition``.

    Example:
        >>> class Book:
        ...     def num_partitions(self):
        ...         return 2
        ...     def partid2nids(self, partid):
        ...         return torch.tensor([0, 2] if partid == 0 else [1])
        >>> owner_of_dgl(Book()).tolist()
        [0, 1, 0]
    """
    parts = [book.partid2nids(part) for part in range(book.num_partitions())]
    owner = torch.empty(sum(ids.numel() for ids in parts), dtype=torch.int64)
    for part, ids in enumerate(parts):
        owner[ids] = part
    return owner
