"""Rows as coefficients in a basis: its directions, its age, what is sent, and bases that all workers have in common."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import pytest
import torch
import torch.distributed as dist

import gnnqlab as gq
from gnnqlab.bits import Fixed, UniformRandom
from gnnqlab.bits.assigner.assigned import Assigned
from gnnqlab.errors import NonFiniteRow
from gnnqlab.exchange import Pipelined
from gnnqlab.exchange.traffic_model import PartitionSizes
from gnnqlab.message import Difference, Feedback, LeastVariance, LowRank, Rotated
from gnnqlab.message.codecs.basis import Basis, leading_directions
from gnnqlab.message.codecs.low_rank import with_basis
from gnnqlab.message.direction import ByDirection
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.nn import ModelSettings
from gnnqlab.observe import MessageEncoded, Observer, Observers
from gnnqlab.partition import Random
from gnnqlab.simulation.codec_error import codec_error
from gnnqlab.systems.unbiased import biased
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.recorders import ChannelBytes
from gnnqlab.train.loop.trainer import worker_trainer
from gnnqlab.tune.predicted_volume import epoch_bytes
from tests.cases import each
from tests.graphs import random_graph
from tests.message.sending import send
from tests.ranks import run_ranks

NARROW = (1, 2, 4)
ONE_BIT, IN_STEP = Fixed(bits=1), gq.schedules.Synchronous()
EAGER = LowRank(first=0, refresh_every=1, least_gain=0.0, iterations=16)
"""A codec whose keys use a basis from the second epoch on, whatever is outside it."""


def decaying(count: int, columns: int, ratio: float = 0.7, seed: int = 0) -> torch.Tensor:
    """Rows with the standard deviations ``ratio^j`` along directions drawn at random."""
    generator = torch.Generator().manual_seed(seed)
    directions = torch.linalg.qr(torch.randn(columns, columns, generator=generator)).Q
    return torch.randn(count, columns, generator=generator) * ratio ** torch.arange(columns) @ directions.T


def test_directions_are_the_leading_eigenvectors_of_the_sum_of_moments():
    rows = decaying(300, 24).double()
    moments = [rows.T @ rows, torch.zeros(6, 6).double()]
    starts = [torch.linalg.qr(torch.randn(n, r).double()).Q for n, r in ((24, 5), (6, 2))]
    values, vectors = torch.linalg.eigh(moments[0])
    (directions, shares, former), (_, none, _) = leading_directions(moments, starts, iterations=40)
    assert torch.allclose(shares, values.flip(0)[:5] / values.sum()) and not none.any()
    assert torch.allclose((directions.T @ vectors.flip(1)[:, :5]).abs(), torch.eye(5).double(), atol=1e-6)
    assert torch.allclose(former, (starts[0] * (moments[0] @ starts[0])).sum(0) / values.sum())


@each("bits", NARROW)
@each("columns", [16, 60, 100])
def test_a_row_is_its_projection_in_the_bytes_of_rotated_codes(bits, columns):
    rows = decaying(200, columns, ratio=0.9)
    codec, rank = with_basis(EAGER, rows, bits), -(-columns * bits // 8)
    values = torch.linalg.eigvalsh(rows.double().T @ rows.double()).flip(0)
    lost = float(values[rank:].sum() / values.sum())
    found = codec_error(codec, rows, bits)
    # 8-bit codes: ranges of up to 6 deviations of the largest coefficient, rounded by a step in r elements
    assert lost - 1e-6 <= found.squared <= lost + rank * (6 / 255) ** 2 / 6
    assert found.bias == pytest.approx(lost**0.5, abs=0.02)
    assert codec.layout(bits, 7, columns).num_bytes == Rotated().layout(bits, 7, columns).num_bytes


@each("bits", NARROW)
def test_rows_of_few_directions_have_a_hundredth_of_the_error(bits):
    rows = decaying(200, 64, ratio=0.2)
    errors = [codec_error(codec, rows, bits).squared for codec in (with_basis(LowRank(), rows, bits), LeastVariance())]
    assert errors[0] < errors[1] / 100 * (1 if bits == 1 else 10)


def test_rows_of_every_width_in_one_message():
    rows, widths = decaying(60, 40), torch.tensor([1, 2, 4, 8, 16, 32] * 10, dtype=torch.uint8)
    codec = with_basis(EAGER, rows, 4)
    mixed = send(codec, rows, widths)[0]
    for width in (1, 2, 4, 8, 16, 32):
        alone, of = send(codec, rows, width)[0], widths.flip(0) == width  # rows are encoded in reverse
        # products of other shapes may round differently
        assert torch.allclose(mixed[of], alone[of], atol=1e-5), width
        assert width < 8 or torch.equal(mixed[of], send(LeastVariance(), rows, width)[0][of]), width


def test_a_message_is_decoded_with_the_basis_of_its_own_epoch():
    place, codec = ExchangeKey(1, "backward"), EAGER.at_work()
    at_place, other = codec.codec_at(place), codec.codec_at(ExchangeKey(2, "backward"))
    rows = torch.eye(16)[:4] * 3.0
    for since in (2, 5, 6):  # epochs from which other pairs of directions are used
        codec.bases.install(place, Basis(since, torch.eye(16)[:, since - 2 : since], torch.ones(2) / 2))
    came = {epoch: send(at_place, rows, 1, epoch=epoch)[0] for epoch in (4, 5, 6, 9)}
    assert (came[5][3, 3] / 3 - 1).abs() < 0.01 and came[5].count_nonzero() == 1, "directions 3 and 4"
    assert torch.equal(came[6], came[9]) and not came[6].any(), "directions 4 and 5 of four rows hold nothing"
    assert torch.equal(came[4], send(LeastVariance(), rows, 1, epoch=4)[0]), "two versions are stored"
    assert torch.equal(send(other, rows, 1, epoch=9)[0], send(LeastVariance(), rows, 1, epoch=9)[0])


def test_a_basis_is_used_only_where_it_loses_much_less_than_rotated_codes():
    def basis(share: float) -> Basis:
        return Basis(0, torch.eye(64)[:, :16], torch.tensor([share] + [0.0] * 15))

    assert [LowRank().uses(basis(share), 1, 64) for share in (0.7, 0.72)] == [False, True], "0.56 / 2 may be lost"
    assert [LowRank().uses(basis(share), 2, 64) for share in (0.9, 0.95)] == [False, True], "0.128 / 2 may be lost"
    assert not LowRank().uses(basis(1.0), 4, 64), "32 directions are needed, 16 known"
    assert not LowRank().uses(basis(1.0), 1, 40), "of another number of columns"


@each("bits", NARROW)
def test_a_row_that_is_not_finite_is_found_among_all(bits):
    rows = decaying(9, 32)
    codec = with_basis(EAGER, rows, bits)
    rows[5, 3] = float("nan")
    with pytest.raises(NonFiniteRow) as caught:
        send(codec, rows, bits)
    assert caught.value.position == 3, "rows are encoded in reverse"


def test_no_rows_and_no_columns():
    codec = with_basis(EAGER, decaying(9, 32), 4)
    for bits in (*NARROW, 8, 32):
        assert send(codec, torch.empty(0, 32), bits)[0].shape == (0, 32)
        assert send(codec, torch.empty(3, 0), bits)[0].shape == (3, 0)


def test_zeros_stay_zeros():
    codec = with_basis(EAGER, decaying(9, 32), 4)
    assert not any(send(codec, torch.zeros(4, 32), bits)[0].any() for bits in NARROW)


def test_theorems_policies_by_variance_and_simulations_are_refused():
    system = replace(gq.systems.vanilla(), codec=LowRank(), bits=Fixed(bits=1))
    assert biased(system).startswith("codec LowRank never sends the part of a row outside its basis")
    with pytest.raises(ValueError, match="Assigned weighs rows by the variance of their codec, got LowRank.*choose"):
        replace(system, bits=Assigned())
    with pytest.raises(ValueError, match="a simulated system must not decide by .*got 'bases' of the axis codec"):
        gq.simulate("sbm:60,3,6", system, partition=Random(), layers=2, hidden=8)


class _Sent(Observer):
    def __init__(self):
        self.rows = {}

    def on_message_encoded(self, event: MessageEncoded) -> None:
        self.rows.setdefault((event.epoch, event.direction, event.layer), []).append(event.values.clone())


def train(rank, workers, graph, codec, bits=ONE_BIT, schedule=IN_STEP, epochs=4):
    """Train some epochs; return the rows that this worker has sent, its bases by key, and its decisions."""
    system = replace(gq.systems.vanilla(), partition=Random(seed=1), codec=codec, bits=bits, schedule=schedule)
    shape, observer = ModelSettings(name="gcn", layers=3, hidden=32, dropout=0.0), _Sent()
    shard = system.partition.cut(graph, workers).shard(graph, rank)
    trainer = worker_trainer(shard, system, shape, TrainSettings(seed=3), observers=Observers([observer], rank))
    entries = []
    for epoch in range(epochs):
        trainer.epoch(epoch)
        entries += [entry for callback in trainer.adaptives.values() for entry in callback.entries()]
    bases = {
        (place.direction, place.layer): [(each.since, each.directions, each.shares) for each in versions]
        for callback in trainer.adaptives.values() if callback.name.startswith("bases")
        for place, versions in callback.bases.versions.items()
    }  # fmt: skip
    trainer.close()
    return observer.rows, bases, entries


@dataclass(frozen=True)
class Late(Pipelined):
    """Schedule with rows of two epochs before."""

    lag: ClassVar[int] = 2


def test_rows_that_are_decoded_two_epochs_later_are_refused():
    with pytest.raises(ValueError, match="2 versions of a basis are stored.*up to 2 epochs after it; choose schedule"):
        replace(gq.systems.vanilla(), codec=LowRank(), bits=Fixed(bits=1), schedule=Late())


def test_a_sample_of_the_rows_is_traced_and_none_of_wide_or_exact_ones():
    codec, place = LowRank(first=0).at_work(), ExchangeKey(0, "forward")
    one_of_all = torch.zeros(9000, 4)
    one_of_all[8999 - 3 * 5] = 2.0  # rows are encoded in reverse, and each third is traced
    send(codec.codec_at(place), one_of_all, 1, epoch=0)
    assert codec.bases.moments[place].trace() == 16
    wide = torch.ones(2, 2049)
    for rows, bits, epoch in ((wide, 1, 0), (one_of_all, 8, 0), (one_of_all, 1, 1)):
        send(codec.codec_at(ExchangeKey(1, "forward")), rows, bits, epoch=epoch)
    send(codec, one_of_all, 1, epoch=0)  # without a key
    assert set(codec.bases.moments) == {place}


@each("workers", [2, 3])
def test_all_workers_have_the_bases_of_all_rows_of_the_traced_epoch(workers):
    results = run_ranks(train, workers, random_graph(nodes=90, seed=2), EAGER)
    all_bases = [bases for _, bases, _ in results]
    assert {("forward", 1), ("backward", 1)} <= set(all_bases[0])
    for key, versions in all_bases[0].items():
        assert [since for since, *_ in versions] == [3, 4], "traced in epochs 1 and 2, computed in 2 and 3"
        for other in all_bases[1:]:
            assert all(
                torch.equal(one, two)
                for mine, yours in zip(versions, other[key], strict=True)
                for one, two in zip(mine[1:], yours[1:], strict=True)
            )
        rows = torch.cat([each for sent, _, _ in results for each in sent.get((2, *key), [])]).double()
        directions, rank = versions[1][1].double(), versions[1][1].shape[1]
        assert torch.allclose(directions.T @ directions, torch.eye(rank).double(), atol=1e-6)
        values, total = torch.linalg.eigvalsh(rows.T @ rows), rows.square().sum()
        # 16 products tell directions apart whose eigenvalues differ by a few percent; closer ones hold as much
        assert (rows @ directions).square().sum() == pytest.approx(float(values[-rank:].sum()), rel=0.02), key
        former = versions[0][1].double()
        assert torch.allclose(versions[1][2].double(), (rows @ former).square().sum(0) / total, atol=1e-6), key


def test_a_worker_without_rows_to_send_takes_part():
    """Three workers, of which one has no neighbour elsewhere."""
    graph = random_graph(nodes=60, seed=2)
    results = run_ranks(train_alone, 3, graph)
    assert all(result.keys() == results[0].keys() and result for result in results)


def train_alone(rank, workers, graph):
    """Let worker 2 trace nothing."""
    system = replace(gq.systems.vanilla(), partition=Random(seed=1), codec=EAGER, bits=Fixed(bits=1))
    shard = system.partition.cut(graph, workers).shard(graph, rank)
    trainer = worker_trainer(shard, system, ModelSettings(name="gcn", layers=2, hidden=16), TrainSettings(seed=3))
    trainer.gradients(0)
    callback = trainer.adaptives["bases"]
    if rank == 2:
        callback.bases.moments.clear()
    callback.after_epoch(0, 0.0, {})
    assert not callback.bases.versions, "they are computed during the next epoch"
    callback.after_epoch(1, 0.0, {})
    callback.close()
    return {tuple(place): versions[0].directions for place, versions in callback.bases.versions.items()}


def train_counted(rank, workers, graph, codec):
    """Train 7 epochs; return the recorded bytes of each, those of the collectives of bases, and the formula's."""
    system = replace(gq.systems.vanilla(), partition=Random(seed=1), codec=codec, bits=ONE_BIT)
    shape, cut = ModelSettings(name="gcn", layers=3, hidden=32, dropout=0.0), system.partition.cut(graph, workers)
    trainer = worker_trainer(cut.shard(graph, rank), system, shape, TrainSettings(seed=3))
    callback, counted = trainer.adaptives["bases"], [0]
    all_reduce, broadcast = dist.all_reduce, dist.broadcast

    def count(tensor, group, is_sent):
        counted[-1] += tensor.nbytes if group is callback._group and is_sent else 0

    def counted_sum(tensor, *args, group=None, **kwargs):
        count(tensor, group, True)
        return all_reduce(tensor, *args, group=group, **kwargs)

    def counted_broadcast(tensor, src=0, group=None, **kwargs):
        count(tensor, group, rank == src)
        return broadcast(tensor, src, group=group, **kwargs)

    dist.all_reduce, dist.broadcast = counted_sum, counted_broadcast
    recorder, records = ChannelBytes(trainer), []
    for epoch in range(7):
        counted.append(0)
        recorder.begin(epoch)
        trainer.epoch(epoch)
        if callback._pending is not None:
            callback._pending.result()  # else the next epoch may count a part of it
        figures = recorder.figures()
        records.append([figures[f"bytes_{kind}"] for kind in ("payload", "params", "bases")])
    trainer.close()
    sizes = PartitionSizes.from_shards(cut.build_shards(graph))
    facts = {"features": graph.num_features, "classes": graph.num_classes}
    return records, counted[1:], [epoch_bytes(system, shape, sizes, **facts, epoch=epoch) for epoch in range(7)]


