"""The lists of a halo exchange as scientific codes hold them, checked on every rank before any row travels.

A rank that raised alone would leave the others waiting, so each tells what is wrong with its lists, and all raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

__all__ = ["Lists", "agree"]

_MOST_IDS = 2**32
"""Ids are words of the noise's counter."""


@dataclass(frozen=True)
class Lists:
    """What a rank tells all others of its lists."""

    send: tuple[int, ...]
    """Rows to each peer."""
    receive: tuple[int, ...]
    """Rows from each peer."""
    num_rows: int
    """Rows of its own."""
    own_ids: bool
    """Whether it was given their global ids."""
    seed: int
    transport: str
    fault: str = ""
    """First rule that they break; empty for none."""


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
    group: dist.ProcessGroup | None,
) -> list[Lists]:
    """Return the lists of all ranks, which fit each other; every rank of the group must call it.

    Args:
        send, receive, num_rows, ids, seed, transport, group: as of
        :class:`gnnqlab.exchange.standalone.halo_plan.HaloPlan`.

    Raises:
        ValueError: on every rank alike, with the first rule that is broken.
    """
    fault = _fault(send, receive, num_rows, ids, rank, workers, seed)
    if fault:
        mine = Lists((), (), 0, False, 0, transport, fault)
    else:
        counts = tuple(rows.numel() for rows in send)
        if num_rows is None:
            num_rows = max((int(rows.max()) + 1 for rows in send if rows.numel()), default=0)
        mine = Lists(counts, tuple(receive), num_rows, ids is not None, seed, transport)
    told = [mine]
    if workers > 1:
        gathered: list[Lists | None] = [None] * workers
        dist.all_gather_object(gathered, mine, group=group)
        told = [lists for lists in gathered if lists is not None]
    for at, lists in enumerate(told):
        if lists.fault:
            raise ValueError(f"rank {at}: {lists.fault}")
    _compare(told)
    return told


def _fault(
    send: Sequence[Tensor],
    receive: Sequence[int],
    num_rows: int | None,
    ids: Tensor | None,
    rank: int,
    workers: int,
    seed: int,
) -> str:
    """Return the first rule that the lists of one rank break."""
    if len(send) != workers or len(receive) != workers:
        return (
            f"send and receive must have one entry for each of {workers} ranks, got {len(send)} and {len(receive)}; "
            "give empty ones to ranks that exchange nothing"
        )
    if any(count < 0 for count in receive):
        return f"receive must count rows, got {min(receive)}"
    if send[rank].numel() or receive[rank]:
        return (
            f"a rank sends no rows to itself, got {send[rank].numel()} to send and {receive[rank]} to receive; index "
            "x for them"
        )
    if not 0 <= seed < 1 << 63:
        return f"seed must be in [0, 2**63), got {seed}"
    if ids is not None and (ids.shape != (num_rows,) or not _counts(ids)):
        return f"ids must have one integer for each of {num_rows} rows, got {ids.dtype} {tuple(ids.shape)}"
    if ids is not None and ids.numel() and not (0 <= int(ids.min()) and int(ids.max()) < _MOST_IDS):
        return f"ids must be in [0, 2**32), got {int(ids.min())} to {int(ids.max())}"
    for peer, rows in enumerate(send):
        if rows.numel() == 0:
            continue
        if rows.dim() != 1 or not _counts(rows):
            return f"rows to send must be integers (n,), got {rows.dtype} {tuple(rows.shape)} for rank {peer}"
        least, most = int(rows.min()), int(rows.max())
        if least < 0 or (num_rows is not None and most >= num_rows):
            wrong = least if least < 0 else most
            end = "N" if num_rows is None else num_rows
            return f"rows to send must be in [0, {end}), got {wrong} for rank {peer}; count them within x"
        values, times = rows.unique(return_counts=True)
        if values.numel() < rows.numel():
            twice = int(values[times > 1][0])
            return f"a row goes to a rank once, got row {twice} twice for rank {peer}; index what comes twice there"
    return ""


def _counts(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def _compare(told: Sequence[Lists]) -> None:
    """Refuse lists that do not fit those of other ranks."""
    for name in ("seed", "transport", "own_ids"):
        values = [getattr(lists, name) for lists in told]
        if len(set(values)) > 1:
            other = next(at for at, value in enumerate(values) if value != values[0])
            what = "whether ids are given" if name == "own_ids" else name
            raise ValueError(
                f"{what} must be the same on all ranks, got {values[0]!r} on rank 0, {values[other]!r} on rank {other}"
            )
    for sender, lists in enumerate(told):
        for receiver, count in enumerate(lists.send):
            expected = told[receiver].receive[sender]
            if count != expected:
                raise ValueError(
                    f"what a rank sends must be what its peer expects: rank {sender} sends {count} rows to rank "
                    f"{receiver}, which expects {expected}; make receive[{sender}] there the length of "
                    f"send[{receiver}] here"
                )
