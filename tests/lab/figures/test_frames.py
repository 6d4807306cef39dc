"""Data frames with numbers that can be checked by hand."""

import math

import pandas as pd
import pytest

from gnnqlab.lab.figures import frames
from gnnqlab.lab.training.comparison_table import comparison_frame
from tests.lab.synthetic import make_run


def test_by_epoch_counts_the_slowest_worker() -> None:
    run = make_run(workers=3, epochs=5)
    table = frames.by_epoch(run.records)
    slowest = run.records[run.records["rank"] == 2]["epoch_s"].cumsum().to_numpy()
    assert list(table["epoch"]) == [0, 1, 2, 3, 4]
    assert table["train_s"].iloc[-1] >= slowest[-1]
    assert table["val_score"].isna().tolist() == [False, True, False, True, False]


def test_phases_add_up_to_the_mean_epoch() -> None:
    records = make_run(epochs=10).records
    steady = records[records["epoch"] > 0]
    assert frames.phase_seconds(records).sum(axis=1).iloc[0] == pytest.approx(steady["epoch_s"].mean())
    per_worker = frames.phase_seconds(records, per_worker=True)
    assert per_worker.loc[1].sum() == pytest.approx(steady.loc[steady["rank"] == 1, "epoch_s"].mean())
    assert "assign_s" not in per_worker.columns, "a phase that took no time is left out"


def test_device_pairs_are_bytes_an_epoch() -> None:
    run = make_run(workers=3, epochs=4, bits=2)
    pairs = frames.device_pairs(run.traffic, workers=3)
    assert pairs.loc[0, 0] == 0
    assert pairs.loc[0, 1] == 4 * (1000 * 64 * 2 // 8 + 8000)
    assert pairs.to_numpy().sum() == run.summary["bytes_sent"]


def test_device_pairs_has_senders_as_rows_and_receivers_as_columns() -> None:
    lines = [(epoch, 0, 1, 70 * epoch, 7) for epoch in (0, 1)]
    traffic = pd.DataFrame(lines, columns=["epoch", "sender", "receiver", "payload_bytes", "param_bytes"])
    assert frames.device_pairs(traffic, workers=2).to_numpy().tolist() == [[0.0, 77.0], [0.0, 0.0]]


def test_a_tier_takes_as_long_as_its_slowest_messages() -> None:
    columns = "epoch layer direction round receiver tier rows payload_bytes param_bytes seconds".split()
    lines = [
        (epoch, layer, "forward", 0, receiver, tier, 5, 100, 10, seconds * epoch)
        for epoch in (0, 1, 3)  # the first epoch is left out; the mean of the others is twice the seconds here
        for layer, receiver, tier, seconds in [
            (0, 0, "inner", 0.5), (0, 0, "outer", 1.0), (0, 0, "outer", 2.0),
            (1, 0, "outer", 4.0), (1, 1, "outer", 5.0),
        ]
    ]  # fmt: skip
    traffic = pd.DataFrame(lines, columns=columns).astype({"tier": pd.CategoricalDtype(["inner", "outer"])})
    found = frames.by_tier(traffic)
    assert found.loc["inner"].tolist() == [5, 110, 2 * 0.5]
    assert found.loc["outer"].tolist() == [20, 440, 2 * (2.0 + 4.0)]
    assert frames.by_tier(traffic[:0])["bytes"].tolist() == [0, 0]


def test_device_pairs_of_one_worker_are_empty() -> None:
    run = make_run(workers=1, epochs=2)
    assert frames.device_pairs(run.traffic, workers=1).to_numpy().tolist() == [[0.0]]


def test_volume_is_split_into_payload_and_parameters() -> None:
    run = make_run(workers=2, epochs=4, bits=2)
    volume = frames.volume_per_epoch(run.records)
    assert volume == {"payload": 2 * 4 * 16_000, "parameters": 2 * 4 * 8_000}


def test_comparison_is_against_the_first_run() -> None:
    runs = [make_run(), make_run("fixed-bits", bits=2)]
    table = comparison_frame(runs)
    assert list(table.index) == ["vanilla", "fixed-bits"]
    assert table.loc["vanilla", "fewer_bytes"] == 1.0
    assert table.loc["fixed-bits", "fewer_bytes"] == pytest.approx(256_000 / 24_000)
    assert "accuracy" in table.columns


def test_comparison_survives_a_run_that_broke_off() -> None:
    broken = make_run("fixed-bits", bits=2)
    broken.summary = {"system": "fixed-bits"}
    table = comparison_frame([make_run(), broken])
    assert math.isnan(table.loc["fixed-bits", "speedup"])


def test_comparison_frame_without_runs_raises_value_error() -> None:
    with pytest.raises(ValueError, match="at least one run, got none"):
        comparison_frame([])
