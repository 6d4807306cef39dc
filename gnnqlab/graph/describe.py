"""Descriptions of a graph: a dictionary, one line, and a small table for notebooks."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from gnnqlab.cards import card
from gnnqlab.graph.arrays import GraphArrays
from gnnqlab.graph.features import SparseRows
from gnnqlab.graph.pictures import card_picture, data_address

__all__ = ["describe", "html_table", "one_line"]


_SHOWN_NAMES = 4


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
        "ids": "positions" if graph.ids is None else str(graph.ids.dtype),
        "class_names": None if graph.class_names is None else list(graph.class_names),
        "notes": list(graph.notes),
        "bytes": graph.nbytes,
        "content_hash": graph.content_hash,
    }


def one_line(graph: GraphArrays) -> str:
    """Format name and sizes in one line, for ``repr``."""
    train, val, test = (int(mask.sum()) for mask in (graph.train_mask, graph.val_mask, graph.test_mask))
    width = graph.num_edge_features
    attributes = {"weights": graph.edge_weights is not None, f"{width} features": width}
    edge_text = " and ".join(attribute for attribute, value in attributes.items() if value)
    edge_text = f" with {edge_text}" if edge_text else ""
    return (
        f"Graph({graph.name!r}, nodes={graph.num_nodes:,}, edges={graph.num_edges:,}{edge_text}, "
        f"features={graph.num_features}, {'targets' if graph.is_regression else 'classes'}={graph.num_classes}, "
        f"{_task(graph)}, "
        f"train/val/test={train:,}/{val:,}/{test:,})"
    )


def html_table(graph: GraphArrays) -> str:
    """Format a card with the main facts and a picture; errors are shown in the card, since display must not fail."""
    try:
        table = card(f"Graph {graph.name}", _facts(graph), align="right")
        picture, words, width = card_picture(graph)
        image = f'<img src="{data_address(picture)}" alt="{words}" width="{width}" style="image-rendering:pixelated">'
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in graph.notes)
        return f"{table}{f'<ul>{notes}</ul>' if notes else ''}<p>{image}<br>{words}</p>"
    except Exception as error:
        return f"<pre>Graph (cannot be described: {html.escape(f'{type(error).__name__}: {error}')})</pre>"


def _facts(graph: GraphArrays) -> dict[str, str]:
    """Return the facts shown on the card, a subset of ``describe()``."""
    facts = describe(graph)
    sets = " / ".join(f"{facts[name]:,}" for name in ("train", "val", "test"))
    attributes = {"weights": facts["edge_weights"], f"{facts['edge_features']} features": facts["edge_features"]}
    edges = [attribute for attribute, value in attributes.items() if value]
    kind = "targets" if graph.is_regression else "classes"
    features = f"{facts['features']:,}" + (", sparse" if facts["sparse_features"] else "")
    return {
        "nodes": f"{facts['nodes']:,}",
        f"edges{'' if facts['undirected'] else ', directed'}": f"{facts['edges']:,}",
        **({"per edge": " and ".join(edges)} if edges else {}),
        "mean degree": f"{facts['mean_degree']:,}",
        "features per node": features,
        **({kind: f"{facts['classes']:,}, {facts['task']}"} if facts["classes"] else {}),
        **({"class names": _first_names(graph.class_names)} if graph.class_names is not None else {}),
        **({"ids": _first_names(graph.ids[: _SHOWN_NAMES + 1].tolist())} if graph.ids is not None else {}),
        **({"train / val / test": sets} if facts["train"] else {}),
    }


def _first_names(names: Sequence[object]) -> str:
    return ", ".join(map(str, names[:_SHOWN_NAMES])) + (" …" if len(names) > _SHOWN_NAMES else "")


def _task(graph: GraphArrays) -> str:
    if graph.num_classes == 0:
        return "structure only"
    if graph.is_regression:
        return "regression"
    return "multi-label" if graph.multi_label else "single-label"
