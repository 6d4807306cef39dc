"""The assigner on real ranks: both ends agree, the extremes of λ are the pure optima, and training continues."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from gnnqlab.bits.assigner.assigned import Assigned
from gnnqlab.bits.orchestrator import Orchestrated
from gnnqlab.bits.policy import Rows
from gnnqlab.exchange.schedules.pipeline import AdaptivePipeline
from gnnqlab.nn import ModelSettings
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import make_system
from gnnqlab.theory.cost import LinkCost
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import worker_trainer
from tests.cases import each
from tests.graphs import random_graph
from tests.ranks import run_ranks

EPOCHS = 8


def assigner_of(trainer):
    return trainer.adaptives["assignment"]


def assigned(rank, workers, graph, owner, settings):
    shard = build_shard(graph, owner, rank, workers)
    system = make_system("adaqp", group_size=4, period=4, **settings)
    trainer = worker_trainer(shard, system, ModelSettings(layers=3, hidden=16, dropout=0.0), TrainSettings())
    # Timings of a busy machine can make a link look free; then more bits cost nothing on it.
    assigner_of(trainer).joint.cost = LinkCost.uniform(workers, bytes_per_s=1e8, latency_s=1e-4)
    losses, rounds = [], []
    for epoch in range(EPOCHS):
        losses.append(trainer.epoch(epoch))
        rounds.append(assigner_of(trainer).widths.version(epoch))
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
                seen[side, channel.layer, channel.direction, *pair] = assigner_of(trainer).widths.widths(rows, EPOCHS)
    trainer.close()
    return {"losses": losses, "rounds": rounds, "widths": seen, "history": assigner_of(trainer).history}


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
    # Forward only: a gradient that is zero throughout has no variance to weigh.
    for result in train(lam=1.0):
        assert all(set(widths.tolist()) == {8} for key, widths in result["widths"].items() if key[2] == "forward")


def test_minding_only_time_gives_two_bits_at_the_busiest_end():
    results = train(lam=0.0)
    for _, layer, direction, *_ in results[0]["widths"]:
        # An end that is not the busiest may use more bits at no cost: the exchange takes no longer for it.
        narrow = [
            all(
                set(widths.tolist()) == {2}
                for key, widths in result["widths"].items()
                if key[:3] == (side, layer, direction)
            )
            for result in results
            for side in ("sent", "received")
        ]
        assert any(narrow)


def test_background_installs_one_epoch_after_blocking():
    background, blocking = train(when="background")[0], train(when="blocking")[0]
    # ranges of epochs 1, 3 and 7 are used; the last assignment would be installed after epoch 8
    assert background["rounds"] == [0, 0, 1, 1, 2, 2, 2, 2]
    assert blocking["rounds"] == [0, 1, 1, 2, 2, 2, 2, 3]


def test_every_solution_is_certified_and_the_same_on_all_workers():
    results = train()
    problems = [problem for entry in results[0]["history"] for problem in entry["problems"]]
    assert len(problems) == 2 * 5  # two assignments of three layers forward, two backward
    for problem in problems:
        assert 0.0 <= problem["gap"] < 1.0 and problem["predicted_s"] > 0
        assert set(problem["rows"]) == {2, 4, 8} and sum(problem["rows"].values()) > 0
    for result in results:
        for entry in result["history"]:
            assert entry.pop("cpu_s") > 0
    assert all(result["history"] == results[0]["history"] for result in results)
    first, second = results[0]["history"]
    assert (first["epoch"], first["from_epoch"]) == (1, 3) and (second["epoch"], second["from_epoch"]) == (3, 5)
    assert first["settings"] == {"bit_widths": (2, 4, 8), "lam": 0.5, "group_size": 4, "period": 4}
    pairs = {(link["sender"], link["receiver"]) for link in first["links"]}
    assert pairs == {(s, r) for s in range(3) for r in range(3) if s != r}
    assert all(link["r_squared"] <= 1 and link["theta_s_per_byte"] >= 0 for link in first["links"])


def weighed(rank, workers, graph, owner, name):
    """Variance of gradients in the first assignment by layer, and the sums of squares from which it follows."""
    system = make_system(name, bit_widths=(2,), when="blocking")
    shape = ModelSettings(layers=3, hidden=24, dropout=0.0)
    trainer = worker_trainer(build_shard(graph, owner, rank, workers), system, shape, TrainSettings())
    assigner_of(trainer).joint.cost = LinkCost.uniform(workers, bytes_per_s=1e8)
    for epoch in range(2):
        trainer.epoch(epoch)
    sums = {
        (channel.layer, channel.columns): sum(seen.double().square().sum(0) for seen in channel.spreads.values())
        for channel in trainer.exchange.channels
        if channel.direction == "backward"
    }
    (entry,) = assigner_of(trainer).history
    trainer.close()
    found = {each["layer"]: each["variance"] for each in entry["problems"] if each["direction"] == "backward"}
    return found, sums


def test_rows_are_weighed_by_the_variance_of_their_codec():
    """For codes between ends ``D range^2 / 6 / 9``; otherwise the recorded error of each row at 2 bits."""
    graph = random_graph(nodes=80, edges=300, seed=3)
    for name, factor in (
        ("adaqp", lambda columns: columns / 54),
        ("adaqp-r", lambda columns: 1.0),
    ):
        (found, ours), (_, theirs) = run_ranks(weighed, 2, graph, Random(seed=1).assign(graph, 2), name)
        for (layer, columns), sums in ours.items():
            square = float((sums + theirs[layer, columns]).flatten()[0])
            assert square > 0 and found[layer] == pytest.approx(square * factor(columns), rel=1e-9), (name, layer)


def priced(rank, workers, graph, owner, parameters):
    """Return the predicted seconds of the last assignment, and the bytes that its bit-widths take in the next epoch."""
    shard = build_shard(graph, owner, rank, workers)
    system = make_system("adaqp", group_size=4, period=4, when="blocking", parameters=parameters)
    trainer = worker_trainer(shard, system, ModelSettings(layers=3, hidden=16, dropout=0.0), TrainSettings())
    assigner_of(trainer).joint.cost = LinkCost.uniform(workers, bytes_per_s=1e8, latency_s=1e-4)
    for epoch in range(5):  # assignments after epochs 0 and 2
        trainer.epoch(epoch)
    sent = {
        (channel.layer, channel.direction): sum(
            layout.num_bytes for (side, _), layout in channel.layouts.items() if side == "send"
        )
        for channel in trainer.exchange.channels
    }
    trainer.close()
    last = assigner_of(trainer).history[-1]["problems"]
    return {(each["layer"], each["direction"]): each["predicted_s"] for each in last}, sent


@pytest.mark.parametrize("parameters", ["float32", "bfloat16"])
def test_predicted_seconds_are_of_the_bytes_that_are_sent(parameters):
    graph = random_graph(nodes=80, edges=300, seed=3)
    owner = Random(seed=1).assign(graph, 2)
    (predicted, ours), (_, theirs) = run_ranks(priced, 2, graph, owner, parameters)
    assert len(predicted) == 5
    for place, seconds in predicted.items():
        # Two workers send to each other at once: the larger message decides, at 100 MB/s and 0.1 ms.
        assert seconds == pytest.approx(max(ours[place], theirs[place]) / 1e8 + 1e-4, rel=1e-9), place


def timed(rank, workers, graph, owner):
    shard = build_shard(graph, owner, rank, workers)
    trainer = worker_trainer(shard, make_system("adaqp", group_size=4), ModelSettings(layers=2), TrainSettings())
    for epoch in range(3):
        trainer.epoch(epoch)
    trainer.close()
    cost = assigner_of(trainer).joint.cost
    return cost.theta_s_per_byte.tolist(), cost.gamma_s.tolist(), cost.r_squared.tolist()


def test_links_are_timed_before_the_first_assignment():
    graph = random_graph(nodes=80, edges=300, seed=3)
    first, second = run_ranks(timed, 2, graph, Random(seed=1).assign(graph, 2))
    assert first == second
    theta, gamma, r_squared = first
    for pair in ((0, 1), (1, 0)):
        sender, receiver = pair
        assert theta[sender][receiver] * 512 * 2**10 + gamma[sender][receiver] > 0 and r_squared[sender][receiver] <= 1


def steered(rank, workers, graph, owner):
    """Request 2 bits after epoch 2, in a period of 100; return the widths in force at each epoch."""
    shard = build_shard(graph, owner, rank, workers)
    system = make_system("adaqp", group_size=4, period=100, lam=1.0)
    trainer = worker_trainer(shard, system, ModelSettings(layers=2, hidden=16, dropout=0.0), TrainSettings())
    seen = []
    for epoch in range(7):
        if epoch == 3:
            settings = dataclasses.replace(assigner_of(trainer).widths.settings, bit_widths=(2,))
            assigner_of(trainer).steer(settings, version=1)
        trainer.epoch(epoch)
        shares = [share.bits for c in trainer.exchange.channels for a in c.arrivals for share in a.layout.shares]
        seen.append(sorted(set(shares)))
        for channel in trainer.exchange.channels:
            channel.arrivals.clear()
    trainer.close()
    return seen, [(entry["epoch"], entry["from_epoch"], entry["version"]) for entry in assigner_of(trainer).history]


def test_a_change_of_settings_starts_a_new_period():
    graph = random_graph(nodes=80, edges=300, seed=3)
    for seen, history in run_ranks(steered, 2, graph, Random(seed=1).assign(graph, 2)):
        assert 8 in seen[3] and 8 in seen[4] and seen[5:] == [[2], [2]]
        assert history == [(1, 3, 0), (3, 5, 1)]


def refreshed(rank, workers, graph, owner):
    """Let every message take 3e-6 s a byte and 2e-3 s; return the resulting cost model."""
    shard = build_shard(graph, owner, rank, workers)
    system = make_system("adaqp", group_size=4, period=6)
    trainer = worker_trainer(shard, system, ModelSettings(layers=2, hidden=64, dropout=0.0), TrainSettings())
    before = [(size, 1e-3 + 1e-6 * size) for size in (200, 2000) for _ in range(5)]
    assigner_of(trainer).joint.cost = LinkCost.measured(workers, {(0, 1): before, (1, 0): before})
    for epoch in range(36):
        trainer.epoch(epoch)
        for channel in trainer.exchange.channels:
            assigner_of(trainer).observe(
                dataclasses.replace(arrival, seconds=3e-6 * arrival.layout.num_bytes + 2e-3, posted=float(epoch))
                for arrival in channel.arrivals
            )
            channel.arrivals.clear()
    trainer.close()
    return assigner_of(trainer).history


def test_the_cost_model_follows_the_transfers_of_training():
    graph = random_graph(nodes=80, edges=300, seed=3)
    histories = run_ranks(refreshed, 2, graph, Random(seed=1).assign(graph, 2))
    assert [entry["links"] for entry in histories[0]] == [entry["links"] for entry in histories[1]]
    first, *_, last = histories[0]
    # One transfer of a size is no sample; after a few periods the old line has almost no weight.
    assert [round(link["theta_s_per_byte"], 9) for link in first["links"]] == [1e-6, 1e-6]
    for link in last["links"]:
        assert link["transfers"] == 6 * 3  # six epochs, two layers forward and one backward
        assert abs(link["theta_s_per_byte"] / 3e-6 - 1) < 0.1 and abs(link["gamma_s"] / 2e-3 - 1) < 0.1
        assert link["r_squared"] > 0.9


@each(
    ("settings", "text"),
    [
        ({"lam": 1.5}, r"lam must lie in \[0, 1\], got 1.5"),
        ({"bit_widths": (2, 5)}, "widths to choose from must be among"),
        ({"bit_widths": ("2", "4")}, r"widths to choose from must be among .*, got \('2', '4'\)"),
        ({"group_size": 0}, "group_size must be at least 1 row, got 0"),
        ({"start": 5}, "start must be one of"),
        ({"first": -1}, "first must not be negative, got -1"),
        ({"when": "later"}, "when must be 'background' or 'blocking', got 'later'"),
    ],
)
def test_bad_settings_are_refused(settings, text):
    with pytest.raises(ValueError, match=text):
        Assigned(**settings)


def paired(rank, workers, graph, owner):
    shard = build_shard(graph, owner, rank, workers)
    system = make_system("adaqp", group_size=4, lam=1.0, when="blocking")
    pair = (dataclasses.replace(system.bits, start=2), Orchestrated(bit_widths=(4, 8), by_node=False))
    system = dataclasses.replace(system, bits=pair, schedule=AdaptivePipeline())
    trainer = worker_trainer(shard, system, ModelSettings(layers=2, hidden=16, dropout=0.0), TrainSettings())
    seen = []
    for epoch in range(4):
        trainer.epoch(epoch)
        widths = {}
        for channel in trainer.exchange.channels:
            for arrival in channel.arrivals:
                widths.setdefault(channel.direction, set()).update(share.bits for share in arrival.layout.shares)
            channel.arrivals.clear()
        seen.append(widths)
    trainer.close()
    history = trainer.adaptives["assignment-forward"].history
    problems = [problem["direction"] for entry in history for problem in entry["problems"]]
    return list(trainer.adaptives), seen, problems


def test_each_direction_adapts_by_its_own_policy():
    graph = random_graph(nodes=80, edges=300, seed=3)
    for names, seen, problems in run_ranks(paired, 2, graph, Random(seed=1).assign(graph, 2)):
        assert names == ["assignment-forward", "descent-backward", "base-width-backward", "stale-rows", "freshness"]
        # λ = 1 weighs variance alone: 8 bits from epoch 2 on; a pipeline waits for the rows of an epoch in the next.
        assert seen[0]["forward"] == {2} and seen[3]["forward"] == {8} and seen[2]["backward"] == {4}
        assert set(problems) == {"forward"}
