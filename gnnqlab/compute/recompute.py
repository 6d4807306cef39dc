"""Activation checkpointing by tensor: the backward pass recomputes tensors in place of saving them.

Chen et al. 2016, Training Deep Nets with Sublinear Memory Cost; here by tensor, not by block of a model.

The code that computes a tensor may register a function that recomputes it. Where autograd would save the tensor, it
saves the function and its inputs instead, which are tensors or recomputable themselves. The autograd graph is
unchanged, only registered functions run again, and they run on the same operands: results are bitwise identical.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

__all__ = ["LEVELS", "RecomputeContext"]

LEVELS = ("none", "selective", "full")
"""Modes of saving for backward: every operand; only aggregated rows, with dense and row-wise operations recomputed; or
not even these if all their input rows are local, with the aggregation recomputed too."""

_DEEPEST = 6
"""Limit of recomputations in a chain; a tensor beyond it is saved."""


class RecomputeContext:
    """Recompute context of one forward pass; enter it around the forward pass and the loss.

    Args:
        keep: ``selective`` or ``full``.
        see: called with every tensor that is saved.

    Example:
        >>> x, w = torch.ones(2, 3), torch.ones(3, 3, requires_grad=True)
        >>> with RecomputeContext("selective") as remakes:
        ...     y = x @ w
        ...     remakes.register(y, torch.mm, x, w)
        ...     loss = y.square().sum()  # would save y
        >>> loss.backward()
        >>> w.grad[0].tolist()
        [12.0, 12.0, 12.0]
    """

    def __init__(self, keep: str, see: Callable[[Tensor], object] | None = None) -> None:
        if keep not in LEVELS[1:]:
            raise ValueError(f"keep must be one of {LEVELS[1:]} to recompute tensors, got {keep!r}")
        self.sums_too = keep == "full"
        """True if aggregations over local rows are recomputed too."""
        self._see = see
        self._entries: dict[int, _Entry] = {}  # by id of the storage
        # Pack and unpack hooks of autograd: called when a node saves a tensor, and when its backward pass reads it.
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._save, _Saved.take)

    def __enter__(self) -> RecomputeContext:
        self._hooks.__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hooks.__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
        # Saved tensors and recipes belong to autograd's nodes; the registry serves the forward pass only.
        self._entries.clear()

    def register(self, result: Tensor, remake: Callable[..., Tensor], *inputs: Any) -> None:
        """Register ``remake(*inputs)``, which must give ``result`` bitwise in this epoch, without messages or state.

        Args:
            result: a tensor with memory of its own.
            inputs: tensors, saved or recomputed themselves, and any other values.
        """
        recipe = _Recipe(remake, [self._save(each) if isinstance(each, Tensor) else each for each in inputs])
        self._register(result, recipe)

    def register_sum(self, result: Tensor, remake: Callable[..., Tensor], x: Tensor) -> None:
        """Register an aggregation ``remake(x)``; under ``nothing`` its input is saved in place of its result.

        An aggregation of aggregated rows is not registered: its input would be saved only for this.
        """
        recipe = self._entry(x).recipe
        if not self.sums_too or (recipe is not None and recipe.of_sums):
            return
        self.fix(x)
        self._register(result, _Recipe(remake, [x.detach()], of_sums=True))

    def fix(self, x: Tensor) -> None:
        """Save a tensor even if a recomputation is registered for it."""
        recipe = self._entry(x).recipe
        if recipe is not None and recipe.fixed is None:
            recipe.fixed = x.detach()  # without the autograd graph, which refers to this recipe
            self._report(x)

    def _register(self, result: Tensor, recipe: _Recipe) -> None:
        storage = result.untyped_storage()
        if recipe.depth > _DEEPEST:
            return
        # A view or a larger buffer: the recipe would give other memory than the tensors saved from this storage.
        if not result.is_contiguous() or storage.nbytes() != result.numel() * result.element_size():
            return
        entry = self._entry(result)
        entry.recipe, entry.version = recipe, result._version
        # The function that made the result may have saved it already: replace these references too.
        for reference in entry.saved:
            saved_tensor = reference()
            if saved_tensor is not None and saved_tensor.version == result._version:
                saved_tensor.replace_by(recipe)
        entry.saved.clear()

    def _save(self, tensor: Tensor) -> _Saved:
        entry, saved_tensor = self._entry(tensor), _Saved(tensor)
        if entry.recipe is not None and entry.version == tensor._version:
            saved_tensor.replace_by(entry.recipe)
        else:
            entry.saved.append(weakref.ref(saved_tensor))  # weak: freed with the autograd node
            self._report(tensor)
        return saved_tensor

    def _report(self, tensor: Tensor) -> None:
        if self._see is not None:
            self._see(tensor)

    def _entry(self, tensor: Tensor) -> _Entry:
        # By storage: all views of a result share its recipe. An id may be used again, so the storage is compared too.
        storage = tensor.untyped_storage()
        key = id(storage)
        entry = self._entries.get(key)
        if entry is None or entry.storage() is not storage:
            entries = self._entries
            entry = entries[key] = _Entry(weakref.ref(storage, lambda _: entries.pop(key, None)))
        return entry


class _Entry:
    """Record of a tensor's storage: its recipe, and references that autograd saved."""

    def __init__(self, storage: weakref.ref[Any]) -> None:
        self.storage = storage
        self.recipe: _Recipe | None = None
        self.version = 0
        self.saved: list[weakref.ref[_Saved]] = []


