"""Assignment of links: each to one worker; the rows to send are those that others need."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import torch

from gnnqlab.graph.link_split import TRAIN, split_links
from gnnqlab.partition import Random
from gnnqlab.partition.link_share import LinkShare, share_links
from tests.graphs import random_graph


def test_every_link_has_one_worker_and_every_row_that_is_sent_is_needed(tmp_path: Path) -> None:
    graph = random_graph(seed=1)
    split = split_links(graph, val=0.2, test=0.2, seed=1)
    owner = Random(seed=2).assign(graph, 3)
    shares = share_links(split, owner, 3)
    assert sorted(torch.cat([share.numbers for share in shares]).tolist()) == list(range(split.kinds.numel()))
    for rank, share in enumerate(shares):
        assert bool((owner[share.sources] == rank).all())
        assert torch.equal(share.sources, split.sources[share.numbers])
        assert torch.equal(share.targets, split.targets[share.numbers])
        assert share.counts.tolist() == [split.count(0), split.count(1), split.count(2), int(split.scored.sum())]
    learnt = split.kinds == TRAIN
    for sends, splits, chosen in (
        ("learnt_sends", "learnt_send_splits", learnt),
        ("scored_sends", "scored_send_splits", ~learnt | split.scored),
    ):
        for rank, share in enumerate(shares):
            parts = getattr(share, sends).split(getattr(share, splits).tolist())
            for receiver, part in enumerate(parts):
                needed = {
                    int(v)
                    for u, v in zip(split.sources[chosen], split.targets[chosen], strict=True)
                    if owner[u] == receiver and owner[v] == rank and receiver != rank
                }
                assert part.tolist() == sorted(needed)
    shares[1].save(tmp_path / "share.npz")
    again = LinkShare.load(tmp_path / "share.npz")
    assert all(torch.equal(getattr(again, field.name), getattr(shares[1], field.name)) for field in fields(LinkShare))
