"""SYLVIE's bit-widths: by importance, with a base that changes."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import pytest
import torch

import gnnqlab as gq
from gnnqlab.bits.orchestrator import HALVES, QUARTERS, Orchestrated, OrchestratedWidths, by_importance
from gnnqlab.bits.policy import Rows
from gnnqlab.systems import System, make_system
from gnnqlab.worker_context import WorkerContext
from tests.cases import each


def rows(ids):
    return Rows(layer=0, direction="forward", sender=0, receiver=1, ids=torch.tensor(ids), seed=0)


SEAT = WorkerContext(
    rank=0, workers=2, seed=0, ids=torch.tensor([7, 3, 9, 5]), importance=torch.tensor([0.0, 0.6, 0.8, 1.0])
)


def policy(**settings):
    return OrchestratedWidths(Orchestrated(**settings), torch.tensor([7, 3, 9, 5]), torch.tensor([0.0, 0.6, 0.8, 1.0]))


def test_the_candidates_are_the_base_and_wider_ones():
    p = torch.linspace(0, 1, 1001)
    for base in (1, 2, 4, 8):
        widths = by_importance(p, base, (1, 2, 4, 8))
        assert set(widths.tolist()) == {width for width in (1, 2, 4, 8) if width >= base}
        assert (widths.long().diff() >= 0).all()
        assert (widths == base).float().mean() > 0.49


@each(("thresholds", "bits"), [(HALVES, 2.5), (QUARTERS, 1.4375), ((1 / 3, 2 / 3, 1.0), 7 / 3)])
def test_thresholds_set_the_mean_width(thresholds, bits):
    """Importance is evenly distributed; a quarter, a sixteenth ... is as steep as SYLVIE's Table XII implies."""
    p = torch.arange(4800) / 4800
    assert by_importance(p, 1, (1, 2, 4, 8), thresholds).double().mean() == pytest.approx(bits, abs=1e-3)
    assert policy(thresholds=thresholds).widths(rows([7]), epoch=0).tolist() == [1]


def test_thresholds_of_a_recipe_are_those_of_its_messages_and_of_its_json():
    system = make_system("sylvie", thresholds=QUARTERS)
    assert system.bits.thresholds == QUARTERS and System.from_json(system.to_json()) == system
    assert system.bits.build(SEAT).widths(rows([9, 7, 5, 3]), epoch=0).tolist() == [2, 1, 8, 1]
    fewer = Orchestrated(bit_widths=(4, 8), thresholds=(0.7,))
    widths = OrchestratedWidths(fewer, torch.tensor([7, 3, 9, 5]), torch.tensor([0.0, 0.6, 0.8, 1.0]))
    assert widths.widths(rows([9, 7, 5, 3]), epoch=0).tolist() == [8, 4, 8, 4]


def test_a_message_has_its_nodes_widths_in_its_own_order():
    assert policy().widths(rows([9, 7, 5, 3]), epoch=0).tolist() == [4, 1, 8, 2]
    assert policy(by_node=False).widths(rows([9, 7]), epoch=0) == 1


def test_the_base_moves_one_width_at_a_time_and_stops_at_the_ends():
    widths = policy()
    assert not widths.move(wider=False)
    seen = [widths.base]
    while widths.move(wider=True):
        seen.append(widths.base)
    assert seen == [1, 2, 4, 8] and widths.widths(rows([7]), epoch=0) == 8
    assert widths.version(0) == 3  # one for each change, so that messages have a new layout


def test_a_base_that_returns_has_its_widths_and_its_number_again():
    widths, asked = policy(), rows([9, 7, 5, 3])
    before, number = widths.widths(asked, epoch=0), widths.version(0)
    widths.move(wider=True)
    assert widths.version(1) != number and widths.widths(asked, epoch=1).tolist() == [8, 2, 8, 4]
    widths.move(wider=False)
    assert widths.version(2) == number and widths.widths(asked, epoch=2) is before  # so cached layouts are found


def test_a_message_that_is_gone_is_forgotten_and_another_in_its_place_has_its_own_widths():
    widths, ids = policy(), torch.tensor([9, 7])
    gone = weakref.ref(ids)
    assert widths.widths(replace(rows([]), ids=ids), epoch=0).tolist() == [4, 1]
    del ids
    gc.collect()
    assert gone() is None and not len(widths._widths_of) and not len(widths._p_of)
    for _ in range(50):  # freed and allocated again, often at the same address
        assert widths.widths(rows([3, 5]), epoch=0).tolist() == [2, 8]
        assert widths.widths(rows([9, 7]), epoch=0).tolist() == [4, 1]


def test_other_settings_have_other_numbers():
    widths = policy()
    number = widths.version(0)
    widths.steer(Orchestrated(delta=2), version=1)
    assert widths.version(1) != number and widths.widths(rows([9, 7]), epoch=1).tolist() == [4, 1]


@each(
    ("settings", "text"),
    [
        ({"bit_widths": (1, 16)}, r"widths to choose from must be among \(1, 2, 4, 8\), got \(1, 16\)"),
        ({"delta": 0}, "delta must be at least 1 epoch, got 0"),
        ({"momentum": 1.0}, r"momentum must lie in \[0, 1\), got 1.0"),
        (
            {"thresholds": (0.5, 0.4, 0.9)},
            r"thresholds must ascend and be 3 or more .*; for instance \(0.5, 0.75, 0.875",
        ),
        (
            {"thresholds": (0.5, 0.75)},
            r"thresholds must ascend and be 3 or more for bit-widths \(1, 2, 4, 8\), got \(0.5",
        ),
        ({"thresholds": (0.5, 0.75, 1.5)}, r"thresholds must lie in \[0, 1\], got"),
    ],
)
def test_mistakes_are_refused(settings, text):
    with pytest.raises(ValueError, match=text):
        Orchestrated(**settings)


@each("system", [gq.systems.cagnet(), gq.systems.feature_parallel()])
def test_more_bits_for_important_nodes_are_refused_where_no_node_is_ranked(system):
    with pytest.raises(ValueError, match="has no boundary nodes; set by_node=False"):
        system.replace(bits=Orchestrated(), codec=gq.codecs.Stochastic())
    system.replace(bits=Orchestrated(by_node=False), codec=gq.codecs.Stochastic())
