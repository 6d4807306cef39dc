"""Persistent tensors of one worker, which outlive an epoch, by purpose: all tensors reachable from its trainer.

A part can declare the purposes of its tensors in ``stands_for`` (attribute -> purpose). Otherwise the dtype decides:
uint8 tensors are message buffers, integers are row indices, and other numbers are rows. Objects are searched
recursively, so no tensor has to be registered. Not counted: messages that a transport is sending.
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
"""Attributes that hold messages being sent."""
_FOREIGN = frozenset(sys.stdlib_module_names) | {"torch", "numpy", "pandas", "scipy"}
"""Packages whose objects are not searched, except containers, partials, methods, closures and modules of a network."""


def persistent_tensors(trainer: Trainer) -> dict[str, list[Tensor]]:
    """Return the tensors that outlive an epoch, each storage once, by purpose.

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
        >>> [purpose for purpose, tensors in persistent_tensors(trainer).items() if tensors]  # one worker: no halo
        ['weights', 'rows', 'adjacency']
    """
    graph, trainer_tensors = trainer.graph, list(_tensors(trainer))
    shard = getattr(graph, "_shard", None)
    # The first claim on a storage counts, so they are ordered from the most to the least specific.
    claims: list[tuple[str, Tensor]] = []
    for holder in (trainer.parameters, trainer.optimizer):
        claims += [("weights", tensor) for tensor, _ in _tensors(holder)]
    claims += [("weights", buffer) for buffer in trainer.model.buffers()]
    claims += [(purpose, tensor) for tensor, purpose in trainer_tensors if purpose is not None]
    claims += [("rows", tensor) for holder in (graph.features, trainer.objective) for tensor, _ in _tensors(holder)]
    claims += [("rows", tensor) for name in _ROWS_OF_SHARDS for tensor, _ in _tensors(getattr(shard, name, None))]
    claims += [("adjacency", tensor) for tensor, _ in _tensors(shard)]
    claims += [(_kind(tensor), tensor) for tensor, purpose in trainer_tensors if purpose is None]
    groups: dict[str, list[Tensor]] = {purpose: [] for purpose in ("weights", "halo", "buffers", "rows", "adjacency")}
    storage_ids: set[int] = set()
    for purpose, tensor in claims:
        memory = id(tensor.untyped_storage())
        if memory not in storage_ids:  # views share a storage
            storage_ids.add(memory)
            groups[purpose].append(tensor)
    return groups


def _kind(tensor: Tensor) -> str:
    if tensor.dtype == torch.uint8:
        return "buffers"
    return "rows" if tensor.is_floating_point() or tensor.dtype == torch.bool else "adjacency"


def _tensors(start: Any) -> Iterator[tuple[Tensor, str | None]]:
    for value, purpose in _walk(start):
        if isinstance(value, Tensor):
            yield value, purpose


def _walk(start: Any) -> Iterator[tuple[Any, str | None]]:
    """Yield all reachable objects, breadth-first, with the purpose that a part on the path declares."""
    queue: deque[tuple[Any, str | None]] = deque([(start, None)])
    seen_keys: set[tuple[int, str | None]] = set()
    references = []  # references to temporary objects: once freed, their ids would be reused by other objects
    while queue:
        value, purpose = queue.popleft()
        if value is None or isinstance(value, str | bytes | int | float | type) or (id(value), purpose) in seen_keys:
            continue
        seen_keys.add((id(value), purpose))
        references.append(value)
        yield value, purpose
        # Tensors inside a matrix count for it, unless a part on the path declares their purpose.
        if isinstance(value, Adjacency):
            purpose = purpose or "adjacency"
        queue.extend((member, member_purpose or purpose) for member, member_purpose in _list_members(value))


def _list_members(value: Any) -> Iterator[tuple[Any, str | None]]:
    """Yield the objects inside a value, with the purposes that it declares."""
    if isinstance(value, Tensor):
        if value.grad is not None:
            yield value.grad, None
    elif isinstance(value, Mapping):
        for key, member in list(value.items()):
            yield key, None
            yield member, None
    elif isinstance(value, list | tuple | set | frozenset | deque):
        yield from ((member, None) for member in list(value))
    elif isinstance(value, partial):
        yield from ((member, None) for member in (value.func, value.args, value.keywords))
    elif isinstance(value, MethodType):
        yield value.__self__, None
    elif isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            with suppress(ValueError):  # the cell is still empty
                yield cell.cell_contents, None
    elif isinstance(value, nn.Module) or type(value).__module__.partition(".")[0] not in _FOREIGN:
        purposes = getattr(type(value), "stands_for", {})
        for name, member in _attributes(value):
            if name not in _UNDER_WAY:
                yield member, purposes.get(name)


def _attributes(value: Any) -> list[tuple[str, Any]]:
    slots = [name for base in type(value).__mro__ for name in getattr(base, "__slots__", ()) if hasattr(value, name)]
    return [*list(getattr(value, "__dict__", {}).items()), *((name, getattr(value, name)) for name in slots)]
