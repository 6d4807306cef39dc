"""The assigner on real ranks: both ends agree, λ's ends are the pure optima, and training goes on."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.bits.assigned import Assigned
from gnnqlab.bits.policy import Rows
from gnnqlab.nn import ModelSettings
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import make_system
from gnnqlab.train.config import TrainSettings
from gnnqlab.train.trainer import worker_trainer
from tests.graphs import random_graph
from tests.ranks import run_ranks

EPOCHS = 8


def assigned(rank, workers, graph, owner, settings):
    shard = build_shard(graph, owner, rank, workers)
    system = make_system("adaqp", group_size=4, period=4, **settings)
    trainer = worker_trainer(shard, system, ModelSettings(layers=3, hidden=16, dropout=0.0), TrainSettings())
    losses, rounds = [], []
    for epoch in range(EPOCHS):
        losses.append(trainer.epoch(epoch))
        rounds.append(trainer.assigner._widths.round(epoch))
    seen = {}
    for channel in trainer.exchange.channels:
        for side, routes in (("sent", channel.plan.send), ("received", channel.plan.receive)):
            for route in routes:
                pair = (rank, route.peer) if side == "sent" else (route.peer, rank)
                rows = Rows(
                    layer=channel.layer,
                    direction=channel.direction,
                    sender=pair[0],
                    receiver=pair[1],
                    ids=route.ids,
                    seed=0,
                )
                seen[side, channel.layer, channel.direction, *pair] = trainer.assigner._widths.widths(rows, EPOCHS)
    return {"losses": losses, "rounds": rounds, "widths": seen, "history": trainer.assigner.history}


def train(workers=3, **settings):
    graph = random_graph(nodes=80, edges=300, seed=3)
    return run_ranks(assigned, workers, graph, Random(seed=1).assign(graph, workers), settings)


def test_both_ends_of_every_message_hold_the_same_widths():
    results = train()
    everything = {key: value for result in results for key, value in result["widths"].items()}
    sent = {key[1:]: value for key, value in everything.items() if key[0] == "sent"}
    received = {key[1:]: value for key, value in everything.items() if key[0] == "received"}
    assert sent.keys() == received.keys()
    chosen = set()
    for key, widths in sent.items():
        assert torch.equal(widths, received[key])
        chosen |= set(widths.tolist())
    assert chosen <= {2, 4, 8} and len(chosen) > 1
    assert all(result["losses"] == results[0]["losses"] for result in results)


def test_minding_only_variance_gives_eight_bits_everywhere():
    # Forward; a gradient that is zero throughout has no variance to mind.
    for result in train(lam=1.0):
        assert all(set(widths.tolist()) == {8} for key, widths in result["widths"].items() if key[2] == "forward")


def test_minding_only_time_gives_two_bits_to_the_busiest_sender():
    results = train(lam=0.0)
    for _, layer, direction, *_ in results[0]["widths"]:
        # Who is not the busiest may widen for nothing: the exchange takes no longer for it.
        narrow = [
            all(
                set(widths.tolist()) == {2}
                for key, widths in result["widths"].items()
                if key[:3] == ("sent", layer, direction)
            )
            for result in results
        ]
        assert any(narrow)


def test_background_installs_one_epoch_after_blocking():
    background, blocking = train(when="background")[0], train(when="blocking")[0]
    # ranges of epochs 1, 3 and 7 are used; the last one would be installed after epoch 8
    assert background["rounds"] == [0, 0, 1, 1, 2, 2, 2, 2]
    assert blocking["rounds"] == [0, 1, 1, 2, 2, 2, 2, 3]


def test_every_solution_is_certified():
    for entry in train()[0]["history"]:
        assert 0.0 <= entry["gap"] < 1.0 and entry["predicted_s"] > 0
        assert set(entry["rows"]) == {2, 4, 8} and sum(entry["rows"].values()) > 0


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"lam": 1.5}, r"lam must lie in \[0, 1\], got 1.5"),
        ({"among": (2, 3)}, "widths to choose from must be among"),
        ({"group_size": 0}, "group_size and period must be at least 1, got 0 and 50"),
        ({"start": 3}, "start must be one of"),
        ({"first": -1}, "first must not be negative, got -1"),
        ({"when": "later"}, "when must be 'background' or 'blocking', got 'later'"),
    ],
)
def test_bad_settings_are_refused(settings, text):
    with pytest.raises(ValueError, match=text):
        Assigned(**settings)
