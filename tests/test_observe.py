"""Events describe a training, change nothing of it, and cost nothing without an observer."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import gnnqlab as gq
from gnnqlab.compute import Int8Products
from gnnqlab.errors import ObserverFailed, WorkerFailed
from gnnqlab.exchange import Pipelined
from gnnqlab.message import BoundarySampling
from gnnqlab.nn import LocalGraph, ModelSettings, build_model
from gnnqlab.observe import (
    Aggregated,
    EpochEnded,
    MessageDecoded,
    MessageEncoded,
    NeighboursSummed,
    Observers,
    OperationEnded,
    OperationStarted,
    PhaseEnded,
    TensorAllocated,
    TensorSaved,
    observers_named,
)
from gnnqlab.systems import cagnet, fixed_bits, sancus, vanilla
from gnnqlab.train.loop.phase_timer import PhaseTimer
from tests.graphs import random_graph
from tests.observers import Bytes, Events, Failing

SHAPE = {"layers": 2, "hidden": 8, "dropout": 0.0}
RANDOM = gq.partitioners.Random(seed=1)


def events_of(system: gq.System, kind: type, *, workers: int = 2, epochs: int = 2, partition=RANDOM) -> list:
    """Return all events of a kind that a simulated training emits, worker by worker."""
    graph = random_graph(features=12, seed=3)
    found = gq.simulate(graph, system, observers=[Events], workers=workers, epochs=epochs, partition=partition, **SHAPE)
    return [event for (observer,) in found.observers for event in observer.seen if isinstance(event, kind)]


def test_encoded_message_decodes_to_within_a_step() -> None:
    messages = events_of(fixed_bits(bits=4), MessageEncoded)
    places = {(each.layer, each.direction) for each in messages}
    assert places == {(layer, direction) for layer in (0, 1) for direction in ("forward", "backward")}
    for each in messages:
        ends = each.values.aminmax(dim=1)
        step = (ends.max - ends.min) / 15
        assert ((each.decode() - each.values).abs().amax(dim=1) <= step * 1.01 + 1e-6).all()
        assert each.bit_widths.tolist() == [4] * len(each.values) and each.rank != each.receiver
        assert torch.equal(each.node_ids.sort().values, each.offered_ids.sort().values)
        assert each.num_bytes == len(each.values) * (each.values.shape[1] * 4 // 8 + 8)


def test_receiver_decodes_the_message_that_its_sender_encoded() -> None:
    system = fixed_bits(bits=2)
    sent = {(e.rank, e.receiver, e.epoch, e.layer, e.direction): e for e in events_of(system, MessageEncoded)}
    received = events_of(system, MessageDecoded)
    assert len(received) == len(sent)
    for each in received:
        message = sent[each.sender, each.rank, each.epoch, each.layer, each.direction]
        assert each.staleness == 0 and torch.equal(each.node_ids, message.node_ids)
        assert torch.equal(each.decode(), message.decode())


def test_float32_messages_are_reported_too() -> None:
    for each in events_of(vanilla(), MessageEncoded):
        assert torch.equal(each.decode(), each.values) and set(each.bit_widths.tolist()) == {32}


def test_stale_messages_have_their_age() -> None:
    used = events_of(replace(fixed_bits(bits=8), schedule=Pipelined()), MessageDecoded, epochs=3)
    # The first epoch is synchronous, and the second uses its messages, decoded already.
    assert {(0, 0), (2, 1)} == {(each.epoch, each.staleness) for each in used}


def test_sampled_messages_name_the_rows_that_were_skipped() -> None:
    messages = events_of(replace(fixed_bits(), sampler=BoundarySampling(p=0.5)), MessageEncoded)
    assert sum(len(each.skipped_ids) for each in messages) > 0
    for each in messages:
        assert len(each.skipped_ids) + len(each.node_ids) == len(each.offered_ids)


def test_skipped_blocks_of_a_broadcast_are_not_reported() -> None:
    messages = events_of(sancus(), MessageEncoded, epochs=1, partition=None)
    assert messages and all(len(each.node_ids) for each in messages)


def test_a_block_of_a_broadcast_is_reported_for_each_receiver() -> None:
    messages = events_of(cagnet(), MessageEncoded, epochs=1, workers=3, partition=None)
    pairs = Counter((each.rank, each.receiver) for each in messages)
    assert set(pairs) == {(a, b) for a in range(3) for b in range(3) if a != b} and len(set(pairs.values())) == 1


def test_aggregations_and_phases_are_reported() -> None:
    aggregated = events_of(vanilla(), Aggregated, epochs=1)
    assert [each.layer for each in aggregated] == [0, 1] * 2
    assert all(each.input.shape[0] == each.output.shape[0] for each in aggregated)
    phases = events_of(vanilla(), PhaseEnded, epochs=1)
    assert {"central", "encode", "wait"} <= {each.phase for each in phases}


class Operations(gq.Observer):
    """The operations of a pass, indented if one is inside another."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.ended: list[str] = []
        self.depth = 0

    def on_operation_started(self, event: OperationStarted) -> None:
        self.started.append(f"{'  ' * self.depth}{event.operation} {event.layer}")
        self.depth += 1

    def on_operation_ended(self, event: OperationEnded) -> None:
        self.depth -= 1
        self.ended.append(event.operation)


