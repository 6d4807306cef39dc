"""For the probe's own workers the prediction is the forecast; bytes are those of training; the rest by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import gnnqlab as gq
from gnnqlab.exchange.traffic_model import PartitionSizes
from gnnqlab.partition import Random
from gnnqlab.partition.parts import cut_graph
from gnnqlab.simulation.threaded_workers import ThreadedWorkers
from gnnqlab.train.config.run_config import LaunchSettings, TrainSettings
from gnnqlab.tune.at_scale import at_scale
from gnnqlab.tune.cut_counts import CutCounts
from gnnqlab.tune.predicted_volume import epoch_bytes
from gnnqlab.tune.wire import GOODPUT, WITHIN_HOST
from tests.cases import each
from tests.tune.probes import GAMMA, GRAPH, MODEL, PHASES, RATE, seen, sent_bytes, timing, written_down

SYSTEMS = ("vanilla", "fixed-bits", "adaqp-p", "pipegcn", "bns-gcn", "varco", "sar")
"""All rows of a layer have one bit-width."""


def _named(*names: str) -> dict[str, str]:
    return {name: name for name in names}


def _one(found: Any, **at: Any) -> Any:
    for name, value in at.items():
        found = found[found[name] == value]
    assert len(found) == 1
    return found.iloc[0]


@each("workers", (2, 3))
def test_at_its_own_place_it_is_the_forecast(workers):
    probe = written_down(workers)
    found = at_scale(probe, _named(*SYSTEMS), workers=(workers,))
    for name in SYSTEMS:
        told, here = probe.forecast(system=name), _one(found, system=name)
        assert here["epoch_s"] == pytest.approx(told.epoch_s, rel=1e-12)
        assert here["bytes"] == pytest.approx(told.bytes_sent, abs=1)  # a forecast has whole bytes
        assert here["under_way_s"] == pytest.approx(told.wire_s) and here["uneven_s"] == 0


@each("workers", (2, 4, 6))
def test_bytes_are_those_of_the_formula_and_of_training(workers):
    graph = gq.load(GRAPH)
    found = at_scale(written_down(2), _named("vanilla", "fixed-bits"), workers=(workers,))
    cut = cut_graph(graph, Random(), workers)
    for name in ("vanilla", "fixed-bits"):
        recipe = replace(gq.systems.make_system(name), partition=Random())
        sizes = PartitionSizes.from_shards(cut.shard(graph, rank) for rank in range(workers))
        said = _one(found, system=name)["bytes"]
        assert said == epoch_bytes(recipe, MODEL, sizes, features=graph.num_features, classes=graph.num_classes) > 0
        threads = ThreadedWorkers(graph, cut, recipe, MODEL, TrainSettings())
        threads.step(0)
        assert said == sum(sent_bytes(threads))


def test_every_part_by_hand():
    probe, graph = written_down(2), gq.load(GRAPH)
    before, now = (CutCounts.from_cut(graph, cut_graph(graph, Random(), count)) for count in (2, 5))
    found = _one(at_scale(probe, _named("vanilla"), workers=(5,)), system="vanilla")
    wide = {place: probe.trace.messages_at(place)[0].columns for place in probe.trace.places}
    work = {
        "central": lambda of: sum(w * of.independent_edges(way) for (_, way), w in wide.items()),
        "marginal": lambda of: sum(w * (of.edges - of.independent_edges(way)) for (_, way), w in wide.items()),
        "dense": lambda of: of.owned_nodes,
    }
    each_s = {name: PHASES[name] * of(now) / of(before).mean() for name, of in work.items()}
    assert found["computing_s"] == pytest.approx(sum(seconds.mean() for seconds in each_s.values()))
    coding = (PHASES["encode"] + PHASES["decode"]) * (now.halo_rows / 5) / (before.halo_rows / 2)
    assert found["coding_s"] == pytest.approx(coding)
    # The rows of the busiest worker, in either direction: backward, sent and received rows are exchanged.
    busiest = max(now.rows.sum(0).max(), now.rows.sum(1).max())
    assert found["wire_s"] == pytest.approx(sum(GAMMA + 4 * w * busiest / RATE for w in wide.values()))
    more = 2 * 4 / 5 * 1000 / RATE - 2 * 1 / 2 * 1000 / RATE
    assert found["reduce_s"] == pytest.approx(PHASES["reduce"] + more)
    assert found["gradient_bytes"] == 2 * 4 * 1000 and found["hosts"] == 1
    parts = ("computing_s", "coding_s", "wire_s", "reduce_s", "uneven_s")
    assert found["epoch_s"] == pytest.approx(sum(found[name] for name in parts))


def test_the_largest_part_is_waited_for():
    probe, graph = written_down(2), gq.load(GRAPH)
    found = _one(at_scale(probe, _named("vanilla"), workers=(7,)), system="vanilla")
    assert found["uneven_s"] > 0
    whole = at_scale(probe, _named("vanilla"), workers=(1,)).iloc[0]
    assert whole["wire_s"] == whole["reduce_s"] == whole["bytes"] == whole["uneven_s"] == whole["coding_s"] == 0
    before = CutCounts.from_cut(graph, cut_graph(graph, Random(), 2))
    assert before.owned_nodes.mean() == 60
    dense = PHASES["dense"] * 2
    central = PHASES["central"] * _all_edges(probe, graph.num_edges) / _independent(probe, before)
    assert whole["computing_s"] == pytest.approx(dense + central)


def _all_edges(probe, edges):
    return sum(probe.trace.messages_at(place)[0].columns * edges for place in probe.trace.places)


def _independent(probe, counts):
    places = probe.trace.places
    return sum(probe.trace.messages_at(each)[0].columns * counts.independent_edges(each[1]).mean() for each in places)


def test_links_hosts_cores_and_speed():
    probe = written_down(2)

    def ask(**changes):
        return at_scale(probe, _named("vanilla"), workers=(4, 8), **changes)

    slow, fast = ask(link="1mbit"), ask(link="10mbit")
    assert (slow["wire_s"] > fast["wire_s"]).all() and (slow["reduce_s"] > fast["reduce_s"]).all()
    assert slow["hosts"].tolist() == [4, 8] and ask(link="1mbit", per_host=4)["hosts"].tolist() == [1, 2]
    assert (slow["computing_s"] == fast["computing_s"]).all()
    counts = CutCounts.from_cut(gq.load(GRAPH), cut_graph(gq.load(GRAPH), Random(), 4))
    busiest = max(counts.rows.sum(0).max(), counts.rows.sum(1).max())
    columns = [probe.trace.messages_at(place)[0].columns for place in probe.trace.places]
    told = sum(GAMMA + 4 * wide * busiest / (125_000 * GOODPUT) for wide in columns)
    assert slow["wire_s"].iloc[0] == pytest.approx(told)
    near = ask(link="1mbit", per_host=4)["wire_s"].iloc[0]
    assert near == pytest.approx(sum(GAMMA + 4 * wide * busiest / WITHIN_HOST for wide in columns))
    twice, shared = ask(speed=2.0), ask(cores=2)
    assert twice["computing_s"].tolist() == pytest.approx((ask()["computing_s"] / 2).tolist())
    assert shared["computing_s"].tolist() == pytest.approx((ask()["computing_s"] * [2, 4]).tolist())
    later = ask(latency_s=0.01)["reduce_s"] - ask()["reduce_s"]
    assert later.tolist() == pytest.approx([2 * 2 * 0.01, 2 * 6 * 0.01])
    assert (ask()["wire_s"] - ask(gamma_s=0.0)["wire_s"]).tolist() == pytest.approx([4 * GAMMA] * 2)


def test_reduction_time_hidden_at_two_workers_is_exposed_at_four():
    probe = written_down(2)
    hidden = {name: PHASES[name] for name in PHASES if name != "reduce"} | {"reduce": 0.25}
    time = replace(
        probe.timing, **{name: replace(getattr(probe.timing, name), phases=hidden) for name in ("exact", "quantized")}
    )
    found = at_scale(replace(probe, timing=time), _named("vanilla"), workers=(2, 4))["reduce_s"]
    assert found.tolist() == pytest.approx([0.25, 2 * 3 / 4 * 1000 / RATE])


def test_a_larger_graph_of_the_same_kind():
    probe = written_down(2)
    larger = gq.load("sbm:480,3,6")
    found = at_scale(probe, _named("vanilla"), workers=(8,), graph=larger).iloc[0]
    rows = CutCounts.from_cut(larger, cut_graph(larger, Random(), 8)).halo_rows
    own = CutCounts.from_cut(gq.load(GRAPH), cut_graph(gq.load(GRAPH), Random(), 2)).halo_rows
    assert found["bytes"] == pytest.approx(probe.vanilla.bytes_sent / own * rows)
    with pytest.raises(ValueError, match="must have 64 features and 3 classes as the probe's, got 64 and 10"):
        at_scale(probe, _named("vanilla"), graph=gq.load("digits"))


def test_at_scale_uses_the_workers_per_host_of_the_probe():
    probe = written_down(4)
    launch = LaunchSettings(hosts=2, link="1mbit")
    time = replace(timing(4), hosts=2, link="1mbit emulated, 2 hosts", bytes_per_s=125_000.0)
    probe = replace(probe, config=replace(probe.config, launch=launch), timing=time, wire=time.wire)
    found = at_scale(probe, _named("vanilla"), workers=(2, 4, 8))
    assert found["hosts"].tolist() == [1, 2, 4]
    assert _one(found, workers=4)["epoch_s"] == pytest.approx(probe.vanilla.epoch_s)
    with pytest.raises(ValueError, match=r"must be a multiple of per_host, got 3 worker\(s\), 2 on a host"):
        at_scale(probe, _named("vanilla"), workers=(3,))


@each(
    ("changes", "words"),
    [
        ({"systems": {}}, "must have at least one entry each, got 0 and 6"),
        ({"workers": (0,)}, "at least 1, got 0"),
        ({"per_host": 0}, "per_host must be at least 1, got 0"),
        ({"cores": 0}, "cores must be at least 1, got 0"),
        ({"speed": 0.0}, "speed must be positive, got 0.0"),
        ({"latency_s": -1.0}, "must not be negative, got latency_s=-1.0"),
        ({"systems": _named("no such")}, "no such"),
    ],
)
def test_invalid_scale_settings_raise_value_error(changes, words):
    with pytest.raises(ValueError, match=words):
        at_scale(written_down(2), **{"systems": _named("vanilla"), **changes})


def test_other_cuts_and_rows_that_travel_twice_are_refused():
    probe = written_down(2)
    twice = replace(probe, trace=replace(probe.trace, messages=probe.trace.messages * 2))
    with pytest.raises(ValueError, match="exchange must send each halo row once, .* got Halo"):
        at_scale(twice, _named("vanilla"), workers=(4,))
    edges = replace(probe, config=replace(probe.config, system=gq.systems.cdfgnn()))
    with pytest.raises(ValueError, match="halo rows need an edge-cut, got a vertex-cut"):
        at_scale(edges, _named("vanilla"), workers=(4,))


def test_attention_is_scaled_too():
    probe = replace(written_down(2), trace=seen(2, "gat"))
    found = at_scale(probe, _named("vanilla"), workers=(2, 4))
    assert found["epoch_s"].iloc[0] == pytest.approx(probe.vanilla.epoch_s)
    halo = [
        CutCounts.from_cut(gq.load(GRAPH), cut_graph(gq.load(GRAPH), Random(), count)).halo_rows for count in (2, 4)
    ]
    assert found["bytes"].iloc[1] / found["bytes"].iloc[0] == pytest.approx(halo[1] / halo[0])
