"""Memory of a training pass: bytes saved for backward by purpose, and live matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from gnnqlab.compute import Float32Products
from gnnqlab.former_names import former_functions
from gnnqlab.nn import LocalGraph, build_model
from gnnqlab.partition.parts import cut_graph
from gnnqlab.simulation.threaded_workers import ThreadedWorkers
from gnnqlab.systems import vanilla
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer
from gnnqlab.train.records.memory_tracker import counting

if TYPE_CHECKING:
    from torch import Tensor

    from gnnqlab.compute import Products
    from gnnqlab.compute.products import Compute
    from gnnqlab.graph import Graph
    from gnnqlab.nn import ModelSettings

__all__ = [
    "PURPOSES", "live_matrices", "live_matrices_of_pass", "on_each_worker", "saved_bytes_by_purpose",
    "saved_bytes_of_loss",
]  # fmt: skip
__getattr__ = former_functions(
    __name__,
    {"by_purpose": "saved_bytes_by_purpose", "kept_of": "saved_bytes_of_loss", "live_of": "live_matrices_of_pass"},
)

Measured = TypeVar("Measured")

PURPOSES = {
    "inputs of products": (
        "AffineBackward", "PackedAffineBackward", "LinearFunctionBackward", "ConvolveBackward", "MmBackward0",
        "AddmmBackward0",
    ),
    "attention": ("AttendBackward", "AttendFunctionBackward", "_AttendBackward"),
    "norms": ("LayerNormBackward", "NativeLayerNormBackward0", "_NodewiseBackward"),
    "activations": ("RectifierBackward", "ReluBackward0"),
}  # fmt: skip
"""Purpose -> names of the autograd nodes that save tensors for it; tensors of other nodes are ``others``."""


def saved_bytes_by_purpose(graph: Graph, shape: ModelSettings, products: Products) -> dict[str, int]:
    """Return the bytes that one training pass of a model saves for backward; each storage counts for its first purpose.

    Parameters, raw features and the indices of the graph do not count: they exist in any case.
    """
    model = build_model(shape, graph.num_features, graph.num_classes, seed=0)
    local_graph = LocalGraph(graph, products=products)
    if not getattr(model, "takes_sparse_input", False):  # sparse features stay sparse only for models that support them
        local_graph.densify_features()
    loss = label_objective(graph).loss(model(local_graph.open_pass(0, training=True), local_graph.features))
    held_tensors: list[Any] = [*model.parameters(), local_graph.ids, graph.labels, local_graph.features]
    # features may be sparse, without one storage
    return saved_bytes_of_loss(loss, [each for each in held_tensors if hasattr(each, "untyped_storage")])


def saved_bytes_of_loss(loss: Tensor, held: list[Tensor]) -> dict[str, int]:
    """Return the bytes by purpose that the autograd graph of a loss saves, without the storages of ``held``."""
    pointers = {tensor.untyped_storage().data_ptr() for tensor in held}  # storages that count already, or never
    sizes = dict.fromkeys((*PURPOSES, "others"), 0)  # bytes by purpose
    for node in _nodes(loss.grad_fn):
        purpose = next((each for each, names in PURPOSES.items() if node.name() in names), "others")
        for tensor in _tensors(node):
            storage = tensor.untyped_storage()
            if storage.nbytes() and storage.data_ptr() not in pointers:  # each storage once
                pointers.add(storage.data_ptr())
                sizes[purpose] += storage.nbytes()
    return sizes


def _nodes(root: Any) -> Iterator[Any]:
    """Yield all nodes of an autograd graph, breadth first."""
    queue, visited_nodes = [root], {root}  # a list that grows while it is iterated
    for node in queue:
        yield node
        for next_node, _ in node.next_functions:
            if next_node is not None and next_node not in visited_nodes:
                visited_nodes.add(next_node)
                queue.append(next_node)


def _tensors(node: Any) -> Iterator[Tensor]:
    attributes = list(getattr(node, "saved_tensors", ()))  # of custom functions
    attributes += [getattr(node, name) for name in dir(node) if name.startswith("_saved_")]  # of built-in ones
    for value in attributes:
        for tensor in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(tensor, torch.Tensor):
                yield tensor


def live_matrices(
    graph: Graph, shape: ModelSettings, keep: str = "none", *, workers: int = 1, compute: Compute | None = None
) -> float:
    """Return the live bytes at the peak of an epoch of Vanilla, in units of a float32 matrix of nodes × hidden.

    Weights, adjacency, features and labels do not count, as they exist before. The unit is for a worker's own nodes;
    halo rows and messages count as fractions of it. With several workers the result is the largest.

    Args:
        graph: its number of features should be ``hidden``, because aggregations of the first layer have that dimension.
        shape: settings of the model.
        keep: ``TrainSettings.recompute``.
        workers: threads of this process.
        compute: precision of the products; by default float32.

    Raises:
        ValueError: if a setting is invalid.

    Example:
        >>> from gnnqlab.graph.generate import sbm
        >>> from gnnqlab.nn import ModelSettings
        >>> graph, shape = sbm(400, 4, 6, features=16), ModelSettings(layers=3, hidden=16)
        >>> live_matrices(graph, shape, "full") < live_matrices(graph, shape, "none")
        True
    """

    def measure(trainer: Trainer) -> float:
        return live_matrices_of_pass(trainer, shape.hidden)

    return max(on_each_worker(measure, graph, shape, keep, workers=workers, compute=compute, warm_up=True))


def on_each_worker(
    measure: Callable[[Trainer], Measured],
    graph: Graph,
    shape: ModelSettings,
    keep: str,
    *,
    workers: int,
    compute: Compute | None,
    warm_up: bool = False,
) -> list[Measured]:
    """Return a measurement of the trainer of each worker of Vanilla.

    Args:
        measure: function of a trainer; with several workers each calls it in a thread of its own.
        graph, shape, keep, workers, compute: as for :func:`live_matrices`.
        warm_up: True to train an epoch before, which allocates optimizer state and buffers.
    """
    compute, settings = compute or Float32Products(), TrainSettings(recompute=keep)
    if workers == 1:
        network = build_model(shape, graph.num_features, graph.num_classes, seed=0)
        trainer = Trainer(LocalGraph(graph, products=compute.build()), label_objective(graph), network, settings)
        if warm_up:
            trainer.epoch(0)
        return [measure(trainer)]
    system = replace(vanilla(), compute=compute)
    cut = cut_graph(graph, system.partition, workers)
    # Threads run the same code as launched workers, so buffers of the exchange count as well.
    threads = ThreadedWorkers(graph, cut, system, shape, settings, as_launched=True)
    if warm_up:
        threads.step(0)
    return threads.run(measure)


def live_matrices_of_pass(trainer: Trainer, hidden: int) -> float:
    """Return the same for the next pass of one trainer, without a weight update."""
    stack, ledger = counting(trainer)
    # Subtract what exists before the pass, so that only tensors of the pass count.
    static_bytes = sum(ledger.live[purpose] for purpose in ("weights", "adjacency", "rows"))
    with stack:  # forward and backward pass
        trainer.gradients(1)
    # bytes over those of one float32 matrix (nodes, hidden)
    return (sum(ledger.at_peak.values()) - static_bytes) / (4 * trainer.graph.ids.numel() * hidden)
