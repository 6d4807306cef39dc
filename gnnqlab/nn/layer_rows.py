"""Which rows the layers of a model take: its own way of representing nodes, layer by layer."""

from __future__ import annotations

from collections import deque
from typing import Any

import torch
from torch import Tensor, nn

from gnnqlab.nn.message_passing import ModelGraph
from gnnqlab.nn.sparse_input import SparseInput
from gnnqlab.observe import Observer, Observers, OperationStarted

__all__ = ["layer_rows"]


def layer_rows(model: nn.Module, graph: ModelGraph, layer: int, *, epoch: int = 0) -> Tensor:
    """Return the rows that one layer of a model takes, of all nodes of a graph.

    A layer is a product of rows with a weight matrix: ``g.linear``, ``g.affine`` or ``g.convolve`` of a pass, or a
    module of ``torch.nn``. Layers are counted as they are called; products of the same rows, one after the other, are
    one layer.

    Args:
        model: in evaluation mode.
        graph: the graph.
        layer: 0 is the first, which takes the features; -1 the last, whose result are most models' logits.
        epoch: what the pass says of itself.

    Returns:
        float32 ``(N, D)``, in the order of the graph's rows, before the layer has looked at neighbours.

    Raises:
        ValueError: if the model has no such layer.
    """
    taken = _TakenRows(graph.ids.numel(), layer)
    # A pass knows its own products; a module of torch.nn is not called through it.
    modules = [module for module in model.modules() if type(module).__module__.startswith("torch.nn.")]
    matrices = [module for module in modules if any(p.dim() >= 2 for p in module.parameters(recurse=False))]
    hooks = [module.register_forward_pre_hook(taken.inputs) for module in matrices]
    try:
        model(graph.at(epoch, training=False, observers=Observers([taken])), graph.features)
    finally:
        for hook in hooks:
            hook.remove()
    return taken.rows()


class _TakenRows(Observer):
    """The rows that layers took, as far as one of them is wanted."""

    def __init__(self, num_rows: int, layer: int) -> None:
        self._num_rows, self._layer, self._count = num_rows, layer, 0
        self._last: Tensor | SparseInput | None = None
        self._kept: deque[Tensor] = deque(maxlen=max(1, -layer))

    def take(self, x: Tensor | SparseInput) -> None:
        """Count a layer; copy its rows if they may be those that are wanted, for who follows may write over them."""
        if x is self._last or len(x.shape) != 2 or x.shape[0] != self._num_rows:
            return
        if self._layer < 0 or self._layer == self._count:
            self._kept.append(x.to_dense() if isinstance(x, SparseInput) else _copy(x))
        self._last, self._count = x, self._count + 1

    def on_operation_started(self, event: OperationStarted) -> None:
        if event.operation in ("linear", "convolve"):
            self.take(event.inputs[0])
        elif event.operation == "affine":
            self.take(event.inputs[1])

    def inputs(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        """Count a call of a module."""
        for x in inputs[:1]:
            self.take(x)

    def rows(self) -> Tensor:
        if not -self._count <= self._layer < self._count:
            raise ValueError(
                f"a layer of this model must be one of {-self._count} to {self._count - 1}, got {self._layer}"
                if self._count
                else "a model must multiply rows with g.linear, g.affine, g.convolve or a module of torch.nn for its "
                "layers to be seen, got none that does"
            )
        return self._kept[0]


def _copy(x: Tensor) -> Tensor:
    return x.detach().to(torch.promote_types(x.dtype, torch.float32), copy=True)
