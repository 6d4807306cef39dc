"""Decisions of SYLVIE under each reading, by the rule written out here, and the effect on its tables."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.bits.orchestrator import HALVES, QUARTERS, Orchestrated
from gnnqlab.course.experiments.moving_widths import replay
from gnnqlab.course.experiments.sylvie_readings import decide, readings
from tests.cases import each

LEVELS_OFF = [0.2 + 0.97**epoch + 0.02 * (epoch % 3) for epoch in range(120)]


def by_the_rule(losses, formula, delta, momentum, bound):
    """Compute Eq. 5 and the Pipeline Adaptor independently of the package."""
    running, falls, base, fresh, in_a_row = None, [], 1, True, 0
    bases, stale = [], []
    for epoch, loss in enumerate(losses):
        bases.append(base)
        stale.append(epoch > 0 and not fresh)
        in_a_row = in_a_row + 1 if stale[-1] else 0
        before = running
        running = loss if before is None else momentum * before + (1 - momentum) * loss
        if before is not None:
            falls.append(before - running)
        careful = False
        if len(falls) > delta:
            careful = falls[-1] > falls[-1 - delta] if formula == "printed" else falls[-1] < falls[-1 - delta]
            base = min(2 * base, 8) if careful else max(base // 2, 1)
        fresh = careful or in_a_row >= bound
    return tuple(bases), tuple(stale)


@each("formula", ["text", "printed"])
@each(("delta", "bound"), [(5, 10), (2, 3), (20, 1)])
def test_decisions_are_those_of_the_rule(formula, delta, bound):
    found = decide(LEVELS_OFF, Orchestrated(formula=formula, delta=delta), bound=bound)
    assert (found.base, found.stale) == by_the_rule(LEVELS_OFF, formula, delta, 0.9, bound)
    same = replay(LEVELS_OFF, [1.0] * len(LEVELS_OFF), settings=Orchestrated(formula=formula, delta=delta))
    assert same["base"].tolist() == list(found.base)


def test_a_table_is_reproduced_by_arithmetic_alone():
    p, smooth = torch.arange(4096) / 4096, [0.2 + 0.97**epoch for epoch in range(200)]
    table = readings(smooth, p, masks={"halves": HALVES, "quarters": QUARTERS})
    for (formula, mask), line in table.iterrows():
        thresholds = {"halves": HALVES, "quarters": QUARTERS}[mask]
        bases, stale = by_the_rule(smooth, formula, 5, 0.9, 10)
        mixes = []
        for base in bases:
            wider = [width for width in (1, 2, 4, 8) if width >= base]
            edges = [0.0, *thresholds[: len(wider) - 1], 1.0]
            mixes.append({width: high - low for width, low, high in zip(wider, edges[:-1], edges[1:], strict=True)})
        bits = sum(sum(width * share for width, share in mix.items()) for mix in mixes) / 200
        seconds = {1: 0.22, 2: 0.28, 4: 0.37, 8: 0.52}
        epoch_s = sum(sum(seconds[width] * share for width, share in mix.items()) for mix in mixes) / 200
        assert line["bits"] == pytest.approx(bits) and line["epoch (s)"] == pytest.approx(epoch_s)
        assert line["stale"] == pytest.approx(sum(stale) / 200)
        assert line["X"] == (abs(epoch_s - 0.39) <= 0.039) and line["XII"] == (abs(bits - 1.45) <= 0.145)
        assert line["XI"] == (0.33 <= sum(stale) / 200 <= 0.67)
    assert not (table["X"] & table["XI"] & table["XII"]).any(), "no reading reproduces all three (erratum SY-3)"
