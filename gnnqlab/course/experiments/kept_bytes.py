"""What a forward pass keeps for its backward pass, in bytes by purpose, read off autograd's graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from gnnqlab.compute import Products
    from gnnqlab.graph import Graph
    from gnnqlab.nn import ModelSettings

__all__ = ["PURPOSES", "by_purpose", "kept_of"]

PURPOSES = {
    "inputs of products": ("AffineBackward", "LinearBackward", "ConvolveBackward", "MmBackward0", "AddmmBackward0"),
    "attention": ("AttendBackward", "_AttendBackward"),
    "norms": ("LayerNormBackward", "NativeLayerNormBackward0", "_NodewiseBackward"),
    "activations": ("RectifierBackward", "ReluBackward0"),
}
"""Purpose -> the nodes of autograd's graph that keep for it; what others keep is ``others``."""


def by_purpose(graph: Graph, shape: ModelSettings, products: Products) -> dict[str, int]:
    """Return the bytes that one training pass of a model keeps, each storage once, of the first purpose that has it.

    Parameters, raw features and the indices of the graph are left out: they are there anyway.
    """
    from gnnqlab.nn import LocalGraph, build_model
    from gnnqlab.train.loop.node_labels import label_objective

    model = build_model(shape, graph.num_features, graph.num_classes, seed=0)
    local = LocalGraph(graph, products=products)
    if not getattr(model, "takes_sparse_input", False):
        local.densify_features()
    loss = label_objective(graph).loss(model(local.at(0, training=True), local.features))
    held: list[Any] = [*model.parameters(), local.ids, graph.labels, local.features]
    return kept_of(loss, [each for each in held if hasattr(each, "untyped_storage")])


def kept_of(loss: Tensor, held: list[Tensor]) -> dict[str, int]:
    """Return the bytes by purpose that autograd keeps behind a loss, but for the storages of ``held``."""
    known = {tensor.untyped_storage().data_ptr() for tensor in held}
    found = dict.fromkeys((*PURPOSES, "others"), 0)
    for node in _nodes(loss.grad_fn):
        purpose = next((each for each, names in PURPOSES.items() if node.name() in names), "others")
        for tensor in _tensors(node):
            storage = tensor.untyped_storage()
            if storage.nbytes() and storage.data_ptr() not in known:
                known.add(storage.data_ptr())
                found[purpose] += storage.nbytes()
    return found


def _nodes(root: Any) -> Iterator[Any]:
    """All nodes behind one, nearest first."""
    waiting, seen = [root], {root}
    for node in waiting:
        yield node
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)


def _tensors(node: Any) -> Iterator[Tensor]:
    import torch

    kept = list(getattr(node, "saved_tensors", ()))
    kept += [getattr(node, name) for name in dir(node) if name.startswith("_saved_")]
    for each in kept:
        for tensor in each if isinstance(each, (list, tuple)) else (each,):
            if isinstance(tensor, torch.Tensor):
                yield tensor