@each("workers", [2, 3])
def test_bytes_of_a_refresh_are_recorded_and_known_beforehand(workers):
    """Traced epochs 1, 2 and 5, so bases are sent during epochs 2, 3 and 6."""
    results = run_ranks(train_counted, workers, random_graph(nodes=90, seed=2), LowRank(first=1, refresh_every=3))
    for records, counted, _ in results:
        assert [bases > 0 for *_, bases in records] == [epoch in (2, 3, 6) for epoch in range(7)]
        # This test waits for a refresh at the end of the traced epoch, so it counts one epoch before the record.
        assert [bases for *_, bases in records[1:]] == counted[:-1]
    assert results[0][0][2][2] > results[1][0][2][2], "rank 0 sends the result to all"
    recorded = [sum(sum(records[epoch]) for records, *_ in results) for epoch in range(7)]
    assert recorded == results[0][2]


def resumed(rank, workers, graph):
    """Return weights and bases of a training, and of one that continues from a state with a pending refresh."""
    system = replace(gq.systems.vanilla(), partition=Random(seed=1), codec=EAGER, bits=ONE_BIT)
    shard = system.partition.cut(graph, workers).shard(graph, rank)
    shape = ModelSettings(name="gcn", layers=2, hidden=16, dropout=0.0)
    first, second = (worker_trainer(shard, system, shape, TrainSettings(seed=3)) for _ in range(2))
    for epoch in range(3):
        first.epoch(epoch)
    state = first.adaptives["bases"].state()
    second.adaptives["bases"].load(state.facts, state.tensors)
    second.parameters.values.copy_(first.parameters.values)
    losses = [[trainer.gradients(3), trainer.adaptives["bases"].after_epoch(3, 0.0, {})] for trainer in (first, second)]
    tensors = [trainer.adaptives["bases"].state().tensors for trainer in (first, second)]
    for trainer in (first, second):
        trainer.close()
    same = tensors[0].keys() == tensors[1].keys() and all(
        torch.equal(tensors[0][name], tensors[1][name]) for name in tensors[0]
    )
    return losses[0] == losses[1], same, sorted({int(name.split("/")[3]) for name in tensors[0]})


