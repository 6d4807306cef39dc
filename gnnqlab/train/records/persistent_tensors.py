"""Tensors that outlive an epoch on one worker, by purpose: all that can be reached from its trainer.

A part says in ``stands_for`` (attribute -> purpose) what tensors of its own are there for, if that does not follow from
what they are: bytes are those of messages, whole numbers say where rows are, and other numbers are rows. Nothing is
left out because nobody thought of it. Not counted: what a transport has under way.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gnnqlab.kernels.sparse.adjacency import Adjacency

if TYPE_CHECKING:
    from gnnqlab.train.loop.trainer import Trainer

__all__ = ["persistent_tensors"]

_ROWS_OF_SHARDS = ("features", "labels", "train_mask", "val_mask", "test_mask")
_UNDER_WAY = ("transport", "_transport", "exact_transport")
"""Attributes behind which lie messages on their way."""
_FOREIGN = frozenset(sys.stdlib_module_names) | {"torch", "numpy", "pandas", "scipy"}
"""Packages whose objects are not looked into, unless they are containers, functions with something bound, or modules
of a network."""


def persistent_tensors(trainer: Trainer) -> dict[str, list[Tensor]]:
    """Return the tensors that outlive an epoch, each memory once, by purpose.

    Example:
        >>> from gnnqlab.graph import load
        >>> from gnnqlab.nn import ModelSettings
        >>> from gnnqlab.partition import Random
        >>> from gnnqlab.systems import vanilla
        >>> from gnnqlab.train.config.run_config import TrainSettings
        >>> from gnnqlab.train.loop.trainer import worker_trainer
        >>> graph = load("sbm:60,3,6")
        >>> shard = Random().cut(graph, 1).shard(graph, 0)
        >>> trainer = worker_trainer(shard, vanilla(), ModelSettings(layers=2, hidden=8), TrainSettings())
        >>> [purpose for purpose, tensors in persistent_tensors(trainer).items() if tensors]  # alone: no rows of others
        ['weights', 'rows', 'adjacency']
    """
    graph, named = trainer.graph, list(_tensors(trainer))
    shard = getattr(graph, "_shard", None)
    said: list[tuple[str, Tensor]] = []
    for holder in (trainer.parameters, trainer.optimizer):
        said += [("weights", tensor) for tensor, _ in _tensors(holder)]
    said += [("weights", buffer) for buffer in trainer.model.buffers()]
    said += [(purpose, tensor) for tensor, purpose in named if purpose is not None]
    said += [("rows", tensor) for holder in (graph.features, trainer.objective) for tensor, _ in _tensors(holder)]
    said += [("rows", tensor) for name in _ROWS_OF_SHARDS for tensor, _ in _tensors(getattr(shard, name, None))]
    said += [("adjacency", tensor) for tensor, _ in _tensors(shard)]
    said += [(_kind(tensor), tensor) for tensor, purpose in named if purpose is None]
    found: dict[str, list[Tensor]] = {purpose: [] for purpose in ("weights", "halo", "buffers", "rows", "adjacency")}
    known: set[int] = set()
    for purpose, tensor in said:
        memory = id(tensor.untyped_storage())
        if memory not in known:
            known.add(memory)
            found[purpose].append(tensor)
    return found


def _kind(tensor: Tensor) -> str:
    if tensor.dtype == torch.uint8:
        return "buffers"
    return "rows" if tensor.is_floating_point() or tensor.dtype == torch.bool else "adjacency"


def _tensors(start: Any) -> Iterator[tuple[Tensor, str | None]]:
    for value, purpose in _walk(start):
        if isinstance(value, Tensor):
            yield value, purpose


def _walk(start: Any) -> Iterator[tuple[Any, str | None]]:
    """Yield all that can be reached, with the purpose that a part on the way there gave it."""
    waiting: deque[tuple[Any, str | None]] = deque([(start, None)])
    seen: set[tuple[int, str | None]] = set()
    alive = []  # or what is made for this walk alone would lend its id to others
    while waiting:
        value, purpose = waiting.popleft()
        if value is None or isinstance(value, str | bytes | int | float | type) or (id(value), purpose) in seen:
            continue
        seen.add((id(value), purpose))
        alive.append(value)
        yield value, purpose
        if isinstance(value, Adjacency):
            purpose = purpose or "adjacency"
        waiting.extend((each, named or purpose) for each, named in _inside(value))


def _inside(value: Any) -> Iterator[tuple[Any, str | None]]:
    """Yield what a value holds, with the purposes that it names."""
    if isinstance(value, Tensor):
        if value.grad is not None:
            yield value.grad, None
    elif isinstance(value, Mapping):
        for key, each in list(value.items()):
            yield key, None
            yield each, None
    elif isinstance(value, list | tuple | set | frozenset | deque):
        yield from ((each, None) for each in list(value))
    elif isinstance(value, partial):
        yield from ((each, None) for each in (value.func, value.args, value.keywords))
    elif isinstance(value, MethodType):
        yield value.__self__, None
    elif isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            with suppress(ValueError):  # empty so far
                yield cell.cell_contents, None
    elif isinstance(value, nn.Module) or type(value).__module__.partition(".")[0] not in _FOREIGN:
        stands_for = getattr(type(value), "stands_for", {})
        for name, each in _attributes(value):
            if name not in _UNDER_WAY:
                yield each, stands_for.get(name)


def _attributes(value: Any) -> list[tuple[str, Any]]:
    slots = [name for each in type(value).__mro__ for name in getattr(each, "__slots__", ()) if hasattr(value, name)]
    return [*list(getattr(value, "__dict__", {}).items()), *((name, getattr(value, name)) for name in slots)]
