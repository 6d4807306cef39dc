"""Groups of the page of results, and the lines that each system has in several of them."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.summary.measures import Measure, Show

__all__ = ["FOUR_WORKERS", "SYSTEMS", "TWO_WORKERS", "SummaryTable", "Chart", "Group", "systems"]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Texts and reference value of the chart of a group."""

    title: str
    axis: str
    """Quantity and unit."""
    reference: float
    """Value of the vertical line."""
    of_goal: bool = False
    """Draw the ratio over its goal in place of the shown value, and the missed goals as a series of their own."""


@dataclass(frozen=True, kw_only=True)
class SummaryTable:
    """One table."""

    title: str
    text: str
    measures: tuple[Measure, ...]


@dataclass(frozen=True, kw_only=True)
class Group:
    """One section of the page, with one chart."""

    name: str
    title: str
    blocks: tuple[SummaryTable, ...]
    chart: Chart


SYSTEMS = {
    "random-bits": "Random bit-widths",
    "adaqp": "AdaQP",
    "pipegcn": "PipeGCN",
    "bns-gcn": "BNS-GCN",
    "sylvie": "SYLVIE",
    "cdfgnn": "CDFGNN",
}
"""Systems of the stored table ``systems`` and their names."""
_BLOCKS = {"cagnet": "CAGNET", "sancus, variation": "SANCUS", "sancus-q": "SANCUS, 8 bits", "cdfgnn": "CDFGNN"}
"""The same of the stored table ``broadcasts``."""
TWO_WORKERS = (
    "Three-layer GCN, two workers, 150 epochs, five seeds, "
    "on a link so slow that Vanilla spends 75 % of an epoch on communication."
)
FOUR_WORKERS = "Lines on four workers are a two-layer GCN on two hosts over 100 Mbit/s, 120 epochs, five seeds."


def systems(show: Show, unit: str = "") -> tuple[Measure, ...]:
    """Return a line for each system on two graphs, and for those that send whole blocks on one."""
    two_worker_measures = [
        Measure(
            text=f"{name}, `{graph}`", part="systems", case=f"{graph}, gcn, .*", contestant=system, show=show,
            unit=unit, series=f"{graph}, two workers", name=name,
        )
        for graph in ("cora", "pcg")
        for system, name in SYSTEMS.items()
    ]  # fmt: skip
    four_worker_measures = [
        Measure(
            text=f"{name}, `cora`, four workers", part="broadcasts", case="cora, gcn .*", contestant=system, metric="",
            show=show, unit=unit, series="cora, four workers on two hosts", name=name,
        )
        for system, name in _BLOCKS.items()
    ]  # fmt: skip
    return (*two_worker_measures, *four_worker_measures)
