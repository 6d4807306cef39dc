"""Decisions about bit-widths: importance at equal bytes, seconds by purpose, bit-widths by a plan."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
import torch

import gnnqlab as gq
from benchmarks.engine.graphs import find_graph
from gnnqlab.bits.policy import Rows
from gnnqlab.course.experiments.width_decisions import (
    MASKS,
    PURPOSES,
    PermutedWidths,
    draw_importance_ablation,
    draw_overhead,
    draw_plan,
    importance_ablation,
    mean_width,
    overhead,
    plan_table,
)
from gnnqlab.nn import ModelSettings
from gnnqlab.partition import Random
from gnnqlab.simulation.threaded_workers import ThreadedWorkers
from gnnqlab.systems import fixed_bits, vanilla
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.phase_timer import PHASES
from tests.course.records import training_records
from tests.graphs import random_graph

WORKERS = 3
MODEL = ModelSettings(layers=2, hidden=16, norm="none", dropout=0.5)


def messages(shards):
    for shard in shards:
        for direction in ("forward", "backward"):
            for route in shard.plan(direction).send:
                of = {"direction": direction, "sender": shard.rank, "receiver": route.peer, "ids": route.ids}
                yield Rows(layer=1, seed=0, **of)


@pytest.fixture(scope="module")
def shards():
    graph = random_graph(200, 1500, seed=4)
    cut = Random().cut(graph, WORKERS)
    return [cut.shard(graph, rank) for rank in range(WORKERS)]


def test_every_message_keeps_its_widths(shards):
    policies = [PermutedWidths(shards, "symmetric", mask) for mask in MASKS]
    for rows in messages(shards):
        first, *others = (policy.widths(rows, 0).sort().values.tolist() for policy in policies)
        assert len(set(first)) > 1 and all(each == first for each in others)


def test_higher_bit_widths_go_to_the_rows_ranked_highest_by_each_mask(shards):
    """Compare with importance and Σα², computed here from global degrees and from the receiver's edges."""
    of = {mask: PermutedWidths(shards, "symmetric", mask) for mask in MASKS}
    for rows in messages(shards):
        holder = shards[rows.receiver if rows.direction == "forward" else rows.sender]
        at = torch.tensor([int((holder.halo == node).nonzero()) for node in rows.ids]) + holder.num_owned
        p = holder.importance[at]
        alpha = holder.alpha("symmetric").double()
        use = torch.stack([alpha[holder.indices == column].square().sum() for column in at])
        for mask, rank in (("importance", p), ("reversed", -p), ("Σα²", use)):
            widths = of[mask].widths(rows, 0).double()
            for one in widths.unique():  # no row of the lower bit-width has a larger rank than one of the higher
                assert rank[widths <= one].max() <= rank[widths > one].min() if (widths > one).any() else True
        assert not torch.equal(of["shuffled"].widths(rows, 0), of["importance"].widths(rows, 0))


def test_bytes_are_equal_on_the_wire():
    graph, recipe = random_graph(), replace(fixed_bits(), partition=Random())
    cut = recipe.partition.cut(graph, WORKERS)
    sent = set()
    for mask in MASKS:
        policy = PermutedWidths([cut.shard(graph, rank) for rank in range(WORKERS)], "mean", mask)
        shape = replace(MODEL, name="graphsage", dropout=0.0)
        threads = ThreadedWorkers(graph, cut, recipe, shape, TrainSettings(), bits=policy)
        threads.gradients(0)
        channels = [channel for trainer in threads.trainers for channel in trainer.exchange.channels]
        sent.add(sum(channel.bytes_payload + channel.bytes_params for channel in channels))
    assert len(sent) == 1


def hub_graph():
    """Make twelve nodes with edges to most others, and many nodes with few edges, so that importance equals use."""
    generator = torch.Generator().manual_seed(0)
    nodes, hubs = 240, 12
    source = torch.cat([torch.randint(hubs, (1600,), generator=generator), torch.arange(nodes)])
    target = torch.cat([torch.randint(nodes, (1600,), generator=generator), torch.arange(1, nodes + 1) % nodes])
    return gq.Graph.from_edges(
        source, target, num_nodes=nodes, features=torch.randn(nodes, 12, generator=generator),
        labels=torch.randint(4, (nodes,), generator=generator), train_idx=torch.arange(0, nodes, 2),
        val_idx=torch.arange(1, nodes, 4), test_idx=torch.arange(3, nodes, 4), num_classes=4, symmetrize=True,
    )  # fmt: skip


