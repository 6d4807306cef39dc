"""The plans of an edge-cut: boundary rows go out and halo rows come in, their gradients the other way."""

from __future__ import annotations

import itertools

import torch

from gnnqlab.message.plan import Plan, Route
from gnnqlab.partition.shard import Shard

__all__ = ["backward_plan", "forward_plan"]


def forward_plan(shard: Shard, device: torch.device | str = "cpu") -> Plan:
    """Boundary rows out, halo rows in."""
    return Plan(
        rank=shard.rank,
        workers=shard.workers,
        send=_boundary_routes(shard, device),
        receive=_halo_routes(shard, device),
        accumulate=False,
    )


def backward_plan(shard: Shard, device: torch.device | str = "cpu") -> Plan:
    """Gradients of halo rows out, gradients of boundary rows in, to be added."""
    return Plan(
        rank=shard.rank,
        workers=shard.workers,
        send=_halo_routes(shard, device),
        receive=_boundary_routes(shard, device),
        accumulate=True,
    )


def _boundary_routes(shard: Shard, device: torch.device | str) -> tuple[Route, ...]:
    rows = shard.boundary.split(shard.boundary_splits.tolist())
    return tuple(
        Route(peer=peer, rows=rows[peer].to(device), ids=shard.owned[rows[peer]].to(device), first=None)
        for peer in _peers(shard)
    )


def _halo_routes(shard: Shard, device: torch.device | str) -> tuple[Route, ...]:
    rows, ids = (of.split(shard.halo_splits.tolist()) for of in (torch.arange(shard.num_halo), shard.halo))
    firsts = [0, *itertools.accumulate(shard.halo_splits.tolist())]
    return tuple(
        Route(peer=peer, rows=rows[peer].to(device), ids=ids[peer].to(device), first=firsts[peer])
        for peer in _peers(shard)
    )


def _peers(shard: Shard) -> list[int]:
    return [(shard.rank + k) % shard.workers for k in range(1, shard.workers)]
