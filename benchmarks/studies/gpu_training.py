"""Full-graph training on GPUs: epochs, memory and overlap of every system, on graphs of the shape of published ones.

The graphs are generated, and labelled as such: ``rmat`` at the size of ogbn-products, ``sbm`` at that of Reddit.
Partitions are random, so that the machine need not have METIS.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gnnqlab.exchange.timeline import Span
    from gnnqlab.run.run import Run

__all__ = ["SHAPES", "cases", "hidden_parts", "hidden_share", "overlap_rows", "shaped_graph", "train_row"]

SHAPES: dict[str, dict[str, Any]] = {
    "ogbn-products": {"kind": "rmat", "scale": 21, "degree": 59.0, "features": 100, "classes": 64},
    "reddit": {"kind": "sbm", "nodes": 232_965, "degree": 492.0, "features": 602, "classes": 41},
}
"""Published graph -> generated one of its size: 2.1 M nodes with 62 M sampled edges; 233 k nodes with 57 M."""

LAYERS, HIDDEN = 3, 256


def shaped_graph(name: str, size: float = 1.0) -> tuple[str, str]:
    """Generate a graph with the shape of a published one, store it in the cache, and return its path and label.

    Args:
        name: key of `SHAPES`.
        size: share of its nodes, at most 1; degrees do not change.
    """
    from gnnqlab.graph.generate import rmat, sbm
    from gnnqlab.train.shard_cache import cache_folder

    shape = SHAPES[name]
    label = f"{shape['kind']}, generated at the shape of {name}" + ("" if size == 1.0 else f", x {size:g}")
    path = cache_folder() / "graphs" / f"shape-{name}-{size:g}"
    if not path.exists():
        width = {"features": shape["features"]}
        if shape["kind"] == "rmat":
            scale = max(6, round(shape["scale"] + math.log2(size)))
            graph = rmat(scale, shape["degree"], classes=min(shape["classes"], 2 ** (scale - 2)), **width)
        else:
            nodes = max(200, round(shape["nodes"] * size))
            graph = sbm(nodes, shape["classes"], min(shape["degree"], nodes / 10), **width)
        graph.save(path)
    return str(path), label


def cases(graphs: Iterable[str], systems: Iterable[str], workers: Iterable[int], gpus: int) -> Iterator[dict[str, Any]]:
    """Yield the cases to train: workers share a GPU over Gloo, and have one GPU each over NCCL if there are enough.

    Example:
        >>> [(case["workers"], case["backend"]) for case in cases(["reddit"], ["vanilla"], [1, 2, 4], gpus=2)]
        [(1, 'gloo'), (2, 'gloo'), (2, 'nccl'), (4, 'gloo')]
    """
    numbers = list(workers)
    for graph in graphs:
        for number in numbers:
            for backend in ("gloo", "nccl") if 1 < number <= gpus else ("gloo",):
                for system in systems:
                    yield {"graph": graph, "system": system, "workers": number, "backend": backend}


def train_row(
    case: dict[str, Any], path: str, label: str, *, epochs: int, device: str, limit_s: float
) -> dict[str, Any]:
    """Train one case; return its row, or a row with the error if it failed."""
    run = _launched(case, path, epochs=epochs, device=device)
    try:
        run.wait(timeout=limit_s)
        row = _figures(run)
    except (RuntimeError, TimeoutError) as error:  # a failed system is a row as well
        run.stop()
        row = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
    return {**case, "graph": label, "device": device, **row}


def overlap_rows(case: dict[str, Any], path: str, label: str, *, device: str, limit_s: float) -> list[dict[str, Any]]:
    """Train a few epochs and return the seconds and hidden shares of each layer and direction."""
    run = _launched(case, path, epochs=4, device=device, timeline_every=1)
    run.wait(timeout=limit_s)
    rows = []
    for timeline in sorted(run.folder.glob("timeline-rank*.jsonl")):
        lines = [json.loads(line) for line in timeline.read_text().splitlines()]
        rows += [{**case, "graph": label, "device": device, **row} for row in hidden_parts(lines[-1])]
    return rows


def hidden_parts(line: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one row per layer and direction of one epoch in a worker's timeline."""
    from gnnqlab.exchange.timeline import Span

    spans = [Span(*entry) for entry in line["spans"]]
    places = dict.fromkeys((span.layer, span.direction) for span in spans)
    rows = []
    for place in places:
        place_spans = [span for span in spans if (span.layer, span.direction) == place]
        seconds: dict[str, float] = {}
        for span in place_spans:
            if span.what != "transfer":
                seconds[f"{span.what}_s"] = seconds.get(f"{span.what}_s", 0.0) + span.end - span.start
        rows.append(
            {
                "rank": line["rank"],
                "layer": place[0],
                "direction": place[1],
                **{name: round(value, 7) for name, value in seconds.items()},
                "transfer_s": round(
                    max((s.end - s.start for s in place_spans if s.what == "transfer"), default=0.0), 7
                ),
                "hidden_share": hidden_share(place_spans),
                "contended_s": round(_overlap_s(place_spans, ("encode", "decode"), ("central", "marginal")), 7),
            }
        )
    return rows