def test_it_helps_where_important_rows_are_used_most():
    """With GraphSAGE's α a hub's row enters hundreds of sums; a reversed mask gives it the fewest bits."""
    shape = replace(MODEL, name="graphsage")
    recipe = replace(vanilla(), partition=Random())
    table = importance_ablation(hub_graph(), shape, workers=4, epochs=3, repeats=8, seeds=(0, 1, 2), system=recipe)
    assert table.loc["importance", ["ratio", "±"]].tolist() == [1.0, 0.0]
    assert table.loc["reversed", "ratio"] - table.loc["reversed", "±"] > 1
    assert table["bits"].nunique() == 1 and 1 < table["bits"].iloc[0] < 8
    figure = draw_importance_ablation({"hubs": table, "again": table})
    drawn = {trace.name: trace for trace in figure.figure.data}
    assert set(drawn) == set(MASKS[1:]) and list(drawn["reversed"].x) == ["hubs", "again"]
    assert list(drawn["reversed"].y) == [table.loc["reversed", "ratio"]] * 2
    assert list(drawn["shuffled"].error_y.array) == [table.loc["shuffled", "±"]] * 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cora", "amazon_computers", "tolokers"])
def test_real_graphs_have_a_figure_each(name):
    path = find_graph(name)
    if path is None:
        pytest.skip(f"{name}.npz is not here")
    shape = ModelSettings(name="graphsage", layers=2, hidden=16)
    table = importance_ablation(gq.load(path), shape, workers=4, epochs=2, repeats=2, seeds=(0, 1))
    assert (table["variance"] > 0).all() and (table["±"].iloc[1:] > 0).all()


def test_mistakes_are_refused(shards):
    with pytest.raises(ValueError, match=r"mask must be one of \('importance', 'shuffled', 'reversed', 'Σα²'\), got"):
        PermutedWidths(shards, "mean", "random")
    with pytest.raises(ValueError, match="model must be one of .* got 'gat'"):
        importance_ablation(random_graph(), ModelSettings(name="gat"))
    with pytest.raises(ValueError, match="base must be below 8 for rows to differ in bit-width, got 8"):
        importance_ablation(random_graph(), MODEL, base=8)
    with pytest.raises(ValueError, match="a table of importance_ablation is needed, got none"):
        draw_importance_ablation({})


COLUMNS = [column for columns in PURPOSES.values() for column in columns]
RECORDS = pd.DataFrame(
    [{"epoch": epoch, "rank": rank, **dict.fromkeys(COLUMNS, 0.5 + rank)} for epoch in range(2) for rank in (0, 1)]
)


def test_every_phase_of_training_has_one_purpose() -> None:
    assert sorted(COLUMNS) == sorted(f"{phase}_s" for phase in PHASES if phase != "evaluate")


def test_seconds_of_a_run_are_the_mean_of_workers() -> None:
    seconds = overhead(RECORDS, offline_s=0.25)
    assert seconds.to_dict() == {  # a phase takes 1 s on worker 0 and 3 s on worker 1
        "computation": 10.0, "communication": 4.0, "encode, decode": 4.0, "coordination": 2.0, "offline": 0.25,
    }  # fmt: skip


def test_shares_are_drawn() -> None:
    bundle = draw_overhead(pd.DataFrame({"sylvie": overhead(RECORDS)}), link="loopback")
    assert sum(bar.x[0] for bar in bundle.figure.data) == pytest.approx(100)
    caption = bundle.figure.layout.meta["caption"]
    assert "sylvie computation 50 %, communication 20 %" in caption and caption.endswith("Link: loopback.")
    with pytest.raises(ValueError, match="seconds of at least one run"):
        draw_overhead(pd.DataFrame({"none": overhead(RECORDS) * 0}))


TRAFFIC = pd.DataFrame([(0, 1, 30), (0, 4, 10), (1, 8, 40)], columns=["epoch", "bits", "rows"])


def _records(losses: tuple[float, ...]) -> pd.DataFrame:
    return training_records(losses, bytes_payload=900_000, bytes_params=100_000)


class _Run:
    records, traffic, summary = _records((1.0, 0.5)), TRAFFIC, {"final_loss": 0.5, "test_accuracy": 0.9}


def test_rows_weigh_the_mean() -> None:
    assert mean_width(TRAFFIC).tolist() == [(30 * 1 + 10 * 4) / 40, 8.0]


def test_a_line_a_run() -> None:
    line = plan_table({"mine": _Run()}).loc["mine"]  # type: ignore[dict-item]
    assert line.tolist() == [pytest.approx(4.875), 4.0, 0.5, 90.0]


def test_the_picture_adds_bytes_up() -> None:
    bundle = draw_plan({"a": _records((1.0, 0.5)), "b": _records((2.0, 1.0))}, {"a": TRAFFIC, "b": TRAFFIC})
    figure = bundle.figure.to_dict()
    assert len(figure["data"]) == 6
    by_bytes = next(line for line in figure["data"] if line["name"] == "a" and line["xaxis"] == "x3")
    assert list(by_bytes["x"]) == [2.0, 4.0] and list(by_bytes["y"]) == [1.0, 0.5]
    assert figure["layout"]["xaxis3"]["title"]["text"] == "sent so far (MB)"


def test_runs_must_match() -> None:
    with pytest.raises(ValueError, match="records and traffic of the same runs"):
        draw_plan({"a": _records((1.0, 0.5))}, {})
