"""Predicted coding time of codecs that no probe runs."""

from __future__ import annotations

from gnnqlab.message.codecs.codec import Stochastic
from gnnqlab.message.codecs.rotated import Rotated
from gnnqlab.tune import prediction
from gnnqlab.tune.coding_cost import coding_ratios
from tests.tune.probes import PHASES, written_down


def test_slower_codecs_take_longer_to_encode_and_to_decode(monkeypatch):
    asked = []

    def ratios(codec, bits, columns):
        asked.append((type(codec).__name__, bits))
        return (1.0, 1.0) if isinstance(codec, Stochastic) else (7.0, 3.0)

    monkeypatch.setattr(prediction, "coding_ratios", ratios)
    probe = written_down()
    plain, rotated = (probe.forecast(system=name, lam=0.0).phases for name in ("adaqp", "adaqp-r"))
    assert (plain["encode"], plain["decode"]) == (PHASES["encode"], PHASES["decode"])
    assert (rotated["encode"], rotated["decode"]) == (7 * PHASES["encode"], 3 * PHASES["decode"])
    assert ("Stochastic", 2) in asked or ("Stochastic", 1) in asked
    asked.clear()
    assert probe.vanilla.phases["encode"] == PHASES["encode"] and not asked  # float32 rows are not coded


def test_ratios_are_of_the_least_seconds_of_both_codecs():
    # Seconds of encoding and of decoding, five repeats of each codec; the first ones are longer than the others.
    taken = [(90, 80), *[(6, 3)] * 4, (50, 70), *[(2, 3)] * 4]
    times = iter([time for encode_s, decode_s in taken for time in (0, encode_s, encode_s + decode_s)])
    assert coding_ratios(Rotated(), 3, 16, timer=lambda: float(next(times))) == (3.0, 1.0)
