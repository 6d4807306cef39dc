"""Comparison of vertex-cuts: connections within and between two hosts, replication, balance, time (CDFGNN Table 3)."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.engine.graphs import find_graph
from benchmarks.engine.rows import row

if TYPE_CHECKING:
    from gnnqlab.partition.vertex_cut import VertexCut

__all__ = ["GRAPHS", "cuts", "means", "format_rows"]

GRAPHS = ("ego_twitter", "web:60000,20", "rmat:15,24", "rmat:16,16")
PER_HOST = (2, 4, 8)
HOSTS = 2
OUTER, INNER = "outer connections, most of a worker", "inner connections, most of a worker"
COPIES, BALANCE, SECONDS = "replication factor", "edge imbalance", "cut and cost, processor time"
MET, MET_MOST = "met, outer rows of all workers", "met, most, outer rows of most of a worker"
FEWER = "fewer outer connections"
WORDS = {
    OUTER: "outer",
    INNER: "inner",
    COPIES: "RF",
    BALANCE: "edge imbalance",
    SECONDS: "seconds",
    MET: "sum of outer rows if copies meet (beside apart)",
}
"""Metric -> column of the printed table."""
PLAIN, BY_HOST, OURS = "EBV γ=0", "EBV γ=0, masters by host", "EBV γ=0.1"
PAPER = {2: 0.149, 4: 0.248, 8: 0.424}
"""Workers on each of two hosts -> inter-host connections saved in CDFGNN's Table 3; for 8 the mean of two graphs."""
GOALS = {None: 0.31, 4: 0.25}
"""Goal: workers on each host -> least mean share saved over the graphs; ``None``: over all cases."""
MAX_IMBALANCE = 1.01  # largest share of a worker's edges over the mean


def cuts(graph: str | None = None, repeats: int = 1) -> list[dict[str, Any]]:
    """Partition graphs for two hosts with 2, 4 and 8 workers each, with every vertex-cut.

    Args:
        graph: names or paths, separated by semicolons; by default `GRAPHS`, without missing ones.
        repeats: partitions of each, of which the one with the least processor time counts.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`. Metrics are compared with EBV with γ = 0; a ratio above 1 means
        fewer.
    """
    from gnnqlab.graph.sources import load

    rows: list[dict[str, Any]] = []
    shares: dict[str, dict[tuple[str, int], float]] = {}
    for name in graph.split(";") if graph else GRAPHS:
        path = find_graph(name) or (name if Path(name).exists() else None)
        if path is None:
            print(f"bench cuts: {name}.npz is missing, so its rows are omitted", flush=True)
            continue
        loaded_graph = load(path)
        for per_host in PER_HOST:
            results, met_counts = _measure(loaded_graph, per_host, repeats)
            rival = results[PLAIN][0]
            case = f"{Path(path).stem if path.endswith('.npz') else path}, {HOSTS} x {per_host}"
            for partitioner, (quality, seconds) in results.items():
                rows += _rows(case, partitioner, quality, rival, seconds)  # every cut is compared with plain EBV
                rows += _hierarchical_rows(case, partitioner, quality, met_counts[partitioner])
                # share of the busiest worker's inter-host rows saved
                shares.setdefault(partitioner, {})[case, per_host] = 1 - quality.most_outer / max(rival.most_outer, 1)
            # The same cut with masters by host separates the effect of the masters from that of the edges.
            host_outer = results[BY_HOST][0].most_outer
            edge_shares = shares.setdefault(f"{OURS} against γ=0 with masters by host", {})
            edge_shares[case, per_host] = 1 - results[OURS][0].most_outer / max(host_outer, 1)
            print(f"bench cuts: {case} done", flush=True)
    return rows + means({name: each for name, each in shares.items() if name.startswith(OURS)})


def means(saved: Mapping[str, Mapping[tuple[str, int], float]]) -> list[dict[str, Any]]:
    """Return the mean share of connections saved, with the goals and the paper's figures.

    Args:
        saved: partitioner -> (case, workers on each host) -> share of inter-host connections saved.

    Example:
        >>> rows = means({"EBV γ=0.1": {("a", 2): 0.2, ("a", 4): 0.3, ("b", 4): 0.4}})
        >>> [(row["case"], round(row["value"], 1), row["reached"]) for row in rows]
        [('2 x 2, mean', 20.0, None), ('2 x 4, mean', 35.0, True), ('mean of all', 30.0, False)]
    """
    rows = []
    for name, shares_by_case in saved.items():
        for per_host in (*PER_HOST, None):
            shares = [share for (_, number), share in shares_by_case.items() if per_host in (number, None)]
            if not shares:
                continue
            mean, goal = statistics.fmean(shares), GOALS.get(per_host) if name == OURS else None
            paper = 0.3108 if per_host is None else PAPER[per_host]  # mean of the paper's Table 3
            case = "mean of all" if per_host is None else f"{HOSTS} x {per_host}, mean"
            rival, detail = ("CDFGNN Table 3", 100 * paper, None), f", worst graph {100 * min(shares):.1f} %"
            mean_row = row(case, FEWER, 100 * mean, "%", *rival, contestant=name, detail=detail)
            if goal is not None:
                mean_row |= {"ratio": mean, "goal": goal, "reached": mean >= goal}
            rows.append(mean_row)
    return rows


