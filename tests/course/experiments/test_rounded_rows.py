"""Rows at named points: as sent, as receivers decode them, and in a run that is repeated to record them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest
import torch

import gnnqlab as gq
from gnnqlab.bits import Fixed
from gnnqlab.course.experiments.rounded_rows import points_of, points_table, rounded_rows, rounded_rows_of
from gnnqlab.exchange import AdaptivePipeline, Replicas
from gnnqlab.nn import ModelSettings
from gnnqlab.systems import exact_at, fixed_bits, vanilla
from gnnqlab.train.config.run_config import TrainSettings
from tests.cases import each
from tests.graphs import random_graph

SHAPE = ModelSettings(layers=2, hidden=8, dropout=0.0)
TWO = replace(fixed_bits(bits=2), partition=gq.partitioners.Random(seed=1))
EPOCH = 2


@pytest.fixture(scope="module")
def parts():
    return gq.partition(random_graph(), gq.partitioners.Random(seed=1), workers=3)


@pytest.fixture(scope="module")
def found(parts):
    return rounded_rows(parts, TWO, epoch=EPOCH, model=SHAPE)


def test_every_message_of_the_plans_is_there_once(parts, found):
    points = ["forward 0", "forward 1", "backward 0", "backward 1"]
    assert list(dict.fromkeys(rows.point for rows in found)) == points
    for point in points:
        here = {(rows.sender, rows.receiver): rows for rows in found if rows.point == point}
        assert len(here) == 6
        for shard in parts.shards:
            for route in shard.plan("forward").receive:
                ends = (route.peer, shard.rank) if point.startswith("forward") else (shard.rank, route.peer)
                assert here[ends].nodes.tolist() == route.ids.tolist(), (point, ends)


def test_a_row_errs_by_less_than_a_step(found):
    for rows in found:
        step = (rows.before.amax(1) - rows.before.amin(1)) / 3
        assert (rows.error.abs() <= step[:, None] * (1 + 1e-5)).all()
        assert rows.bits.unique().tolist() == [2] and 0 < rows.squared < 4
        columns = rows.before.shape[1]
        assert rows.num_bytes == rows.nodes.numel() * (8 + -(-2 * columns // 8))


def test_rows_forward_are_the_same_for_all_receivers_and_err_for_each(found):
    some = [rows for rows in found if rows.point == "forward 0" and rows.sender == 0]
    shared = [node for node in some[0].nodes.tolist() if node in some[1].nodes.tolist()]
    assert shared
    (one, other) = ([rows.nodes.tolist().index(node) for node in shared] for rows in some)
    assert torch.equal(some[0].before[one], some[1].before[other])
    assert not torch.equal(some[0].after[one], some[1].after[other])


def test_full_precision_point_has_no_error_and_other_points_keep_theirs(parts, found):
    asked = rounded_rows(parts, exact_at(TWO, "backward 1", since=EPOCH), epoch=EPOCH, model=SHAPE)
    for rows, plain in zip(asked, found, strict=True):
        if rows.point == "backward 1":
            assert rows.squared == 0 and not rows.error.any() and rows.bits.unique().tolist() == [32]
            assert torch.equal(rows.before, plain.before)
        elif rows.point.startswith("forward"):
            assert torch.equal(rows.before, plain.before) and torch.equal(rows.after, plain.after)
    table = points_table(asked)
    assert table["off by (%)"]["backward 1"] == 0 and (table["off by (%)"].drop("backward 1") > 1).all()
    assert table["messages"].tolist() == [6] * 4


def test_only_rows_of_the_requested_point_are_recorded(parts, found):
    some = rounded_rows(parts, TWO, "backward 1", epoch=EPOCH, model=SHAPE)
    assert [(rows.point, rows.sender) for rows in some] == [("backward 1", rank) for rank in (0, 0, 1, 1, 2, 2)]
    plain = [rows for rows in found if rows.point == "backward 1"]
    assert all(torch.equal(one.after, other.after) for one, other in zip(some, plain, strict=True))
    assert points_of(parts.graph, parts.cut, TWO, SHAPE) == ["forward 0", "forward 1", "backward 0", "backward 1"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    system, folder = exact_at(TWO, "forward 0", since=1), tmp_path_factory.mktemp("runs")
    shape = {"workers": 2, "layers": 2, "hidden": 8, "dropout": 0.4}
    return gq.launch(random_graph(), system=system, epochs=3, seed=4, out=folder, evaluate_every=3, **shape).wait()


def test_a_launched_run_is_repeated_bit_for_bit(run):
    of_run = rounded_rows_of(run, epoch=2)
    again = gq.partition(gq.load(run.config.graph), TWO.partition, workers=2)
    here = rounded_rows(again, run.config.system, epoch=2, model=run.config.model, settings=run.config.train)
    assert all(torch.equal(one.after, other.after) for one, other in zip(of_run, here, strict=True))
    assert [rows.squared > 0 for rows in of_run] == [rows.point != "forward 0" for rows in of_run]
    sent = run.records[run.records["epoch"] == 2][["bytes_payload", "bytes_params"]].sum().sum()
    assert sum(rows.num_bytes for rows in of_run) == sent


def test_a_run_that_is_another_is_refused(run):
    with pytest.raises(ValueError, match="epoch must be one that run .* has trained, got 3; it has 3"):
        rounded_rows_of(run, epoch=3)
    records = pd.DataFrame({"epoch": [0, 1], "loss": [1.0, 1.0]})
    other = SimpleNamespace(config=run.config, records=records, id="other")
    with pytest.raises(RuntimeError, match="must have its losses, got .* in epoch 0 where the run has 1; was it"):
        rounded_rows_of(other, epoch=1)


REFUSED = [
    (gq.systems.adaqp(), r"must follow from settings and epoch to be repeated here, got Assigned"),
    (exact_at(gq.systems.adaqp(), "forward"), r"got ExactAt, which adapts"),
    (replace(vanilla(), schedule=AdaptivePipeline()), r"got AdaptivePipeline, which adapts during training"),
    (replace(vanilla(), cache=gq.caches.Unchanged()), r"got cache Unchanged, .*choose cache NoCache\(\)"),
    (
        replace(vanilla(), partition=gq.partitioners.EBV(), exchange=Replicas()),
        r"got exchange Replicas; choose exchange Halo\(\)",
    ),
]


@each(("system", "text"), REFUSED)
def test_system_that_cannot_be_repeated_raises_value_error(parts, system, text):
    with pytest.raises(ValueError, match=text):
        rounded_rows(parts, system, model=SHAPE, epoch=0)


@each(
    ("at", "text"),
    [
        (["forward 5"], r"got \['forward 5'\]; of the given points, use \[\]"),
        (["forward 0", "backward 5"], r"got \['backward 5'\]; of the given points, use \['forward 0'\]"),
        (["up 1"], "a point must be 'forward' or 'backward'"),
    ],
)
def test_a_point_that_is_none_is_refused(parts, at, text):
    with pytest.raises(ValueError, match=text):
        rounded_rows(parts, TWO, at, model=SHAPE, epoch=0)


def test_a_point_of_the_system_that_is_none_is_refused_too(parts):
    with pytest.raises(ValueError, match="got none for 'forward 5'; choose from .*: forward 0, forward 1"):
        rounded_rows(parts, exact_at(TWO, "forward 5"), model=SHAPE, epoch=0)


def test_rounded_rows_of_one_worker_raise_value_error():
    with pytest.raises(ValueError, match="rows are exchanged between workers, got 1"):
        rounded_rows(gq.partition(random_graph(), gq.partitioners.Random(), workers=1), TWO, model=SHAPE)


def test_other_settings_are_other_rows(parts, found):
    other = rounded_rows(parts, TWO, "forward 0", epoch=0, model=SHAPE, settings=TrainSettings(seed=9))
    assert not torch.equal(other[0].before, found[0].before)
    wide = rounded_rows(parts, replace(TWO, bits=Fixed(bits=8)), "forward 0", epoch=0, model=SHAPE)
    assert wide[0].squared < found[0].squared / 100