def test_a_refresh_in_progress_is_part_of_a_checkpoint():
    for same_loss, same_bases, versions in run_ranks(resumed, 2, random_graph(nodes=60, seed=2)):
        assert same_loss and same_bases and versions == [3, 4, 5], "two installed ones and a pending one"


def test_directions_with_their_own_codecs_policies_that_change_and_stale_rows():
    graph = random_graph(nodes=60, seed=2)
    _, bases, _ = run_ranks(train, 2, graph, ByDirection(LeastVariance(), EAGER))[0]
    assert bases and {direction for direction, _ in bases} == {"backward"}
    drawn = UniformRandom(bit_widths=(1, 2, 8))
    _, bases, _ = run_ranks(train, 2, graph, EAGER, drawn, Pipelined())[0]
    assert {versions[-1][1].shape[1] for (_, layer), versions in bases.items() if layer == 1} == {8}, "32 at 2 bits"
    assert run_ranks(train, 2, graph, EAGER, Fixed(bits=8))[0][1] == {}, "no width has a basis"


def test_a_decision_names_key_and_share_once():
    _, _, entries = run_ranks(train, 2, random_graph(nodes=60, seed=2), LowRank(first=0, refresh_every=1))[0]
    assert {file for file, _ in entries} == {"decisions.jsonl"}
    lines = [line for _, line in entries if line["what"].startswith("backward 1.0")]
    assert lines[0]["what"] == "backward 1.0: no basis at 1 bit" and lines[0]["epoch"] == 2
    assert lines[0]["why"] == "1 of the squared norm is outside the former 4 directions"
    assert all(one["what"] != two["what"] for one, two in pairwise(lines))


