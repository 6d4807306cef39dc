"""Counted work of a pass, compared with independent counts: PyTorch's own FLOP counter, and loops over edges."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from gnnqlab.compute import BFloat16Rows
from gnnqlab.course.experiments.counted import CountedProducts, count
from gnnqlab.course.experiments.limits import coded_bytes
from gnnqlab.graph.features import SparseRows
from gnnqlab.graph.graph import Graph
from gnnqlab.nn import ModelSettings
from gnnqlab.partition.edge_cut import Random
from gnnqlab.partition.parts import cut_graph
from gnnqlab.partition.shard import Shard
from gnnqlab.simulation.threaded_workers import ThreadedWorkers
from gnnqlab.systems.registry import make_system
from gnnqlab.theory.limits import RowPass
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.phase_timer import PhaseTimer
from gnnqlab.train.loop.trainer import Trainer, worker_trainer
from tests.cases import each
from tests.graphs import random_graph

FEATURES, HIDDEN, CLASSES = 5, 9, 3
Edge = tuple[int, int]
"""(row, column)."""


def graph() -> Graph:
    return random_graph(37, 90, features=FEATURES, classes=CLASSES)


def trainer_of(model: str = "gcn", **shape: int) -> Trainer:
    whole, settings = graph(), ModelSettings(name=model, **{"layers": 3, "hidden": HIDDEN, **shape})
    shard = cut_graph(whole, Random(), 1).shard(whole, 0)
    return worker_trainer(shard, make_system("vanilla"), settings, TrainSettings())


@each("model", ("gcn", "graphsage", "gcnii", "sgc"))
def test_operations_are_those_that_pytorch_counts(model: str) -> None:
    trainer = trainer_of(model)
    work = count(trainer)
    with FlopCounterMode(display=False) as counter:
        trainer.epoch(0)
    assert work.flops == counter.get_total_flops() > 0


def test_bytes_of_sums_are_those_of_a_loop_over_edges() -> None:
    whole = graph()
    threads = ThreadedWorkers(
        whole, cut_graph(whole, Random(), 2), make_system("vanilla"), ModelSettings(hidden=HIDDEN), TrainSettings()
    )
    works = [count(trainer) for trainer in threads.trainers]
    threads.gradients(0)
    for work, shard in zip(works, threads.shards, strict=True):
        central, owned, halo = shard.num_central, shard.num_owned, shard.halo.numel()
        assert 0 < central < owned
        edges = edges_of(shard)
        turned = [(column, row) for row, column in edges]
        # Raw features of 5 columns are aggregated before the projection to 9 columns, the last rows after the
        # projection to 3; raw features need no gradient. Forward, central and marginal rows are separate; backward,
        # halo and owned rows.
        expected = sum(sum_bytes(edges, rows, wide) for rows in ((0, central), (central, owned)) for wide in (5, 9, 3))
        expected += sum(
            sum_bytes(turned, rows, wide) for rows in ((owned, owned + halo), (0, owned)) for wide in (9, 3)
        )
        assert work.sum_bytes == expected


def test_products_of_sparse_features_are_sums_of_the_rows_of_weights() -> None:
    generator, wide = torch.Generator().manual_seed(0), 20  # more than hidden: projected before they are aggregated
    dense = torch.randn(37, wide, generator=generator) * (torch.rand(37, wide, generator=generator) < 0.1)
    whole = graph()
    whole = replace(whole, features=SparseRows.from_dense(dense))
    shape = ModelSettings(layers=1, hidden=HIDDEN)
    trainer = worker_trainer(
        cut_graph(whole, Random(), 1).shard(whole, 0), make_system("vanilla"), shape, TrainSettings()
    )
    work = count(trainer)
    trainer.epoch(0)
    stored = [tuple(place) for place in dense.nonzero().tolist()]
    links = edges_of(cut_graph(whole, Random(), 1).shard(whole, 0))
    expected = sum_bytes(stored, (0, 37), CLASSES) + sum_bytes(links, (0, 37), CLASSES)
    expected += sum(
        sum_bytes([(column, row) for row, column in edges], (0, made), CLASSES)
        for edges, made in ((stored, wide), (links, 37))
    )
    assert work.sum_bytes == expected and work.flops == 0


def test_rows_of_a_message_are_coded_at_both_ends() -> None:
    whole, system = graph(), make_system("fixed-bits", bits=2)
    threads = ThreadedWorkers(
        whole, cut_graph(whole, Random(), 2), system, ModelSettings(layers=1, hidden=HIDDEN), TrainSettings()
    )
    threads.gradients(0)
    for own, other in itertools.permutations(threads.shards):
        # One layer from 5 columns to 3: projected rows are sent, and the gradients of received rows are returned.
        needed = [shard.halo.numel() for shard in (own, other)]
        expected = Counter(4 * CLASSES * rows for rows in needed)
        assert coded_bytes(threads.trainers[own.rank]) == Counter({size: 2 * n for size, n in expected.items()})


def edges_of(shard: Shard) -> list[Edge]:
    starts, columns = shard.indptr.tolist(), shard.indices.tolist()
    return [
        (row, column) for row, (first, last) in enumerate(itertools.pairwise(starts)) for column in columns[first:last]
    ]


def sum_bytes(edges: Sequence[Edge], rows: Edge, columns: int) -> int:
    """Count every row of x that an edge reads, every output row, 8 bytes per edge, and the offset of each row."""
    first, last = rows
    here = [edge for edge in edges if first <= edge[0] < last]
    used, made = {column for _, column in here}, range(first, last)
    return 4 * columns * len(used) + 4 * columns * len(made) + 8 * len(here) + 8 * (len(made) + 1)


def test_passes_over_rows_are_read_and_written_once_each_way() -> None:
    trainer = trainer_of(layers=2)
    work = count(trainer)
    trainer.epoch(0)
    rows, hidden, out = 37, 37 * HIDDEN, 37 * CLASSES
    assert rows == trainer.graph.ids.numel()
    assert dict(work.passes) == {  # LayerNorm, ReLU and dropout; the bias of the layer that projects first
        RowPass(num_read=hidden, num_written=hidden): 2,
        RowPass(num_read=out + CLASSES, num_written=out): 1,
        RowPass(num_read=out, num_written=out + CLASSES): 1,
    }


def test_only_the_first_training_pass_is_counted() -> None:
    trainer = trainer_of()
    work = count(trainer)
    trainer.epoch(0)
    before = work.flops, work.sum_bytes, sum(work.passes.values())
    trainer.evaluate(0)
    trainer.epoch(1)
    assert before == (work.flops, work.sum_bytes, sum(work.passes.values()))


def test_counting_changes_no_loss() -> None:
    plain, counted = trainer_of("graphsage"), trainer_of("graphsage")
    count(counted)
    assert [plain.epoch(epoch) for epoch in range(3)] == [counted.epoch(epoch) for epoch in range(3)]


def test_products_and_aggregations_enter_separate_timer_phases() -> None:
    turned: list[str] = []

    class RecordingTimer(PhaseTimer):
        def enter(self, phase: str) -> str:
            turned.append(phase)
            return super().enter(phase)

    products, x = CountedProducts(RecordingTimer()), torch.randn(3, 2)
    products.mm(x, x, transposed="b")
    products.addmm(x[0], x, x.t() @ x)
    assert turned == ["products", "other"] * 2
    turned.clear()
    trainer = trainer_of()
    adjacency = trainer.graph.adjacency("mean")
    products.spmm(adjacency, torch.randn(37, 4))
    assert turned == ["central", "other"]


def test_work_that_is_not_counted_is_refused() -> None:
    attends = trainer_of("gat")
    count(attends)
    with pytest.raises(ValueError, match="the work of attention is not counted"):
        attends.epoch(0)
    rounded = trainer_of()
    rounded.graph.exchange.products = BFloat16Rows().build()
    with pytest.raises(ValueError, match="work is counted of float32 products"):
        count(rounded)
