"""Every component contributes to a forecast, and one without a prediction is refused by its name."""

from __future__ import annotations

from dataclasses import replace

import pytest

import gnnqlab as gq
from gnnqlab.bits.assigner.assigned import Assigned
from gnnqlab.bits.orchestrator import Orchestrated
from gnnqlab.exchange.schedules.pipeline import AdaptivePipeline
from gnnqlab.exchange.schedules.staleness_switch import replay
from gnnqlab.graph import load
from gnnqlab.partition import METIS, Random
from gnnqlab.systems import SYSTEMS, System, make_system
from gnnqlab.tune.probe import Probe
from gnnqlab.tune.trace import trace
from tests.tune import own_parts as own
from tests.tune.probes import GAMMA, GRAPH, MODEL, PHASES, RATE, on_parts_of, seen, written_down


def _custom(**parts: object) -> System:
    return replace(make_system("vanilla"), name="mine", partition=Random(), **parts)


def on_the_cut_of(name: str) -> Probe:
    """Return a probe with a system's cut and exchange; for systems with the default ones, the usual probe."""
    probe, system = written_down(3), make_system(name)
    if (system.partition, system.exchange) == (System().partition, System().exchange):
        return on_parts_of(probe, replace(system, partition=probe.config.system.partition))
    own_probe = on_parts_of(probe, system)
    return replace(own_probe, trace=trace(load(GRAPH), MODEL, own_probe.config.system, workers=3, epochs=3))


@pytest.mark.parametrize("name", sorted(SYSTEMS))
def test_every_system_is_predicted(name: str) -> None:
    found = on_the_cut_of(name).forecast(system=name)
    assert found.system == name and found.epoch_s > 0
    sends = make_system(name).sampler.p > 0.0
    assert (found.bytes_sent > 0) == sends
    assert sends or {"no seconds for changes of the partition"} < set(found.assumes)
    assert found.bytes_sent == found.bytes_payload + found.bytes_params + found.bytes_bases
    assert (found.bytes_bases > 0) == (name == "low-rank")
    assert sum(found.phases.values()) == found.epoch_s and found.phases["wire"] <= found.wire_s


def test_sampling_probability_and_epoch_change_the_forecast() -> None:
    probe = written_down()
    few, many, all_rows = (probe.forecast(system="bns-gcn", p=p) for p in (0.125, 0.5, 1.0))
    assert few.bytes_sent == pytest.approx(probe.vanilla.bytes_sent / 8, abs=1)
    assert many.bytes_sent == pytest.approx(probe.vanilla.bytes_sent / 2, abs=1)
    assert (all_rows.bytes_sent, all_rows.phases) == (probe.vanilla.bytes_sent, probe.vanilla.phases)
    assert few.phases["encode"] == PHASES["encode"] / 8 and few.phases["dense"] == PHASES["dense"]
    assert PHASES["marginal"] / 8 < few.phases["marginal"] < many.phases["marginal"] < PHASES["marginal"]
    assert "the expected share of the rows, 0.125" in few.assumes and "expected share" in repr(few)
    one, other = (probe.forecast(system="bns-gcn", p=0.5, epoch=epoch) for epoch in (0, 1))
    assert one.bytes_sent != other.bytes_sent and one.epoch == 0 and not any("expected" in each for each in one.assumes)


def test_no_variance_is_forecast_of_biased_messages_but_all_else_is() -> None:
    probe = written_down()
    plain = probe.forecast(system=_custom(codec=gq.codecs.Stochastic(), bits=gq.bits.Fixed(bits=2)))
    fed = probe.forecast(
        system=_custom(codec=gq.codecs.Stochastic(), bits=gq.bits.Fixed(bits=2), cache=gq.caches.Feedback())
    )
    assert (fed.bytes_sent, fed.phases, fed.mean_bits) == (plain.bytes_sent, plain.phases, 2.0)
    assert plain.biased == "" and plain.total_variance > 0 and plain.total_bound and plain.noise_share
    assert fed.biased.startswith("cache Feedback") and (fed.bounds, fed.noise_share) == ({}, None)
    for name in ("variance", "total_variance", "total_bound"):
        with pytest.raises(ValueError, match=r"a forecast of .* Theorem 1.* cache Feedback adds.*choose cache NoCache"):
            getattr(fed, name)
    nearest = probe.forecast(system=_custom(codec=gq.codecs.Linear(), bits=gq.bits.Fixed(bits=2)))
    with pytest.raises(ValueError, match="codec Linear rounds to the nearest"):
        _ = nearest.total_variance
    exact = probe.forecast(system=_custom(cache=gq.caches.Feedback()))
    assert exact.total_variance == 0.0, "32 bits leave nothing to feed back"


