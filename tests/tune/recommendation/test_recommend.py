"""Recommendations from recorded seconds: links, alternatives, changes, risks and errors."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache

import pytest

import gnnqlab as gq
from gnnqlab.cli import main
from gnnqlab.exchange.traffic_model import PartitionSizes
from gnnqlab.partition import METIS, Random
from gnnqlab.systems import make_system, vanilla
from gnnqlab.tune.predicted_volume import epoch_bytes
from gnnqlab.tune.recommendation import Recommendation, accuracy_risk, untrained
from gnnqlab.tune.recommendation.accuracy_risk import AccuracyRisk, find_risks, read_studies
from gnnqlab.tune.recommendation.alternatives import Alternative, list_alternatives
from gnnqlab.tune.recommendation.candidates import approximations, list_candidates
from gnnqlab.tune.recommendation.places import ProbedPlaces, scale_to_cut, with_short_gradients
from gnnqlab.tune.recommendation.ranking import MARGIN, TIE, choose, make_options, rank
from gnnqlab.tune.recommendation.recommend import rank_systems
from gnnqlab.tune.trace import trace
from tests.cases import each
from tests.tune.recommendation.recorded import SYSTEMS, candidates, graph, recorded


@cache
def found_over(link: str, objective: str = "time to accuracy") -> Recommendation:
    return rank_systems(recorded(link), graph(), candidates(), objective=objective)


def test_slow_link_prefers_few_bytes_and_fast_link_vanilla() -> None:
    slow, fast = found_over("10mbit"), found_over("100gbit")
    assert slow.best.candidate.name in ("adaqp", "fixed-bits", "bns-gcn")
    assert slow.best.forecast.bytes_sent < slow.vanilla.forecast.bytes_sent / 4
    assert fast.best.candidate.name == "vanilla"
    reason = replace(slow, alternatives=()).reason
    assert reason.startswith(slow.best.label) and "times fewer bytes" in reason and "the link takes" in reason
    assert "no other system is predicted to be better" in fast.reason or not fast.pays


def test_changes_name_the_rates_between_two_choices() -> None:
    found = found_over("10mbit")
    assert found.changes and found.changes[-1].after == "vanilla"
    last = found.changes[-1]
    assert last.before != "vanilla" and f"instead of {last.before}" in str(last)
    below, at = (f"{last.bits_per_s * factor / 1e6:.6g}mbit" for factor in (0.5, 1.0))
    assert found_over(at).best.candidate.name == last.after != found_over(below).best.candidate.name
    assert any(str(last) in note for note in found.notes)
    assert not any("rate" in note for note in found_over("10mbit", "bytes").notes), "bytes do not depend on a rate"


def test_notes_say_what_is_assumed_and_agree_with_the_reason() -> None:
    found = found_over("10mbit")
    assert found.notes[0].startswith(
        "Assumed: 2 workers on 2 hosts over 10mbit; --workers, --hosts and --link change it"
    )
    (alone,) = (each for each in found.alternatives if each.workers == 1)
    (change,) = (note for note in found.notes if str(found.changes[-1]) in note)
    assert "on 2 workers" in change, "the scan compares distributed systems"
    for epoch_s, words in ((1e-9, "One process is faster at every rate: "), (found.best.forecast.epoch_s / 2, "")):
        notes = replace(found, alternatives=(replace(alone, epoch_s=epoch_s),)).notes
        assert not any(note.startswith("One process: ") for note in notes), "the reason has it"
        assert any(note.startswith(words or "One process is faster at the assumed rate; ") for note in notes)
    slow = replace(found, alternatives=(replace(alone, epoch_s=1e9),)).notes
    assert any(note.startswith("One process: ") for note in slow) and not any("is faster" in note for note in slow)


def test_the_answer_is_the_first_line(capsys: pytest.CaptureFixture[str]) -> None:
    main(["recommend", "--graph", "sbm:60,3,6", "--hidden", "8", "--estimate", "--only", "fixed-bits"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Recommended: ") and lines[2] == "Systems on 2 workers:"
    assert any(line.startswith("Assumed: 2 workers on one host, without a link") for line in lines)


def test_options_are_ranked_by_their_cost_and_vanilla_is_the_unit() -> None:
    found = found_over("100mbit")
    frame = found.to_frame()
    assert frame["cost"].is_monotonic_increasing and len(frame) == 2 * len(SYSTEMS)
    assert frame.loc["vanilla", "times_better"] == 1.0
    parts = frame[["computing_s", "coding_s", "wire_s", "reduce_s"]].sum(axis=1)
    assert parts.to_numpy() == pytest.approx(frame["epoch_s"].to_numpy())
    assert frame["cost"].to_numpy() == pytest.approx((frame["epoch_s"] * frame["epochs"] / frame["reached"]).to_numpy())
    by_bytes = found_over("100mbit", "bytes").to_frame()
    expected = by_bytes["bytes"] * by_bytes["epochs"] / by_bytes["reached"]
    assert by_bytes["cost"].to_numpy() == pytest.approx(expected.to_numpy())
    assert by_bytes["cost"].is_monotonic_increasing


def test_a_system_without_rows_has_no_bounded_noise_and_no_factor_of_bytes() -> None:
    listed = list_candidates(["vanilla", "bns-gcn", "gradients-only"], partitions=False)
    found = rank_systems(recorded("10mbit"), graph(), listed, objective="bytes")
    assert found.best.candidate.name == "gradients-only" and found.best.cost("bytes") == 0.0
    assert "sends no rows in training" in replace(found, alternatives=()).reason
    assert "no bound of its noise" in found.best.risk.source and found.best.risk.factor > 2
    labels = [each.label for each in list_candidates(["gradients-only"])]
    assert "vanilla on random-clusters" not in labels and "gradients-only on metis" in labels


def test_memory_is_measured_by_trials_and_ranks_them() -> None:
    chosen = [each for each in candidates(("vanilla", "sar", "exact")) if each.name != "exact"]
    found = rank_systems(recorded(), graph(), chosen, objective="memory")
    memory = found.to_frame()["memory_bytes"]
    assert memory.is_monotonic_increasing and set(memory.index) == {"vanilla", "sar"}
    assert memory["vanilla"] == sum(found.vanilla.forecast.memory.values())
    assert "B on the worker that needs the most" in found.reason


def test_the_simplest_of_equally_good_options_is_chosen() -> None:
    """An option that approximates must be better by the margin, one that is exact by more than a tie."""
    options = make_options(ProbedPlaces(recorded(), graph()), candidates(("vanilla", "adaqp", "sar")))[0]
    by_label = {option.label: option for option in options}

    def with_epoch(label: str, seconds: float):
        option = by_label[label]
        phases = {"wire": 0.0, "dense": seconds / option.risk.factor}
        return replace(option, forecast=replace(option.forecast, phases=phases))

    def chosen(**seconds: float) -> str:
        ranked = rank(
            [with_epoch(label.replace("_", "-"), value) for label, value in seconds.items()], "time to accuracy"
        )
        return choose(ranked, "time to accuracy").label

    assert chosen(vanilla=1.0, adaqp=1 - 0.8 * MARGIN) == "vanilla"
    assert chosen(vanilla=1.0, adaqp=1 - 2 * MARGIN) == "adaqp"
    assert chosen(vanilla=1.0, sar=1 - TIE / 2) == "vanilla"
    assert chosen(vanilla=1.0, sar=1 - 2 * TIE) == "sar"


def test_one_process_is_recommended_for_a_tiny_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    probe = recorded()
    tiny = rank_systems(probe, graph(), candidates(("vanilla", "adaqp")))
    quick = replace(tiny, alternatives=(Alternative(workers=1, hosts=1, epoch_s=tiny.best.forecast.epoch_s / 2),))
    assert not quick.pays and quick.workers == 1 and quick.reason.startswith("one process: ")
    assert quick.config.workers == 1 and quick.config.launch.hosts == 1 and quick.config.launch.link is None
    slow = replace(tiny, alternatives=(Alternative(workers=1, hosts=1, epoch_s=2 * tiny.best.forecast.epoch_s),))
    assert slow.pays and slow.workers == 2 and slow.reason.startswith(slow.best.label)
    assert replace(quick, objective="bytes").pays, "one process sends nothing, so bytes decide nothing"


def test_alternatives_are_one_process_and_fewer_hosts() -> None:
    (alone,) = list_alternatives(recorded())
    phases = recorded().timing.exact.phases
    computing_s = sum(phases[name] for name in ("central", "marginal", "dense"))
    assert (alone.workers, alone.hosts) == (1, 1)
    assert computing_s < alone.epoch_s < 3 * sum(phases.values()), "twice the work of a worker, and no messages"
    assert str(alone).startswith("one process: ")


def test_places_of_other_cuts_keep_the_work_and_scale_the_messages() -> None:
    places, system = ProbedPlaces(recorded(), graph()), replace(vanilla(), partition=Random())
    probe, place = places.probe, places.find(system)
    own, probed = place.timing.exact.phases, probe.timing.exact.phases
    assert place.config.system.partition == Random() and place.wire == probe.wire
    assert own["dense"] == probed["dense"] and own["marginal"] > probed["marginal"]
    assert own["central"] < probed["central"], "a random cut has fewer central nodes"
    sent = [sum(each.num_rows for each in one.trace.messages) for one in (place, probe)]
    assert own["encode"] / probed["encode"] == pytest.approx(sent[0] / sent[1], rel=0.05)
    assert place.timing.exact.communication_s == pytest.approx(probe.timing.exact.communication_s)
    assert scale_to_cut(probe.timing, probe.trace, probe.trace).exact.phases == pytest.approx(probed)


def test_vertex_cuts_blocks_and_columns_are_options_too() -> None:
    names = ["cdfgnn", "cagnet", "feature-parallel"]
    chosen = list_candidates(names, partitions=False)
    found = rank_systems(
        recorded(), graph(), [*candidates(("vanilla",)), *(each for each in chosen if each.name != "vanilla")]
    )
    frame = found.to_frame()
    assert {each + end for each in names for end in ("", "+")} <= set(frame.index) and not found.refused
    # Two workers: a split and a join of half of all rows and columns, against halo rows of a graph cut by METIS.
    sizes = PartitionSizes(num_nodes=graph().num_nodes, workers=2)
    config = found.probe.config
    facts = {"features": graph().num_features, "classes": graph().num_classes}
    by_formula = epoch_bytes(make_system("feature-parallel"), config.model, sizes, **facts)
    assert config.workers == 2 and frame.loc["feature-parallel", "bytes"] == by_formula


def test_products_of_codes_are_measured_relative_to_the_probe() -> None:
    found = rank_systems(recorded(), graph(), candidates(("vanilla", "tango", "exact")))
    frame = found.to_frame()
    assert frame.loc["tango", "bytes"] == frame.loc["exact", "bytes"] == frame.loc["vanilla", "bytes"]
    assert frame.loc["tango", "approximates"] == "compute int8, 8 bits"
    assert frame.loc["tango", "wire_s"] == pytest.approx(frame.loc["vanilla", "wire_s"])


def test_short_gradients_halve_the_bytes_of_the_sum_and_nothing_else() -> None:
    probe = recorded()
    short = with_short_gradients(probe)
    assert short.timing.gradient_bytes == pytest.approx(probe.timing.gradient_bytes / 2, abs=1)
    saved = probe.timing.exact.phases["reduce"] - short.timing.exact.phases["reduce"]
    wire = probe.timing.wire
    assert saved == pytest.approx(
        min(
            probe.timing.exact.phases["reduce"],
            wire.theta_s_per_byte * wire.reduce_bytes(probe.timing.gradient_bytes // 2),
        )
    )
    assert short.timing.exact.communication_s == pytest.approx(probe.timing.exact.communication_s)


def test_risk_of_a_study_counts_its_trainings() -> None:
    rows = [each for each in gq.results.load()["systems"]["rows"] if each["contestant"] == "adaqp"]
    risk = read_studies()["adaqp"]
    assert risk.reached == sum(each["reached_by"] for each in rows) / sum(each["seeds"] for each in rows)
    assert risk.epochs >= 1 and risk.source == f"bench systems: {sum(r['reached_by'] for r in rows)} of 30 trainings"
    assert AccuracyRisk(reached=0.0, epochs=1.0, source="").factor < math.inf
    assert {"2-bit", "adaqp-r", "int8, scale by tensor", "2 bits", "sancus, variation"} <= set(read_studies())


def test_risk_without_a_study_is_that_of_the_next_noisier_studied_system(monkeypatch: pytest.MonkeyPatch) -> None:
    low, high = (AccuracyRisk(reached=share, epochs=1.0, source="a study") for share in (0.9, 0.5))
    scores = AccuracyRisk(reached=0.8, epochs=1.0, source="scores", counted=False)
    monkeypatch.setattr(accuracy_risk, "read_studies", lambda: {"adaqp": low, "random-bits": high, "2-bit": scores})
    chosen = [each for each in list_candidates(["adaqp", "fixed-bits", "varco"], partitions=False) if not each.services]
    noise = {"vanilla": 0.0, "adaqp": 0.1, "random-bits": 0.4, "sylvie": None}
    for own, reached in ((0.05, 0.9), (0.1, 0.9), (0.2, 0.5), (0.5, 0.5), (None, 0.5)):
        risks = find_risks(chosen, {**noise, "varco": own})
        assert risks["varco"].reached == reached, own
    assert risks["vanilla"].factor == 1 and "no study" in risks["varco"].source
    # Scores alone: no lower risk than that of a counted system with less noise.
    for own, reached in ((0.2, 0.8), (0.5, 0.5), (None, 0.8)):
        assert find_risks(chosen, {**noise, "fixed-bits": own})["fixed-bits"].reached == reached, own


def test_normal_difference_of_scores_gives_the_share() -> None:
    """Half a point below Vanilla with any spread: one of two trainings."""
    rows = [{"case": "x, 5 seed(s)", "figure": "2-bit: test score, -0.50 ± 0.30 points", "rival": "vanilla"}]
    found = accuracy_risk._estimated(rows, "accuracy")
    assert found is not None and found.reached == pytest.approx(0.5)


@each(
    ("name", "texts"),
    [
        ("vanilla", ()),
        ("sar", ()),
        ("cagnet", ()),
        ("adaqp", ("messages in 2, 4, 8 bits",)),
        ("sylvie", ("messages in 1, 2, 4, 8 bits", "rows of the epoch before")),
        ("cdfgnn", ("messages in 8 bits", "rows that changed little are not sent")),
        ("tango-int4", ("compute int8, 4 bits",)),
    ],
)
def test_every_approximation_is_named(name: str, texts: tuple[str, ...]) -> None:
    assert approximations(make_system(name)) == texts


def test_candidates_have_every_partitioner_of_their_cut() -> None:
    labels = {each.label for each in list_candidates()}
    assert {"adaqp on random", "cdfgnn on hdrf", "cdfgnn+ on dne", "tango", "sancus"} <= labels
    assert not {"tango on random", "cagnet on random", "vanilla on ebv"} & labels
    with pytest.raises(ValueError, match="system must be one of"):
        list_candidates(["best"])


def test_simpler_candidates_have_fewer_steps() -> None:
    steps = {each.label: each.steps for each in list_candidates(["sar", "adaqp", "adaqp-r"])}
    assert steps["vanilla"] < steps["vanilla+"] < steps["sar+ on random"] < steps["adaqp"]
    assert steps["adaqp"] < steps["adaqp-r"], "a probe does not time rotations"


def test_the_result_is_json_html_and_a_command(tmp_path) -> None:
    found = found_over("100mbit")
    words = json.loads(json.dumps(found.to_json()))
    assert {"system", "reason", "changes", "alternatives", "options", "refused"} <= set(words)
    assert [each["option"] for each in words["options"]] == list(found.to_frame().index)
    page = found._repr_html_()
    assert "gnnqlab/results" in page and found.best.label in page
    config = replace(found, alternatives=()).config
    assert config.system.partition == METIS() and config.train.gradients == (
        "bfloat16" if found.best.candidate.services else "float32"
    )
    assert (
        replace(found, alternatives=()).command is not None
        and "--link 100mbit" in replace(found, alternatives=()).command
    )


def test_estimate_ranks_from_the_cut_alone() -> None:
    found = gq.recommend(
        "sbm:300,3,8", workers=2, link="10mbit", hidden=32, systems=["fixed-bits", "cdfgnn"], estimate=True
    )
    assert found.probe.trace.losses == () and not found.probe.timing.launched
    assert found.refused["cdfgnn"] == "needs a probe; leave estimate out"
    traced = trace(gq.load("sbm:300,3,8"), found.probe.config.model, workers=2, epochs=2, theorem=False)
    counted = {(each.place, each.sender, each.receiver): (each.num_rows, each.columns) for each in traced.messages}
    assert {
        (each.place, each.sender, each.receiver): (each.num_rows, each.columns) for each in found.probe.trace.messages
    } == counted, "the messages of an estimate are those of a training"
    assert any("estimate" in note for note in found.notes)


@each(
    ("settings", "text"),
    [
        ({"objective": "fame"}, r"systems are ranked by one of \('time', 'bytes', 'memory'\), got 'fame'"),
        ({"workers": 1}, "workers must be at least 2 to compare systems, got 1"),
        ({"systems": ["best"]}, "system must be one of"),
        ({"epochs": 3}, "epochs must be at least 6"),
        ({"estimate": True, "objective": "memory"}, "objective 'memory' needs trials of every system"),
        ({"workers": 3, "hosts": 2}, "workers must be a multiple of the hosts"),
        ({"link": "fast"}, "link must be a number with kbit, mbit or gbit"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_measured(settings: dict, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        gq.recommend("digits", **settings)


def test_command_refuses_settings_of_systems_and_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["recommend", "--bits", "2"])
    assert (
        end.value.code == 2
        and "recommend ranks systems with their own settings, got ['bits']" in capsys.readouterr().err
    )
    main(["recommend", "--graph", "sbm:200,3,8", "--link", "10mbit", "--only", "fixed-bits", "--estimate", "--json"])
    words = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (
        words["graph"] == "sbm:200,3,8"
        and words["estimate"]
        and {"vanilla", "fixed-bits"} == {each["system"] for each in words["options"]}
    )


def test_confirmed_options_are_trained_and_measured(tmp_path) -> None:
    probe = recorded()
    found = gq.recommend(
        probe.config, known=probe, systems=["fixed-bits"], confirm=True, epochs=6, out=tmp_path, objective="bytes"
    )
    assert (
        found.confirmed is not None and "vanilla" in found.confirmed.index and found.best.label in found.confirmed.index
    )
    exact = found.confirmed.loc["vanilla"]
    assert exact["predicted_bytes"] == exact["measured_bytes"] and (found.confirmed["measured_s"] > 0).all()
    assert found.study is not None and len(found.study.cells) == len(found.confirmed)


def test_tuner_ranks_from_its_own_probe(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    from gnnqlab.lab.tuner.model import TunerModel

    probe = recorded()
    model = TunerModel(probe.config.graph, workers=2, layers=3, hidden=64, link="100mbit")
    monkeypatch.setattr(TunerModel, "find_probe", lambda self, system=None: probe)
    monkeypatch.setattr(
        "gnnqlab.lab.tuner.model.recommend", lambda config, objective, known, say: (config, objective, known is probe)
    )
    assert model.recommend("bytes") == (probe.config, "bytes", True)


def test_rows_that_stand_for_several_change_no_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes and seconds of a large halo follow from a part of its rows, up to rounding of rows of a message."""
    source, settings = gq.load("sbm:600,4,12"), {"workers": 3, "hosts": 3, "link": "50mbit", "hidden": 32}
    config = gq.configure(source, **settings)
    full = untrained.estimate_probe(source, config)
    monkeypatch.setattr(untrained, "_ROWS", 100)
    part = untrained.estimate_probe(source, config)
    assert full.trace.row_weight == 1.0 < part.trace.row_weight
    assert sum(each.num_rows for each in part.trace.messages) < sum(each.num_rows for each in full.trace.messages) / 2
    for system in ("vanilla", "fixed-bits", "adaqp", "bns-gcn"):
        own, other = (probe.forecast(system=system) for probe in (part, full))
        assert own.bytes_sent == pytest.approx(other.bytes_sent, rel=0.03), system
        assert own.phases["wire"] == pytest.approx(other.phases["wire"], rel=0.03), system
    assert list_alternatives(part)[0].epoch_s == pytest.approx(list_alternatives(full)[0].epoch_s, rel=0.03)
