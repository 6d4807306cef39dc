"""The table of every system over a slow link: its arithmetic on made-up runs, what it refuses, and once for real."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from gnnqlab.bench.link_run import ALONE, Measured
from gnnqlab.bench.throughput import CONTESTANTS, throughput
from gnnqlab.bench.throughput import table as table_of

VANILLA = Measured(
    epoch_s=16.0, comm_s=15.0, quant_s=0.0, compute_s=1.0, assign_s=0.0, bytes_sent=2800, wire=1.0, label="x",
    score=0.9, link_s=14.0,
)  # fmt: skip


def table(name: str, **ours: Any) -> dict[str, tuple[float, bool | None]]:
    return table_with({name: dataclasses.replace(VANILLA, **ours)})


def table_with(contestants: dict[str, Measured]) -> dict[str, tuple[float, bool | None]]:
    found = {ALONE: [VANILLA], "vanilla": [VANILLA], **{name: [one] for name, one in contestants.items()}}
    rows = table_of("made up", found, wide=True)
    return {
        f"{row['figure']} / {row['rival']}": (round(row["ratio"] or 0, 2), row["reached"])
        for row in rows[2:]
        if "of it" not in row["figure"]
    }


def test_a_system_stands_beside_vanilla_computation_and_its_own_bytes() -> None:
    assert table("1-bit-pipelined", epoch_s=1.1, link_s=0.5, bytes_sent=100) == {
        "1-bit-pipelined: epoch / vanilla": (14.55, True),
        "1-bit-pipelined: epoch / bound: computation alone": (0.91, True),
        "1-bit-pipelined: epoch / computation alone": (0.91, True),
        "1-bit-pipelined: bytes an epoch / vanilla": (28.0, None),
    }
    assert table("1-bit-pipelined", epoch_s=2.0, link_s=1.8, bytes_sent=100) == {
        "1-bit-pipelined: epoch / vanilla": (8.0, False),
        "1-bit-pipelined: epoch / bound: its bytes by the rate": (0.9, True),
        "1-bit-pipelined: epoch / computation alone": (0.5, False),
        "1-bit-pipelined: bytes an epoch / vanilla": (28.0, None),
    }


def test_a_system_that_is_held_to_its_bound_says_where_its_epoch_goes() -> None:
    fast = dataclasses.replace(VANILLA, epoch_s=2.0, compute_s=1.5, quant_s=0.1, comm_s=0.3)
    rows = table_of("made up", {ALONE: [VANILLA], "vanilla": [VANILLA], "1-bit-pipelined": [fast]}, wide=True)
    parts = [(row["value"], row["ratio"]) for row in rows if "of it" in row["figure"]]
    assert parts == [(1.5, 0.75), (0.1, pytest.approx(0.05)), (0.3, pytest.approx(0.15))]


def test_a_system_that_decides_is_held_to_the_bound_of_each_epoch() -> None:
    # Half of its epochs send next to nothing, half take the link 3 s: medians would say 2 s of 2 s.
    got = table("sylvie", epoch_s=2.0, link_s=2.0, epochs_s=(1.2, 3.2, 1.2, 3.2), links_s=(0.1, 3.0, 0.1, 3.0))
    assert got["sylvie: epoch, mean / bound: the larger of computation and bytes, epoch by epoch"] == (0.91, True)
    assert got["sylvie: epoch, mean / vanilla"] == (7.27, None)


def test_goals_do_not_hang_on_the_order_of_systems() -> None:
    sylvie = dataclasses.replace(VANILLA, epochs_s=(4.0,), links_s=(3.0,), coordination=0.004)
    fast = dataclasses.replace(VANILLA, epoch_s=1.1, link_s=0.5)
    got = table_with({"sylvie": sylvie, "1-bit-pipelined": fast})
    assert got["1-bit-pipelined: epoch / vanilla"] == (14.55, True)
    assert got["sylvie: coordination + extraction, share of wall-clock / at most"] == (2.5, True)


def test_the_volume_of_one_bit_has_a_goal() -> None:
    assert table("1-bit", bytes_sent=100)["1-bit: bytes an epoch / vanilla"] == (28.0, True)
    assert table("1-bit", bytes_sent=140)["1-bit: bytes an epoch / vanilla"] == (20.0, False)


def test_unknown_names_are_refused_before_anything_is_trained() -> None:
    with pytest.raises(ValueError, match=r"models must be among .*'gcn'.*, got \['mlp'\]"):
        throughput(models=("mlp",))
    with pytest.raises(ValueError, match=r"systems must be among .*'sylvie'.*, got \['3-bit'\]"):
        throughput(systems=("3-bit",))


@pytest.mark.slow
def test_every_contestant_trains() -> None:
    rows = throughput(1, link="200mbit", graph="digits", models=("gcn",), epochs=4)
    names = [row["figure"].partition(": epoch")[0] for row in rows if row["rival"] == "vanilla"]
    assert {name for name in names if "bytes" not in name} == set(CONTESTANTS) - {"vanilla"}
    ratio = {row["figure"]: row["ratio"] for row in rows if "bytes an epoch" in row["figure"]}
    # 256 columns: 36 B of 1024 B a row; layer 0 has 64 and the last 10 columns, which cost relatively more
    assert ratio["1-bit: bytes an epoch"] > 15
    assert ratio["pipegcn: bytes an epoch"] == pytest.approx(1.0)
