"""One worker's share of the links of a graph under an edge-cut: the links whose source it owns.

Embeddings of remote targets are fetched: both ends derive the rows from the partition, so no request is sent.

Letters: n links of a worker, V nodes, P workers.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gnnqlab.atomic import replacing
from gnnqlab.graph.link_split import TRAIN, LinkSplit

__all__ = ["LinkShare", "share_links"]


@dataclass(frozen=True, eq=False, kw_only=True)
class LinkShare:
    """The links of one worker, and the rows to send for training links and for scored links."""

    owner: Tensor
    """Owner of every node, int32 ``(V,)``; a negative sample may be any node."""
    sources: Tensor
    """Global ids of sources, all owned by this worker, int64 ``(n,)``."""
    targets: Tensor
    numbers: Tensor
    """Numbers of the links in the whole graph, int64 ``(n,)``."""
    kinds: Tensor
    """``TRAIN``, ``VAL`` or ``TEST``, uint8 ``(n,)``."""
    scored: Tensor
    """True for training links that are scored as well, bool ``(n,)``."""
    counts: Tensor
    """Number of links of each kind in the whole graph, and of scored training links, int64 ``(4,)``."""
    learnt_sends: Tensor
    """Global ids of rows to send for training links, grouped by receiver, ascending within one, int64."""
    learnt_send_splits: Tensor
    """Number of rows for each receiver, int64 ``(P,)``."""
    scored_sends: Tensor
    """Global ids of rows to send for scored links, grouped likewise, int64."""
    scored_send_splits: Tensor

    def save(self, path: Path) -> None:
        """Write the share atomically to an ``.npz`` file without pickles."""
        arrays = {field.name: getattr(self, field.name).numpy() for field in fields(self)}
        with replacing(path) as partial_path, partial_path.open("wb") as file:
            np.savez(file, **arrays)

    @classmethod
    def load(cls, path: Path) -> LinkShare:
        """Read a share written by :meth:`save`."""
        with np.load(path, allow_pickle=False) as file:
            return cls(**{name: torch.from_numpy(file[name]) for name in file.files})


def share_links(split: LinkSplit, owner: Tensor, workers: int) -> list[LinkShare]:
    """Return every worker's share of the links.

    Args:
        split: the links of the whole graph.
        owner: of every node, int64 ``(V,)``.
        workers: P.

    Example:
        >>> from gnnqlab.graph import Graph
        >>> from gnnqlab.graph.link_split import split_links
        >>> pair = split_links(Graph.from_edges([0], [1], num_nodes=2), val=0, test=0)
        >>> shares = share_links(pair, torch.tensor([0, 1]), 2)
        >>> sum(share.sources.numel() for share in shares), sum(share.learnt_sends.numel() for share in shares)
        (1, 1)
    """
    source_owner = owner[split.sources]
    is_learnt = split.kinds == TRAIN
    # Validation and test links are all scored, of the training links a sample.
    is_scored = ~is_learnt | split.scored
    kinds = split.kinds.long().bincount(minlength=3)
    counts = torch.cat([kinds, split.scored.sum().reshape(1)])  # (3,) and (1,) -> (4,)
    # Embeddings are exchanged once per pair of worker and node, however many links share the node.
    remote_rows = {"learnt": _remote_rows(split, owner, is_learnt), "scored": _remote_rows(split, owner, is_scored)}
    shares = []
    for rank in range(workers):
        link_numbers = (source_owner == rank).nonzero().flatten()  # ascending numbers of the links
        sends: dict[str, Tensor] = {}
        for kind, (receivers, ids) in remote_rows.items():
            is_sent = owner[ids] == rank  # rows owned by this rank that others need
            sends[f"{kind}_sends"] = ids[is_sent]
            sends[f"{kind}_send_splits"] = receivers[is_sent].bincount(minlength=workers)  # (P,)
        shares.append(
            LinkShare(
                owner=owner.to(torch.int32),
                sources=split.sources[link_numbers],
                targets=split.targets[link_numbers],
                numbers=link_numbers,
                kinds=split.kinds[link_numbers],
                scored=split.scored[link_numbers],
                counts=counts,
                **sends,
            )
        )
    return shares


def _remote_rows(split: LinkSplit, owner: Tensor, link_mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return the remote target rows that workers need, each pair once, ascending: ``(receivers, ids)``."""
    sources, targets = split.sources[link_mask], split.targets[link_mask]
    is_remote = owner[sources] != owner[targets]
    nodes = owner.numel()
    # One integer per pair of receiver and node: unique() sorts by receiver, then by node, the order of the sends.
    pairs = (owner[sources[is_remote]] * nodes + targets[is_remote]).unique()
    return pairs // nodes, pairs % nodes
