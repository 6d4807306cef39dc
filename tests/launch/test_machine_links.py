"""Links between machines: every pair is measured once, and slow ones are named."""

from __future__ import annotations

import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from gnnqlab.launch import Run
from gnnqlab.launch.machine_links import measure_machine_links, pairings, warnings_of
from gnnqlab.run import folder as files
from gnnqlab.run.machine_links import FILE, read_machine_links
from tests.launch.conftest import Bench
from tests.launch.test_cluster import in_namespaces, machines, namespaces
from tests.ranks import run_ranks
from tests.slow_down import HANG_S

__all__ = ["namespaces"]

FACTS = {"host": "n", "interface": "eth0", "rate_bit": 10e9, "fastest": "eth0", "fastest_rate_bit": 10e9}
FACTS |= {"kernels": "native avx2"}
LINK = {"machines": [0, 1], "bit_per_s": 8e9, "latency_s": 1e-4, "clock_s": 0.0}


@pytest.mark.parametrize("count", range(1, 10))
def test_every_two_machines_meet_once_and_no_machine_twice_in_a_round(count: int) -> None:
    rounds = list(pairings(count))
    pairs = [pair for pairs in rounds for pair in pairs]
    assert sorted(pairs) == [(i, j) for i in range(count) for j in range(i + 1, count)]
    assert all(len({node for pair in pairs for node in pair}) == 2 * len(pairs) for pairs in rounds)


@pytest.mark.parametrize(
    ("facts", "link", "text"),
    [
        ({}, {}, None),
        ({"rate_bit": None}, {"bit_per_s": 1e6}, None),
        ({"rate_bit": 1e9}, {}, "machine 1 (n) uses interface eth0 of 1 Gbit/s and has eth0 of 10 Gbit/s"),
        ({"interface": "lo", "rate_bit": None}, {}, "machine 1 (n) uses interface lo and has eth0 of 10 Gbit/s"),
        ({}, {"bit_per_s": 9e8}, "the link between machines 0 and 1 reached 900 Mbit/s of 10 Gbit/s; check cable"),
        ({"rate_bit": 100e9, "fastest_rate_bit": 100e9}, {"bit_per_s": 2e9}, None),
        ({"kernels": "reference"}, {}, "different kernels: native avx2 on machine 0, reference on machine 1"),
        ({}, {"clock_s": -7.2}, "the clocks of machines 0 and 1 differ by 7.2 s"),
    ],
)
def test_each_trouble_has_a_warning(facts: dict[str, Any], link: dict[str, Any], text: str | None) -> None:
    found = warnings_of([FACTS, FACTS | facts], [LINK | link])
    assert len(found) == (text is not None) and all(str(text) in each for each in found)


def _measured(rank: int, workers: int, per_machine: int) -> dict[str, Any]:
    return asdict(measure_machine_links(is_first_on_machine=rank % per_machine == 0))


@pytest.mark.parametrize(("ranks", "per_machine"), [(2, 1), (3, 1), (4, 2)])
def test_all_ranks_get_every_link(ranks: int, per_machine: int, tmp_path: Path) -> None:
    first, *others = run_ranks(_measured, ranks, per_machine)
    assert all(each == first for each in others)
    count = ranks // per_machine
    assert sorted(link["machines"] for link in first["links"]) == [
        [i, j] for i in range(count) for j in range(i + 1, count)
    ]
    assert all(link["bit_per_s"] > 0 and 0 < link["latency_s"] and abs(link["clock_s"]) < 1 for link in first["links"])
    files.write_json(tmp_path / FILE, first)
    read = read_machine_links(tmp_path)
    assert read is not None and asdict(read) == first and read.slowest in first["links"]
    assert str(read).startswith("machines ") and read_machine_links(tmp_path / "none") is None


def test_throttled_link_is_named_in_the_run(bench: Bench, namespaces: tuple[str, str]) -> None:
    for number, name in enumerate(namespaces):
        shape = ["tc", "qdisc", "add", "dev", f"wire{number}", "root", "tbf", "rate", "40mbit", "burst", "32kb"]
        throttled = subprocess.run(["ip", "netns", "exec", name, *shape, "latency", "50ms"], capture_output=True)
        if throttled.returncode != 0:
            pytest.skip(f"this machine cannot slow down a link: {throttled.stderr.decode().strip()}")
    with machines(in_namespaces(bench, namespaces)) as started:
        assert [machine.wait(timeout=HANG_S) for machine in started] == [0, 0]
    run = Run(bench.root / "runs" / "both")
    assert run.machines is not None
    [link] = run.machines.links
    # A burst of 32 kB passes at once; the rest of the megabyte cannot be faster than the rate.
    assert link["bit_per_s"] < 45e6, link
    [warning] = run.machines.warnings
    assert "the link between machines 0 and 1 reached " in warning and " of 10 Gbit/s" in warning
    assert warning in [event.get("text") for event in run.events if event["event"] == "slow link"]
