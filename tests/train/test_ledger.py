"""Live bytes by purpose: each tensor is counted once, under its purpose, until it is freed."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import torch

from gnnqlab.nn import ModelSettings
from gnnqlab.observe import TensorSaved
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import make_system
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import worker_trainer
from gnnqlab.train.records.memory_tracker import PURPOSES, MemoryFile, MemoryTracker, read_memory
from tests.graphs import random_graph
from tests.ranks import run_ranks


def test_tensors_count_until_the_last_one_on_their_memory_is_gone():
    ledger = MemoryTracker()
    with ledger:
        x = torch.zeros(100, 4)
        view = x[:10]
        message = torch.empty(7, dtype=torch.uint8)
        assert ledger.live == {**dict.fromkeys(PURPOSES, 0), "rows": 1600, "buffers": 7}
        del x
        assert ledger.live["rows"] == 1600
        del view
        assert ledger.live["rows"] == 0 and ledger.peaks["rows"] == 1600
        ledger.enter(message, "halo")
        assert ledger.live["halo"] == 7 and ledger.live["buffers"] == 0
        more = torch.zeros(2)
    ledger.close()
    del more
    assert ledger.at_peak["rows"] == 1600 and ledger.at_peak["buffers"] == 7


def test_tracking_does_not_import_the_compiler_of_pytorch():
    program = """
import sys, torch
from gnnqlab.train.records.memory_tracker import MemoryTracker
with MemoryTracker() as ledger:
    torch.ones(4)
print(ledger.peaks["rows"], "torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["16", "False"]


def test_tensors_saved_by_autograd_are_counted_separately():
    ledger = MemoryTracker()
    weight = torch.ones(8, 8, requires_grad=True)
    ledger.enter(weight, "weights", fixed=True)

    def saved(tensor: torch.Tensor) -> torch.Tensor:
        ledger.on_tensor_saved(TensorSaved(0, 0, tensor))
        return tensor.detach()

    with ledger, torch.autograd.graph.saved_tensors_hooks(saved, lambda kept: kept):
        rows = torch.ones(50, 8)
        product = (rows @ weight).exp()
        assert ledger.live["kept"] == 2 * 1600, "rows for the weight's gradient, the result of exp for its own gradient"
        assert ledger.live["weights"] == 256
        product.sum().backward()
        del rows, product
        assert ledger.live["kept"] == 0
    assert torch.equal(weight.grad, weight.grad[0].expand(8, 8))


def counted(rank: int, workers: int, graph, owner, folder: Path) -> None:
    for model, name in CASES:
        recipe = replace(make_system(name, **({"depth": 0} if name == "sar" else {})), partition=Random())
        shape = ModelSettings(name=model, layers=3, hidden=16)
        trainer = worker_trainer(build_shard(graph, owner, rank, workers), recipe, shape, TrainSettings())
        (folder / model / name).mkdir(parents=True, exist_ok=True)
        memory = MemoryFile(folder / model / name, rank, trainer, every=1)
        for epoch in range(2):
            memory.begin(epoch)
            trainer.epoch(epoch)
            memory.figures()
        trainer.close()


CASES = [(model, name) for model in ("graphsage", "gat") for name in ("vanilla", "sar")]


def test_recorded_halo_bytes_of_vanilla_exceed_those_of_sar(tmp_path: Path):
    """Compare the halo bytes of Vanilla, attention and SAR.

    Vanilla holds the halos of all layers, attention those of all layers and their gradients. SAR holds the halo of one
    worker; attention also the gradients that it returns to that worker.
    """
    graph, workers = random_graph(240, 2400), 3
    run_ranks(counted, workers, graph, Random().assign(graph, workers), tmp_path)
    for model, at_least in (("graphsage", 2.5), ("gat", 2.5)):
        peaks = {}
        for name in ("vanilla", "sar"):
            memory = read_memory(tmp_path / model / name)
            assert list(memory["purpose"][: len(PURPOSES)]) == list(PURPOSES) and set(memory["epoch"]) == {1}
            assert (memory["peak_bytes"] >= memory["bytes"]).all() and (memory["peak_bytes"] > 0).all()
            peaks[name] = memory[memory["purpose"] == "halo"].groupby("rank")["peak_bytes"].max()
        assert (peaks["vanilla"] >= at_least * peaks["sar"]).all(), (model, peaks)
