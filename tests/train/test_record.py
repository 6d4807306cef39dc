"""Records: cheap to append, readable while they grow, and intact after a crash."""

from __future__ import annotations

import json

import gnnqlab as gq
from gnnqlab.train.loop.phase_timer import PARTS, PHASES
from gnnqlab.train.records.json_lines import JsonLines
from gnnqlab.train.records.record import (
    RECORD_COLUMNS,
    read_assignments,
    read_links,
    read_records,
    summarize,
)


def record(epoch, rank, **changes):
    values = dict.fromkeys(RECORD_COLUMNS, 0.0)
    values |= {"epoch": epoch, "rank": rank, "loss": 1.0 / (epoch + 1), "epoch_s": 0.1 * (rank + 1)}
    values |= {"bytes_payload": 100, "bytes_params": 10, "memory_bytes": 5 + rank, "wait_s": 0.02, "time_s": epoch}
    return {**values, **changes}


def write(folder, rank, records):
    lines = JsonLines(folder / f"records-rank{rank}.jsonl")
    for one in records:
        lines.write(one)
    lines.close()


def test_records_are_read_in_order_of_epoch_and_rank(tmp_path):
    for rank in (1, 0):
        write(tmp_path, rank, [record(epoch, rank) for epoch in range(3)])
    frame = read_records(tmp_path)
    assert list(frame.columns) == list(RECORD_COLUMNS)
    assert not frame["after_evaluation"].any()  # the folder does not name the system
    assert frame[["epoch", "rank"]].to_numpy().tolist() == [[e, r] for e in range(3) for r in (0, 1)]


def test_records_of_an_empty_folder_are_an_empty_frame(tmp_path):
    assert read_records(tmp_path).empty


def test_torn_lines_are_skipped(tmp_path):
    write(tmp_path, 0, [record(0, 0), record(1, 0)])
    path = tmp_path / "records-rank0.jsonl"
    path.write_bytes(path.read_bytes()[:-40])
    assert read_records(tmp_path)["epoch"].tolist() == [0]


def test_scores_without_evaluation_are_nan(tmp_path):
    write(tmp_path, 0, [record(0, 0, train_score=None, val_score=None, test_score=None)])
    assert read_records(tmp_path)["val_score"].isna().all()


def test_a_summary_has_the_fields_of_the_contract(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(gq.configure("digits").to_json()))
    scores = [(0.5, 0.6), (0.9, 0.8), (0.7, 0.95)]
    for rank in (0, 1):
        write(
            tmp_path,
            rank,
            [record(e, rank, train_score=1.0, val_score=v, test_score=t) for e, (v, t) in enumerate(scores)],
        )
    summary = summarize(tmp_path)
    # the test score of the epoch with the best validation score
    assert summary["test_accuracy"] == 0.8 and summary["best_val"] == 0.9
    assert summary["epoch_s"] == 0.2  # the slowest worker
    assert summary["bytes_sent"] == 220 and summary["peak_memory_bytes"] == 6
    contract = "run system model graph workers epochs best_val epoch_s comm_s comp_s quant_s assign_s bytes_sent "
    contract += "final_loss peak_memory_bytes link"
    assert set(contract.split()) <= set(summary)


def test_seconds_of_a_summary_are_those_of_its_phases(tmp_path):
    """Each phase takes a power of two, so that a sum identifies its phases; the first epoch includes the setup."""
    (tmp_path / "config.json").write_text(json.dumps(gq.configure("digits").to_json()))
    phases = ("wait", "reduce", "central", "marginal", "dense", "optimizer", "encode", "decode")
    seconds = {f"{phase}_s": 2.0**place for place, phase in enumerate(phases)}
    for rank in (0, 1):
        setting_up = record(0, rank, **dict.fromkeys(seconds, 1000.0))
        write(tmp_path, rank, [setting_up, *(record(epoch, rank, **seconds) for epoch in (1, 2, 3))])
    summary = summarize(tmp_path)
    assert (summary["comm_s"], summary["comp_s"], summary["quant_s"]) == (1 + 2, 4 + 8 + 16 + 32, 64 + 128)


def test_a_summary_leaves_the_first_epoch_out_but_not_of_the_whole_training(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(gq.configure("digits").to_json()))
    for rank in (0, 1):
        setting_up = record(0, rank, epoch_s=60.0, wait_s=50.0, bytes_payload=9000)
        write(tmp_path, rank, [setting_up, record(1, rank, epoch_s=2.0, wait_s=1.0)])
    summary = summarize(tmp_path)
    assert (summary["epoch_s"], summary["comm_s"], summary["bytes_payload"]) == (2.0, 1.0, 200)
    assert summary["train_s"] == 62.0


def test_a_summary_of_a_run_that_just_began(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(gq.configure("digits").to_json()))
    assert summarize(tmp_path)["epochs"] == 0


