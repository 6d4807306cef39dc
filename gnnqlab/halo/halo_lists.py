"""Send and receive lists of a halo exchange, as in scientific codes, validated on all ranks before any row is sent.

If only one rank raised an error, the others would wait forever; so ranks exchange the results of their checks, and all
raise the same error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from gnnqlab.plain_values import all_gather_values

__all__ = ["MAX_IDS", "Lists", "RowLists", "agree", "is_integer"]

MAX_IDS = 2**32
"""Ids are 32-bit words of the random number generator's counter."""


@dataclass(frozen=True, eq=False)
class RowLists:
    """Rows that one rank sends to, and receives from, each peer; empty for itself."""

    num_rows: int
    """N."""
    send: Sequence[Tensor]
    """Local rows for each rank, int64 ``(n,)``."""
    send_ids: Sequence[Tensor]
    """Their global ids."""
    receive_ids: Sequence[Tensor]
    """Global ids of the rows from each rank."""


@dataclass(frozen=True)
class Lists:
    """Summary of the lists of one rank, sent to all others."""

    send: tuple[int, ...]
    """Number of rows to send to each peer."""
    receive: tuple[int, ...]
    """Number of rows to receive from each peer."""
    num_rows: int
    """Number of local rows."""
    own_ids: bool
    """True if the caller passed global ids."""
    seed: int
    transport: str
    name: str
    number: int
    """Number of the plan in its process, so that two plans with equal lists are distinguished."""
    fault: str = ""
    """Error message of the first broken rule; empty for none."""


def agree(
    send: Sequence[Tensor],
    receive: Sequence[int],
    num_rows: int | None,
    ids: Tensor | None,
    *,
    rank: int,
    workers: int,
    seed: int,
    transport: str,
    name: str,
    number: int,
    group: dist.ProcessGroup | None,
) -> list[Lists]:
    """Exchange and validate the lists of all ranks; collective over the group.

    Args:
        send, receive, num_rows, ids, seed, transport, name, group: as for
            :class:`gnnqlab.halo.halo_plan.HaloPlan`.
        rank, workers: this rank, and the number of ranks.
        number: number of the plan in its process.

    Raises:
        ValueError: on all ranks, with the first broken rule.
    """
    # A fault is sent like any result, because an error on one rank alone would leave the others waiting.
    fault = _fault(send, receive, num_rows, ids, rank, workers, seed)
    if fault:
        own_lists = Lists((), (), 0, False, 0, transport, name, number, fault)
    else:
        counts = tuple(rows.numel() for rows in send)
        if num_rows is None:
            num_rows = max((int(rows.max()) + 1 for rows in send if rows.numel()), default=0)
        own_lists = Lists(counts, tuple(receive), num_rows, ids is not None, seed, transport, name, number)
    all_lists = [own_lists]
    if workers > 1:
        all_lists = [Lists(*fields) for fields in all_gather_values(astuple(own_lists), group=group)]
    # Every rank has all lists, so all raise the same error, that of the lowest rank.
    for lists_rank, lists in enumerate(all_lists):
        if lists.fault:
            raise ValueError(f"rank {lists_rank}: {lists.fault}")
    _compare(all_lists)
    return all_lists


def _fault(
    send: Sequence[Tensor],
    receive: Sequence[int],
    num_rows: int | None,
    ids: Tensor | None,
    rank: int,
    workers: int,
    seed: int,
) -> str:
    """Return the error message of the first rule that one rank's lists break, or an empty string."""
    if len(send) != workers or len(receive) != workers:
        return (
            f"send and receive must have one entry for each of {workers} ranks, got {len(send)} and {len(receive)}; "
            "use empty entries for ranks without rows"
        )
    if any(count < 0 for count in receive):
        return f"receive must be numbers of rows, at least 0, got {min(receive)}"
    if send[rank].numel() or receive[rank]:
        return (
            f"a rank must not send rows to itself, got {send[rank].numel()} to send and {receive[rank]} to receive; "
            "index x instead"
        )
    if not 0 <= seed < 1 << 63:
        return f"seed must be in [0, 2**63), got {seed}"
    if ids is not None and (ids.shape != (num_rows,) or not is_integer(ids)):
        return f"ids must have one integer for each of {num_rows} rows, got {ids.dtype} {tuple(ids.shape)}"
    if ids is not None and ids.numel() and not (0 <= int(ids.min()) and int(ids.max()) < MAX_IDS):
        return f"ids must be in [0, 2**32), got {int(ids.min())} to {int(ids.max())}"
    for peer, rows in enumerate(send):
        if rows.numel() == 0:
            continue
        if rows.dim() != 1 or not is_integer(rows):
            return f"rows to send must be integers (n,), got {rows.dtype} {tuple(rows.shape)} for rank {peer}"
        smallest_row, largest_row = int(rows.min()), int(rows.max())
        if smallest_row < 0 or (num_rows is not None and largest_row >= num_rows):
            invalid_row = smallest_row if smallest_row < 0 else largest_row
            end = "N" if num_rows is None else num_rows
            return f"rows to send must be in [0, {end}), got {invalid_row} for rank {peer}; use row indices of x"
        # Two copies of a row would have the same noise, so their errors would not be independent.
        values, times = rows.unique(return_counts=True)
        if values.numel() < rows.numel():
            duplicate = int(values[times > 1][0])
            return (
                f"a row must be sent to a rank once, got row {duplicate} twice for rank {peer}; repeat it there instead"
            )
    return ""


def is_integer(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def _compare(all_lists: Sequence[Lists]) -> None:
    """Raise ValueError if lists of different ranks do not match."""
    for setting in ("seed", "transport", "name", "own_ids"):
        values = [getattr(lists, setting) for lists in all_lists]
        if len(set(values)) > 1:
            peer = next(rank for rank, value in enumerate(values) if value != values[0])
            subject = "use of ids" if setting == "own_ids" else setting
            raise ValueError(
                f"{subject} must be the same on all ranks, got {values[0]!r} on rank 0, {values[peer]!r} on rank {peer}"
            )
    # Each pair: what one rank sends must be what the other expects.
    for sender, lists in enumerate(all_lists):
        for receiver, count in enumerate(lists.send):
            length = all_lists[receiver].receive[sender]
            if count != length:
                raise ValueError(
                    f"send and receive must match: rank {sender} sends {count} rows to rank {receiver}, which expects "
                    f"{length}; set receive[{sender}] on rank {receiver} to the length of send[{receiver}] on rank "
                    f"{sender}"
                )
