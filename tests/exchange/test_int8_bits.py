"""Bit-widths that the rule chooses after the first epoch: the same on every worker as in one process, and recorded."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import gnnqlab as gq
from gnnqlab.compute import Int8Products
from gnnqlab.compute.bit_rule import CHOICES, TARGET, BitChoice, relative_error
from gnnqlab.kernels.codec.quantize import NoiseCounter, quantize
from gnnqlab.kernels.noise import stream
from gnnqlab.nn import ModelSettings
from gnnqlab.partition import Random
from gnnqlab.systems import vanilla
from gnnqlab.systems.recipes.cdfgnn import cdfgnn
from gnnqlab.systems.replaced import parts_in, words_of
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import Trainer, worker_trainer
from tests.graphs import random_graph
from tests.ranks import run_ranks

AUTO = Int8Products(bits="auto")
ON_NODES = replace(vanilla(), compute=AUTO, partition=Random(seed=1))
CASES = {("halo", "gcn"): ON_NODES, ("halo", "gat"): ON_NODES, ("halo", "jknet"): ON_NODES}
CASES["replicas", "gcn"] = replace(cdfgnn(bits=32, epsilon=0.0, rule="fixed"), compute=AUTO)


def _trainer(rank: int, workers: int, graph, case: tuple[str, str]) -> Trainer:
    shard = CASES[case].partition.cut(graph, workers).shard(graph, rank)
    shape = ModelSettings(name=case[1], layers=2, hidden=16, dropout=0.0)
    return worker_trainer(shard, CASES[case], shape, TrainSettings(seed=5))


def _overheard(choice: BitChoice) -> list[dict[str, float]]:
    said, says = [], choice.values_to_reduce
    choice.values_to_reduce = lambda epoch_s: said.append(says(epoch_s)) or said[-1]
    return said


def _chosen(rank: int, workers: int, graph) -> dict:
    """Bit-widths in each of two epochs, sums of this worker, and its recorded decision."""
    found = {}
    for case in CASES:
        trainer = _trainer(rank, workers, graph, case)
        products, choice = trainer.exchange.products, trainer.adaptives["product-bits"]
        said, before = _overheard(choice), products.bits
        trainer.epoch(0)
        after = products.bits
        trainer.epoch(1)
        assert products.bits == after and not any(said[1].values())
        found[case] = (before, after, said[0], [entry for _, entry in choice.entries()])
        trainer.close()
    return found


@pytest.mark.parametrize("workers", [2])
def test_all_workers_choose_the_bit_width_of_one_process(workers: int) -> None:
    graph = random_graph(nodes=120, edges=600, features=24, seed=4)
    results, alone = run_ranks(_chosen, workers, graph), _chosen(0, 1, graph)
    for case, (before, bits, sums, _) in alone.items():
        assert before == 8 and 2 <= bits < 8, case  # a training on few normal features does not need eight bits
        assert sums["elements"] == graph.num_nodes * 16
        for name, total in sums.items():
            parts = sum(each[case][2][name] for each in results)
            assert parts == pytest.approx(total, rel=2e-3), (case, name)
        entries = [each[case][3] for each in results]
        assert all(each[case][1] == bits for each in results) and entries[0] == entries[1]
        (entry,) = entries[0]
        assert entry["epoch"] == 1 and entry["what"] == f"products of {bits}-bit codes"
        (told,) = re.findall(r"layer.s output is ([0-9.]+) at 8", entry["why"])
        assert float(told) == pytest.approx(sums["error at 8 bits"] / sums["elements"], abs=1e-3)


def test_the_errors_are_those_of_the_first_output() -> None:
    graph = random_graph(nodes=60, edges=200, features=24, seed=4)
    trainer = _trainer(0, 1, graph, ("halo", "gcn"))
    seen: list[torch.Tensor] = []
    looked = trainer.exchange.products.on_first_aggregation
    trainer.exchange.products.on_first_aggregation = lambda y: (seen.append(y), looked(y))
    said = _overheard(trainer.adaptives["product-bits"])
    trainer.gradients(0)
    assert len(seen) == len(said) == 1, "the first of two layers"
    (y,), (taken,) = seen, said
    torch.testing.assert_close(y.shape, (60, 16))
    noise = NoiseCounter(trainer.graph.ids, 5, 0, stream("bits", 0))
    for bits in CHOICES:
        rows = quantize(y, bits=bits, noise=noise)
        error = relative_error(y, rows.codes * rows.scales.unsqueeze(1))
        assert taken[f"error at {bits} bits"] / taken["elements"] == pytest.approx(error)
    trainer.evaluate(0)
    assert len(seen) == 1  # an evaluation does not decide bit-widths


class _Bits:
    bits = 8


def test_bit_width_is_chosen_once_and_restored_from_a_checkpoint() -> None:
    choice = BitChoice(_Bits())
    told = {
        "elements": 10.0,
        **{f"error at {bits} bits": 10.0 * error for bits, error in zip(CHOICES, (0, 0.2, 0.3, 1))},
    }
    assert set(choice.values_to_reduce(None)) == set(choice.reductions) == set(told)
    choice.after_epoch(0, 1.0, told)
    assert choice.products.bits == 4 and TARGET == 0.3
    choice.after_epoch(1, 1.0, {**told, "error at 2 bits": 0.0})
    assert choice.products.bits == 4 and len(choice.entries()) == 1 and not choice.entries()
    again = BitChoice(_Bits())
    again.load(choice.state().facts, {})
    again.after_epoch(2, 1.0, {**told, "error at 2 bits": 0.0})
    assert again.products.bits == 4 and not again.entries()
    nothing = BitChoice(_Bits())
    nothing.after_epoch(0, 1.0, dict.fromkeys(told, 0.0))
    assert nothing.products.bits == 8 and "no layer aggregated" in nothing.entries()[0][1]["why"]


def test_a_run_writes_it_down_and_keeps_it(tmp_path: Path) -> None:
    first = gq.launch(
        "digits", system=ON_NODES, hidden=8, workers=1, epochs=2, checkpoint_every=2, out=tmp_path, wait=True
    )
    (what,) = first.decisions["what"]
    resumed = gq.resume(first, epochs=3, wait=True)
    assert list(resumed.decisions["what"]) == [what] and list(resumed.decisions["epoch"]) == [1]
    assert resumed.records["epoch"].max() == 2
    assert (resumed.records["rounded"] > 0).all() and (resumed.records["rounded_twice"] == 0).all()


def test_words_of_the_command_line() -> None:
    part = parts_in("compute=int8:bits=auto:scale=tensor")["compute"]
    assert part == Int8Products(bits="auto", scale="tensor")
    assert words_of("compute", part) == "compute=int8:bits=auto:scale=tensor"
    assert parts_in("compute=int8:bits=6")["compute"] == Int8Products(bits=6)
    with pytest.raises(ValueError, match=r"bits must be one of .* or 'auto', got 'few'"):
        parts_in("compute=int8:bits=few")
    with pytest.raises(ValueError, match="an automatic choice needs epochs"):
        gq.tango(bits="auto")
