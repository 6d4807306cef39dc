"""Vertex-cuts side by side: connections within and between two hosts, copies, balance, cost (CDFGNN Table 3)."""

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

__all__ = ["GRAPHS", "cuts", "means", "shown"]

GRAPHS = ("ego_twitter", "web:60000,20", "rmat:15,24", "rmat:16,16")
PER_HOST = (2, 4, 8)
HOSTS = 2
MET = "sum of outer rows if copies meet (beside apart)"
PLAIN, BY_HOST, OURS = "EBV γ=0", "EBV γ=0, masters by host", "EBV γ=0.1"
PAPER = {2: 0.149, 4: 0.248, 8: 0.424}
"""Workers on each of two hosts -> outer connections saved in CDFGNN's Table 3; 8: the mean of two graphs."""
GOALS = {None: 0.31, 4: 0.25}
"""Workers on each host -> what is to be saved, in the mean over the graphs; ``None``: over everything."""
MOST_IMBALANCE = 1.01


def cuts(graph: str | None = None, repeats: int = 1) -> list[dict[str, Any]]:
    """Cut graphs for two hosts with 2, 4 and 8 workers each, by every partitioner of edges.

    Args:
        graph: names or paths, separated by semicolons; by default `GRAPHS`, of which those that are not here are left
            out.
        repeats: cuts of each, of which the one with the least processor time counts.

    Returns:
        Rows as :func:`benchmarks.registry.measure` describes them. A figure of EBV has EBV with γ = 0 beside it;
        a ratio above 1 means fewer.
    """
    from gnnqlab.graph.sources import load

    rows: list[dict[str, Any]] = []
    saved: dict[str, dict[tuple[str, int], float]] = {}
    for name in graph.split(";") if graph else GRAPHS:
        path = find_graph(name) or (name if Path(name).exists() else None)
        if path is None:
            print(f"bench cuts: {name}.npz is not here, so its rows are left out", flush=True)
            continue
        whole = load(path)
        for per_host in PER_HOST:
            found, met = _measured(whole, per_host, repeats)
            plain = found[PLAIN][0]
            case = f"{Path(path).stem if path.endswith('.npz') else path}, {HOSTS} x {per_host}"
            for partitioner, (quality, seconds) in found.items():
                rows += _rows(case, partitioner, quality, plain, seconds)
                rows += _met(case, partitioner, quality, met[partitioner])
                saved.setdefault(partitioner, {})[case, per_host] = 1 - quality.most_outer / max(plain.most_outer, 1)
            same = found[BY_HOST][0].most_outer
            of_edges = saved.setdefault(f"{OURS} against γ=0 with masters by host", {})
            of_edges[case, per_host] = 1 - found[OURS][0].most_outer / max(same, 1)
            print(f"bench cuts: {case} done", flush=True)
    return rows + means({name: each for name, each in saved.items() if name.startswith(OURS)})


def means(saved: Mapping[str, Mapping[tuple[str, int], float]]) -> list[dict[str, Any]]:
    """Return what was saved in the mean, beside the goals and the paper's figures.

    Args:
        saved: partitioner -> (case, workers on each host) -> share of the outer connections.

    Example:
        >>> rows = means({"EBV γ=0.1": {("a", 2): 0.2, ("a", 4): 0.3, ("b", 4): 0.4}})
        >>> [(row["case"], round(row["value"], 1), row["reached"]) for row in rows]
        [('2 x 2, mean', 20.0, None), ('2 x 4, mean', 35.0, True), ('mean of all', 30.0, False)]
    """
    rows = []
    for name, each in saved.items():
        for per_host in (*PER_HOST, None):
            shares = [share for (_, number), share in each.items() if per_host in (number, None)]
            if not shares:
                continue
            mean, goal = statistics.fmean(shares), GOALS.get(per_host) if name == OURS else None
            paper = 0.3108 if per_host is None else PAPER[per_host]
            case = "mean of all" if per_host is None else f"{HOSTS} x {per_host}, mean"
            figure = f"{name}: fewer outer connections, worst graph {100 * min(shares):.1f} %"
            one = row(case, figure, 100 * mean, "%", "CDFGNN Table 3", 100 * paper, None)
            if goal is not None:
                one |= {"ratio": mean, "goal": goal, "reached": mean >= goal}
            rows.append(one)
    return rows


def _measured(graph: Any, per_host: int, repeats: int) -> tuple[dict[str, tuple[Any, float]], dict[str, Any]]:
    """Quality and processor seconds by the partitioner's name, and the rows of copies that meet on their hosts."""
    from gnnqlab.partition.connections import count_met
    from gnnqlab.partition.parts import partition

    found, met = {}, {}
    for name, partitioner in _partitioners().items():
        seconds = []
        for _ in range(max(repeats, 1)):
            start = time.process_time()
            parts = partition(graph, partitioner, hosts=HOSTS, per_host=per_host)
            seconds.append(time.process_time() - start)
        found[name] = (parts.quality, min(seconds))
        met[name] = count_met(_vertex_cut(parts), graph, per_host=per_host)
        if name == PLAIN:
            by_host = _masters_by_host(parts)
            found[BY_HOST] = (by_host.quality, min(seconds))
            met[BY_HOST] = count_met(_vertex_cut(by_host), graph, per_host=per_host)
    return found, met


