"""Control of a running run: refused or applied by all workers at once, and nothing else about the run changes."""

from __future__ import annotations

import json
import os
import time

import numpy as np
import pytest

import gnnqlab as gq
from gnnqlab.adaptive import Adaptive
from gnnqlab.nn import ModelSettings
from gnnqlab.partition import Random, build_shard
from gnnqlab.systems import make_system
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.control import CHECKPOINT_NOW, CONTROL, Control, steered, write_control
from gnnqlab.train.loop.trainer import worker_trainer
from tests.cases import each
from tests.graphs import random_graph
from tests.ranks import run_ranks
from tests.run.folders import wait_for
from tests.slow_down import HANG_S


def control_of(folder):
    return json.loads((folder / CONTROL).read_text())


def test_changes_add_up_under_a_new_version(tmp_path):
    system = make_system("adaqp")
    assert write_control(tmp_path, system, {"lam": np.float64(0.25)}) == 1
    assert write_control(tmp_path, system, {"bit_widths": (2, 8), "period": np.int64(7)}) == 2
    assert control_of(tmp_path) == {"version": 2, "settings": {"lam": 0.25, "bit_widths": [2, 8], "period": 7}}
    assert [path.name for path in tmp_path.iterdir()] == [CONTROL]


@each(
    ("system", "changes", "error", "text"),
    [
        ("adaqp", {"lam": 1.5}, ValueError, r"lam must lie in \[0, 1\], got 1.5"),
        ("adaqp", {"lam": "high"}, TypeError, r"lam must be a number, got 'high'"),
        ("adaqp", {"period": 0}, ValueError, "period must be at least 1 epoch, got 0"),
        ("adaqp", {"period": 2.5}, TypeError, "period must be a whole number, got 2.5"),
        (
            "adaqp",
            {"bit_widths": (2, 3)},
            ValueError,
            "bits must be widths that the codec can write: Stochastic writes",
        ),
        (
            "adaqp",
            {"bits": 4},
            ValueError,
            r"\['bit_widths', 'group_size', 'lam', 'period'\] can change, got \['bits'\]",
        ),
        ("fixed-bits", {"bits": 3}, ValueError, "bits must be widths that the codec can write: Stochastic writes"),
        ("fixed-bits", {"lam": 0.5}, ValueError, r"while system 'fixed-bits' trains, \['bits'\] can change"),
        ("vanilla", {"bits": 8}, ValueError, "system 'vanilla' has no setting that can change while it trains"),
        ("adaqp", {}, ValueError, "control needs at least one setting to change, got none"),
    ],
)
def test_bad_changes_are_refused_and_the_file_stays(tmp_path, system, changes, error, text):
    if system == "adaqp":
        write_control(tmp_path, make_system(system), {"lam": 0.1})
    with pytest.raises(error, match=text):
        write_control(tmp_path, make_system(system), changes)
    if system == "adaqp":
        assert control_of(tmp_path) == {"version": 1, "settings": {"lam": 0.1}}


class Remembers(Adaptive):
    name = "remembers"

    def __init__(self):
        self.settings = []

    def steer(self, settings, *, version):
        self.settings.append(settings)


def test_invalid_control_file_is_reported_and_changes_no_settings(tmp_path):
    policy = Remembers()
    control = Control(tmp_path, 0, make_system("adaqp"), distributed=False).register_callbacks({"bits": [policy]})
    assert not control.has_update()
    for text in ("{", '{"version": 1}', '{"version": 1, "settings": {"lam": 7}}', '{"version": 1, "settings": [1]}'):
        (tmp_path / CONTROL).unlink(missing_ok=True)
        (tmp_path / CONTROL).write_text(text)
        os.utime(tmp_path / CONTROL, ns=(time.time_ns(), time.time_ns()))
        assert not control.has_update() and policy.settings == []
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert {event["event"] for event in events} == {"control refused"} and len(events) == 4
    assert "lam must lie in [0, 1], got 7" in events[2]["cause"]
    (tmp_path / CONTROL).unlink()
    write_control(tmp_path, make_system("adaqp"), {"lam": 0.9})
    assert control.has_update()
    control.share_updates(epoch=4)
    assert policy.settings == [steered(make_system("adaqp"), {"lam": 0.9}).bits] and control.version == 1
    assert not control.has_update()


