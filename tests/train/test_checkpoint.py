"""Checkpoints: written completely or not at all, refused after a change, and resumed bit for bit."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import time
import warnings
from types import SimpleNamespace

import pandas as pd
import pytest
import torch

import gnnqlab as gq
from gnnqlab.errors import WorkerFailed
from gnnqlab.exchange.schedules.sequential import Sequential
from gnnqlab.run import folder as files
from gnnqlab.train.checkpoints.checkpoint import (
    Checkpoint,
    Checkpoints,
    newest_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from gnnqlab.train.checkpoints.model_file import read_model
from gnnqlab.train.checkpoints.state import BestEpoch, CheckpointManager, config_digest, former_digest, restore
from gnnqlab.train.heartbeat import Heartbeat
from gnnqlab.train.loop.learning_rate import LearningRate
from gnnqlab.train.loop.optimizers import make_optimizer
from gnnqlab.train.loop.parameters import FlatParameters
from gnnqlab.train.records.record import best_evaluation
from tests.cases import each
from tests.run.folders import run_folder, wait_for
from tests.slow_down import HANG_S, wait_until


def some(epoch=3):
    tensors = {
        "values": torch.arange(7.0),
        "steps": torch.tensor(5.0),
        "widths/0-forward-0-1": torch.tensor([2, 8, 4], dtype=torch.uint8),
        "pending/0-forward-0-1": torch.empty(0, dtype=torch.uint8),
        "cost/theta": torch.ones(2, 2, dtype=torch.float64),
    }
    return Checkpoint(epoch, tensors, {"adaptives": {"control": {"version": 0, "settings": {}}}, "time_s": 1.5})


def equal(one, other):
    return (
        (one.epoch, one.facts, list(one.tensors)) == (other.epoch, other.facts, list(other.tensors))
        and all(torch.equal(one.tensors[name], other.tensors[name]) for name in one.tensors)
        and all(one.tensors[name].dtype == other.tensors[name].dtype for name in one.tensors)
    )


def test_written_checkpoint_is_read_back_unchanged(tmp_path):
    write_checkpoint(tmp_path / "one", some())
    assert equal(read_checkpoint(tmp_path / "one"), some())
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_others_can_read_the_file(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    write_checkpoint(tmp_path / "one", some())
    theirs = safetensors.load_file(tmp_path / "one")
    assert all(torch.equal(theirs[name], tensor) for name, tensor in some().tensors.items())


def test_torn_and_changed_files_are_refused(tmp_path):
    write_checkpoint(tmp_path / "one", some())
    whole = (tmp_path / "one").read_bytes()
    draw = random.Random(0)
    for _ in range(300):
        broken = bytearray(whole)
        if draw.random() < 0.5:
            broken = broken[: draw.randrange(len(whole))]
        for _ in range(draw.randrange(1, 4)):
            if broken:
                broken[draw.randrange(len(broken))] ^= 1 << draw.randrange(8)
        (tmp_path / "broken").write_bytes(broken)
        try:
            read = read_checkpoint(tmp_path / "broken")
        except ValueError as error:
            rules = "be complete|be as gnnqlab wrote it|have the layout of safetensors|have the format of gnnqlab"
            assert re.match(f"a checkpoint must ({rules}), got", str(error))
        else:  # a flipped bit in a name, or in the text of the facts, does not damage the tensors
            assert set(map(tuple, (t.shape for t in read.tensors.values()))) == {(7,), (), (3,), (0,), (2, 2)}


def test_newest_intact_checkpoint_is_used_and_two_are_retained(tmp_path, capsys):
    keeper = Checkpoints(tmp_path)
    for epoch in (2, 4, 6):
        state = some(epoch)
        assert keeper.save(epoch, state.tensors, state.facts) is None
    assert keeper.finish() is None
    files = sorted((tmp_path / "checkpoints").iterdir())
    assert [path.name for path in files] == ["epoch-000004.safetensors", "epoch-000006.safetensors"]
    assert newest_checkpoint(tmp_path).epoch == 6
    files[1].write_bytes(files[1].read_bytes()[:-1])
    assert newest_checkpoint(tmp_path).epoch == 4
    assert "using the one before" in capsys.readouterr().out
    assert newest_checkpoint(tmp_path / "nowhere") is None


def test_a_checkpoint_of_an_earlier_version_is_refused_not_passed_over(tmp_path):
    keeper = Checkpoints(tmp_path)
    keeper.save(4, {"values": torch.zeros(3)}, {})
    keeper.finish()
    (path,) = (tmp_path / "checkpoints").iterdir()
    path.write_bytes(path.read_bytes().replace(b"gnnqlab checkpoint 2", b"gnnqlab checkpoint 1"))
    with pytest.raises(RuntimeError, match="must have the format 'gnnqlab checkpoint 2', got 'gnnqlab checkpoint 1'"):
        newest_checkpoint(tmp_path)


def test_checkpoint_copies_the_state_before_training_continues(tmp_path):
    keeper, values = Checkpoints(tmp_path), torch.zeros(1 << 20)
    keeper.save(1, {"values": values}, {})
    values.fill_(1.0)
    keeper.finish()
    assert not newest_checkpoint(tmp_path).tensors["values"].any()


def test_failed_checkpoint_is_reported_by_finish_and_raised_by_write(tmp_path):
    (tmp_path / "checkpoints").write_text("in the way")
    keeper = Checkpoints(tmp_path)
    assert keeper.save(1, {"values": torch.zeros(3)}, {}) is None
    assert keeper.finish().startswith("checkpoint failed: ")
    with pytest.raises(OSError):
        write_checkpoint(tmp_path / "nowhere" / "one", some())


WRITER = """
import sys, torch
from pathlib import Path
from gnnqlab.train.checkpoints.checkpoint import Checkpoints
keeper = Checkpoints(Path(sys.argv[1]))
print("ready", flush=True)
for epoch in range(1, 100000):
    keeper.save(epoch, {"values": torch.full((200_000,), float(epoch))}, {})
