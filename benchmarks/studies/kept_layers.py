"""What each layer of every model keeps for the backward pass, by kind, and what making it again costs.

Matrices of nodes × hidden, of one process: under ``keep_for_backward="all"``, beside what ``"sums"`` keeps of the same;
then all layers together and seconds of an epoch, ``"sums"`` and ``"nothing"`` beside ``"all"`` of the same run.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.engine.rows import row

if TYPE_CHECKING:
    from gnnqlab.graph import Graph
    from gnnqlab.nn import ModelSettings

__all__ = ["kept_layers"]


def kept_layers(graph: Graph, shapes: list[ModelSettings], *, epochs: int = 5) -> list[dict[str, Any]]:
    """Return the rows of some models on one graph; seconds are the median of epochs that take turns."""
    from gnnqlab.compute.remade import KEEPS
    from gnnqlab.course.experiments.kept_by_layer import kept_by_layer, remade_seconds

    rows = []
    for shape in shapes:
        unit, matrix = "nodes x hidden", 4 * graph.num_nodes * shape.hidden
        kept = {keep: kept_by_layer(graph, shape, keep) for keep in KEEPS}
        for (layer, kind), count in kept["all"].items():
            case, less = f"{shape.name}, layer {layer}", kept["sums"].get((layer, kind), 0)
            rows.append(row(case, f"kept: {kind}", count / matrix, unit, "sums", less / matrix, None))
        whole = {keep: sum(found.values()) / matrix for keep, found in kept.items()}
        seconds = remade_seconds(graph, shape, epochs=epochs)
        spent = {keep: median(of) for keep, of in seconds.items()}
        for keep in KEEPS[1:]:
            case, range_ = f"{shape.name}, {keep}", f"{min(seconds[keep]):.3g} to {max(seconds[keep]):.3g} s"
            ratio = whole["all"] / whole[keep] if whole[keep] else None
            rows.append(row(case, "kept by all layers", whole[keep], unit, "all", whole["all"], ratio))
            ratio = spent["all"] / spent[keep]
            rows.append(row(case, "epoch", spent[keep], "s", "all", spent["all"], ratio, detail=f" ({range_})"))
    return rows
