"""Names of links, and the link that a run folder records."""

from __future__ import annotations

from pathlib import Path

import pytest

from gnnqlab.train.link import HostTrafficCounter, Link, link_name, parse_link
from tests.cases import each


@each(
    ("link", "rate"),
    [("1gbit", 10**9), ("2.5Gbit", 2_500_000_000), ("100mbit", 10**8), ("8000kbit", 8_000_000), (" 10gbit ", 10**10)],
)
def test_a_link_is_read(link: str, rate: int) -> None:
    assert parse_link(link) == rate


@each("link", ["", "fast", "1gb", "1gbps", "-1gbit", "1 000mbit", "1e9", "gbit", "1gbit/s"])
def test_a_link_that_cannot_be_read_is_refused(link: str) -> None:
    with pytest.raises(ValueError, match=f"link must be a number with kbit, mbit or gbit, got {link!r}; write '1gbit'"):
        parse_link(link)


@each("link", ["0gbit", "999kbit", "101gbit"])
def test_a_link_out_of_range_is_refused(link: str) -> None:
    with pytest.raises(ValueError, match=f"link must lie between 1mbit and 100gbit, got '{link}'"):
        parse_link(link)


@each("rate", [1e6, 1.5e6, 99.96e6, 181_764_000, 1e9, 2.5e9, 1e11])
def test_a_rate_has_a_name_that_is_read_back(rate: float) -> None:
    assert parse_link(link_name(rate)) == pytest.approx(rate, rel=5e-3)


@each(("rate", "name"), [(0.0, "1mbit"), (1e15, "100000mbit")])
def test_a_rate_out_of_range_is_brought_within(rate: float, name: str) -> None:
    assert link_name(rate) == name
    parse_link(name)


def test_a_link_is_read_back_from_the_run_folder(tmp_path: Path) -> None:
    assert Link.from_folder(tmp_path, 2).label == "loopback"
    assert Link.from_folder(tmp_path, 1).label == "none"
    link = Link(kind="emulated", hosts=2, name="182mbit", namespaces=("a", "b"), goodput=2.2e7)
    link.write(tmp_path)
    assert Link.from_folder(tmp_path, 4) == link
    assert link.label == "182mbit emulated, 2 hosts"
    assert link.bytes_per_s == 182e6 / 8
    (tmp_path / "link.json").write_text("{")
    assert Link.from_folder(tmp_path, 2) == Link()


def test_ranks_share_the_hosts_out_evenly() -> None:
    link = Link(kind="paced", hosts=3, name="1gbit")
    assert [link.host(rank, 6) for rank in range(6)] == [0, 0, 1, 1, 2, 2]
    assert [link.host(rank, 3) for rank in range(3)] == [0, 1, 2]


def test_only_the_first_worker_of_an_emulated_host_counts_bytes() -> None:
    link = Link(kind="emulated", hosts=2, name="1gbit")
    assert [HostTrafficCounter(link, rank, 4).take() is None for rank in range(4)] == [False, True, False, True]
    assert HostTrafficCounter(Link(), 0, 2).take() is None