def _masters_by_host(parts: Any) -> Any:
    """The same cut with its masters chosen as EBV with γ > 0 chooses them, to tell their part from the edges'."""
    import numpy as np
    import torch

    from gnnqlab.kernels.sparse.vertex_cut import choose_masters, empty_copies
    from gnnqlab.partition.connections import copies_of

    copies = empty_copies(parts.graph.num_nodes, parts.workers)
    node, worker = (each.numpy() for each in copies_of(parts.cut, parts.graph))
    np.bitwise_or.at(copies, (node, worker // 8), (1 << worker % 8).astype(np.uint8))
    owner = torch.from_numpy(choose_masters(copies, parts=parts.workers, hosts=HOSTS))
    return replace(parts, cut=replace(parts.cut, owner=owner))


def _vertex_cut(parts: Any) -> VertexCut:
    """The cut of parts that share edges out; every partitioner of this table does."""
    cut: VertexCut = parts.cut
    return cut


def _rows(case: str, name: str, quality: Any, plain: Any, seconds: float) -> list[dict[str, Any]]:
    """Table 3's columns of one cut, each beside plain EBV's."""

    def beside(figure: str, value: float, other: float) -> dict[str, Any]:
        return row(case, f"{name}: {figure}", value, "", PLAIN, other, other / value if value else None)

    balance = row(
        case, f"{name}: edge imbalance", quality.edge_imbalance, "", "limit", MOST_IMBALANCE,
        MOST_IMBALANCE / quality.edge_imbalance, 1.0 if name in (PLAIN, OURS) else None,
    )  # fmt: skip
    return [
        beside("outer connections, most of a worker", quality.most_outer, plain.most_outer),
        beside("inner connections, most of a worker", quality.most_inner, plain.most_inner),
        beside("replication factor", quality.replication, plain.replication),
        balance,
        row(case, f"{name}: cut and cost, processor time", seconds, "s", "", None, None),
    ]


def _met(case: str, name: str, quality: Any, met: Any) -> list[dict[str, Any]]:
    """Outer rows of a synchronisation where copies meet on their host, beside those of the same cut apart."""
    pairs = {"all workers": (met.outer, quality.outer), "most of a worker": (met.most_outer, quality.most_outer)}
    return [
        row(
            case,
            f"{name}: {'met' if of == 'all workers' else 'met, most'}, outer rows of {of}",
            here, "", "apart", apart, apart / here if here else None,
        )
        for of, (here, apart) in pairs.items()
    ]  # fmt: skip


def shown(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the table as a person reads it: a line for each cut, then the means."""
    lines: dict[tuple[str, str], dict[str, str]] = {}
    ends: list[dict[str, str]] = []
    words = {"outer": "outer", "inner": "inner", "replication": "RF", "edge": "edge imbalance", "cut": "seconds"}
    words |= {"met": MET}
    for each in rows:
        name, _, figure = each["figure"].partition(": ")
        if "mean" in each["case"]:
            said = {True: ", reached", False: ", NOT reached", None: ""}[each["reached"]]
            goal = f", goal {100 * each['goal']:.0f} %{said}" if each["goal"] else ""
            text = f"{each['value']:.1f} % ({figure}; paper {each['rival_value']:.1f} %{goal})"
            ends.append({"case": each["case"], "cut": name, "outer": text})
            continue
        if figure.startswith("met, most"):
            continue
        line = lines.setdefault((each["case"], name), {"case": each["case"], "cut": name})
        value, other = each["value"], each["rival_value"]
        word = words[figure.split()[0].strip(",")]
        change = (
            f" ({100 * (value / other - 1):+.1f} %)"
            if word == MET or (word in ("outer", "inner") and name != PLAIN)
            else ""
        )
        line[word] = f"{value:.4g}{change}" if isinstance(value, float) else f"{value:,}{change}"
    keys = ("case", "cut", *words.values())
    return [{key: line.get(key, "") for key in keys} for line in (*lines.values(), *ends)]


def _partitioners() -> dict[str, Any]:
    from gnnqlab.partition.dne import DNE
    from gnnqlab.partition.ebv import EBV
    from gnnqlab.partition.hep import HEP
    from gnnqlab.partition.streamed import HDRF, RandomEdges

    return {
        PLAIN: EBV(gamma=0.0),
        OURS: EBV(),
        "EBV γ=0.1 as printed": EBV(near="copies"),
        "HEP": HEP(),
        "DNE": DNE(),
        "HDRF": HDRF(),
        "random": RandomEdges(),
    }
