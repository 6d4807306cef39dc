"""Checks of a model's arguments and output, so that wrong ones are named before a loss is computed."""

from __future__ import annotations

import inspect
from typing import Any

from torch import Tensor, nn

__all__ = ["require_forward", "require_output"]


def require_forward(name: str, model: nn.Module) -> None:
    """Raise if the method ``forward`` of a model does not accept the two arguments of a pass.

    Args:
        name: name of the model.
        model: as its builder returned it.

    Raises:
        TypeError: if it accepts other arguments.

    Example:
        >>> require_forward("mine", nn.Bilinear(2, 2, 1))
        >>> require_forward("mine", nn.Linear(2, 1))
        Traceback (most recent call last):
        TypeError: forward of model mine must accept (g, x), the pass over the graph and the features, got (input: ...
    """
    arguments = inspect.signature(model.forward)
    try:
        arguments.bind(None, None)
    except TypeError:
        raise TypeError(
            f"forward of model {name} must accept (g, x), the pass over the graph and the features, got "
            f"{arguments}; give further arguments defaults, or set them in the constructor"
        ) from None


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
