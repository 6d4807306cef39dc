"""Check of a model's output, so that a wrong one is named before a loss is computed from it."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

__all__ = ["require_output"]


def require_output(name: str, columns: int, module: nn.Module, inputs: tuple[Any, ...], output: object) -> None:
    """Raise if a model's output is not one floating-point row per node with a column per class; a forward hook.

    Args:
        name: name of the model.
        columns: number of classes, or columns of an embedding.
        module: the model.
        inputs: positional arguments of the call: the pass over the graph, and the features.
        output: result of the call.

    Raises:
        TypeError: if it is not a floating-point tensor.
        ValueError: if its shape is another.

    Example:
        >>> import torch
        >>> require_output("mine", 3, nn.Identity(), (None, torch.ones(5, 7)), torch.ones(5, 2))
        Traceback (most recent call last):
        ValueError: model mine must return an output of shape (5, 3), one row per node and a column per class, got (5...
    """
    rule = f"model {name} must return one tensor of floating-point numbers"
    if not isinstance(output, Tensor):
        raise TypeError(f"{rule}, got a {type(output).__name__}; return the last layer's rows only")
    if not output.is_floating_point():
        raise TypeError(f"{rule}, got one of {output.dtype}; return logits, not classes")
    # A model that is called with keywords has no second argument here.
    rows = len(inputs[1]) if len(inputs) > 1 and isinstance(inputs[1], Tensor) else output.shape[0]
    if output.shape != (rows, columns):
        raise ValueError(
            f"model {name} must return an output of shape {(rows, columns)}, one row per node and a column per class, "
            f"got {tuple(output.shape)}; use num_classes, the argument of its builder, for the last layer"
        )
