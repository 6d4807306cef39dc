"""SYLVIE's widths: by importance, on a base that moves."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.bits.orchestrator import Orchestrated, OrchestratedWidths, by_importance
from gnnqlab.bits.policy import Rows


def rows(ids):
    return Rows(layer=0, direction="forward", sender=0, receiver=1, ids=torch.tensor(ids), seed=0)


def policy(**settings):
    return OrchestratedWidths(Orchestrated(**settings), torch.tensor([7, 3, 9, 5]), torch.tensor([0.0, 0.6, 0.8, 1.0]))


def test_the_candidates_are_the_base_and_wider_ones():
    p = torch.linspace(0, 1, 1001)
    for base in (1, 2, 4, 8):
        widths = by_importance(p, base, (1, 2, 4, 8))
        assert set(widths.tolist()) == {width for width in (1, 2, 4, 8) if width >= base}
        assert (widths.long().diff() >= 0).all()
        assert (widths == base).float().mean() > 0.49


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
    assert widths.round(0) == 3  # one for each change, so that messages are laid out anew


def test_a_base_that_returns_has_its_widths_and_its_number_again():
    widths, asked = policy(), rows([9, 7, 5, 3])
    before, number = widths.widths(asked, epoch=0), widths.round(0)
    widths.move(wider=True)
    assert widths.round(1) != number and widths.widths(asked, epoch=1).tolist() == [8, 2, 8, 4]
    widths.move(wider=False)
    assert widths.round(2) == number and widths.widths(asked, epoch=2) is before  # so layouts are found again, too


def test_other_settings_have_other_numbers():
    widths = policy()
    number = widths.round(0)
    widths.steer(Orchestrated(delta=2), version=1)
    assert widths.round(1) != number and widths.widths(rows([9, 7]), epoch=1).tolist() == [4, 1]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"among": (1, 16)}, r"widths to choose from must be among \(1, 2, 4, 8\), got \(1, 16\)"),
        ({"delta": 0}, "delta must be at least 1 epoch, got 0"),
        ({"momentum": 1.0}, r"momentum must lie in \[0, 1\), got 1.0"),
    ],
)
def test_mistakes_are_refused(settings, text):
    with pytest.raises(ValueError, match=text):
        Orchestrated(**settings)