def test_variance_is_that_of_the_systems_own_codec() -> None:
    """Variance uses the codec's measure of a row: its range, or its norm if rotated; the trace has none for spikes."""
    probe = written_down()
    two = {"bits": gq.bits.Fixed(bits=2)}
    plain, rotated, least = (
        probe.forecast(system=_custom(codec=codec, **two))
        for codec in (gq.codecs.Stochastic(), gq.codecs.Rotated(), gq.codecs.LeastVariance())
    )
    for place in probe.trace.places:
        expected = 0.0
        for message in probe.trace.messages_at(place):
            of_codec = gq.codecs.Rotated().row_variance(message.columns)
            spreads = message.spreads(probe.trace.index(0), of_codec.spreads)
            expected += float((message.use * of_codec.evaluate(spreads, 2)).sum())
        assert rotated.variance[place] == pytest.approx(expected)
    assert rotated.total_variance != plain.total_variance and rotated.total_bound != plain.total_bound
    assert least.total_bound is not None and plain.total_bound is not None
    assert least.total_variance < plain.total_variance and least.total_bound < plain.total_bound
    spikes = probe.forecast(system=_custom(codec=gq.codecs.Spikes(), **two))
    assert spikes.bytes_sent > plain.bytes_sent and spikes.noise_share is None
    with pytest.raises(ValueError, match=r"variance is not possible: .* needs rest.*choose codec Rotated"):
        _ = spikes.total_variance


def test_forecast_hides_the_transfer_time_that_the_schedule_overlaps() -> None:
    probe = written_down()
    exact = probe.vanilla
    # With the receiver's dropout masks, rows are sent before dropout, and those of the last layer have hidden width.
    assert probe.forecast(system="pipegcn").bytes_sent > exact.bytes_sent
    pipelined = probe.forecast(system="pipegcn", dropped_by="owner")
    computing = sum(PHASES.values()) - PHASES["reduce"]
    assert pipelined.bytes_sent == exact.bytes_sent and pipelined.wire_s == exact.wire_s > computing
    assert pipelined.phases["wire"] == pytest.approx(exact.wire_s - computing)
    hidden = probe.forecast(system="adaqp-p").phases["wire"]
    both = probe.forecast(system=_custom(schedule=AdaptivePipeline(bound=3)))
    assert both.phases["wire"] == pytest.approx((3 * pipelined.phases["wire"] + hidden) / 4)
    assert both.assumes == ("fresh rows in 1 epoch of 4, the minimum",) and not pipelined.assumes


def test_forecast_has_the_share_of_fresh_epochs_that_the_rule_decides_on() -> None:
    probe = written_down()
    losses = [0.9**epoch + (0.2 if epoch % 5 == 0 else 0.0) for epoch in range(40)]
    probe = replace(probe, trace=replace(probe.trace, losses=tuple(losses)))
    stale, fresh = probe.forecast(system="pipegcn", dropped_by="owner"), probe.forecast(system="adaqp-p")
    pipeline = _custom(schedule=AdaptivePipeline(bound=3))
    seconds = {"stale_s": stale.epoch_s, "fresh_s": fresh.epoch_s}
    decided = replay(losses, Orchestrated(), bound=3, **seconds)[7:]  # rates of δ + 1 epochs come first
    share = sum(decided) / len(decided)
    found = probe.forecast(system=pipeline)
    assert 0.25 < share < 1
    assert found.phases["wire"] == pytest.approx((1 - share) * stale.phases["wire"] + share * fresh.phases["wire"])
    assert found.assumes == (
        f"fresh rows in {100 * share:.0f} % of epochs, as decided about the losses of 40 traced ones",
    )
    # The policy's own δ decides, as in a training, in which both share one comparison.
    own, usual = (probe.forecast(system="sylvie", **each).assumes for each in ({"delta": 2, "momentum": 0.0}, {}))
    shares = [next(text for text in assumed if text.startswith("fresh rows")) for assumed in (own, usual)]
    assert shares[0] != shares[1]


