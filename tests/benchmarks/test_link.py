"""The table of systems over a link: its arithmetic on made-up runs, and one real measurement."""

from __future__ import annotations

import dataclasses

import pandas as pd
import pytest

from benchmarks.engine.link_run import LinkMeasurement, wire_itself, wire_share
from benchmarks.studies.link import _Table, over_link
from gnnqlab.cli import main

VANILLA = LinkMeasurement(
    epoch_s=4.0, comm_s=3.0, quant_s=0.04, compute_s=1.0, assign_s=0.0, bytes_sent=100, wire=1.05, label="x", score=0.9,
    wire_itself=1.1,
)  # fmt: skip


def table(**ours: float) -> dict[str, dict[str, object]]:
    adaqp = dataclasses.replace(VANILLA, **ours)
    found = {"computation alone": [VANILLA], "vanilla": [VANILLA], "adaqp": [adaqp]}
    rows = _Table("made up", 1, found).rows()
    return {f"{row['figure']} / {row['rival']}": row for row in rows}


def test_rows_mark_reached_and_missed_goals() -> None:
    good = table(epoch_s=1.2, comm_s=0.2, quant_s=0.05, assign_s=0.005, bytes_sent=10)
    assert {name: (round(float(row["ratio"] or 0), 2), row["reached"]) for name, row in good.items()} == {
        "communication share of Vanilla / ": (0.0, None),
        "vanilla: epoch, median / computation alone": (0.25, None),
        "vanilla: wire time over bytes by rate / at most": (1.05, True),
        "adaqp: epoch, median / vanilla": (3.33, True),
        "adaqp: epoch, median / computation alone": (0.83, True),
        "adaqp: exposed communication / vanilla": (15.0, True),
        "adaqp: bytes an epoch / vanilla": (10.0, None),
        "adaqp: encode + decode, share of the epoch / at most": (1.2, True),
        "adaqp: wire time over bytes by rate / at most": (1.05, True),
        "adaqp: of it from a sender's post, its receiver there / at most": (1.0, None),
        "adaqp: assignment, share of wall-clock / at most": (1.2, True),
    }
    bad = table(epoch_s=2.0, comm_s=0.6, quant_s=0.11, assign_s=0.011, wire=1.2)
    reached = [row["reached"] for name, row in bad.items() if name.startswith("adaqp")]
    assert reached == [False] * 3 + [None] + [False] * 2 + [None, False]


def test_wire_time_is_compared_with_bytes_by_rate_between_hosts() -> None:
    # Rank 1 posts 0.1 s late: rank 0 waits that much longer than the wire took, rank 1 that much shorter.
    rows = [
        {"epoch": epoch, "layer": 0, "direction": "forward", "sender": sender, "receiver": 1 - sender, "bits": bits}
        | {"payload_bytes": size, "param_bytes": 0, "seconds": 0.52 + (0.1 if sender == 1 else -0.1)}
        for epoch in range(3)
        for sender in range(2)
        for bits, size in ((2, 20_000), (8, 30_000))
    ]
    assert wire_share(pd.DataFrame(rows), 1e5, workers=2, hosts=2) == pytest.approx(1.04)
    assert wire_share(pd.DataFrame(rows), None, workers=2, hosts=2) != pytest.approx(1.04)  # not a number


def test_the_wire_itself_is_timed_where_a_receiver_was_there() -> None:
    # Rank 1 posts 0.3 s late: its message takes 0.52 s; the message to it may have arrived before.
    place = {"layer": 0, "direction": "forward", "round": 0}
    sizes = [
        place
        | {"epoch": epoch, "sender": sender, "receiver": 1 - sender, "payload_bytes": 49_000, "param_bytes": 1_000}
        for epoch in range(2)
        for sender in range(2)
    ]
    parts = [
        place | {"epoch": 1, "rank": rank, "what": what, "peer": peer, "start_s": start_s, "end_s": end_s}
        for rank, what, peer, start_s, end_s in [
            (0, "post", -1, 2.0, 2.01), (1, "post", -1, 2.3, 2.31),
            (0, "transfer", 1, 2.0, 2.82), (1, "transfer", 0, 2.3, 2.6),
        ]
    ]  # fmt: skip
    timeline, traffic = pd.DataFrame(parts), pd.DataFrame(sizes)
    assert wire_itself(timeline, traffic, 1e5, workers=2, hosts=2) == pytest.approx(1.04)
    assert wire_itself(timeline, traffic, None, workers=2, hosts=2) != pytest.approx(1.04)  # not a number


def test_an_exchange_ends_with_its_last_message() -> None:
    rows = [
        {"epoch": epoch, "layer": 0, "direction": "forward", "sender": sender, "receiver": 1 - sender, "bits": bits}
        | {"payload_bytes": size, "param_bytes": 0, "seconds": seconds}
        for epoch in range(2)
        for sender in range(2)
        for bits, size, seconds in ((2, 20_000, 0.2), (8, 30_000, 0.5))
    ]
    assert wire_share(pd.DataFrame(rows), 1e5, workers=2, hosts=2) == pytest.approx(1.0)


def test_two_workers_of_a_host_share_its_link_and_need_none_between_them() -> None:
    rows = [
        {"epoch": 1, "layer": 0, "direction": "forward", "sender": sender, "receiver": receiver, "bits": 32}
        | {"payload_bytes": 10_000, "param_bytes": 0, "seconds": 0.4 if sender // 2 != receiver // 2 else 9.0}
        for sender in range(4)
        for receiver in range(4)
        if sender != receiver
    ]
    first = [{**row, "epoch": 0} for row in rows]
    # Each host sends four messages of 10 000 bytes at 100 000 bytes per second.
    assert wire_share(pd.DataFrame(first + rows), 1e5, workers=4, hosts=2) == pytest.approx(1.0)


def test_numbers_of_workers_are_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["bench", "epoch", "--link", "1gbit", "--workers", "two"])
    assert end.value.code == 2
    assert "workers must be whole numbers separated by commas, got 'two'" in capsys.readouterr().err


def test_all_systems_are_measured_over_one_link() -> None:
    names = ("vanilla", "adaqp in bfloat16", "pipegcn")
    rows = over_link(1, link="200mbit", workers=(2,), graph="digits", models=("gcn",), contestants=names, epochs=4)
    assert {row["case"].split(", ")[0] for row in rows} == {"gcn"}
    assert "200mbit" in rows[0]["case"]
    assert {row["figure"].split(":")[0] for row in rows[1:]} == set(names)
    fewer = {row["figure"]: row["ratio"] for row in rows}
    assert fewer["adaqp in bfloat16: bytes an epoch"] > 2  # 8 bits instead of 32 at most, and two parameters per row
