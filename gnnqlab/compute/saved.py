"""What autograd keeps of a product: its operands, as they were prepared."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch import Tensor

__all__ = ["save_operands", "saved_operands"]


def save_operands(ctx: Any, *operands: Any) -> None:
    """Keep operands for a backward pass, and let go of them after it; :func:`saved_operands` brings them back.

    Args:
        ctx: of the ``torch.autograd.Function``.
        operands: tensors, ``None``, or dataclasses, of which the fields that are tensors are kept as tensors.
    """
    tensors: list[Tensor | None] = []
    ctx.operand_forms = [_take_apart(operand, tensors) for operand in operands]
    ctx.save_for_backward(*tensors)


def saved_operands(ctx: Any) -> tuple[Any, ...]:
    """Return the operands that were kept, in their order."""
    tensors = iter(ctx.saved_tensors)
    return tuple(_put_together(form, tensors) for form in ctx.operand_forms)


def _take_apart(operand: Any, tensors: list[Tensor | None]) -> Any:
    """Put an operand's tensors into the list; return its class and its other fields, or None for a plain tensor."""
    if operand is None or isinstance(operand, Tensor):
        tensors.append(operand)
        return None
    values = {field.name: getattr(operand, field.name) for field in dataclasses.fields(operand)}
    tensors += [value for value in values.values() if isinstance(value, Tensor)]
    return type(operand), {name: None if isinstance(value, Tensor) else (value,) for name, value in values.items()}


def _put_together(form: Any, tensors: Any) -> Any:
    if form is None:
        return next(tensors)
    kind, values = form
    return kind(**{name: next(tensors) if value is None else value[0] for name, value in values.items()})
