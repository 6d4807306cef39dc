"""Tensors that a backward pass makes again in place of keeping them.

Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost; here by tensor, not by block of a model.

Whoever makes a tensor may say how it is made again. Where autograd would keep such a tensor, it keeps how to make it,
and that holds the tensors it is made from, or how to make those. The graph of gradients is the same, nothing is run
that was not named, and a function that is made again runs on the same operands: results agree to the bit.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

__all__ = ["KEEPS", "RecomputeContext"]

KEEPS = ("all", "sums", "nothing")
"""What is kept for the backward pass: every operand; sums over neighbours, of which passes over rows and products are
made again; or no sums either, where all their rows are here: these are summed again."""

_DEEPEST = 6
"""How many tensors are made one after another at most, for one; what is further from what is kept, is kept."""


class RecomputeContext:
    """What one forward pass keeps for its backward pass; open it around the forward pass and the loss.

    Args:
        keep: ``sums`` or ``nothing`` of ``KEEPS``.
        see: told of every tensor that is kept when it is.

    Example:
        >>> x, w = torch.ones(2, 3), torch.ones(3, 3, requires_grad=True)
        >>> with RecomputeContext("sums") as remakes:
        ...     y = x @ w
        ...     remakes.made(y, torch.mm, x, w)
        ...     loss = y.square().sum()  # would keep y
        >>> loss.backward()
        >>> w.grad[0].tolist()
        [12.0, 12.0, 12.0]
    """

    def __init__(self, keep: str, see: Callable[[Tensor], object] | None = None) -> None:
        if keep not in KEEPS[1:]:
            raise ValueError(f"keep must be one of {KEEPS[1:]} where tensors are made again, got {keep!r}")
        self.sums_too = keep == "nothing"
        """Whether sums over neighbours are made again, where all their rows are here."""
        self._see = see
        self._entries: dict[int, _Entry] = {}
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._hold, _Held.take)

    def __enter__(self) -> RecomputeContext:
        self._hooks.__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hooks.__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
        self._entries.clear()

    def made(self, result: Tensor, remake: Callable[..., Tensor], *inputs: Any) -> None:
        """Say that ``remake(*inputs)`` is ``result``, to the bit, whenever it runs in this epoch; no message, no state.

        Args:
            result: a tensor with memory of its own.
            inputs: tensors, kept or made again themselves, and anything else.
        """
        self._made(result, _Recipe(remake, [self._hold(each) if isinstance(each, Tensor) else each for each in inputs]))

    def summed(self, result: Tensor, remake: Callable[..., Tensor], x: Tensor) -> None:
        """Say how sums over neighbours are made; under ``nothing`` the rows summed are kept in their place.

        Sums of sums stay as they are: the rows summed would be kept for them, which nobody needs else.
        """
        recipe = self._entry(x).recipe
        if not self.sums_too or (recipe is not None and recipe.of_sums):
            return
        self.fix(x)
        self._made(result, _Recipe(remake, [x.detach()], of_sums=True))

    def fix(self, x: Tensor) -> None:
        """Keep a tensor after all, whatever was said of it."""
        recipe = self._entry(x).recipe
        if recipe is not None and recipe.fixed is None:
            recipe.fixed = x.detach()
            self._tell(x)

    def _made(self, result: Tensor, recipe: _Recipe) -> None:
        storage = result.untyped_storage()
        if recipe.depth > _DEEPEST:
            return
        if not result.is_contiguous() or storage.nbytes() != result.numel() * result.element_size():
            return
        entry = self._entry(result)
        entry.recipe, entry.version = recipe, result._version
        for each in entry.held:
            held = each()
            if held is not None and held.version == result._version:
                held.leave_to(recipe)
        entry.held.clear()

    def _hold(self, tensor: Tensor) -> _Held:
        entry, held = self._entry(tensor), _Held(tensor)
        if entry.recipe is not None and entry.version == tensor._version:
            held.leave_to(entry.recipe)
        else:
            entry.held.append(weakref.ref(held))
            self._tell(tensor)
        return held

    def _tell(self, tensor: Tensor) -> None:
        if self._see is not None:
            self._see(tensor)

    def _entry(self, tensor: Tensor) -> _Entry:
        storage = tensor.untyped_storage()
        key = id(storage)
        entry = self._entries.get(key)
        if entry is None or entry.storage() is not storage:
            entries = self._entries
            entry = entries[key] = _Entry(weakref.ref(storage, lambda _: entries.pop(key, None)))
        return entry


class _Entry:
    """What is known of a tensor's memory."""

    def __init__(self, storage: weakref.ref[Any]) -> None:
        self.storage = storage
        self.recipe: _Recipe | None = None
        self.version = 0
        self.held: list[weakref.ref[_Held]] = []


class _Recipe:
    """How a tensor is made; what is made is there until all who hold it have taken it."""

    def __init__(self, remake: Callable[..., Tensor], inputs: list[Any], *, of_sums: bool = False) -> None:
        self.of_sums = of_sums
        self.waiting = 0
        """How many of autograd's nodes have still to take it."""
        self.fixed: Tensor | None = None
        """The tensor itself, where it is kept after all."""
        self._remake, self._inputs = remake, inputs
        self._value: Tensor | None = None

    @property
    def depth(self) -> int:
        """How many are made one after another for this one."""
        if self.fixed is not None:
            return 0
        return 1 + max((each.depth for each in self._inputs if isinstance(each, _Held)), default=0)

    def make(self, below: int = 0) -> Tensor:
        """Return the tensor; ``below``: how far it is from the one that was asked for."""
        if self.fixed is not None:
            return self.fixed
        if self._value is not None:
            return self._value
        with torch.no_grad():
            value = self._remake(*(each.look(below + 1) if isinstance(each, _Held) else each for each in self._inputs))
        # What is taken next is the input of what is asked for. What is further off, and sums, would lie beside
        # gradients of their size until then: these are made once more.
        if self.waiting > 0 and below < 2 and not self.of_sums:
            self._value = value
        return value

    def taken(self) -> None:
        self.waiting -= 1
        if self.waiting <= 0:
            self._value = None


class _Held:
    """A tensor that autograd, or a recipe, holds; or how to make it."""

    def __init__(self, tensor: Tensor) -> None:
        self.version = tensor._version
        self._shape = tensor.shape, tensor.stride(), tensor.storage_offset()
        self._tensor: Tensor | None = tensor.detach()
        self._recipe: _Recipe | None = None

    def leave_to(self, recipe: _Recipe) -> None:
        self._tensor, self._recipe = None, recipe
        recipe.waiting += 1

    @property
    def depth(self) -> int:
        return 0 if self._recipe is None else self._recipe.depth

    def look(self, below: int = 0) -> Tensor:
        """Return the tensor.

        Raises:
            RuntimeError: if it was written over after it was held.
        """
        if self._recipe is not None:
            return self._recipe.make(below).as_strided(*self._shape)
        assert self._tensor is not None
        if self._tensor._version != self.version:
            raise RuntimeError(
                f"a tensor that the backward pass needs was written over, shape {tuple(self._tensor.shape)}; write "
                "results elsewhere, or choose keep_for_backward 'all'"
            )
        return self._tensor

    def take(self) -> Tensor:
        """Return the tensor to one of autograd's nodes."""
        tensor = self.look()
        if self._recipe is not None:
            self._recipe.taken()
        return tensor
