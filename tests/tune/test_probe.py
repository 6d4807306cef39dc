"""Forecasts from fixed seconds: every number can be computed by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import gnnqlab as gq
from gnnqlab.bits import Fixed
from gnnqlab.bits.assigner.solver import solve
from gnnqlab.train.config.run_config import LaunchSettings
from gnnqlab.tune import offline_assigner
from gnnqlab.tune.drift import Drift
from gnnqlab.tune.estimate import estimate_timing
from gnnqlab.tune.offline_assigner import OfflineAssigner
from gnnqlab.tune.probe import Probe
from gnnqlab.tune.timing import Timing
from gnnqlab.tune.wire import GOODPUT
from tests.steps import steps
from tests.tune.probes import GAMMA, PHASES, RATE, seen, timing, written_down


def test_two_volumes_give_the_link():
    wire = timing().wire
    assert wire.theta_s_per_byte == pytest.approx(1 / RATE) and wire.gamma_s == pytest.approx(GAMMA)
    assert Timing.from_json(timing().to_json()) == timing()


def test_rows_wait_as_in_the_probe_of_their_own_kind():
    extra = 2 * GAMMA
    plain = replace(timing(), bytes_per_s=RATE)  # a known rate, so that waiting cannot be taken for a slower link
    quantized = replace(plain.quantized, epoch_s=plain.quantized.epoch_s + 4 * extra)
    probes = [
        replace(written_down(), timing=each, wire=each.wire) for each in (plain, replace(plain, quantized=quantized))
    ]
    exact, rounded = ([each.forecast(system=name).wire_s for each in probes] for name in ("vanilla", "fixed-bits"))
    places = {message.place for message in probes[0].trace.messages}
    assert exact[1] == pytest.approx(exact[0])
    assert rounded[1] == pytest.approx(rounded[0] + len(places) * extra)


def test_vanilla_is_computation_and_wire():
    probe = written_down()
    found = probe.vanilla
    exact = {(m.layer, m.direction): 0.0 for m in probe.trace.messages}
    for message in probe.trace.messages:
        exact[message.place] = max(exact[message.place], 4.0 * message.num_rows * message.columns)
    assert found.wire_s == pytest.approx(sum(exact.values()) / RATE + len(exact) * GAMMA)
    assert found.epoch_s == pytest.approx(sum(PHASES.values()) + found.wire_s)
    assert found.speedup == pytest.approx(1.0) and found.rows == {32: sum(m.num_rows for m in probe.trace.messages)}
    assert found.total_variance == 0.0 and found.noise_share == 0.0
    assert found.to_frame()["share"].sum() == pytest.approx(1.0)


def test_overlap_hides_central_rows_and_no_more():
    probe = written_down()
    hidden = probe.vanilla.epoch_s - probe.forecast(system="adaqp-p").epoch_s
    assert hidden == pytest.approx(PHASES["central"])  # every exchange takes longer than its share of them
    slow = probe.forecast(system="adaqp-q", lam=0.5).epoch_s - probe.forecast(lam=0.5).epoch_s
    assert 0 < slow <= PHASES["central"] + 1e-9


def test_lambda_trades_time_for_variance():
    probe = written_down()
    front = probe.front((0.0, 0.5, 1.0), group_size=5)
    assert front[0].epoch_s <= front[1].epoch_s <= front[2].epoch_s
    assert front[0].total_variance >= front[1].total_variance >= front[2].total_variance
    assert front[0].total_bound >= front[1].total_bound >= front[2].total_bound > 0
    assert front[2].rows[8] > 0.95 * sum(front[2].rows.values())  # a constant row has no variance
    assert front[1].speedup > 1 and "λ = 0.5" in repr(front[1]) and "<caption>adaqp λ = 0.5" in front[1]._repr_html_()
    assert list(probe.front_frame((0.0, 1.0))["lam"]) == [0.0, 1.0]


def test_widths_histogram_and_pairs_agree():
    probe = written_down(3)
    found = probe.forecast(lam=0.4, group_size=4, bit_widths=(1, 2, 8))
    assert set(found.rows) <= {1, 2, 8} and sum(found.rows.values()) == sum(m.num_rows for m in probe.trace.messages)
    assert np.isnan(np.diag(found.pair_bits)).all()
    off = found.pair_bits[~np.eye(3, dtype=bool)]
    assert off.min() >= 1 and off.max() <= 8
    policy = OfflineAssigner(probe.trace).build_policy(probe.widths(found))
    message = probe.trace.messages[0]
    assert policy.widths(message.rows(0), 0).numel() == message.num_rows


def test_another_link_changes_the_wire_and_the_sum_of_gradients():
    probe = written_down()
    slow = probe.with_link("1mbit", hosts=2)
    assert slow.vanilla.phases["dense"] == PHASES["dense"]
    assert slow.wire.theta_s_per_byte < 1 / RATE  # the fixed link is slower still
    assert slow.vanilla.phases["reduce"] < PHASES["reduce"]
    assert slow.vanilla.epoch_s < probe.vanilla.epoch_s


@pytest.mark.parametrize("workers", [2, 3])  # with three, a transfer queues at both of its ends: another problem
def test_forecast_solves_each_exchange_once_and_is_cached(workers, monkeypatch):
    solved = []
    monkeypatch.setattr(offline_assigner, "solve", lambda problem: (solved.append(problem), solve(problem))[1])
    probe = written_down(workers)
    first = probe.forecast(lam=0.31)
    assert probe.forecast(lam=0.31) is first and len(solved) == len(probe.trace.places)
    solved.clear()
    # 0.01 to 0.02 s: 181 000 and 292 000 instructions of Python.
    assert 0 < steps(lambda: probe.forecast(lam=0.32)) < 600_000 and len(solved) == len(probe.trace.places)


def test_settings_that_do_not_fit_are_refused():
    probe = written_down()
    with pytest.raises(ValueError, match="bits Fixed of system 'fixed-bits' have no \\['lam'\\]"):
        probe.forecast(system="fixed-bits", lam=0.5)
    with pytest.raises(ValueError, match="lam must lie in"):
        probe.forecast(lam=2.0)
    with pytest.raises(ValueError, match="input_features 'cache'"):
        gq.probe("digits", input_features="cache")


def test_an_assignment_is_never_worse_than_chance_of_the_same_bytes():
    """V for the bytes that λ = 0.5 uses is below that of randomly drawn bit-widths."""
    assigner = OfflineAssigner(seen())
    probe = written_down()
    adaptive = probe.forecast(lam=0.5, group_size=1)
    chance = probe.forecast(system="random-bits")
    assert adaptive.bytes_sent <= chance.bytes_sent and adaptive.total_variance < chance.total_variance
    assert assigner.variance(assigner.choose(Fixed(bits=32)), 0) == dict.fromkeys(seen().places, 0.0)


def test_drift_grows_with_age_and_decides_the_period():
    found = written_down().drift(lam=0.5, group_size=5)
    assert found.ages[0] == 1 and all(loss >= 0 for loss in found.loss)
    assert found.to_frame().columns.tolist() == ["age", "loss"]
    steep = Drift(ages=(1, 10), loss=(0.0, 1.0))
    assert steep.loss_at(0) == 0 and steep.loss_at(10) == 1 and steep.loss_at(1000) == 1
    assert steep.mean_loss(2) < steep.mean_loss(20)
    assert steep.period(0.05, periods=(1, 2, 50)) == 2 and Drift(ages=(), loss=()).period() == 200


def test_a_guess_needs_no_run(monkeypatch):
    """The wire by arithmetic, computation from the traced epochs: available at once, and marked as an estimate."""
    config = written_down().config
    slow = replace(config, launch=LaunchSettings(hosts=2, link="1mbit"))
    assert set(seen().phases) >= set(PHASES) - {"reduce"}
    traced = replace(seen(), phases={name: seconds / 1000 for name, seconds in PHASES.items()})
    guessed = {name: estimate_timing(each, traced) for name, each in (("loop", config), ("slow", slow))}
    assert not guessed["loop"].launched and guessed["loop"].link == "loopback"
    assert guessed["slow"].wire.theta_s_per_byte == pytest.approx(8e-6 / GOODPUT, rel=0.01)
    assert guessed["slow"].exact.communication_s > 10 * guessed["loop"].exact.communication_s
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0})
    shared, alone = estimate_timing(config, traced).exact.phases, traced.phases
    assert shared["central"] == pytest.approx(config.workers * alone["central"]), "workers share one processor"
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(64)))
    assert estimate_timing(config, traced).exact.phases["central"] == pytest.approx(alone["central"])
    monkeypatch.setattr("gnnqlab.train.processors.cpu_quota", lambda: 1.0)
    shared = estimate_timing(config, traced).exact.phases
    assert shared["central"] == pytest.approx(config.workers * alone["central"]), "a quota grants one processor"
    assert set(guessed["loop"].exact.phases) >= set(PHASES)
    probe = Probe(config=slow, trace=traced, timing=guessed["slow"], wire=guessed["slow"].wire)
    assert probe.forecast(lam=0.0).speedup > 1 and "an estimate" in repr(probe)


def test_a_graph_of_another_library_is_probed_under_its_name(tmp_path, monkeypatch):
    monkeypatch.setenv("GNNQLAB_CACHE", str(tmp_path))
    src, dst = gq.load("sbm:40,2,4").edge_list()
    x, y = torch.rand(40, 3), torch.arange(40) % 2
    data = SimpleNamespace(edge_index=torch.stack([src, dst]), x=x, y=y)
    found = gq.probe(data, launched=False, epochs=3, layers=2, hidden=4, theorem=False, partition="random")
    assert repr(found).startswith("<Probe of pyg: gcn, 2 workers")
    whole = gq.probe(gq.from_pyg(data), launched=False, epochs=3, layers=2, hidden=4, theorem=False, partition="random")
    assert [m.num_rows for m in found.trace.messages] == [m.num_rows for m in whole.trace.messages]
