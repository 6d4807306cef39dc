"""One epoch in detail: the same sums as one process, and every row that was sent."""

from __future__ import annotations

from dataclasses import replace

import pytest

import gnnqlab as gq
from gnnqlab.course.experiments.one_epoch import OneEpoch, train_one_epoch
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.simulation.threaded_workers import exact_trainer
from gnnqlab.systems import fixed_bits, vanilla


@pytest.fixture(scope="module")
def exact(small) -> OneEpoch:
    return train_one_epoch(small, vanilla(), epochs=2)


def test_worker_shares_sum_to_the_loss_and_gradient_of_one_process(small, exact: OneEpoch) -> None:
    one = exact_trainer(small.graph, ModelSettings(hidden=8, layers=2, dropout=0.0))
    for epoch in range(2):
        one.epoch(epoch)
    before = one.parameters.values.clone()
    assert exact.loss == pytest.approx(one.epoch(2), rel=1e-5)
    assert exact.gradient == pytest.approx(float(one.parameters.gradients.norm()), rel=1e-5)
    assert exact.update_norm == pytest.approx(float((one.parameters.values - before).norm()), rel=1e-4)
    assert exact.next_loss == pytest.approx(one.gradients(3), rel=1e-5)
    assert exact.num_parameters == one.parameters.values.numel()


def test_rows_are_those_of_the_plan_and_bytes_those_of_the_layout(exact: OneEpoch) -> None:
    expected = {("forward", 0): (3, 4), ("forward", 1): (5, 7), ("backward", 0): (5, 7), ("backward", 1): (3, 4)}
    assert len(exact.messages) == 8
    for rows in exact.messages:
        assert rows.nodes == expected[rows.place.direction, rows.sender] and rows.receiver == 1 - rows.sender
        assert rows.bits == (32, 32) and rows.offered == 2
        assert rows.num_bytes == 2 * 4 * rows.columns and rows.columns == (8, 2)[rows.place.layer]


def test_two_bits_take_their_bytes_and_their_parameters(small) -> None:
    for rows in train_one_epoch(small, fixed_bits(bits=2), epochs=1).messages:
        assert rows.bits == (2, 2) and rows.num_bytes == 2 * (8 + -(-rows.columns * 2 // 8))


def test_the_order_of_a_schedule_changes_no_sum(small, exact: OneEpoch) -> None:
    overlapped = train_one_epoch(small, replace(vanilla(), schedule=gq.schedules.Overlapped()), epochs=2)
    assert overlapped.losses == exact.losses and overlapped.gradients == exact.gradients
    kinds = [[span.what for span in found.spans[0][:5]] for found in (exact, overlapped)]
    assert kinds[0] == ["encode", "post", "wait", "decode", "central"]
    assert kinds[1] == ["encode", "post", "central", "wait", "decode"]


def test_rows_skipped_by_a_cache_are_not_sent(small) -> None:
    found = train_one_epoch(small, replace(vanilla(), cache=gq.caches.Unchanged(tolerance=0.1)), epochs=3).messages
    assert len(found) == 8 and all(rows.offered == 2 for rows in found)
    assert 0 < sum(len(rows.nodes) for rows in found) < 16
    for rows in found:
        assert set(rows.nodes) <= ({3, 4} if (rows.sender == 0) == (rows.place.direction == "forward") else {5, 7})
        assert rows.num_bytes == 4 * rows.columns * len(rows.nodes)
