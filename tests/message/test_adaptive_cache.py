"""The rule of ε on hand-made sequences, in both readings, and its state between epochs."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

import gnnqlab as gq
from gnnqlab.adaptive import DECISIONS
from gnnqlab.exchange import Pipelined
from gnnqlab.message import AdaptiveCache, BoundarySampling
from gnnqlab.message.caches.adaptive_cache import Threshold
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.systems import vanilla
from gnnqlab.train.control import steered
from gnnqlab.worker_context import WorkerContext


def after(cache, accuracies):
    """Return ε after each epoch, and the threshold."""
    threshold, found = Threshold(cache.at_work()), []
    for epoch, accuracy in enumerate(accuracies):
        threshold.after_epoch(epoch, 1.0, {"right": accuracy * 50, "rows": 50.0})
        found.append(threshold.cache.epsilon)
    return found, threshold


def test_it_relaxes_after_a_gain_and_tightens_after_a_loss():
    found, threshold = after(AdaptiveCache(epsilon=0.1, first_mean=0.5), [0.6, 0.5, 0.53, 0.54])
    # means before: 0.5, 0.52, 0.516, 0.5188; gain, loss, neither, gain
    assert found == pytest.approx([0.105, 0.0945 + 0.0005, 0.095, 0.09975])
    assert threshold.mean == pytest.approx(0.8 * 0.5188 + 0.2 * 0.54)


def test_as_printed_it_is_the_other_way_round():
    found, _ = after(AdaptiveCache(epsilon=0.1, first_mean=0.5, rule="equation"), [0.6, 0.5, 0.53])
    assert found == pytest.approx([0.09, 0.0945, 0.0945])


def test_fixed_rule_leaves_epsilon_unchanged_and_updates_its_mean():
    found, threshold = after(AdaptiveCache(epsilon=0.1, rule="fixed"), [0.5, 0.1])
    assert found == [0.1, 0.1] and threshold.mean == pytest.approx(0.1)
    assert threshold.entries() == []


@pytest.mark.parametrize(("epsilon", "accuracy", "expected"), [
    (0.29, 0.9, 0.3), (0.3, 0.9, 0.3), (0.25, 0.9, 0.26), (0.3, 0.1, 0.29), (0.0011, 0.1, 0.001), (0.001, 0.1, 0.001),
])  # fmt: skip
def test_it_moves_by_xi_at_most_and_stays_between_nu2_and_nu1(epsilon, accuracy, expected):
    found, _ = after(AdaptiveCache(epsilon=epsilon, first_mean=0.5), [accuracy])
    assert found == pytest.approx([expected])


def test_a_move_is_written_down_with_its_reason():
    _, threshold = after(AdaptiveCache(epsilon=0.1, first_mean=0.5), [0.6, 0.525])
    [(file, line)] = threshold.entries()
    assert file == DECISIONS and line["epoch"] == 1 and line["what"] == "epsilon 0.105"
    assert line["why"] == "training accuracy 0.6000 is above its moving mean 0.5000"
    assert json.loads(json.dumps(line)) == line and threshold.entries() == []


def test_epsilon_continues_from_a_checkpoint():
    accuracies = [0.2, 0.5, 0.7, 0.6, 0.1, 0.9]
    whole, _ = after(AdaptiveCache(), accuracies)
    _, first = after(AdaptiveCache(), accuracies[:3])
    second = Threshold(AdaptiveCache().at_work())
    second.load(json.loads(json.dumps(first.state().facts)), {})
    for epoch, accuracy in enumerate(accuracies[3:], 3):
        second.after_epoch(epoch, 1.0, {"right": accuracy * 50, "rows": 50.0})
    assert second.cache.epsilon == whole[-1]


def test_held_rows_come_back_at_both_ends():
    """Receivers' rows are saved once; a sender takes those of its peer."""
    seats = [
        WorkerContext(rank=rank, workers=2, seed=0, ids=torch.arange(2), importance=torch.zeros(2)) for rank in range(2)
    ]
    before = [Threshold(AdaptiveCache().at_work(), worker) for worker in seats]
    rows = {(sender, direction): torch.randn(3, 2) for sender in range(2) for direction in ("forward", "backward")}
    for rank, threshold in enumerate(before):
        for direction in ("forward", "backward"):
            held = threshold.cache.held_at(ExchangeKey(1, direction))
            held["send", 1 - rank], held["receive", 1 - rank] = rows[rank, direction], rows[1 - rank, direction]
    kept = [threshold.state().own for threshold in before]
    assert not set(kept[0]) & set(kept[1]), "names differ between workers"
    for rank, worker in enumerate(seats):
        after = Threshold(AdaptiveCache().at_work(), worker)
        after.load({"epsilon": 0.2, "mean": 0.5}, {**kept[0], **kept[1]})
        assert (after.cache.epsilon, after.mean) == (0.2, 0.5)
        assert after.cache.held.keys() == before[rank].cache.held.keys()
        for place, held in before[rank].cache.held.items():
            assert all(torch.equal(after.cache.held[place][end], held[end]) for end in held), place


def test_epsilon_is_a_knob():
    system = replace(vanilla(), cache=AdaptiveCache())
    assert steered(system, {"epsilon": 0.2}).cache.epsilon == 0.2
    with pytest.raises(ValueError, match="epsilon must lie in"):
        steered(system, {"epsilon": 2.0})
    _, threshold = after(AdaptiveCache(first_mean=0.5), [0.6])
    moved = threshold.cache.epsilon
    threshold.steer(AdaptiveCache(first_mean=0.5, rule="fixed"), version=1)
    assert threshold.cache.epsilon == moved, "another rule continues from the present epsilon"
    threshold.steer(AdaptiveCache(first_mean=0.5, rule="fixed", epsilon=0.2), version=2)
    assert threshold.cache.epsilon == 0.2
    chooser = threshold.cache.build()
    held = torch.tensor([[1.0], [1.0]])
    assert chooser.choose(torch.tensor([[1.2], [1.3]]), torch.arange(2), held).tolist() == [1]


def test_adaptive_cache_rejects_invalid_settings_and_incompatible_parts():
    with pytest.raises(ValueError, match="rule must be 'text', 'equation' or 'fixed', got 'prose'"):
        AdaptiveCache(rule="prose")
    with pytest.raises(ValueError, match="nu2, the smallest epsilon, must not be above nu1, got 0.5 and 0.3"):
        AdaptiveCache(nu2=0.5)
    with pytest.raises(ValueError, match=r"cache AdaptiveCache cannot work .* choose schedule Synchronous\(\)"):
        replace(vanilla(), cache=AdaptiveCache(), schedule=Pipelined())
    with pytest.raises(ValueError, match=r"cache AdaptiveCache cannot work .* choose sampler AllRows\(\)"):
        replace(vanilla(), cache=AdaptiveCache(), sampler=BoundarySampling(p=0.5))
    assert gq.caches.AdaptiveCache is AdaptiveCache
