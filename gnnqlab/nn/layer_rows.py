"""Inputs of a model's layers: the node embeddings at each depth."""

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
    """Return the input of one layer of a model for all nodes of a graph.

    A layer is a product of rows with a weight matrix: ``g.linear``, ``g.affine`` or ``g.convolve`` of a pass, or a
    module of ``torch.nn``. Layers are numbered in the order of their calls; consecutive products of the same rows are
    one layer.

    Args:
        model: the model, in evaluation mode.
        graph: the graph.
        layer: 0 is the first, with the features as input; -1 the last, which returns the logits in most models.
        epoch: epoch of the pass.

    Returns:
        float32 ``(N, D)``, in the order of the graph's rows, before the layer aggregates neighbours.

    Raises:
        ValueError: if the model has no such layer.
    """
    recorder = _InputRecorder(graph.ids.numel(), layer)
    # Products of a pass emit events; modules of torch.nn do not, so they need hooks.
    modules = [module for module in model.modules() if type(module).__module__.startswith("torch.nn.")]
    # Modules with a matrix of their own; norms have vectors only.
    matrices = [module for module in modules if any(p.dim() >= 2 for p in module.parameters(recurse=False))]
    hooks = [module.register_forward_pre_hook(recorder.inputs) for module in matrices]
    try:
        model(graph.open_pass(epoch, training=False, observers=Observers([recorder])), graph.features)
    finally:
        for hook in hooks:
            hook.remove()
    return recorder.rows()


class _InputRecorder(Observer):
    """Observer that records the input of one layer."""

    def __init__(self, num_rows: int, layer: int) -> None:
        self._num_rows, self._layer, self._count = num_rows, layer, 0
        self._last: Tensor | SparseInput | None = None
        # For a negative layer the last -layer inputs are stored: the total is only known after the pass.
        self._inputs: deque[Tensor] = deque(maxlen=max(1, -layer))

    def take(self, x: Tensor | SparseInput) -> None:
        """Count a layer, and copy its input if it may be the requested one; later operations may overwrite it."""
        if x is self._last or len(x.shape) != 2 or x.shape[0] != self._num_rows:  # same rows again, or not node rows
            return
        if self._layer < 0 or self._layer == self._count:
            self._inputs.append(x.to_dense() if isinstance(x, SparseInput) else _copy(x))
        self._last, self._count = x, self._count + 1

    def on_operation_started(self, event: OperationStarted) -> None:
        if event.operation in ("linear", "convolve"):
            self.take(event.inputs[0])
        elif event.operation == "affine":
            self.take(event.inputs[1])  # after the base

    def inputs(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        """Record the call of a module."""
        for x in inputs[:1]:
            self.take(x)

    def rows(self) -> Tensor:
        if not -self._count <= self._layer < self._count:
            raise ValueError(
                f"a layer of this model must be one of {-self._count} to {self._count - 1}, got {self._layer}"
                if self._count
                else "a model must multiply rows with g.linear, g.affine, g.convolve or a module of torch.nn for its "
                "layers to be recorded, got none that does"
            )
        return self._inputs[0]


def _copy(x: Tensor) -> Tensor:
    return x.detach().to(torch.promote_types(x.dtype, torch.float32), copy=True)
