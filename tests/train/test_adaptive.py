"""Callbacks between epochs: a user's own callback is summed, saved, resumed and controlled like the package's own."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
import torch.distributed as dist

import gnnqlab as gq
from gnnqlab.adaptive import Adaptive, Training, adaptives_of
from gnnqlab.bits.policy import Fixed
from gnnqlab.exchange.schedules.schedule import Synchronous
from gnnqlab.kernels import native
from gnnqlab.message.codecs.codec import Float32, Stochastic
from gnnqlab.nn import ModelSettings
from gnnqlab.systems import SYSTEMS, make_system
from gnnqlab.train.checkpoints.checkpoint import read_checkpoint
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.control import Control, steered
from gnnqlab.train.loop.reduction import ReducedFacts, Slots
from gnnqlab.train.loop.scalar_reduction import ScalarReduction
from gnnqlab.train.loop.trainer import worker_trainer
from gnnqlab.worker_context import WorkerContext
from tests.graphs import random_graph
from tests.run.folders import wait_for
from tests.slow_down import HANG_S
from tests.train.agreeing import Agreeing

SETTINGS = {"workers": 2, "hidden": 16, "layers": 2}


def system(**settings):
    return replace(make_system("fixed-bits"), name="agreeing", bits=Agreeing(**settings))


def checkpoint(run, epoch):
    return read_checkpoint(run.folder / "checkpoints" / f"epoch-{epoch:06d}.safetensors")


def test_custom_callback_adapts_a_launched_run_and_resumes_from_a_checkpoint(tmp_path):
    # The workers contribute 1 and 2 in each epoch: 21 >= 20 after epoch 6, so 8 bits from epoch 7 on.
    straight = gq.launch("digits", system=system(), epochs=10, checkpoint_every=4, **SETTINGS, out=tmp_path, wait=True)
    assert straight.status == "finished", straight.errors
    assert straight.decisions[["epoch", "what", "why"]].values.tolist() == [
        [7, "8 bits", "21 in all, at most 2 at once"]
    ]
    bits = straight.traffic.groupby("epoch").bits.unique().map(list).tolist()
    assert bits == [[2]] * 7 + [[8]] * 3
    facts = json.loads((straight.folder / "facts.json").read_text())
    assert facts["agrees_at"] == 20.0
    assert facts["package"]["version"] == gq.__version__ and facts["package"]["kernels"] == native.status()["backend"]
    assert facts["machine"]["instruction_set"] == (native.status()["isa"] or "none")
    with np.load(straight.folder / "said-rank1.npz") as table:
        assert table["so-far"].tolist() == [20.0]
    kept = checkpoint(straight, 8)
    assert kept.facts["adaptives"]["agreed"] == {"total": 24.0, "bits": 8}
    assert {name: kept.tensors[name].tolist() for name in kept.tensors if name.startswith("agreed/")} == {
        "agreed/said/0": [8.0],
        "agreed/said/1": [16.0],
    }
    first = gq.launch("digits", system=system(), epochs=4, checkpoint_every=4, **SETTINGS, out=tmp_path, wait=True)
    assert first.decisions.empty
    resumed = gq.resume(first, epochs=10, wait=True)
    assert resumed.decisions.equals(straight.decisions)
    columns = ["epoch", "rank", "loss", "bytes_payload"]
    assert resumed.records[columns].equals(straight.records[columns])
    one, other = checkpoint(straight, 10), checkpoint(resumed, 10)
    assert one.facts["adaptives"] == other.facts["adaptives"] and list(one.tensors) == list(other.tensors)
    assert all(torch.equal(tensor, other.tensors[name]) for name, tensor in one.tensors.items())


def test_a_part_of_ones_own_is_steered(tmp_path):
    settings = {**SETTINGS, "epochs": 20_000, "evaluate_every": 0}
    with gq.launch("digits", system=system(until=1e6), **settings, out=tmp_path) as run:
        wait_for(run, lambda: run.epoch >= 2, what="the second epoch")
        with pytest.raises(ValueError, match=r"while system 'agreeing' trains, \['step'\] can change, got \['until'\]"):
            run.control(until=1.0)
        assert run.control(step=1_000_000) == 1
        wait_for(run, lambda: not run.decisions.empty, what="a decision")
        run.stop(timeout=HANG_S)
    told = next(event for event in run.events if event["event"] == "control")
    # In force from the next epoch on, in which each of the two workers contributes a million and its rank.
    assert run.decisions.epoch.tolist() == [told["epoch"] + 1]
    assert run.decisions.why[0].endswith("at most 1e+06 at once")


def trained(name, transport):
    graph, system = random_graph(), make_system(name)
    settings = TrainSettings(transport=transport)
    trainer = worker_trainer(
        system.partition.cut(graph, 1).shard(graph, 0), system, ModelSettings(layers=2, hidden=8), settings
    )
    losses = [trainer.epoch(epoch) for epoch in range(3)]
    trainer.evaluate(3)
    trainer.close()
    return losses


@pytest.mark.parametrize("transport", ["direct", "ring", "all-to-all"])
def test_one_worker_needs_no_process_group(transport):
    assert not dist.is_initialized()
    for name in SYSTEMS:
        # One worker sends nothing, so only staleness or bit-widths could make a system differ from the others.
        plain = replace(make_system("vanilla"), compute=make_system(name).compute)
        assert trained(name, transport) == trained(plain, "direct"), name


class Wants(Adaptive):
    def __init__(self, name, wants, said=None):
        self.name, self.reductions, self.said = name, wants, said or {}

    def values_to_reduce(self, epoch_s):
        return self.said


def test_each_callback_receives_the_reductions_it_requested():
    first = Wants("first", {"a": "sum", "b": "max"}, {"a": 1.0, "b": None})
    second = Wants("second", {"b": "max", "a": "sum"}, {"a": 2.0, "b": 3.0})
    wanted = ScalarReduction([first, Wants("nothing", {}), second], workers=2)
    assert wanted.slots == Slots(sums=2, maxima=2, workers=2) and wanted.slots.count == 2 + 2 * 2 + 2
    assert wanted.collect_local(None) == ([1.0, 2.0], [None, 3.0])
    told = wanted.unpack(ReducedFacts(0.5, False, (10.0, 20.0), (None, 4.0)))
    assert told == [{"a": 10.0, "b": None}, {}, {"a": 20.0, "b": 4.0}]


@pytest.mark.parametrize(
    ("wants", "said", "text"),
    [
        ({"a": "mean"}, {}, "a requested reduction must be 'sum' or 'max', got 'mean' for 'a' of toy"),
        ({"a": "sum"}, {}, r"toy must return \['a'\], got \[\]"),
        ({"a": "sum"}, {"a": None}, "toy must return a number for the sum 'a', got None"),
    ],
)
def test_missing_or_invalid_reduction_values_raise_value_error(wants, said, text):
    with pytest.raises(ValueError, match=text):
        ScalarReduction([Wants("toy", wants, said)], workers=1).collect_local(None)


class Offers:
    def __init__(self, *adaptives):
        self.made = adaptives

    def adaptives(self, training):
        return self.made


class Quiet:
    """Takes part in training and adapts nothing."""


def test_names_are_taken_once():
    nobody = torch.zeros(0)
    worker = WorkerContext(rank=0, workers=1, seed=0, ids=nobody.long(), importance=nobody)
    parts = {
        "bits": Offers(Wants("one", {}), Wants("two", {})),
        "codec": Quiet(),
        "schedule": Offers(Wants("three", {})),
    }
    found = adaptives_of(Training(worker=worker, parts=parts))
    assert {axis: [each.name for each in found[axis]] for axis in found} == {
        "bits": ["one", "two"],
        "codec": [],
        "schedule": ["three"],
    }
    for again in ("one", ""):
        parts["schedule"] = Offers(Wants(again, {}))
        with pytest.raises(ValueError, match=f"callbacks must have unique names, got '{again}' on the axis 'schedule'"):
            adaptives_of(Training(worker=worker, parts=parts))


@dataclass(frozen=True)
class Hesitant(Synchronous):
    steerable: ClassVar[tuple[str, ...]] = ("patience",)
    patience: int = 1


class Steers(Adaptive):
    def __init__(self, name):
        self.name, self.taken = name, []

    def steer(self, settings, *, version):
        self.taken.append((settings, version))


def test_steered_settings_reach_only_the_callbacks_of_their_axis(tmp_path):
    whole = replace(make_system("fixed-bits"), schedule=Hesitant())
    assert steered(whole, {"patience": 3, "bits": 4}) == replace(
        whole, bits=Fixed(bits=4), schedule=Hesitant(patience=3)
    )
    bits, schedule = Steers("bits"), Steers("schedule")
    control = Control(tmp_path, 0, whole, distributed=False).register_callbacks(
        {"bits": [bits], "schedule": [schedule]}
    )
    control.adopt(1, {"bits": 4})
    control.adopt(2, {"bits": 4, "patience": 2})
    control.adopt(3, {"bits": 4, "patience": 2})  # set again: every receiver gets it again
    assert bits.taken == [(Fixed(bits=4), 1), (Fixed(bits=4), 3)]
    assert schedule.taken == [(Hesitant(patience=2), 2), (Hesitant(patience=2), 3)]
    with pytest.raises(ValueError, match="needs a callback with a method steer, got none for 'patience' of the axis"):
        Control(tmp_path, 0, whole, distributed=False).register_callbacks(
            {"bits": [bits], "schedule": [Wants("deaf", {})]}
        )


@dataclass(frozen=True)
class Ambiguous(Synchronous):
    steerable: ClassVar[tuple[str, ...]] = ("bits",)
    bits: int = 1


def test_one_name_cannot_mean_two_settings():
    with pytest.raises(ValueError, match="must have unique names, got 'bits' on the axes 'bits' and 'schedule'"):
        steered(replace(make_system("fixed-bits"), schedule=Ambiguous()), {"bits": 4})


def test_param_bytes_of_a_codec_match_its_message_layout():
    for codec in (Float32(), Stochastic(), Stochastic(parameters="bfloat16"), Stochastic(parameters="bfloat16-after")):
        for bits in codec.widths:
            assert codec.param_bytes(bits, 5) == codec.layout(bits, 3, 5).param_bytes / 3