def _measure(graph: Any, per_host: int, repeats: int) -> tuple[dict[str, tuple[Any, float]], dict[str, Any]]:
    """Return quality and processor seconds by partitioner, and rows sent with hierarchical aggregation."""
    from gnnqlab.partition.connections import count_aggregated_rows
    from gnnqlab.partition.parts import partition

    results, met_counts = {}, {}
    for name, partitioner in _partitioners().items():  # processor time: other load has little effect
        seconds = []
        for _ in range(max(repeats, 1)):
            start = time.process_time()
            parts = partition(graph, partitioner, hosts=HOSTS, per_host=per_host)
            seconds.append(time.process_time() - start)
        results[name] = (parts.quality, min(seconds))  # the fastest repeat
        met_counts[name] = count_aggregated_rows(_vertex_cut(parts), graph, per_host=per_host)
        if name == PLAIN:
            host_parts = _masters_by_host(parts)
            results[BY_HOST] = (host_parts.quality, min(seconds))
            met_counts[BY_HOST] = count_aggregated_rows(_vertex_cut(host_parts), graph, per_host=per_host)
    return results, met_counts


def _masters_by_host(parts: Any) -> Any:
    """Return the same cut with masters chosen as by EBV with γ > 0, to separate their effect from that of the edges."""
    import numpy as np
    import torch

    from gnnqlab.kernels.sparse.vertex_cut import choose_masters, empty_copies
    from gnnqlab.partition.connections import copies_of

    copies = empty_copies(parts.graph.num_nodes, parts.workers)
    node, worker = (each.numpy() for each in copies_of(parts.cut, parts.graph))  # (node, worker) of every copy
    # One bit per worker and node: set the bits of the workers that hold a copy.
    # bit (worker % 8) of byte (worker // 8)
    np.bitwise_or.at(copies, (node, worker // 8), (1 << worker % 8).astype(np.uint8))
    owner = torch.from_numpy(choose_masters(copies, parts=parts.workers, hosts=HOSTS))
    return replace(parts, cut=replace(parts.cut, owner=owner))


def _vertex_cut(parts: Any) -> VertexCut:
    """Return the vertex-cut of a partition; every partitioner of this table makes one."""
    cut: VertexCut = parts.cut
    return cut


def _rows(case: str, name: str, quality: Any, plain_quality: Any, seconds: float) -> list[dict[str, Any]]:
    """Return Table 3's columns of one cut, each compared with plain EBV's."""

    def compare_with_plain(figure: str, value: float, plain_value: float) -> dict[str, Any]:
        # above 1: fewer than plain EBV
        return row(case, figure, value, "", PLAIN, plain_value, plain_value / value if value else None, contestant=name)

    ratio, goal = MAX_IMBALANCE / quality.edge_imbalance, 1.0 if name in (PLAIN, OURS) else None
    return [
        compare_with_plain(OUTER, quality.most_outer, plain_quality.most_outer),
        compare_with_plain(INNER, quality.most_inner, plain_quality.most_inner),
        compare_with_plain(COPIES, quality.replication, plain_quality.replication),
        row(case, BALANCE, quality.edge_imbalance, "", "limit", MAX_IMBALANCE, ratio, goal, contestant=name),
        row(case, SECONDS, seconds, "s", "", None, None, contestant=name),
    ]


def _hierarchical_rows(case: str, name: str, quality: Any, met_counts: Any) -> list[dict[str, Any]]:
    """Compare inter-host rows of a synchronization with hierarchical aggregation with those without."""
    pairs = {MET: (met_counts.outer, quality.outer), MET_MOST: (met_counts.most_outer, quality.most_outer)}
    return [
        # rows without hierarchical aggregation over those with it
        row(case, metric, count, "", "apart", flat_count, flat_count / count if count else None, contestant=name)
        for metric, (count, flat_count) in pairs.items()
    ]


def format_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the table as formatted text: one line per cut, then the means."""
    lines: dict[tuple[str, str], dict[str, str]] = {}
    ends: list[dict[str, str]] = []
    for entry in rows:
        case, name, metric, value, rival_value = (
            entry[k] for k in ("case", "contestant", "metric", "value", "rival_value")
        )
        if metric == FEWER:
            result = {True: ", reached", False: ", NOT reached", None: ""}[entry["reached"]]
            goal = f", goal {100 * entry['goal']:.0f} %{result}" if entry["goal"] else ""
            figure = entry["figure"].removeprefix(f"{name}: ")
            text = f"{value:.1f} % ({figure}; paper {rival_value:.1f} %{goal})"
            ends.append({"case": case, "cut": name, "outer": text})
        elif metric in WORDS:
            # relative change, where the printed table has one
            change = metric == MET or (metric in (OUTER, INNER) and name != PLAIN)
            text = f"{value:.4g}" if isinstance(value, float) else f"{value:,}"
            line = lines.setdefault((case, name), {"case": case, "cut": name})
            line[WORDS[metric]] = text + (f" ({100 * (value / rival_value - 1):+.1f} %)" if change else "")
    keys = ("case", "cut", *WORDS.values())
    return [{key: line.get(key, "") for key in keys} for line in (*lines.values(), *ends)]


def _partitioners() -> dict[str, Any]:
    from gnnqlab.partition.dne import DNE
    from gnnqlab.partition.ebv import EBV
    from gnnqlab.partition.hep import HEP
    from gnnqlab.partition.streamed import HDRF, RandomEdges

    return {
        PLAIN: EBV(gamma=0.0),
        OURS: EBV(),
        "EBV γ=0.1 as printed": EBV(host_term="copies"),
        "HEP": HEP(),
        "DNE": DNE(),
        "HDRF": HDRF(),
        "random": RandomEdges(),
    }
