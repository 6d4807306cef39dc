"""All memory that a worker holds between epochs is found, in any object, and each block has one purpose."""

from __future__ import annotations

import gc
import time
from collections import deque
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import torch

from gnnqlab.nn import ModelSettings
from gnnqlab.partition import Random
from gnnqlab.partition.parts import cut_graph
from gnnqlab.simulation.threaded_workers import exact_trainer
from gnnqlab.systems import make_system
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import worker_trainer
from gnnqlab.train.records.memory_tracker import PURPOSES
from gnnqlab.train.records.persistent_tensors import persistent_tensors
from tests.graphs import random_graph
from tests.ranks import run_ranks

CASES = [
    ("gcn", "cdfgnn"),
    ("gcn", "sancus-q"),
    ("gat", "cagnet"),
    ("gcn", "sylvie"),
    ("gat", "sar"),
    ("gcn", "pipegcn"),
    ("gcn", "bns-gcn"),
]
OWN_CUTS = ("cdfgnn", "sancus-q", "cagnet")


def memories() -> dict[int, torch.Tensor]:
    """Return all tensors in the interpreter, one for each block of memory."""
    gc.collect()
    found = [each for each in gc.get_objects() if type(each) in (torch.Tensor, torch.nn.Parameter)]
    return {id(tensor.untyped_storage()): tensor for tensor in found}


def missed(rank: int, workers: int, graph: Any, cuts: Any) -> dict[tuple[str, str], Any]:
    """Return the bytes that exist after some epochs by purpose, and the tensors that were not found."""
    found = {}
    for model, name in CASES:
        system, cut = cuts[name]
        _ = graph.weighted_in_degrees, graph.weighted_out_degrees  # of the whole graph, which no worker has
        before = memories()
        shape = ModelSettings(name=model, layers=3, hidden=16)
        trainer = worker_trainer(cut.shard(graph, rank), system, shape, TrainSettings())
        for epoch in range(2):
            trainer.epoch(epoch)
            trainer.evaluate(epoch)
        held = persistent_tensors(trainer)
        known = {id(tensor.untyped_storage()) for tensors in held.values() for tensor in tensors}
        for _ in range(500):
            left = [tuple(each.shape) for key, each in memories().items() if key not in known and key not in before]
            if not left:
                break
            time.sleep(0.01)  # a thread of Gloo may still hold the tensor of the last reduction for a moment
        found[model, name] = {purpose: sum(map(torch.numel, tensors)) for purpose, tensors in held.items()}, left
        trainer.close()
        del trainer, held, before
    return found


def test_every_tensor_that_outlives_an_epoch_is_found() -> None:
    graph = random_graph(120, 1200)
    systems = {name: make_system(name) for _, name in CASES}
    systems |= {name: replace(each, partition=Random()) for name, each in systems.items() if name not in OWN_CUTS}
    cuts = {name: (system, cut_graph(graph, system.partition, 3)) for name, system in systems.items()}
    for result in run_ranks(missed, 3, graph, cuts):
        for case, (held, left) in result.items():
            assert not left, (case, left)
            assert set(held) == set(PURPOSES) - {"kept"} and (held["halo"] > 0) == (case != ("gat", "sar")), case
        # two blocks of others and its own, 40 rows of 12, 16 and 4 columns; two receive buffers for each width
        assert result["gcn", "sancus-q"][0]["halo"] >= 40 * (3 + 2) * (12 + 16 + 4)


class Part:
    stands_for: ClassVar[dict[str, str]] = {"far": "halo"}

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


def test_parts_of_ones_own_are_looked_into_and_the_same_memory_counts_once() -> None:
    trainer: Any = exact_trainer(random_graph(40), ModelSettings(layers=2, hidden=8))
    before = {purpose: len(tensors) for purpose, tensors in persistent_tensors(trainer).items()}
    rows, places, message, far = torch.zeros(7), torch.arange(7), torch.zeros(7, dtype=torch.uint8), torch.ones(3)

    def bound() -> torch.Tensor:
        return places

    part = Part(held=[(rows, rows[2:])], told=partial(bound), posted={message: deque([bound])})
    trainer.adaptives["mine"] = Part(part=part, far=far, rows=[far], transport=[torch.ones(5)])
    more = {purpose: len(tensors) - before[purpose] for purpose, tensors in persistent_tensors(trainer).items()}
    assert more == {"weights": 0, "halo": 1, "buffers": 1, "rows": 1, "adjacency": 1}