class _Recipe:
    """Function and inputs that recompute a tensor; the result is cached until all its users have taken it."""

    def __init__(self, remake: Callable[..., Tensor], inputs: list[Any], *, of_sums: bool = False) -> None:
        self.of_sums = of_sums
        self.waiting = 0
        """Number of autograd nodes that have not taken it yet."""
        self.fixed: Tensor | None = None
        """The tensor itself, if it is saved after all."""
        self._remake, self._inputs = remake, inputs
        self._value: Tensor | None = None

    @property
    def depth(self) -> int:
        """Length of the chain of recomputations for this tensor."""
        if self.fixed is not None:
            return 0
        return 1 + max((each.depth for each in self._inputs if isinstance(each, _Saved)), default=0)

    def make(self, distance: int = 0) -> Tensor:
        """Return the tensor; ``distance``: its distance in the chain from the tensor that autograd needs."""
        if self.fixed is not None:
            return self.fixed
        if self._value is not None:
            return self._value
        # The autograd graph of the forward pass exists already; only the value is needed.
        with torch.no_grad():
            inputs = [each.value(distance + 1) if isinstance(each, _Saved) else each for each in self._inputs]
            value = self._remake(*inputs)
        # The backward pass takes the direct input of a tensor next, so that one is cached. Tensors further down the
        # chain, and aggregated rows, would occupy memory next to gradients of their size: they are recomputed again.
        if self.waiting > 0 and distance < 2 and not self.of_sums:
            self._value = value
        return value

    def release(self) -> None:
        """Count one user less; free the cached result after the last."""
        self.waiting -= 1
        if self.waiting <= 0:
            self._value = None


class _Saved:
    """A tensor that autograd or a recipe saves, or the recipe that recomputes it."""

    def __init__(self, tensor: Tensor) -> None:
        self.version = tensor._version
        self._shape = tensor.shape, tensor.stride(), tensor.storage_offset()
        self._tensor: Tensor | None = tensor.detach()
        self._recipe: _Recipe | None = None

    def replace_by(self, recipe: _Recipe) -> None:
        """Free the tensor; the recipe recomputes it."""
        self._tensor, self._recipe = None, recipe
        recipe.waiting += 1

    @property
    def depth(self) -> int:
        return 0 if self._recipe is None else self._recipe.depth

    def value(self, distance: int = 0) -> Tensor:
        """Return the tensor, saved or recomputed.

        Raises:
            RuntimeError: if it was overwritten after it was saved.
        """
        if self._recipe is not None:
            return self._recipe.make(distance).as_strided(*self._shape)  # the saved tensor may be a view
        assert self._tensor is not None
        if self._tensor._version != self.version:
            raise RuntimeError(
                f"a tensor that the backward pass needs was overwritten, shape {tuple(self._tensor.shape)}; write "
                "results to other memory, or choose recompute 'none'"
            )
        return self._tensor

    def take(self) -> Tensor:
        """Return the tensor to an autograd node, which takes it once."""
        tensor = self.value()
        if self._recipe is not None:
            self._recipe.release()
        return tensor