"""


def test_a_kill_at_any_moment_leaves_a_whole_checkpoint(tmp_path):
    draw = random.Random(1)
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE)
    writer.stdout.readline()
    wait_until(lambda: newest_checkpoint(tmp_path) or writer.poll() is not None, what="the first checkpoint")
    time.sleep(0.2 + 0.2 * draw.random())
    writer.kill()
    writer.wait()
    writer.stdout.close()
    found = newest_checkpoint(tmp_path)
    assert found is not None and (found.tensors["values"] == found.epoch).all()


SETTINGS = {"epochs": 12, "hidden": 16, "layers": 2, "checkpoint_every": 4, "workers": 2}
# One early assignment; later ones would be solved with newly measured times.
ADAQP = {"system": "adaqp", "period": 100, "group_size": 20}


def final(run, epoch=12):
    return read_checkpoint(run.folder / "checkpoints" / f"epoch-{epoch:06d}.safetensors")


def test_killed_run_resumes_bit_for_bit(tmp_path, monkeypatch):
    settings = {"system": "fixed-bits", "gradients": "bfloat16"}
    straight = gq.launch("digits", **SETTINGS, **settings, out=tmp_path, wait=True)
    monkeypatch.setenv("GNNQLAB_FAULT", json.dumps({"kind": "kill", "rank": 1, "phase": "wait", "epoch": 10}))
    killed = gq.launch("digits", **SETTINGS, **settings, out=tmp_path)
    with pytest.raises(WorkerFailed, match="rank 1 was killed"):
        killed.wait()
    monkeypatch.delenv("GNNQLAB_FAULT")
    resumed = gq.resume(killed, wait=True)
    assert resumed.id != killed.id and resumed.status == "finished"
    told = next(event for event in resumed.events if event["event"] == "resumed")
    # After 8 epochs, or after 4 if the last checkpoint was not yet complete.
    assert told["of"] == killed.id and told["epoch"] == newest_checkpoint(killed.folder).epoch in (4, 8)
    assert equal_but_time(final(straight), final(resumed))
    graph, logits = gq.load("digits"), resumed.predict()
    right = (logits.argmax(1) == graph.labels)[graph.test_mask].double().mean()
    assert torch.equal(logits, straight.predict()) and abs(right - resumed.summary["test_accuracy"]) < 1e-6
    with pytest.raises(RuntimeError, match=r"got failed run .* or resume it from its checkpoint with gq\.resume"):
        killed.model()
    columns = ["epoch", "rank", "loss", "val_score", "test_score", "bytes_payload", "bytes_params"]
    assert straight.records[columns].equals(resumed.records[columns])
    assert (resumed.records.groupby("rank").time_s.diff().dropna() > 0).all()


def equal_but_time(one, other):
    one.facts.pop("time_s"), other.facts.pop("time_s")
    return equal(one, other)


def test_resumed_run_continues_pending_and_active_assignments(tmp_path):
    # Measured after epoch 1, in force from epoch 3: after 2 epochs the assignment is pending. 8 bits, the first
    # bit-width, is left out: with the measured speed of the links it may be the best everywhere.
    settings = {**SETTINGS, **ADAQP, "bit_widths": (2, 4), "epochs": 2, "checkpoint_every": 2}
    first = gq.launch("digits", **settings, out=tmp_path, wait=True)
    before = read_checkpoint(first.folder / "checkpoints" / "epoch-000002.safetensors")
    chosen = {name: rows for name, rows in before.tensors.items() if name.startswith("assignment/pending/")}
    assert chosen and not any(name.startswith("assignment/widths/") for name in before.tensors)
    one = gq.resume(first, epochs=8, wait=True)
    two = gq.resume(one, epochs=12, wait=True)  # from epoch 8, with the assignment in force
    bits = two.traffic.groupby("epoch").bits.unique()
    assert set(bits[2]) == {8} and set(bits[3]) != {8} and set(bits[11]) == set(bits[3])
    assert set(two.assignments.from_epoch) == {3} and two.assignments.equals(one.assignments)
    after = final(two).tensors
    assert all(torch.equal(after[name.replace("pending", "widths")], rows) for name, rows in chosen.items())
    again = gq.resume(first, epochs=12, wait=True)
    assert equal_but_time(final(two), final(again))


def test_decisions_go_on_too(tmp_path):
    # Rates depend on measured seconds, so few epochs may lead to no decision; so many lead to several.
    settings = {**SETTINGS, "system": "sylvie", "delta": 1, "epochs": 40}
    first = gq.launch("digits", **settings, out=tmp_path, wait=True)
    kept = final(first, 40).facts["adaptives"]
    descent = kept["descent"]
    losses = first.records[first.records["rank"] == 0]["loss"].tolist()
    running = losses[0]
    for loss in losses[1:]:
        running = 0.9 * running + (1 - 0.9) * loss
    assert descent["loss"] == running and len(descent["falls"]) == 2 and descent["epoch_s"] > 0
    resumed = gq.resume(first, epochs=48, wait=True)
    decided = first.decisions
    assert len(decided) and decided.equals(resumed.decisions.iloc[: len(decided)])
    assert (resumed.decisions["epoch"].iloc[len(decided) :] > 40).all()
    assert kept["base-width"] == {"base": last_base(decided)}
    after = final(resumed, 48).facts["adaptives"]["descent"]
    for loss in resumed.records[resumed.records["rank"] == 0]["loss"].tolist()[40:]:
        running = 0.9 * running + (1 - 0.9) * loss
    assert after["loss"] == running


def test_first_epoch_after_a_checkpoint_has_the_bit_widths_chosen_before_it(tmp_path):
    # Each epoch has messages of its own only if all rows are fresh.
    system = gq.systems.sylvie(delta=1).replace(schedule=Sequential())
    first = gq.launch("digits", **SETTINGS | {"system": system, "epochs": 40}, out=tmp_path, wait=True)
    base = last_base(first.decisions)
    assert final(first, 40).facts["adaptives"]["base-width"] == {"base": base}
    resumed = gq.resume(first, epochs=42, wait=True)
    assert resumed.traffic.groupby("epoch")["bits"].min()[40] == base


def last_base(decisions):
    return [1, *(int(what.split()[-1]) for what in decisions["what"] if what.startswith("base width"))][-1]


def test_resume_with_other_workers_continues_the_same_training(tmp_path):
    settings = {"hidden": 8, "workers": 2, "epochs": 4, "checkpoint_every": 4}
    first = gq.launch("sbm:60,3,6", **settings, out=tmp_path, wait=True)
    same = gq.resume(first, epochs=6, wait=True)
    with pytest.warns(UserWarning, match=rf"run {first.id} was trained by 2 worker\(s\) and continues with 1: weights"):
        alone = first.resume(workers=1, epochs=6)
    alone.wait()
    assert alone.records[["epoch", "rank"]].values.tolist() == [[4, 0], [5, 0]]
    told = next(event for event in alone.events if event["event"] == "resumed")
    assert told["text"].endswith("its records before epoch 4 stay in its own folder")
    losses = same.records[same.records["rank"] == 0]["loss"].tolist()[4:]
    assert alone.records["loss"].tolist() == pytest.approx(losses, rel=1e-5)  # sums in another order
    assert final(alone, 6).facts["workers"] == 1


def test_state_of_rows_starts_again_with_other_workers():
    loaded = []

    def callback(name):
        return SimpleNamespace(load=lambda facts, tensors: loaded.append(name))

    model = torch.nn.Linear(1, 1)  # a weight and a bias
    parameters = FlatParameters(model)
    optimizer = make_optimizer(parameters, learning_rate=LearningRate(0.1, epochs=1))
    parts = {"model": model, "parameters": parameters, "optimizer": optimizer, "embeddings": None}
    names = ("rate", "rows", "only-here")
    trainer = SimpleNamespace(distributed=False, adaptives={n: callback(n) for n in names}, **parts)
    tensors = {"values": torch.ones(2), "average": torch.ones(2), "square": torch.ones(2), "steps": torch.ones(())}
    facts = {"adaptives": {"rate": {}, "rows": {}, "only-there": {}}, "of_rows": ["rows"]}
    assert restore(trainer, Checkpoint(3, tensors, facts), same_workers=False)[0] == 3
    assert loaded == ["rate"] and parameters.values.tolist() == [1, 1]


def test_resume_with_other_workers_needs_a_checkpoint_that_names_them(tmp_path):
    with pytest.raises(ValueError, match="a checkpoint must name its number of workers to be resumed with another one"):
        gq.resume(ended(tmp_path, epoch=1), workers=2)


def test_a_stopped_run_has_a_checkpoint_of_its_last_epoch(tmp_path):
    settings = {**SETTINGS, "epochs": 30_000, "checkpoint_every": 20_000, "evaluate_every": 0}
    run = gq.launch("digits", system="vanilla", **settings, out=tmp_path)
    wait_for(run, lambda: run.status == "running" and run.epoch >= 3, what="the third epoch")
    reached = run.epoch
    run.stop(timeout=HANG_S)
    assert run.status == "stopped" and not (run.folder / "checkpoint-now").exists()
    assert reached < newest_checkpoint(run.folder).epoch <= run.records.epoch.max() + 1


def ended(root, epoch=None, **settings):
    """Return the folder of a run that has ended, without training it."""
    config = gq.configure("digits", epochs=2, hidden=16, workers=1, **settings)
    run = run_folder(root, files.new_id("made"), config)
    if epoch is not None:
        (run.folder / "checkpoints").mkdir()
        facts = {"config": config_digest(config)}
        write_checkpoint(run.folder / "checkpoints" / f"epoch-{epoch:06d}.safetensors", Checkpoint(epoch, {}, facts))
    return run


def test_resume_of_an_unsuitable_run_raises_an_error(tmp_path):
    with pytest.raises(ValueError, match="has no checkpoint to resume from; launch runs with checkpoint_every"):
        ended(tmp_path).resume()
    with pytest.raises(ValueError, match="has trained 2 epochs already, got epochs 2; pass a larger number"):
        gq.resume(ended(tmp_path, epoch=2))
    running = ended(tmp_path, epoch=2)
    files.write_json(running.folder / "status.json", {"state": "running", "epoch": 1, "errors": []})
    with pytest.raises(RuntimeError, match="must have ended to be resumed, got status starting|running"):
        gq.resume(running, epochs=4)


def test_resume_of_a_multi_machine_run_warns_that_it_uses_one_machine(tmp_path, monkeypatch):
    monkeypatch.setattr("gnnqlab.launch.continuation.launch", lambda config, **settings: "launched")
    old = ended(tmp_path, epoch=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gq.resume(old, epochs=4) == "launched"
    files.write_json(old.folder / "status-node1.json", {"state": "finished", "epoch": 1, "errors": []})
    with pytest.warns(
        UserWarning, match="trained on 2 machines and resumes on this machine only, with all its 1 workers"
    ):
        gq.resume(old, epochs=4)


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    config = gq.configure("digits", hidden=16, workers=1)
    longer = gq.configure("digits", hidden=16, workers=1, epochs=9, checkpoint_every=3)
    assert config_digest(config) == config_digest(longer)
    other = ended(tmp_path, epoch=1, lr=0.5)
    with pytest.raises(RuntimeError, match="a checkpoint must have the configuration of its run"):
        keeper_of(other, config).resume()


@each(("system", "digest"), [("vanilla", "1a2808b327d0e58a246c7fb1"), ("adaqp", "0c2e7df13137fd36e0d0ab2f")])
def test_a_checkpoint_of_a_version_with_former_names_belongs_to_its_run(system, digest):
    # Written by version 0.9 for this configuration.
    assert former_digest(gq.configure("digits", system=system, hidden=16, workers=2)) == digest


@each(
    ("scores", "best_epoch"),
    [({0: 0.2, 2: 0.7, 4: 0.7, 6: 0.5}, 2), ({0: 0.5, 1: 0.6}, 1), ({0: None, 5: None}, 5), ({0: 0.0}, 0)],
)
def test_the_first_best_score_counts_and_without_scores_the_last_evaluation(scores, best_epoch):
    best = BestEpoch()
    for epoch, score in scores.items():
        best.update(epoch, score)
    assert best == BestEpoch(best_epoch, scores[best_epoch])
    frame = pd.DataFrame({"epoch": list(scores), "val_score": list(scores.values())}, dtype=float)
    assert best_evaluation(frame)["epoch"] == best_epoch


def keeper_of(run, config):
    trainer = SimpleNamespace(distributed=False)
    return CheckpointManager(
        run.folder, config, 0, trainer=trainer, control=None, heartbeat=Heartbeat(None), model_file=None, cut="this"
    )


def test_resume_on_another_partition_is_refused_only_with_per_row_state(tmp_path):
    settings = {"hidden": 8, "workers": 2, "epochs": 4, "checkpoint_every": 4}
    for system, of_rows in (({**ADAQP, "period": 2}, ["assignment"]), ({"system": "vanilla"}, [])):
        run = gq.launch("sbm:60,3,6", **settings, **system, out=tmp_path, wait=True)
        taken = final(run, 4)
        assert taken.facts["of_rows"] == of_rows
        best_epoch = {"epoch": 1, "score": 2.0}  # no later epoch is better
        elsewhere = Checkpoint(4, taken.tensors, {**taken.facts, "cut": "another", "best_model": best_epoch})
        write_checkpoint(run.folder / "checkpoints" / "epoch-000004.safetensors", elsewhere)
        if of_rows:
            with pytest.raises(
                WorkerFailed, match=r"per-row state \(assignment\) needs the partition that it was taken on"
            ):
                run.resume(epochs=6, wait=True)
        else:
            resumed = run.resume(epochs=6, wait=True)
            assert resumed.records["epoch"].max() == 5 and read_model(resumed.folder).epoch == 1


def test_checkpoint_without_stale_rows_is_resumed_with_a_note(tmp_path):
    settings = {"system": "pipegcn", "hidden": 8, "workers": 2, "epochs": 4, "checkpoint_every": 4}
    first = gq.launch("sbm:60,3,6", **settings, out=tmp_path, wait=True)
    complete = first.resume(epochs=6, wait=True)
    kept = final(first, 4)
    assert "stale-rows" in kept.facts["of_rows"]
    kept.facts["of_rows"].remove("stale-rows")
    del kept.facts["adaptives"]["stale-rows"]
    tensors = {name: tensor for name, tensor in kept.tensors.items() if not name.startswith("stale-rows/")}
    path = first.folder / "checkpoints" / "epoch-000004.safetensors"
    write_checkpoint(path, Checkpoint(kept.epoch, tensors, kept.facts))
    resumed = first.resume(epochs=6, wait=True)
    [note] = [event for event in resumed.events if event["event"] == "state started again"]
    assert note["epoch"] == 4 and "has no state of stale-rows, which starts again" in note["text"]
    assert not any(event["event"] == note["event"] for event in complete.events)
    assert resumed.records["loss"].notna().all() and not resumed.records["loss"].equals(complete.records["loss"])
