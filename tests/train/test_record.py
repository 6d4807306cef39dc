"""Records: cheap to append, readable while they grow, unharmed by a crash."""

from __future__ import annotations

import json

import gnnqlab as gq
from gnnqlab.train.record import RECORD_COLUMNS, JsonLines, read_records, read_traffic, summarize


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


def test_what_is_written_comes_back_in_order(tmp_path):
    for rank in (1, 0):
        write(tmp_path, rank, [record(epoch, rank) for epoch in range(3)])
    frame = read_records(tmp_path)
    assert list(frame.columns) == list(RECORD_COLUMNS)
    assert frame[["epoch", "rank"]].to_numpy().tolist() == [[e, r] for e in range(3) for r in (0, 1)]


def test_nothing_written_is_an_empty_frame(tmp_path):
    assert read_records(tmp_path).empty and read_traffic(tmp_path).empty


def test_torn_lines_are_skipped(tmp_path):
    write(tmp_path, 0, [record(0, 0), record(1, 0)])
    path = tmp_path / "records-rank0.jsonl"
    path.write_bytes(path.read_bytes()[:-40])
    assert read_records(tmp_path)["epoch"].tolist() == [0]


def test_scores_without_evaluation_are_nan(tmp_path):
    write(tmp_path, 0, [record(0, 0, train_score=None, val_score=None, test_score=None)])
    assert read_records(tmp_path)["val_score"].isna().all()


def test_traffic_rows_have_their_columns(tmp_path):
    lines = JsonLines(tmp_path / "traffic-rank1.jsonl")
    lines.write({"epoch": 4, "rows": [[0, "forward", 0, 1, 2, 10, 20, 80, 0.001]]})
    lines.close()
    row = read_traffic(tmp_path).iloc[0]
    assert (row.epoch, row.sender, row.receiver, row.bits, row.payload_bytes, row.param_bytes) == (4, 0, 1, 2, 20, 80)


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
    assert summary["test_accuracy"] == 0.8 and summary["best_val"] == 0.9  # the test score of the best validation
    assert summary["epoch_s"] == 0.2  # the slowest worker
    assert summary["bytes_sent"] == 220 and summary["peak_memory_bytes"] == 6
    contract = "run system model graph workers epochs best_val epoch_s comm_s comp_s quant_s assign_s bytes_sent "
    contract += "final_loss peak_memory_bytes link"
    assert set(contract.split()) <= set(summary)


def test_a_summary_of_a_run_that_just_began(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(gq.configure("digits").to_json()))
    assert summarize(tmp_path)["epochs"] == 0