def test_plans_are_predicted_for_an_epoch() -> None:
    probe = written_down()
    rows = sum(message.num_rows for message in probe.trace.messages)
    plan = {"bit_widths": (1, 8, 32), "period": 2}
    assert [probe.forecast(system="varco", epoch=epoch, **plan).rows for epoch in (0, 2, 3, 9)] == [
        {1: rows}, {8: rows}, {8: rows}, {32: rows}
    ]  # fmt: skip
    late = probe.forecast(system="varco", epoch=9, **plan)
    assert late.bytes_sent == probe.vanilla.bytes_sent and late.total_variance == 0.0
    assert late.phases == probe.vanilla.phases, "float32 rows take the same time from any codec"
    assert "the bit-width of epoch 0, 1, which grows to 32" in probe.forecast(system="varco", **plan).assumes
    assert not probe.forecast(system="varco", epoch=0, **plan).assumes


def test_an_assignment_is_in_force_after_its_epoch() -> None:
    probe = written_down()
    start, first = probe.forecast(epoch=2, group_size=1), probe.forecast(epoch=3, group_size=1)
    assert set(start.rows) == {8} and first.rows == probe.forecast(group_size=1).rows
    blocking = replace(make_system("adaqp"), bits=Assigned(when="blocking", group_size=1), partition=Random())
    assert probe.forecast(system=blocking, epoch=2).rows == first.rows
    later = probe.forecast(epoch=70, group_size=1)
    assert "the bit-widths assigned after epoch 49" in later.assumes[0] and later.rows != first.rows
    released = probe.forecast(as_released=True, group_size=1)
    assert released.rows != probe.forecast(group_size=1, parameters="bfloat16").rows


def test_forecast_uses_a_given_base_or_states_the_assumed_one() -> None:
    probe = written_down()
    start = replace(probe, trace=replace(probe.trace, losses=probe.trace.losses[:7])).forecast(system="sylvie")
    assert start.base == 1 and len(start.rows) > 1 and "where it starts" in start.assumes[0]
    wide = probe.forecast(system="sylvie", base=8)
    assert (wide.base, set(wide.rows)) == (8, {8}) and wide.bytes_sent > start.bytes_sent
    with pytest.raises(ValueError, match=r"base must be one of the bit-widths \(1, 2, 4, 8\), got 3"):
        probe.forecast(system="sylvie", base=3)
    with pytest.raises(ValueError, match="base is for policies that move a base, got 4 for Fixed; leave it out"):
        probe.forecast(system="vanilla", base=4)


def test_forecast_has_the_base_to_which_the_losses_move_it() -> None:
    probe = written_down()
    probe = replace(probe, trace=replace(probe.trace, losses=tuple(0.9**epoch for epoch in range(24))))
    found = {name: probe.forecast(system="sylvie", formula=name) for name in ("text", "printed")}
    assert (found["text"].base, found["printed"].base) == (8, 1)
    assert found["text"].bytes_sent == probe.forecast(system="sylvie", base=8).bytes_sent
    assert "a base bit-width of 8, as decided about the losses of 24 traced epochs" in found["text"].assumes
    assert probe.forecast(system="sylvie", epoch=3).base == 1, "before the first decision"