def assignment(epoch, **changes):
    problem = {"layer": 0, "direction": "forward", "rows": {"2": 5, "8": 1}, "variance": 1.0, "predicted_s": 0.1}
    link = {"sender": 0, "receiver": 1, "theta_s_per_byte": 1e-8, "gamma_s": 1e-4, "r_squared": 0.9, "transfers": 30}
    return {
        "epoch": epoch,
        "from_epoch": epoch + 2,
        "version": 0,
        "cpu_s": 0.05,
        "settings": {"lam": 0.5, "period": 5},
        "problems": [{**problem, "gap": 1e-6, "solve_s": 0.01}, {**problem, "layer": 1, "gap": 1e-5, "solve_s": 0.02}],
        "links": [link, {**link, "sender": 1, "receiver": 0, "r_squared": 0.7}],
        **changes,
    }


def test_assignments_come_back_by_problem_and_by_link(tmp_path):
    assert read_assignments(tmp_path).empty and read_links(tmp_path).empty
    lines = JsonLines(tmp_path / "assignments.jsonl")
    for epoch in (1, 4):
        lines.write(assignment(epoch))
    lines.close()
    frame, links = read_assignments(tmp_path), read_links(tmp_path)
    assert frame[["epoch", "from_epoch", "layer", "lam"]].to_numpy().tolist() == [
        [1, 3, 0, 0.5],
        [1, 3, 1, 0.5],
        [4, 6, 0, 0.5],
        [4, 6, 1, 0.5],
    ]
    assert links[["epoch", "sender", "receiver"]].to_numpy().tolist() == [[1, 0, 1], [1, 1, 0], [4, 0, 1], [4, 1, 0]]


def test_summary_contains_the_assignment_time_and_results(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(gq.configure("digits", system="adaqp").to_json()))
    for rank in (0, 1):
        write(tmp_path, rank, [record(e, rank, epoch_s=1.0, assign_s=0.08 if e == 1 else 0.0) for e in range(4)])
    lines = JsonLines(tmp_path / "assignments.jsonl")
    lines.write(assignment(1))
    lines.close()
    summary = summarize(tmp_path)
    assert summary["assign_s"] == 0.02 and summary["assign_share"] == 0.02
    assert (summary["assignments"], summary["gap"], summary["link_r_squared"]) == (1, 1e-5, 0.7)
    assert abs(summary["solve_s"] - 0.03) < 1e-12
    # No edge crosses the cut: nothing to assign.
    (tmp_path / "assignments.jsonl").write_text(json.dumps(assignment(1, problems=[], links=[])) + "\n")
    summary = summarize(tmp_path)
    assert (summary["solve_s"], summary["gap"], summary["link_r_squared"]) == (0, 0, None)


def test_phases_of_a_launched_run_add_up(tmp_path):
    run = gq.launch("digits", system="adaqp", epochs=8, period=3, hidden=32, out=tmp_path, wait=True)
    frame = run.records
    spare = frame[[f"{phase}_s" for phase in PHASES]].sum(axis=1) - frame.epoch_s - frame.evaluate_s
    assert (spare > -1e-5).all()  # the time between parts of the training
    assert frame.assign_s[frame.epoch.isin([1, 2, 3, 5, 6])].gt(0).all()
    assert (frame.epoch_s < frame.time_s.groupby(frame["rank"]).diff().fillna(frame.time_s) + 1e-4).all()
    for name in ("central_s", "encode_s", "decode_s", "wire_s", "reduce_s", "optimizer_s", "other_s"):
        assert frame[name].gt(0).all(), name
    parts = frame[[f"{part}_s" for part in PARTS["dense"]]]
    assert parts.gt(0).all(axis=None) and (parts.sum(axis=1) - frame.dense_s).abs().max() < 1e-6
    assert frame.loss.groupby(frame.epoch).nunique().eq(1).all() and frame.val_score.between(0, 1).all()
    traffic = run.traffic
    sent = traffic.groupby(["epoch", "sender"])[["payload_bytes", "param_bytes"]].sum()
    recorded = frame.set_index(["epoch", "rank"])[["bytes_payload", "bytes_params"]]
    assert (sent.to_numpy() == recorded.to_numpy()).all()
    assignments = run.assignments
    assert sorted(set(assignments.epoch)) == [1, 2, 5] and (assignments.gap >= 0).all()
    assert len(run.links) == 2 * 3


def test_numbers_stay_whole_and_null_scores_are_nan(tmp_path):
    line = {"epoch": 3, "rank": 1, "loss": 0.5, "val_score": None, "bytes_payload": 7}
    (tmp_path / "records-rank1.jsonl").write_text(json.dumps(line) + "\n" + json.dumps({**line, "epoch": 2}) + "\n")
    (tmp_path / "records-rank0.jsonl").write_text("")
    frame = read_records(tmp_path)
    assert frame["epoch"].tolist() == [2, 3] and frame["epoch"].dtype == frame["bytes_payload"].dtype == "int64"
    assert frame["val_score"].isna().all() and frame["val_score"].dtype == frame["wait_s"].dtype == "float64"