def hidden_share(spans: Iterable[Span]) -> float | None:
    """Return the share of the central computation that ran while a message was in transit; ``None`` without messages.

    Example:
        >>> from gnnqlab.exchange.timeline import Span
        >>> place = (0, "forward")
        >>> spans = [Span(*place, "central", -1, 1.0, 3.0), Span(*place, "transfer", 1, 0.0, 2.0)]
        >>> hidden_share(spans)
        0.5
    """
    span_list = list(spans)
    central_s = sum(span.end - span.start for span in span_list if span.what == "central")
    if central_s == 0.0 or all(span.what != "transfer" for span in span_list):
        return None
    return round(_overlap_s(span_list, ("central",), ("transfer",)) / central_s, 4)


def _overlap_s(spans: list[Span], parts: tuple[str, ...], other_parts: tuple[str, ...]) -> float:
    """Return the seconds of ``parts`` during which any of the others ran too."""
    total = 0.0
    for span in spans:
        if span.what in parts:
            cuts = sorted(
                (max(span.start, other_span.start), min(span.end, other_span.end))
                for other_span in spans
                if other_span.what in other_parts
            )
            sweep_end = span.start  # sweep over the sorted intersections, so that overlapping ones count once
            for start, end in cuts:
                total += max(0.0, end - max(start, sweep_end))
                sweep_end = max(sweep_end, end)
    return total


def _launched(case: dict[str, Any], path: str, *, epochs: int, device: str, **settings: Any) -> Run:
    from gnnqlab.launch import local
    from gnnqlab.partition.edge_cut import Random
    from gnnqlab.systems.registry import make_system
    from gnnqlab.train.config.configure import configure

    config = configure(
        path,
        system=replace(make_system(case["system"]), partition=Random()),
        workers=case["workers"],
        backend=case["backend"],
        device=device,
        epochs=epochs,
        layers=LAYERS,
        hidden=HIDDEN,
        evaluate_every=0,
        **settings,
    )
    return local.launch(config)


def _figures(run: Run) -> dict[str, Any]:
    """Read the workers' records without pandas, so that the machine need not have it."""
    records = [
        [json.loads(line) for line in path.read_text().splitlines()] for path in run.folder.glob("records-rank*.jsonl")
    ]
    epoch_seconds = [max(epoch["epoch_s"] for epoch in epochs) for epochs in zip(*records, strict=True)][2:]
    return {
        "epoch_s": statistics.median(epoch_seconds),
        "fastest_s": min(epoch_seconds),
        "memory_bytes": max(record[-1]["memory_bytes"] for record in records),
        "bytes_sent": sum(record[-1]["bytes_payload"] + record[-1]["bytes_params"] for record in records),
        "first_loss": records[0][0]["loss"],
        "final_loss": records[0][-1]["loss"],
        "epochs": len(records[0]),
    }