def test_checkpoint_can_be_requested_by_a_file(tmp_path):
    policy = Remembers()
    control = Control(tmp_path, 0, make_system("vanilla"), distributed=False).register_callbacks({"bits": [policy]})
    (tmp_path / CHECKPOINT_NOW).touch()
    assert control.has_update() and not control.checkpoint_now
    control.share_updates(epoch=0)
    assert control.checkpoint_now and policy.settings == [] and control.version == 0


def steered_training(rank, workers, graph, owner, folder, name, changes, at):
    """Train 8 epochs; before epoch ``at``, rank 0 changes settings. Return losses and sent bytes by epoch."""
    shard = build_shard(graph, owner, rank, workers)
    system = make_system(name)
    control = Control(folder, rank, system, distributed=True)
    model = ModelSettings(layers=2, hidden=16, dropout=0.0)
    trainer = worker_trainer(shard, system, model, TrainSettings(), control=control)
    losses, sent = [], []
    for epoch in range(8):
        if epoch == at and rank == 0:
            write_control(folder, system, changes)
        losses.append(trainer.epoch(epoch))
        sent.append(sum(channel.bytes_payload for channel in trainer.exchange.channels))
    trainer.close()
    return losses, np.diff(sent, prepend=0).tolist()


def test_all_ranks_change_a_fixed_width_at_the_same_epoch(tmp_path):
    graph = random_graph(nodes=80, edges=300, seed=3)
    owner = Random(seed=1).assign(graph, 3)
    results = run_ranks(steered_training, 3, graph, owner, tmp_path, "fixed-bits", {"bits": 8}, 3)
    plain = run_ranks(steered_training, 3, graph, owner, tmp_path / "none", "fixed-bits", {}, None)
    for (losses, sent), (plain_losses, plain_sent) in zip(results, plain, strict=True):
        assert losses[:4] == plain_losses[:4]  # until the change, bit for bit
        assert losses[4:] != plain_losses[4:]
        assert losses == results[0][0]
        assert sent[:4] == plain_sent[:4]
        assert sent[4:] == [4 * before for before in plain_sent[4:]]  # 8 bits instead of 2; 16 columns need no padding


def told(run):
    return [event for event in run.events if event["event"] == "control"]


def test_launched_run_applies_and_records_new_settings(tmp_path):
    # λ = 1 gives time no weight: before the change, rows that vary have 8 bits, however slow the link is.
    settings = {"system": "adaqp", "lam": 1.0, "epochs": 20_000, "evaluate_every": 0, "hidden": 16}
    with gq.launch("digits", **settings, out=tmp_path) as run:
        wait_for(run, lambda: run.epoch >= 5, what="the fifth epoch")
        assert run.control(lam=0.0, bit_widths=(2,), period=1000) == 1
        with pytest.raises(ValueError, match=r"lam must lie in \[0, 1\], got 2"):
            run.control(lam=2)
        wait_for(run, lambda: told(run), what="the new settings")
        changed = told(run)[0]["epoch"]
        wait_for(run, lambda: run.epoch >= changed + 5, what="the epochs after the change")
        run.stop(timeout=HANG_S)
    [change] = told(run)
    assert change["version"] == 1 and change["settings"] == {"lam": 0.0, "bit_widths": [2], "period": 1000}
    traffic = run.traffic
    # measured after the epoch before ``changed``, solved during it, in force after it, on both workers
    after = traffic[(traffic.epoch > changed) & (traffic.epoch < changed + 4)]
    assert set(after.bits) == {2} and set(after.receiver) == {0, 1}
    before = traffic[traffic.epoch == changed]
    assert 8 in set(before.bits)
    assert run.status == "stopped"
    with pytest.raises(RuntimeError, match="must be training to change its settings, got status stopped"):
        run.control(lam=0.5)
    losses = run.records.groupby("epoch").loss.nunique()
    assert (losses == 1).all()
