"""The table of every system over a slow link: its arithmetic on made-up runs, its refusals, and a real measurement."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from benchmarks.engine.link_run import ALONE, LinkMeasurement
from benchmarks.studies.throughput import CONTESTANTS, UNLINKED, throughput
from benchmarks.studies.throughput import table as table_of
from gnnqlab.study import RunResult

VANILLA = LinkMeasurement(
    epoch_s=16.0, comm_s=15.0, quant_s=0.0, compute_s=1.0, assign_s=0.0, bytes_sent=2800, wire=1.0, label="x",
    score=0.9, link_s=14.0,
)  # fmt: skip


def table(name: str, **ours: Any) -> dict[str, tuple[float, bool | None]]:
    return table_with({name: dataclasses.replace(VANILLA, **ours)})


def table_with(contestants: dict[str, LinkMeasurement]) -> dict[str, tuple[float, bool | None]]:
    found = {ALONE: [VANILLA], "vanilla": [VANILLA], **{name: [one] for name, one in contestants.items()}}
    rows = table_of("made up", found, wide=True)
    return {
        f"{row['figure']} / {row['rival']}": (round(row["ratio"] or 0, 2), row["reached"])
        for row in rows[2:]
        if "of it" not in row["figure"]
    }


def test_system_is_compared_with_vanilla_computation_and_its_byte_bound() -> None:
    assert table("1-bit-pipelined", epoch_s=1.1, link_s=0.5, bytes_sent=100) == {
        "1-bit-pipelined: epoch, median / vanilla": (14.55, True),
        "1-bit-pipelined: epoch, median / bound: computation alone": (0.91, True),
        "1-bit-pipelined: epoch, median / computation alone": (0.91, True),
        "1-bit-pipelined: bytes an epoch / vanilla": (28.0, None),
    }
    assert table("1-bit-pipelined", epoch_s=2.0, link_s=1.8, bytes_sent=100) == {
        "1-bit-pipelined: epoch, median / vanilla": (8.0, False),
        "1-bit-pipelined: epoch, median / bound: its bytes by the rate": (0.9, True),
        "1-bit-pipelined: epoch, median / computation alone": (0.5, False),
        "1-bit-pipelined: bytes an epoch / vanilla": (28.0, None),
    }


def test_system_with_a_bound_has_rows_for_the_parts_of_its_epoch() -> None:
    fast = dataclasses.replace(VANILLA, epoch_s=2.0, compute_s=1.5, quant_s=0.1, comm_s=0.3)
    rows = table_of("made up", {ALONE: [VANILLA], "vanilla": [VANILLA], "1-bit-pipelined": [fast]}, wide=True)
    parts = [(row["value"], row["ratio"]) for row in rows if "of it" in row["figure"]]
    assert parts == [(1.5, 0.75), (0.1, pytest.approx(0.05)), (0.3, pytest.approx(0.15))]


def test_a_system_that_decides_is_held_to_the_bound_of_each_epoch() -> None:
    # Half of its epochs send almost nothing, half need 3 s of the link: medians would give 2 s of 2 s.
    got = table("sylvie+", epoch_s=2.0, link_s=2.0, epochs_s=(1.2, 3.2, 1.2, 3.2), links_s=(0.1, 3.0, 0.1, 3.0))
    assert got["sylvie+: epoch, mean / bound: the larger of computation and bytes, epoch by epoch"] == (0.91, True)
    assert got["sylvie+: epoch, mean / vanilla"] == (7.27, None)


def test_goals_do_not_hang_on_the_order_of_systems() -> None:
    sylvie = dataclasses.replace(VANILLA, epochs_s=(4.0,), links_s=(3.0,), coordination=0.004)
    fast = dataclasses.replace(VANILLA, epoch_s=1.1, link_s=0.5)
    got = table_with({"sylvie+": sylvie, "1-bit-pipelined": fast})
    assert got["1-bit-pipelined: epoch, median / vanilla"] == (14.55, True)
    assert got["sylvie+: coordination + extraction, share of wall-clock / at most"] == (2.5, True)


def test_the_volume_of_one_bit_has_a_goal() -> None:
    assert table("1-bit", bytes_sent=100)["1-bit: bytes an epoch / vanilla"] == (28.0, True)
    assert table("1-bit", bytes_sent=140)["1-bit: bytes an epoch / vanilla"] == (20.0, False)


@pytest.mark.slow
def test_contestants_of_every_kind_train() -> None:
    asked = ("1-bit", "1-bit-pipelined", "sylvie+", "pipegcn", "bns-gcn+")
    rows = throughput(1, link="200mbit", graph="digits", models=("gcn",), systems=asked, epochs=4)
    names = [row["figure"].partition(": epoch")[0] for row in rows if row["rival"] == "vanilla"]
    assert {name for name in names if "bytes" not in name} == set(asked)
    ratio = {row["figure"]: row["ratio"] for row in rows if "bytes an epoch" in row["figure"]}
    # 256 columns: 36 B of 1024 B per row; layer 0 has 64 and the last 10 columns, which cost relatively more
    assert ratio["1-bit: bytes an epoch"] > 15
    # Stored rows of receivers are sent before dropout, which is impossible for a projected row of the last layer.
    vanilla, before_dropout = (64 + 256 + 10) + (256 + 10), (64 + 256 + 256) + (256 + 256)
    assert ratio["pipegcn: bytes an epoch"] == pytest.approx(vanilla / before_dropout)


def test_adaptive_system_is_reported_from_its_timed_trainings() -> None:
    """Fast first epochs and slow later ones, and a score that both contributed to."""
    quick_then_slow = RunResult(
        score=0.88, bits=5.0, stale=0.4, epochs=8, epochs_s=(1.0,) * 4 + (3.0,) * 4,
        curve=((4, 4.0, 0.80), (8, 16.0, 0.90)), train_s=16.0,
    )  # fmt: skip
    alike = RunResult(score=0.89, bits=32.0, stale=0.0, epochs=8, curve=((4, 0.4, 0.85), (8, 0.8, 0.90)))
    vanilla = dataclasses.replace(VANILLA, epochs_s=(16.0, 16.0))
    sylvie = dataclasses.replace(VANILLA, epochs_s=(2.0,), links_s=(1.0,), training=quick_then_slow)
    unlinked = dataclasses.replace(VANILLA, training=alike)
    found = {ALONE: [VANILLA], "vanilla": [vanilla], UNLINKED: [unlinked], "sylvie+": [sylvie]}
    rows = {row["figure"]: row for row in table_of("made up", found, wide=True)}
    late = rows["sylvie+: epoch, mean of the last 4 of 8"]
    assert (late["value"], late["ratio"]) == (3.0, pytest.approx(16 / 3))
    assert rows["sylvie+: mean width of what travels"]["value"] == 5.0
    assert rows["sylvie+: epochs on rows of the epoch before"]["value"] == pytest.approx(40.0)
    assert (rows["sylvie+: test score"]["value"], rows["sylvie+: test score"]["rival_value"]) == (88.0, 89.0)
    there = rows["sylvie+: to 89.5 % on validation, 1 of 1 trainings"]
    assert (there["value"], there["rival_value"], there["ratio"]) == (16.0, 8 * 16.0, pytest.approx(8.0))


def test_every_contestant_can_be_made_and_only_those_with_a_plus_or_of_ours_have_short_gradients() -> None:
    for name, contestant in CONTESTANTS.items():
        contestant.system()
        published = name in ("vanilla", "sylvie", "pipegcn", "bns-gcn")
        assert contestant.settings == ({} if published else {"gradients": "bfloat16"})
        assert contestant.epoch_settings(8)["epochs"] >= (120 if contestant.is_adaptive else 8)
