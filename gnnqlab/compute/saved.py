"""Operands of products saved for backward: tensors, or dataclasses of tensors."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch import Tensor

__all__ = ["save_operands", "saved_operands"]


def save_operands(ctx: Any, *operands: Any) -> None:
    """Save operands for backward; :func:`saved_operands` returns them, and autograd frees them after the backward pass.

    Args:
        ctx: context of the ``torch.autograd.Function``.
        operands: tensors, ``None``, or dataclasses, whose tensor fields are saved as tensors.
    """
    tensors: list[Tensor | None] = []
    # save_for_backward checks versions, runs hooks and frees memory after backward; attributes of ctx do not.
    ctx.operand_forms = [_flatten(operand, tensors) for operand in operands]
    ctx.save_for_backward(*tensors)


def saved_operands(ctx: Any) -> tuple[Any, ...]:
    """Return the saved operands, in order."""
    tensors = iter(ctx.saved_tensors)
    return tuple(_unflatten(form, tensors) for form in ctx.operand_forms)


def _flatten(operand: Any, tensors: list[Tensor | None]) -> Any:
    """Append an operand's tensors to the list; return its class and its other fields, or None for a plain tensor."""
    if operand is None or isinstance(operand, Tensor):
        tensors.append(operand)
        return None
    values = {field.name: getattr(operand, field.name) for field in dataclasses.fields(operand)}
    tensors += [value for value in values.values() if isinstance(value, Tensor)]
    # Other values are boxed, so that a field whose value is None differs from the place of a tensor.
    return type(operand), {name: None if isinstance(value, Tensor) else (value,) for name, value in values.items()}


def _unflatten(form: Any, tensors: Any) -> Any:
    """Build an operand from its form and the next tensors: the inverse of :func:`_flatten`."""
    if form is None:
        return next(tensors)
    kind, values = form
    return kind(**{name: next(tensors) if value is None else value[0] for name, value in values.items()})
