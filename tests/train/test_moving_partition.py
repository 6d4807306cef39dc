"""A partition that changes: every epoch is trained on the cut of its period, and a resumed run ends alike."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import gnnqlab as gq
from gnnqlab.nn import build_model
from gnnqlab.partition.random_clusters import RandomClusters
from gnnqlab.systems import bns_gcn, gradients_only, pipegcn
from gnnqlab.train.checkpoints.checkpoint import read_checkpoint
from gnnqlab.train.heartbeat import Heartbeat
from gnnqlab.train.loop.fit import fit
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.recorders import ChannelBytes
from gnnqlab.train.loop.trainer import Trainer
from gnnqlab.train.moving_partition import moved_bytes
from tests.cases import each
from tests.exchange.test_gradients_only import VisibleEdges
from tests.graphs import random_graph
from tests.ranks import run_ranks
from tests.run.folders import run_folder

EPOCHS, EVERY, STOP = 7, 2, 3
"""The stop is in the middle of a period."""
SHAPE = {"layers": 2, "hidden": 16, "dropout": 0.3}


def configured(graph, workers, epochs=EPOCHS):
    system = gradients_only(clusters_per_worker=3, partition_every=EVERY)
    settings = {"epochs": epochs, "seed": 3, "evaluate_every": 1, "checkpoint_every": EPOCHS, "timeline_every": 3}
    return gq.configure(graph, system=system, workers=workers, **settings, **SHAPE)


def on_rank(rank, workers, config, folder):
    fit(config, Path(folder), rank, workers, Heartbeat(Path(folder) / "heartbeat" / f"rank{rank}", rank))


def trained(root, name, config):
    run = run_folder(root, name, config, epoch=config.train.epochs - 1)
    run_ranks(on_rank, config.workers, config, str(run.folder))
    return run


class CutOfTheEpoch(VisibleEdges):
    """A whole dense graph whose visible edges follow from the period."""

    def __init__(self, graph, partitioner, workers):
        self.cuts = [partitioner.cut_in_period(graph, workers, period) for period in range(EPOCHS)]
        super().__init__(graph, self.cuts[0])

    def _aggregate(self, adjacency, x, context):
        self.show(self.cuts[context.epoch // EVERY])
        return super()._aggregate(adjacency, x, context)


@each("workers", [1, 2, 3])
def test_every_epoch_is_trained_on_the_cut_of_its_period(workers, tmp_path):
    graph = random_graph(directed=True, isolated=4)
    config = configured(graph, workers)
    run = trained(tmp_path, f"moving-{workers}", config)
    dense = CutOfTheEpoch(graph, config.system.partition, workers)
    network = build_model(config.model, graph.num_features, graph.num_classes, seed=3)
    truth = Trainer(dense, label_objective(graph), network, config.train)
    losses, scores = [], []
    for epoch in range(EPOCHS):
        losses.append(truth.epoch(epoch))
        scores.append(truth.evaluate(epoch).val)
    for period, cut in enumerate(dense.cuts[: 1 + (EPOCHS - 1) // EVERY]):
        assert torch.equal(run.parts(period).owner, cut.owner)
    with pytest.raises(ValueError, match=r"period of run .* must be in \[0, 3\], got 4; it has 7 epochs"):
        run.parts(4)
    for rank, records in run.records.groupby("rank"):
        np.testing.assert_allclose(records["loss"], losses, rtol=2e-5)
        np.testing.assert_allclose(records["val_score"], scores, atol=0.051)  # one of 20 nodes may be a tie
        assert records["bytes_payload"].eq(0).all() and (records["bytes_gradients"].gt(0).all() or workers == 1)
        changes = records["epoch"].mod(EVERY).eq(0) & records["epoch"].gt(0)
        assert records["partition_s"].gt(0).tolist() == changes.tolist()
        shards = [cut.shard(graph, rank) for cut in dense.cuts]
        moved = [moved_bytes(*pair) for pair in itertools.pairwise(shards[: 1 + EPOCHS // EVERY])]
        assert records["partition_bytes"][changes].tolist() == moved and records["partition_bytes"].sum() == sum(moved)
    assert (run.timeline["epoch"].unique() == [2, 3, 6]).all(), "channels of every period are recorded"


@each("workers", [1, 3])
def test_a_resumed_run_ends_bit_for_bit_as_one_without_a_stop(workers, tmp_path):
    graph = random_graph()
    straight = trained(tmp_path, f"straight-{workers}", configured(graph, workers))
    short = configured(graph, workers, STOP)
    stopped = trained(tmp_path, f"stopped-{workers}", short)
    config = configured(graph, workers)
    resumed = run_folder(tmp_path, f"resumed-{workers}", config, epoch=EPOCHS - 1)
    shutil.copytree(stopped.folder / "checkpoints", resumed.folder / "checkpoints")
    run_ranks(on_rank, workers, config, str(resumed.folder))
    later = straight.records[straight.records["epoch"] >= STOP].reset_index(drop=True)
    assert later[["epoch", "rank", "loss", "val_score"]].equals(resumed.records[["epoch", "rank", "loss", "val_score"]])
    one, other = (
        read_checkpoint(run.folder / "checkpoints" / f"epoch-{EPOCHS:06d}.safetensors").tensors
        for run in (straight, resumed)
    )
    assert one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def test_bytes_of_a_change_are_those_of_new_nodes():
    graph = random_graph(40, 80, features=5)
    before, after = (
        RandomClusters(clusters_per_worker=4).cut_in_period(graph, 2, period).shard(graph, 1) for period in (0, 1)
    )
    new = set(after.owned.tolist()) - set(before.owned.tolist())
    row = 5 * 4 + graph.labels.element_size() + 3  # features, label, three masks
    assert moved_bytes(before, after) == len(new) * row > 0


@each(
    ("system", "text"),
    [
        (bns_gcn(p=0.1), "sampler BoundarySampling with p 0.1"),
        (gq.systems.vanilla(), "sampler AllRows with p 1.0"),
        (pipegcn().replace(sampler=gq.samplers.BoundarySampling(p=0.0)), "schedule Pipelined, which"),
        (
            gq.systems.fixed_bits(bits=2).replace(sampler=gq.samplers.BoundarySampling(p=0.0)),
            "bits that may depend on rows",
        ),
    ],
)
def test_systems_with_rows_are_refused(system, text):
    with pytest.raises(ValueError, match=f"partition_every needs workers that receive no rows .*{text}.*; choose"):
        system.replace(partition=RandomClusters(partition_every=3))


def test_other_systems_without_rows_are_not_refused():
    system = bns_gcn(p=0.0).replace(partition=RandomClusters(partition_every=3))
    assert system.recipe is not None and system.partition.partition_every == 3
    overlapped = system.replace(schedule=gq.schedules.Overlapped())
    assert overlapped.partition.fixed() == RandomClusters()


@each(
    ("settings", "text"),
    [
        ({"protocol": "inductive"}, "protocol 'inductive' trains on other edges"),
        ({"task": "links"}, "got task 'links'; choose partition_every 0"),
        ({"node_features": "learned"}, "got node_features 'learned'; choose partition_every 0"),
    ],
)
def test_runs_with_state_of_nodes_are_refused(settings, text):
    with pytest.raises(ValueError, match=text):
        gq.configure("digits", system="gradients-only", correction="none", **settings)


def test_a_simulation_refuses_a_moving_partition():
    with pytest.raises(ValueError, match="must have one partition, got partition_every 10; choose"):
        gq.simulate("sbm:60,3,6", system="gradients-only")
    assert len(gq.simulate("sbm:60,3,6", system=gradients_only(partition_every=0), epochs=2, hidden=4).losses) == 2


def test_bytes_are_counted_from_the_channels_of_their_period():
    def trainer_of(payload):
        channel = SimpleNamespace(bytes_payload=payload, bytes_params=0, bytes_headers=0, wire_s=0.0)
        graph, reduction = SimpleNamespace(node_sums=SimpleNamespace(sent_bytes=0)), SimpleNamespace(sent_bytes=0)
        return SimpleNamespace(channels=[channel], graph=graph, reduction=reduction, adaptives={})

    trainer = trainer_of(0)
    recorder = ChannelBytes(trainer)
    recorder.begin(0)
    trainer.channels[0].bytes_payload = 900
    assert recorder.figures()["bytes_payload"] == 900
    trainer.channels = trainer_of(0).channels  # of another partition
    recorder.begin(1)
    trainer.channels[0].bytes_payload = 700
    assert recorder.figures()["bytes_payload"] == 700
