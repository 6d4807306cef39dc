"""A graph in words: a dictionary, one line, a small table for notebooks."""

from __future__ import annotations

import html
from typing import Any

from gnnqlab.graph.arrays import GraphArrays
from gnnqlab.graph.features import SparseRows

__all__ = ["describe", "html_table", "one_line"]


def describe(graph: GraphArrays) -> dict[str, Any]:
    """See ``Graph.describe``."""
    return {
        "name": graph.name,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "undirected": graph.is_symmetric,
        "edge_weights": graph.edge_weights is not None,
        "edge_features": graph.num_edge_features,
        "mean_degree": round(graph.num_edges / graph.num_nodes, 2),
        "max_in_degree": int(graph.in_degrees.max()),
        "features": graph.num_features,
        "sparse_features": isinstance(graph.features, SparseRows),
        "classes": graph.num_classes,
        "task": _task(graph),
        "train": int(graph.train_mask.sum()),
        "val": int(graph.val_mask.sum()),
        "test": int(graph.test_mask.sum()),
        "bytes": graph.nbytes,
        "content_hash": graph.content_hash,
    }


def one_line(graph: GraphArrays) -> str:
    """The sizes, for ``repr``."""
    train, val, test = (int(mask.sum()) for mask in (graph.train_mask, graph.val_mask, graph.test_mask))
    width = graph.num_edge_features
    carried = {"weights": graph.edge_weights is not None, f"{width} features": width}
    weighted = " and ".join(what for what, there in carried.items() if there)
    weighted = f" with {weighted}" if weighted else ""
    return (
        f"Graph({graph.name!r}, nodes={graph.num_nodes:,}, edges={graph.num_edges:,}{weighted}, "
        f"features={graph.num_features}, classes={graph.num_classes}, {_task(graph)}, "
        f"train/val/test={train:,}/{val:,}/{test:,})"
    )


def html_table(graph: GraphArrays) -> str:
    """A small table; display must not fail, whatever the tensors hold by now."""
    try:
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(key.replace('_', ' '))}</th>"
            f"<td style='text-align:right'>{html.escape(_cell(value))}</td></tr>"
            for key, value in describe(graph).items()
            if key != "name"
        )
        return f"<table><caption>Graph <b>{html.escape(graph.name)}</b></caption>{cells}</table>"
    except Exception as error:
        return f"<pre>Graph (cannot be described: {html.escape(f'{type(error).__name__}: {error}')})</pre>"


def _task(graph: GraphArrays) -> str:
    if graph.num_classes == 0:
        return "structure only"
    return "multi-label" if graph.multi_label else "single-label"


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)