def test_feedback_and_differences_send_what_a_basis_left_out():
    """Rows that stay the same, a basis of each fifth epoch's messages: an eighth of the directions at a time."""
    rows, errors = decaying(200, 64, ratio=0.95), {}
    for cache in ("none", "feedback", "difference"):
        left = came = held = torch.zeros_like(rows)
        codec, total = with_basis(EAGER, rows, 1), torch.zeros(200, 64)
        for epoch in range(50):
            message = rows + left if cache == "feedback" else rows - held
            codec = codec if epoch % 5 else with_basis(EAGER, message, 1)
            came = held + send(codec, message, 1, epoch=epoch)[0]
            left, held = message - came, came if cache == "difference" else held
            total += came / 50
        errors[cache] = [float((of - rows).square().sum() / rows.square().sum()) for of in (came, total)]
    assert errors["none"] == pytest.approx([0.4, 0.4], abs=0.01)
    assert errors["feedback"][1] < 0.06, "the mean message approaches the row"
    assert errors["difference"][0] < 1e-9, "eight bases hold 64 directions"


def train_company(rank, workers, graph):
    """Train each system that has bases beside other parts; return losses and numbers of bases."""
    ours = {"codec": EAGER, "bits": Fixed(bits=4)}
    systems = [
        replace(gq.systems.sar(), **ours),
        replace(gq.systems.cagnet(), **ours),
        replace(gq.systems.vanilla(), **ours, cache=Difference()),
        replace(gq.systems.vanilla(), **ours, cache=Feedback()),
        replace(gq.systems.sylvie(), codec=EAGER),
        replace(gq.systems.vanilla(), **ours, partition=gq.partitioners.EBV(), exchange=gq.exchanges.Replicas()),
    ]
    found = []
    for system in systems:
        shard = system.partition.cut(graph, workers).shard(graph, rank)
        trainer = worker_trainer(shard, system, ModelSettings(name="gcn", layers=2, hidden=16), TrainSettings(seed=3))
        losses = [trainer.epoch(epoch) for epoch in range(6)]
        bases = [each for each in trainer.adaptives.values() if each.name == "bases"]
        found.append((losses, sum(map(len, bases[0].bases.versions.values()))))
        trainer.close()
    return found


def test_bases_beside_other_parts():
    results = run_ranks(train_company, 2, random_graph(nodes=60, seed=2))
    assert results[0] == results[1]
    assert all(losses[-1] < losses[0] and count >= 4 for losses, count in results[0]), results[0]