def test_operations_of_a_pass_are_reported_in_order() -> None:
    graph, seen = LocalGraph(random_graph(features=6, seed=3)), Operations()
    model = build_model(ModelSettings(layers=2, hidden=8, dropout=0.5), 6, 4, seed=0)
    model(graph.open_pass(0, training=True, observers=Observers([seen])), graph.features)
    # The activation has already dropped the input of layer 1, so `dropout` has nothing to drop.
    layer_1 = ["dropout 1", "linear 1", "aggregate 1", "  prepare 1"]
    assert seen.started == ["convolve 0", "  prepare 0", "activate 1", *layer_1]
    assert seen.ended == ["prepare", "convolve", "activate", "dropout", "linear", "prepare", "aggregate"]
    assert seen.depth == 0


class Memory(gq.Observer):
    """Bytes of saved tensors, and shapes of rows of other workers."""

    def __init__(self) -> None:
        self.saved, self.halo = 0, []

    def on_tensor_saved(self, event: TensorSaved) -> None:
        self.saved += event.tensor.numel() * event.tensor.element_size()

    def on_tensor_allocated(self, event: TensorAllocated) -> None:
        assert event.purpose == "halo"
        self.halo.append(tuple(event.tensor.shape))


def test_memory_of_other_rows_is_reported_once_and_saved_tensors_in_each_epoch() -> None:
    graph = random_graph(features=6, seed=3)
    halo = [shard.num_halo for shard in gq.partition(graph, RANDOM, workers=2).shards]
    one, two = (
        gq.simulate(graph, "vanilla", observers=[Memory], epochs=epochs, workers=2, partition=RANDOM, **SHAPE)
        for epochs in (1, 2)
    )
    for num_halo, (first,), (second,) in zip(halo, one.observers, two.observers, strict=True):
        # Layer 0 has the raw features, which stay in memory; the other layer's rows have one column per class.
        assert sorted(second.halo) == sorted(first.halo) == [(num_halo, 4), (num_halo, 6)]
        assert second.saved == 2 * first.saved > 0


def test_an_observer_may_join_for_a_while() -> None:
    observer, observers = Memory(), Observers()
    with observers.joined_by(observer):
        assert observers.all == (observer,) and observers.tensor_saved
    assert observers.all == () and not observers.tensor_saved


class Sums(gq.Observer):
    """The sums over neighbours and their gradients."""

    def __init__(self) -> None:
        self.sums: list[torch.Tensor] = []
        self.gradients: list[torch.Tensor] = []

    def on_neighbours_summed(self, event: NeighboursSummed) -> None:
        self.sums.append(event.sums.detach().clone())
        if event.sums.requires_grad:
            event.sums.register_hook(self.gradients.append)


def test_sums_over_neighbours_are_reported_with_their_gradients() -> None:
    graph = random_graph(features=6, seed=3)
    given = {"workers": 2, "partition": RANDOM, **SHAPE}
    found = gq.simulate(graph, "vanilla", observers=[Sums], **given)
    assert found.losses == pytest.approx(gq.simulate(graph, "vanilla", **given).losses, rel=1e-5)
    for (observer,) in found.observers:
        # Layer 0 aggregates raw features, which need no gradient; layer 1 projects to the classes first.
        assert [each.shape[1] for each in observer.sums] == [6, graph.num_classes]
        assert [each.shape for each in observer.gradients] == [observer.sums[1].shape]


def test_phases_of_a_clock_follow_each_other() -> None:
    observer, now = Events(), [0.0]
    clock = PhaseTimer(timer=lambda: now[0], observers=Observers([observer], rank=1))
    with clock("dense"):
        now[0] += 1
        with clock("wait"):
            now[0] += 2
    found = [(each.phase, each.started, each.ended) for each in observer.seen if each.ended > each.started]
    assert found == [("dense", 0.0, 1.0), ("wait", 1.0, 3.0)] and observer.seen[0].rank == 1


def test_no_event_is_made_without_a_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("an event that nobody listens to")

    places = {
        "message.report": ("MessageEncoded", "MessageDecoded"),
        "nn.message_passing": ("Aggregated", "NeighboursSummed"),
        "nn.reported": ("OperationEnded", "OperationStarted"),
        "train.loop.phase_timer": ("PhaseEnded",),
        "train.loop.recorders": ("DecisionMade", "EpochEnded"),
    }
    for module, names in places.items():
        for name in names:
            monkeypatch.setattr(f"gnnqlab.{module}.{name}", refuse)

    class Idle(gq.Observer):
        pass

    assert len(gq.simulate("sbm:60,3,6", observers=[Idle], **SHAPE).losses) == 1