def test_parameter_bytes_follow_the_parameter_type() -> None:
    probe = written_down()
    rows = sum(message.num_rows for message in probe.trace.messages)
    for bits in (1, 8, 16):
        sizes = [
            probe.forecast(system="fixed-bits", bits=bits, parameters=kind) for kind in ("float32", "bfloat16")
        ]  # fmt: skip
        assert [each.bytes_params for each in sizes] == [8 * rows, 4 * rows]
        assert sizes[0].bytes_payload == sizes[1].bytes_payload and sizes[0].total_variance > 0
    assert probe.forecast(system="fixed-bits", bits=32).bytes_params == 0
    # Parameters of fewer bytes make narrow rows cheaper: the same λ may choose other bit-widths, for fewer bytes.
    assert probe.forecast(lam=0.5, parameters="bfloat16").bytes_sent < probe.forecast(lam=0.5).bytes_sent


def test_forecast_uses_the_predictions_of_custom_parts() -> None:
    probe = written_down()
    exact = probe.vanilla
    even = probe.forecast(system=_custom(sampler=own.Even()), epoch=0)
    kept = sum(4 * int((message.ids % 2 == 0).sum()) * message.columns for message in probe.trace.messages)
    assert even.bytes_sent == kept
    assert probe.forecast(system=_custom(cache=own.Half())).bytes_sent == exact.bytes_sent // 2
    thick = probe.forecast(system=replace(make_system("fixed-bits"), partition=Random(), codec=own.Thick()))
    assert thick.bytes_params == 12 * sum(message.num_rows for message in probe.trace.messages)
    half = probe.forecast(system=_custom(schedule=own.HalfHidden()))
    assert half.phases["wire"] == exact.wire_s / 2 and half.assumes == ("half of it",)
    assert exact.wire_s > len(probe.trace.places) * GAMMA and RATE > 0


@pytest.mark.parametrize(
    ("axis", "part", "method"),
    [
        ("cache", own.Silent(), "expected_share"),
        ("schedule", own.Mute(), "exposed_seconds"),
        ("bits", own.Unforeseen(), "predict"),
    ],
)
def test_a_part_without_an_answer_is_refused_by_name(axis: str, part: object, method: str) -> None:
    parts = {axis: part, **({"codec": make_system("fixed-bits").codec} if axis == "bits" else {})}
    reason = rf"{axis} must have the method {method}\(\) for predictions, got {type(part).__name__} without it; add"
    with pytest.raises(ValueError, match=reason):
        written_down().forecast(system=_custom(**parts))


def test_parts_that_differ_from_the_probe_raise_value_error() -> None:
    probe = written_down()
    with pytest.raises(ValueError, match=r"partition must be as probed, Random\(.*got METIS\(.*probe with it"):
        probe.forecast(system=replace(make_system("vanilla"), partition=METIS()))
    with pytest.raises(ValueError, match=r"compute must be as probed, Float32Products\(\), got Coarse\(\)"):
        probe.forecast(system=_custom(compute=own.Coarse()))
    config = replace(probe.config, system=_custom(compute=own.Coarse()))
    other = Probe(config=config, trace=seen(), timing=probe.timing, wire=probe.wire)
    assert other.forecast(system=config.system).epoch_s == other.vanilla.epoch_s
    with pytest.raises(ValueError, match="compute must be as probed"):
        other.forecast(system="adaqp")


def test_forecasts_are_cached_by_parts_and_labelled_by_system_name() -> None:
    probe = written_down()
    mine, again = probe.forecast(system=_custom()), probe.forecast(system=_custom())
    assert again.system == "mine" and mine.phases is probe.vanilla.phases and probe.vanilla.system == "vanilla"
    assert probe.forecast(system=_custom(cache=own.Half())) is not mine


def test_a_probe_keeps_the_parts_that_it_is_about() -> None:
    recipe = replace(make_system("bns-gcn"), partition=Random(seed=3))
    found = gq.probe("sbm:60,3,6", system=recipe, layers=2, hidden=8, launched=False, epochs=2, theorem=False)
    assert found.config.system == replace(make_system("vanilla"), partition=Random(seed=3))
    assert found.forecast(system=recipe).bytes_sent < found.vanilla.bytes_sent