def test_observers_change_no_loss() -> None:
    losses = [
        gq.simulate("sbm:60,3,6", fixed_bits(), observers=kinds, epochs=4, **SHAPE).losses for kinds in ([], [Events])
    ]
    assert losses[0] == losses[1]


def test_failing_observer_is_named() -> None:
    with pytest.raises(ObserverFailed, match=r"got ZeroDivisionError from Failing.on_aggregated: no such layer"):
        gq.simulate("sbm:60,3,6", observers=[Failing], **SHAPE)


def test_simulated_losses_are_those_of_a_launched_run(tmp_path: Path) -> None:
    run = gq.launch(
        "sbm:60,3,6", system=fixed_bits(), workers=3, epochs=3, **SHAPE, partition=RANDOM, out=tmp_path, wait=True
    )
    found = gq.simulate("sbm:60,3,6", fixed_bits(), workers=3, epochs=3, partition=RANDOM, **SHAPE)
    launched = run.records[run.records["rank"] == 0]["loss"].tolist()
    assert found.losses == pytest.approx(launched, rel=1e-5)


TWINS = {
    "stale rows": replace(fixed_bits(bits=8), schedule=Pipelined(feature_smoothing=0.5)),
    "adaptive cache": gq.systems.cdfgnn(),
    "chosen products": replace(vanilla(), compute=Int8Products(bits="auto")),
}


@pytest.mark.parametrize("system", TWINS.values(), ids=TWINS)
def test_simulated_losses_of_two_workers_are_those_of_a_launched_run_to_the_bit(
    system: gq.System, tmp_path: Path
) -> None:
    given = {"workers": 2, "epochs": 5, "layers": 3, "hidden": 8}
    run = gq.launch("sbm:60,3,6", system=system, **given, out=tmp_path, observers=[Events], wait=True)
    found = gq.simulate("sbm:60,3,6", system, observers=[Events], **given)
    assert list(found.losses) == run.records[run.records["rank"] == 0]["loss"].tolist()
    kinds = [tables["Events"].groupby(["rank", "event"]).size() for tables in (run.tables, found.tables)]
    for kind in ("DecisionMade", "EpochEnded", "MessageDecoded", "MessageEncoded"):
        assert kinds[0].get((1, kind)) == kinds[1].get((1, kind))


@pytest.mark.parametrize(
    ("system", "words"), [("adaqp", "'bits' of the axis bits"), ("sylvie", "'descent.*' of the axis bits")]
)
def test_decisions_by_seconds_are_refused_with_the_way_out(system: str, words: str) -> None:
    with pytest.raises(
        ValueError,
        match=f"by measured seconds, got {words}, which adapts during training; launch it",
    ):
        gq.simulate("sbm:60,3,6", system, **SHAPE)


def test_launched_run_keeps_the_tables_of_its_observers(tmp_path: Path) -> None:
    run = gq.launch(
        "sbm:60,3,6", system="adaqp", period=2, workers=2, epochs=4, **SHAPE, out=tmp_path, wait=True,
        observers=["tests.observers:Bytes", Events],
    )  # fmt: skip
    assert run.status == "finished", run.errors
    table = run.tables["Bytes"].groupby("epoch")["bytes"].sum()
    records = run.records.groupby("epoch")[["bytes_payload", "bytes_params"]].sum().sum(axis=1)
    assert table.tolist() == records.tolist()
    events = run.tables["Events"]
    assert set(events["event"]) == {
        "MessageEncoded", "MessageDecoded", "Aggregated", "PhaseEnded", "DecisionMade", "EpochEnded"
    }  # fmt: skip
    assert (events["event"] == EpochEnded.__name__).sum() == 8
    assert gq.Run(run.folder).config.launch.observers == ("tests.observers:Bytes", "tests.observers:Events")


def test_launched_run_names_a_failing_observer(tmp_path: Path) -> None:
    with pytest.raises(WorkerFailed, match="an observer must not raise, got ZeroDivisionError from Failing"):
        gq.launch("sbm:60,3,6", workers=2, epochs=1, **SHAPE, out=tmp_path, observers=[Failing], wait=True)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("nowhere:Class", "must be named by module and class, as in 'my_module:RowErrors', got 'nowhere:Class'"),
        ("math:sqrt", "must be a subclass of gnnqlab.Observer, got 'math:sqrt'"),
    ],
)
def test_names_of_no_observer_are_refused(given: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        gq.configure("digits", observers=[given])


def test_observers_are_made_by_name() -> None:
    (made,) = observers_named(["tests.observers:Bytes"])
    assert isinstance(made, Bytes) and Observers([made]).message_encoded and not Observers([made]).aggregated
